#include "dist/flight.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "core/error.h"

namespace laconic::dist {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kThreads = 2;
constexpr const char* kFile = "rank-";
constexpr std::int32_t kMostRanks = 1 << 16;

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

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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
    for (std::uint64_t i = count - kept; i < count; ++i) {
      FlightEvent& e = events.emplace_back();
      std::memcpy(&e, bytes.data() + sizeof h + (thread * kFlightEvents + i % kFlightEvents) * sizeof e, sizeof e);
      make_printable(e.name, sizeof e.name);
      if (e.kind > FlightEvent::Kind::fails) events.pop_back();
    }
  }
  return flight;
}

std::string_view FlightEvent::text() const { return {name, ::strnlen(name, sizeof name)}; }

std::shared_ptr<FlightRecorder> FlightRecorder::open(const std::string& folder, int rank, int ranks) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string path = concat(folder, "/", kFile, rank);
  if (fs::exists(path, error)) {
    const std::string before = folder + "/before";
    fs::create_directories(before, error);
    fs::rename(path, concat(before, "/", kFile, rank), error);
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return nullptr;
  // All of it now: a write into a mapped file for which there is no room would end the process.
  void* memory = MAP_FAILED;
  if (::posix_fallocate(fd, 0, kFlightFileBytes) == 0)
    memory = ::mmap(nullptr, kFlightFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) {
    ::unlink(path.c_str());
    return nullptr;
  }
  FlightHeader header;
  header.rank = rank, header.ranks = ranks, header.pid = ::getpid();
  ::gethostname(header.host, sizeof header.host - 1);
  std::memcpy(memory, &header, sizeof header);
  return std::shared_ptr<FlightRecorder>(new FlightRecorder(path, memory));
}

FlightRecorder::~FlightRecorder() { ::munmap(memory_, kFlightFileBytes); }

void FlightRecorder::forget() noexcept {
  ::unlink(path_.c_str());
  const std::string folder = fs::path(path_).parent_path();
  ::rmdir(folder.c_str());  // the last of them does
}

void FlightRecorder::add(int thread, FlightEvent::Kind kind, std::string_view name, int peer, std::uint64_t bytes,
                         std::uint32_t number, std::uint32_t run) {
  auto& header = *static_cast<FlightHeader*>(memory_);
  std::uint64_t& count = header.counts[thread];
  auto* const events = reinterpret_cast<FlightEvent*>(static_cast<std::byte*>(memory_) + sizeof(FlightHeader));
  FlightEvent& e = events[static_cast<std::size_t>(thread) * kFlightEvents + count % kFlightEvents];
  e.time_ns = now_ns(), e.bytes = bytes, e.peer = peer, e.number = number, e.run = run, e.kind = kind;
  const std::size_t length = std::min(name.size(), sizeof e.name);
  std::memcpy(e.name, name.data(), length);
  if (length < sizeof e.name) e.name[length] = '\0';
  std::atomic_ref(count).store(count + 1, std::memory_order_release);  // whoever reads the file finds it whole
}

std::vector<Flight> read_flights(const std::string& folder) {
  std::vector<Flight> flights;
  for (const char* const below : {"/flight", "", "/flight/before"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder + below, none))
      if (entry.path().filename().string().starts_with(kFile) && entry.path().extension().empty() &&
          entry.is_regular_file(none))
        flights.push_back(flight_from(contents_of(entry.path()), entry.path()));
    if (!flights.empty()) break;
  }
  require<DataError>(!flights.empty(), folder,
                     ": no flight recorder has left anything here. A training with `save` "
                     "that ends in order takes its files away.");
  // Files of a rank that the last training had no more are of an earlier one.
  const auto last = std::max_element(flights.begin(), flights.end(),
                                     [](const Flight& a, const Flight& b) { return last_ns(a) < last_ns(b); });
  std::erase_if(flights, [ranks = last->header.ranks](const Flight& f) { return f.header.ranks != ranks; });
  std::sort(flights.begin(), flights.end(),
            [](const Flight& a, const Flight& b) { return a.header.rank < b.header.rank; });
  return flights;
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
    const auto at =
        std::find_if(open.begin(), open.end(), [&](const auto& o) { return o.name == e.text() && o.run == e.run; });
    if (e.kind == Kind::fails) state.failure = e.text();
    if (e.kind == Kind::begins && at == open.end()) open.push_back({.name = std::string(e.text()), .run = e.run});
    if (at == open.end()) continue;
    if (e.kind == Kind::expects) at->awaited.emplace_back(e.peer, e.number);
    if (e.kind == Kind::came) {
      std::erase(at->awaited, std::pair(int{e.peer}, e.number));
      ++at->messages, at->bytes += e.bytes;
    }
    if (e.kind == Kind::ends) open.erase(at);
  }
  for (FlightState::Operation& o : open) std::sort(o.awaited.begin(), o.awaited.end());
  return state;
}

bool has_sent(const Flight& flight, const FlightState::Operation& operation, int to, std::uint32_t number) {
  return std::any_of(flight.communication.begin(), flight.communication.end(), [&](const FlightEvent& e) {
    return e.kind == FlightEvent::Kind::sends && e.peer == to && e.number == number && e.run == operation.run &&
           e.text() == operation.name;
  });
}

}  // namespace laconic::dist
