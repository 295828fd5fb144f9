#include "dist/cuda/nccl.h"

#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compress/bytes.h"
#include "core/cuda/libraries.h"
#include "core/cuda/device.h"
#include "core/stream.h"
#include "dist/collective/meeting.h"
#include "dist/cuda/nccl_functions.h"
#include "dist/engine/engine.h"

namespace laconic::dist {
namespace {

struct Functions {
  LACONIC_NCCL(LACONIC_LIBRARY_POINTER)
};

using laconic::cuda::Library;
#define LACONIC_NCCL_TEXT(x) #x
#define LACONIC_NCCL_VALUE(x) LACONIC_NCCL_TEXT(x)
LACONIC_LIBRARY(Functions, nccl, LACONIC_NCCL, "NCCL", "libnccl.so." LACONIC_NCCL_VALUE(NCCL_MAJOR))

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) [[likely]]
    return;
  throw Error(concat("nccl: ", what, ": ", nccl().ncclGetErrorString(result), "."));
}

/// What tells machines apart, containers of one name too; empty where the system does not say.
std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

/// "HOST, bus 0000:01:00.0" and boot_id() after a line break, or why this rank cannot take part, after '!'.
std::string place_of(Device device) {
  try {
    require<UsageError>(device.kind == Device::Kind::cuda, "NCCL joins GPUs, and this model is on ", device,
                        " (`allreduce` nccl): add `device` cuda, or take `allreduce` ring");
    nccl();
    char bus[32] = "", host[256] = "";
    laconic::cuda::check(cudaDeviceGetPCIBusId(bus, sizeof bus, device.index), "asking where a device is");
    gethostname(host, sizeof host - 1);
    return concat(host, ", bus ", bus, "\n", boot_id());
  } catch (const Error& e) {
    return concat("!", e.what());
  }
}

/// Every rank finds the same, so that none is left waiting.
void require_a_gpu_each(const std::vector<std::string>& places) {
  std::map<std::string, std::size_t> owners;
  for (std::size_t r = 0; r < places.size(); ++r) {
    require<UsageError>(!places[r].starts_with('!'), places[r].substr(1));
    const auto [it, fresh] = owners.emplace(places[r], r);
    require<UsageError>(fresh, "NCCL needs a GPU for each rank, and ranks ", it->second, " and ", r, " share one (",
                        places[r].substr(0, places[r].find('\n')),
                        ") (`allreduce` nccl): start fewer ranks, on more machines, or take `allreduce` ring");
  }
}

/// "rank 2", "ranks 0, 1"
std::string senders_of(std::span<const Nccl::Incoming> in) {
  std::string ranks;
  for (const Nccl::Incoming& message : in) ranks += concat(ranks.empty() ? "" : ", ", message.from);
  return (in.size() == 1 ? "rank " : "ranks ") + ranks;
}

/// The communicator does not block: where NCCL has to hear other ranks first, it does so in a thread of its own, and is
/// asked how far it is within the engine's time-out.
class NcclOfRank final : public Nccl, Engine::Beside {
 public:
  NcclOfRank(Engine& engine, Device device) : engine_(engine), device_(device), lengths_there_(device) {
    engine_.work_beside(this);
  }
  ~NcclOfRank() override {
    if (std::uncaught_exceptions() > 0) stop();  // others may never come to what is under way
    try {
      synchronize(device_);
    } catch (const std::exception&) {
      // Earlier waits have told it.
    }
    engine_.work_beside(nullptr);
    end();
  }

  /// On the communication thread, all ranks together.
  void start(const ncclUniqueId& id) {
    stopping_if_it_throws([&] {
      settle("starting", "all ranks to start NCCL", [&] {
        laconic::cuda::select(device_.index);
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t comm = nullptr;
        const ncclResult_t result = nccl().ncclCommInitRankConfig(&comm, size(), id, rank(), &config);
        comm_ = comm;
        return result;
      });
    });
  }

  int rank() const override { return engine_.rank(); }
  int size() const override { return engine_.size(); }
  Device device() const override { return device_; }

