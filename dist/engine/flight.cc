#include "dist/engine/flight.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "dist/transport/transport.h"

namespace laconic::dist {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kThreads = 2;
constexpr const char* kFile = "rank-";
constexpr std::int32_t kMostRanks = 1 << 16;
constexpr std::int64_t kLastTime = std::int64_t{1} << 62;  // the year 2116: differences can be taken
constexpr std::int64_t kStartsTogether = 1'000'000'000;    // ns: ranks begin one training when they have met

std::int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// Text of a file that may be damaged, for a terminal.
void make_printable(char* text, std::size_t size) {
  for (char& c : std::span(text, size))
    if (c != '\0' && (c < ' ' || c > '~')) c = '?';
}

/// As much of a file as a recorder's can have, and a byte.
std::string contents_of(const std::string& path) { return text_of_file(path, kFlightFileBytes + 1).value_or(""); }

bool is_remote(const std::string& folder) {
  constexpr long kRemote[] = {0x6969 /* NFS */,
                              0x65735546 /* FUSE */,
                              0xFF534D42 /* CIFS */,
                              0xFE534D42L /* SMB2 */,
                              0x0BD00BD0 /* Lustre */,
                              0x47504653 /* GPFS */,
                              0x00C36400 /* Ceph */,
                              0x5346414F /* AFS */,
                              0x01021997 /* 9P */,
                              0x7461636F /* OCFS2 */,
                              0x19830326 /* BeeGFS */};
  struct statfs of = {};
  return ::statfs(folder.c_str(), &of) == 0 &&
         std::find(std::begin(kRemote), std::end(kRemote), static_cast<long>(of.f_type)) != std::end(kRemote);
}

/// A file of this machine for a file of a folder that is not: the same each time.
std::string local_place(const std::string& path) {
  return fmt::format("/dev/shm/laconic-flight-{}-{:016x}", ::getuid(), std::hash<std::string>()(path));
}

/// The files of ranks that a training of `ranks` does not have: one with more has left them.
std::vector<fs::path> files_of_more(const fs::path& folder, int ranks) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kFile) && number_from<int>(name.substr(std::strlen(kFile))).value_or(0) >= ranks)
      found.push_back(entry.path());
  }
  return found;
}

/// With what a link leads to.
void remove_file(const fs::path& path) {
  std::error_code ignored;
  if (const fs::path place = fs::read_symlink(path, ignored); !place.empty()) fs::remove(place, ignored);
  fs::remove(path, ignored);
}

int operation_of(int message_slot) { return message_slot / TransportCommunicator::kSlotsPerOperation; }

/// When the last of its events was.
std::int64_t last_ns(const Flight& flight) {
  std::int64_t last = 0;
  for (const auto* events : {&flight.compute, &flight.communication})
    for (const FlightEvent& e : *events) last = std::max(last, e.time_ns);
  return last;
}

}  // namespace

Flight flight_from(std::string_view bytes, const std::string& path) {
  Flight flight;
  FlightHeader& h = flight.header;
  const FlightHeader own;
  require<DataError>(bytes.size() == kFlightFileBytes, path, ": ", bytes.size(),
                     " bytes, and a flight recorder's file has ", kFlightFileBytes, ".");
  std::memcpy(&h, bytes.data(), sizeof h);
  require<DataError>(std::memcmp(h.magic, own.magic, sizeof h.magic) == 0 && h.event_bytes == own.event_bytes &&
                         h.events == own.events && h.ranks >= 1 && h.ranks <= kMostRanks && h.rank >= 0 &&
                         h.rank < h.ranks,
                     path, ": is no file of a flight recorder of this version.");
  h.host[sizeof h.host - 1] = '\0';
  make_printable(h.host, sizeof h.host);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    std::vector<FlightEvent>& events = thread == 0 ? flight.compute : flight.communication;
    const std::uint64_t count = h.counts[thread], kept = std::min<std::uint64_t>(count, kFlightEvents);
    // The oldest event of a full ring may be half overwritten.
    for (std::uint64_t i = count - kept + (count > kFlightEvents ? 1 : 0); i < count; ++i) {
      FlightEvent& e = events.emplace_back();
      std::memcpy(&e, bytes.data() + sizeof h + (thread * kFlightEvents + i % kFlightEvents) * sizeof e, sizeof e);
      make_printable(e.name, sizeof e.name);
      if (e.kind > FlightEvent::Kind::fails || e.time_ns < 0 || e.time_ns > kLastTime) events.pop_back();
    }
  }
  return flight;
}

std::string_view FlightEvent::text() const { return {name, ::strnlen(name, sizeof name)}; }

std::shared_ptr<FlightRecorder> FlightRecorder::open(const std::string& folder, int rank, int ranks,
                                                     std::optional<bool> remote) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string path = fmt::format("{}/{}{}", folder, kFile, rank);
  if (const std::string last = contents_of(path); !last.empty()) {
    const std::string before = folder + "/before";
    fs::create_directories(before, error);
    std::ofstream(fmt::format("{}/{}{}", before, kFile, rank), std::ios::binary) << last;
  }
  ::unlink(path.c_str());
  if (rank == 0) {
    for (const fs::path& file : files_of_more(folder, ranks)) {
      fs::create_directories(folder + "/before", error);
      fs::rename(file, fs::path(folder) / "before" / file.filename(), error);
    }
  }
  std::string place = path;
  if (remote.value_or(is_remote(folder))) {
    place = local_place(fs::absolute(path, error));
    ::unlink(place.c_str());
    if (::symlink(place.c_str(), path.c_str()) != 0) return nullptr;
  }
  const int fd = ::open(place.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  // All of it now: a write into a mapped file for which there is no room would end the process.
  void* memory = MAP_FAILED;
  if (fd >= 0 && ::posix_fallocate(fd, 0, kFlightFileBytes) == 0)
    memory = ::mmap(nullptr, kFlightFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) ::close(fd);
  if (memory == MAP_FAILED) {
    if (fd >= 0) ::unlink(place.c_str());
    if (place != path) ::unlink(path.c_str());
    return nullptr;
  }
  FlightHeader header;
  header.rank = rank, header.ranks = ranks, header.begun_ns = now_ns();
  ::gethostname(header.host, sizeof header.host - 1);
  std::memcpy(memory, &header, sizeof header);
  return std::shared_ptr<FlightRecorder>(new FlightRecorder(path, memory));
}

FlightRecorder::~FlightRecorder() { ::munmap(memory_, kFlightFileBytes); }

void FlightRecorder::forget() noexcept {
  const auto& header = *static_cast<const FlightHeader*>(memory_);
  const fs::path folder = fs::path(path_).parent_path(), before = folder / "before";
  remove_file(path_);
  remove_file(before / fs::path(path_).filename());
  if (header.rank == 0)
    for (const fs::path& file : files_of_more(before, header.ranks)) remove_file(file);
  std::error_code ignored;
  fs::remove(before, ignored);  // the last of the ranks does
  fs::remove(folder, ignored);
}

void FlightRecorder::add(int thread, FlightEvent event, std::string_view name) {
  auto& header = *static_cast<FlightHeader*>(memory_);
  std::uint64_t& count = header.counts[thread];
  auto* const events = reinterpret_cast<FlightEvent*>(static_cast<std::byte*>(memory_) + sizeof(FlightHeader));
  event.time_ns = now_ns();
  std::memcpy(event.name, name.data(), std::min(name.size(), sizeof event.name));
  events[static_cast<std::size_t>(thread) * kFlightEvents + count % kFlightEvents] = event;
  std::atomic_ref(count).store(count + 1, std::memory_order_release);  // a reader of the file finds the event whole
}