  void allreduce(Slice<float> x) override {
    stopping_if_it_throws([&] {
      asking("summing", [&](ncclComm_t comm, cudaStream_t stream) {
        if (x.empty()) return ncclSuccess;
        return nccl().ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm, stream);
      });
    });
  }

  void exchange(std::span<const Outgoing> out, std::span<Incoming> in) override {
    if (out.empty() && in.empty()) return;
    stopping_if_it_throws([&] {
      for (const Outgoing& message : out) require_possible(message.to, message.bytes);
      for (const Incoming& message : in) require_possible(message.from, message.room);
      exchange_lengths(out, in);
      std::vector<Outgoing> sends;
      std::vector<Incoming> receives;
      for (const Outgoing& message : out)
        if (!message.bytes.empty()) sends.push_back(message);
      for (const Incoming& message : in) {
        require<CommError>(message.came <= message.room.size(), "nccl: rank ", rank(), " has room for ",
                           message.room.size(), " bytes where rank ", message.from, " sends ", message.came,
                           ". Do all ranks run the same program?");
        if (message.came > 0) receives.push_back({message.from, message.room.first(message.came)});
      }
      group(sends, receives);
    });
  }

  void stop() noexcept override {
    // No call takes long, unless it hangs: then the abort is what ends it.
    const std::unique_lock lock(mutex_, std::chrono::seconds(1));
    if (const ncclComm_t comm = comm_.exchange(nullptr)) nccl().ncclCommAbort(comm);
  }

 private:
  using Length = std::uint64_t;

  std::optional<Clock::time_point> waits_since() override {
    const std::lock_guard lock(mutex_);
    const ncclComm_t comm = comm_;
    if (comm == nullptr) return std::nullopt;
    state_of(comm, "exchanging with other ranks");
    if (!last_) return std::nullopt;
    laconic::cuda::select(device_.index);
    if (last_->reached()) last_.reset();
    return last_ ? std::optional(asked_) : std::nullopt;
  }

  /// Whether NCCL is done with what it was asked for last, here on the host. Throws what has failed.
  bool state_of(ncclComm_t comm, const char* what) {
    ncclResult_t state = ncclSuccess;
    check(nccl().ncclCommGetAsyncError(comm, &state), what);
    if (state != ncclInProgress) check(state, what);
    return state == ncclSuccess;
  }

  /// f calls NCCL. Returns when that has done on the host what it was called for.
  template <class F>
  void settle(const char* what, const char* waits_for, F f) {
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      result = f();
    }
    if (result != ncclInProgress) return check(result, what);
    engine_.wait_until(
        [&] {
          const std::lock_guard lock(mutex_);
          return state_of(running(), what);
        },
        waits_for);
  }

  /// With mutex_ held.
  ncclComm_t running() const {
    const ncclComm_t comm = comm_;
    require<CommError>(comm != nullptr, "nccl: stopped, since a rank has failed.");
    return comm;
  }

  /// What NCCL still has to send it sends, unless another rank is lost.
  void end() noexcept {
    const ncclComm_t comm = comm_.exchange(nullptr);
    if (comm == nullptr) return;
    constexpr int kMostMilliseconds = 10'000;
    ncclResult_t state = nccl().ncclCommFinalize(comm);
    for (int i = 0; state == ncclInProgress && i < kMostMilliseconds; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (nccl().ncclCommGetAsyncError(comm, &state) != ncclSuccess) break;
    }
    state == ncclSuccess ? nccl().ncclCommDestroy(comm) : nccl().ncclCommAbort(comm);
  }

  template <class F>
  void stopping_if_it_throws(F f) {
    try {
      f();
    } catch (...) {
      stop();
      throw;
    }
  }

  void require_possible(int peer, Slice<const std::byte> memory) const {
    require<Error>(peer >= 0 && peer < size() && peer != rank(), "nccl: rank ", rank(), " of ", size(),
                   " cannot exchange messages with rank ", peer, ".");
    require<Error>(memory.empty() || memory.device() == device_, "nccl: memory on ", memory.device(),
                   " cannot travel from and to ", device_, ".");
  }

  /// f asks the device for something, in its order of the calling thread's work. Returns when it is there: NCCL joins
  /// ranks when they first exchange something.
  template <class F>
  void asking(const char* what, F f) {
    settle(what, "NCCL to join the ranks", [&] {
      const ncclComm_t comm = running();
      laconic::cuda::select(device_.index);
      return f(comm, laconic::cuda::stream());
    });
    const std::lock_guard lock(mutex_);
    asked_ = Clock::now();
    last_ = Event::now(device_);
  }
  void require_running() {
    const std::lock_guard lock(mutex_);
    running();
  }

  /// Afterwards it is known of all that is to come how long it is, not whether there is room for it.
  void exchange_lengths(std::span<const Outgoing> out, std::span<Incoming> in) {
    require_running();  // else what was asked for last may still be under way
    const std::size_t bytes = (out.size() + in.size()) * sizeof(Length), sent = out.size() * sizeof(Length);
    if (lengths_.size() < bytes) lengths_ = Pinned(bytes, device_);  // what it was last used for has been waited for
    lengths_there_.resize(bytes);
    const auto there = [&](std::size_t i) { return lengths_there_.slice().sub(i * sizeof(Length), sizeof(Length)); };
    std::vector<Outgoing> sends;
    std::vector<Incoming> receives;
    for (const Outgoing& message : out) {
      const Length length = message.bytes.size();
      std::memcpy(lengths_.data() + sends.size() * sizeof length, &length, sizeof length);
      sends.push_back({message.to, there(sends.size())});
    }
    for (const Incoming& message : in) receives.push_back({message.from, there(out.size() + receives.size())});
    copy_bytes_later(lengths_there_.data(), device_, lengths_.data(), kCpu, sent);
    group(sends, receives);
    copy_bytes_later(lengths_.data() + sent, kCpu, lengths_there_.data() + sent, device_, bytes - sent);
    // A rank that only sends waits too: its lengths are in memory that the next exchange writes.
    engine_.wait_until([event = Event::now(device_)] { return event.reached(); },
                       in.empty() ? "others to hear the length of what it sends"
                                  : concat("the length of what comes from ", senders_of(in)));
    require_running();  // else nothing came
    for (std::size_t i = 0; i < in.size(); ++i) {
      Length length = 0;
      std::memcpy(&length, lengths_.data() + sent + i * sizeof length, sizeof length);
      in[i].came = length;
    }
  }

  /// All at once. Each receive as long as its room.
  void group(std::span<const Outgoing> out, std::span<const Incoming> in) {
    if (out.empty() && in.empty()) return;
    std::uint64_t bytes = 0;
    asking("exchanging", [&](ncclComm_t comm, cudaStream_t stream) {
      check(nccl().ncclGroupStart(), "beginning a group");
      ncclResult_t result = ncclSuccess;  // the first failure: a group that was begun has to end
      const auto also = [&](ncclResult_t next) {
        if (result == ncclSuccess || (result == ncclInProgress && next != ncclSuccess)) result = next;
      };
      for (const Outgoing& message : out) {
        bytes += message.bytes.size();
        also(nccl().ncclSend(message.bytes.data(), message.bytes.size(), ncclUint8, message.to, comm, stream));
      }
      for (const Incoming& message : in)
        also(nccl().ncclRecv(message.room.data(), message.room.size(), ncclUint8, message.from, comm, stream));
      also(nccl().ncclGroupEnd());
      return result;
    });
    engine_.count_sent({.messages = out.size(), .bytes = bytes});
  }

  Engine& engine_;
  const Device device_;
  std::timed_mutex mutex_;  // held while NCCL is called; guards what follows
  std::atomic<ncclComm_t> comm_{nullptr};
  std::optional<Event> last_;  // end of all that was asked for, until the device has come to it
  Clock::time_point asked_{};
  Pinned lengths_;  // lengths of an exchange: what is sent, what comes
  compress::Bytes lengths_there_;
};

}  // namespace

std::shared_ptr<Nccl> Nccl::make(Engine& engine, Device device) {
  const std::string mine = place_of(device);
  std::vector<std::string> places;
  ncclUniqueId id{};
  engine.run("meeting for NCCL", [&](Communicator& comm) { return allgather_blobs(comm, mine, places); });
  require_a_gpu_each(places);
  if (engine.rank() == 0) check(nccl().ncclGetUniqueId(&id), "starting");
  const Slice<std::byte> bytes(reinterpret_cast<std::byte*>(&id), sizeof id);
  engine.run("meeting for NCCL", [&](Communicator& comm) { return broadcast(comm, bytes); });
  auto made = std::make_shared<NcclOfRank>(engine, device);
  engine.run("starting NCCL", [&](Communicator&) -> Task<> {
    made->start(id);
    co_return;
  });
  return made;
}

}  // namespace laconic::dist