Flights read_flights(const std::string& folder) {
  Flights found;
  std::vector<Flight>& ranks = found.ranks;
  for (const char* const below : {"/flight", "", "/flight/before"}) {
    std::error_code none;
    found.folder = folder + below;
    for (const auto& entry : fs::directory_iterator(found.folder, none)) {
      const fs::path& path = entry.path();
      if (!path.filename().string().starts_with(kFile) || !path.extension().empty()) continue;
      try {
        ranks.push_back(flight_from(contents_of(path), path));
      } catch (const DataError& e) {
        const fs::path place = fs::read_symlink(path, none);
        found.unreadable.push_back(place.empty() || fs::exists(place, none)
                                       ? e.what()
                                       : concat(path.string(), " is on another machine, in ", place.string()));
      }
    }
    if (!ranks.empty()) break;
  }
  require<DataError>(!ranks.empty(), found.unreadable.empty()
                                         ? concat(folder,
                                                  ": no flight recorder has left anything here. A training "
                                                  "with `save` that ends in order takes its files away.")
                                         : found.unreadable[0]);
  // A file that ended before the last training began is of an earlier one.
  const auto last = std::max_element(ranks.begin(), ranks.end(), [](const Flight& a, const Flight& b) {
    return a.header.begun_ns < b.header.begun_ns;
  });
  std::erase_if(ranks, [begun = last->header.begun_ns, count = last->header.ranks](const Flight& f) {
    return f.header.ranks != count || std::max(last_ns(f), f.header.begun_ns) < begun - kStartsTogether;
  });
  std::sort(ranks.begin(), ranks.end(), [](const Flight& a, const Flight& b) { return a.header.rank < b.header.rank; });
  return found;
}

FlightState state_of(const Flight& flight) {
  using Kind = FlightEvent::Kind;
  FlightState state;
  std::vector<FlightState::Operation>& open = state.under_way;
  for (const FlightEvent& e : flight.compute) {
    state.last_ns = std::max(state.last_ns, e.time_ns);
    const std::string name(e.text());
    if (e.kind == Kind::step) state.step = e.number, state.computes.clear();
    if (e.kind == Kind::forward) state.computes = "in forward at " + name;
    if (e.kind == Kind::backward) state.computes = "in backward at " + name;
    if (e.kind == Kind::waits) state.computes = "waits for " + name;
  }
  for (const FlightEvent& e : flight.communication) {
    state.last_ns = std::max(state.last_ns, e.time_ns);
    if (e.kind == Kind::fails) state.failure = e.text();
    if (e.slot < 0) continue;
    const bool message = e.kind == Kind::expects || e.kind == Kind::came || e.kind == Kind::sends;
    const int slot = message ? operation_of(e.slot) : e.slot;
    auto at = std::find_if(open.begin(), open.end(), [&](const auto& o) { return o.slot == slot && o.run == e.run; });
    if (at == open.end()) {  // its beginning may be too long ago
      if (e.kind == Kind::ends) continue;
      open.push_back({.name = std::string(e.text()), .slot = slot, .run = e.run});
      at = std::prev(open.end());
    }
    if (e.kind == Kind::expects) at->awaited.push_back({e.peer, e.slot, e.number});
    if (e.kind == Kind::came) {
      std::erase_if(at->awaited,
                    [&](const auto& m) { return m.peer == e.peer && m.slot == e.slot && m.number == e.number; });
      ++at->messages, at->bytes += e.bytes;
    }
    if (e.kind == Kind::ends) open.erase(at);
  }
  return state;
}

std::optional<bool> has_sent(const Flight& sender, int to, const FlightState::Operation& operation,
                             const FlightState::Message& message) {
  using Kind = FlightEvent::Kind;
  bool begun = sender.header.counts[1] <= kFlightEvents;  // nothing of it is lost
  for (const FlightEvent& e : sender.communication) {
    if (e.run != operation.run) {
      begun |= e.kind == Kind::begins && e.slot == operation.slot && e.run < operation.run;
      continue;
    }
    begun |= e.kind == Kind::begins && e.slot == operation.slot;
    if (e.kind == Kind::sends && e.slot == message.slot && e.peer == to && e.number == message.number) return true;
  }
  if (!begun) return std::nullopt;
  return false;
}

}  // namespace laconic::dist
