#include "dist/transport/mpi.h"

#include "core/base/settings.h"
#include "dist/transport/single_copy.h"
#include "dist/transport/socket_watch.h"

#define OMPI_SKIP_MPICXX 1  // the C interface only: the old C++ one does not pass -Wextra
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace laconic::dist {

namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS)
    throw LostRank(concat("mpi: ", call, " failed: ", text_of(code), ". Look at mpirun's own messages."));
}

/// MPI counts in int, and reads host memory.
int bytes_of(const Request& request) {
  require<CommError>(request.size <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "mpi: a message of ",
                     request.size, " bytes is above MPI's 2 GiB. Use a collective that cuts it.");
  require<CommError>(request.device == kCpu, "mpi: memory on ", request.device,
                     " does not travel. Use `device` cpu.");
  return static_cast<int>(request.size);
}

constexpr std::size_t kSentAtOnce = kMessageBytes + 4096;  // MPI adds a header

/// Over TCP Open MPI asks the receiver before it sends more than 64 KiB, and the answer waits behind all that the
/// receiver is sending itself: with both directions busy the link rests (1,600 ms instead of 1,160 a step of
/// AlexNet-32 at 1 Gb/s, computing 750). Receives are posted ahead, so the messages of our collectives go at once.
/// What the user sets (mpirun --mca, environment) stays.
void send_without_asking() {
  const std::string bytes = std::to_string(kSentAtOnce);
  for (const char* name : {"eager_limit", "rndv_eager_limit", "max_send_size"})
    setenv(concat("OMPI_MCA_btl_tcp_", name).c_str(), bytes.c_str(), 0);
  // In shared memory it asks from 4 KiB on, and an allreduce of 8 KiB takes twice as long. One of its fragments has
  // 32 KiB.
  setenv(OMPI_MAJOR_VERSION < 5 ? "OMPI_MCA_btl_vader_eager_limit" : "OMPI_MCA_btl_sm_eager_limit", "32768", 0);
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::optional<int> type_of_service, ConnectionWatch* connecting) {
    watch_ = std::make_unique<SocketWatch>(type_of_service, process_manager_addresses());
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // those that are made of it inherit that
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    meet(MPI_COMM_WORLD, connecting);  // opens the connections
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &notes_), "MPI_Comm_dup");
    meet(comm_, connecting);  // nobody leaves who would take one for lost that still waits for another
    all_over_tcp_ = size_ > 1 && watch_->look() >= size_ - 1;
    if (all_over_tcp_) ask_for_short_slices();  // a thread that polls must not
    set_window({.messages = 6, .small_bytes = 16 << 10});  // six of a ring's 64 KiB keep the kernel busy
  }
  ~MpiTransport() override {
    for (auto& [rank, note] : told_)
      if (note.handle != MPI_REQUEST_NULL) MPI_Request_free(&note.handle);  // that rank takes none any more
    MPI_Comm_free(&notes_);
    MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void start(Request& request) override {
    MPI_Request handle = MPI_REQUEST_NULL;
    if (request.kind == Request::Kind::send)
      check_mpi(MPI_Isend(request.data, bytes_of(request), MPI_BYTE, request.peer, request.slot, comm_, &handle),
                "MPI_Isend");
    else
      check_mpi(MPI_Irecv(request.data, bytes_of(request), MPI_BYTE, request.peer, request.slot, comm_, &handle),
                "MPI_Irecv");
    handles_.push_back(handle);
    requests_.push_back(&request);
  }

  void cancel_started(Request& request) override {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != &request) continue;
      // Open MPI cancels receives only. A send that nobody takes is left to MPI, and so is a receive that a message has
      // begun to fill: its sender may be gone. Their memory must stay, which holds because a failed rank ends the
      // processes.
      if (request.kind == Request::Kind::recv) {
        MPI_Cancel(&handles_[i]);
        int ended = 0;
        for (const auto begin = Clock::now(); ended == 0 && !waited_in_vain_ && seconds_since(begin) < 1;)
          MPI_Test(&handles_[i], &ended, MPI_STATUS_IGNORE);
        waited_in_vain_ |= ended == 0;
      }
      forget(i);
      return;
    }
  }

  int poll() override {
    const int found = std::exchange(found_, 0) + test();
    if (found > 0) quiet_passes_ = 0;
    return found;
  }

  void sleep(double at_most_seconds) override {
    if (requests_.empty()) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::duration<double>(at_most_seconds), [&] { return woken_.load(); });
      quiet_passes_ = 0;
    } else if (test_some(kTestsPerPass)) {
      quiet_passes_ = 0;
    } else {
      if (quiet_passes_++ == 0) quiet_since_ = Clock::now();
      if (all_over_tcp_ && quiet_passes_ >= kPassesBeforeSleep)
        watch_->sleep(std::min(at_most_seconds, kSafetySeconds));
      else if (!all_over_tcp_ && seconds_since(quiet_since_) >= kYieldSeconds)
        std::this_thread::sleep_for(kNap);
      else
        sched_yield();
    }
    woken_.store(false);
  }

  void wake() override {
    {
      std::lock_guard lock(mutex_);
      woken_.store(true);
      changed_.notify_all();
    }
    watch_->wake();
  }

  /// Ranks that wait have sent each other notes.
  std::string network_says() const override {
    if (!all_over_tcp_) return "";
    const SocketWatch::Silent silent = watch_->unacknowledged(kUnacknowledgedSeconds);
    if (silent.machines.empty()) return "Its machine takes what is sent to it: the process is stopped, or stuck. ";
    if (silent.all) return "No machine acknowledges anything: this one's own cable may be out. ";
    std::string names;
    for (const std::string& ip : silent.machines) names += (names.empty() ? "" : ", ") + ip;
    return concat(
        names, " acknowledges nothing: that machine or its cable is gone. If neither is, see laconic doctor --hosts. ");
  }

  std::optional<Note> hear() override {
    int there = 0, length = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, notes_, &there, &status) != MPI_SUCCESS || there == 0) return {};
    MPI_Get_count(&status, MPI_BYTE, &length);
    Note note{.from = status.MPI_SOURCE, .text = std::string(static_cast<std::size_t>(length), ' ')};
    if (MPI_Recv(note.text.data(), length, MPI_BYTE, note.from, 0, notes_, MPI_STATUS_IGNORE) != MPI_SUCCESS) return {};
    return note;
  }

  void abort(const std::string& reason, int exit_code) override {
    // Several ranks may fail with the same sentence at once (a check that all of them make). One on each machine says
    // it; of several machines the first, whose MPI_Abort ends the others before they do. An app may have taken SIGTERM
    // for an orderly end: that is over.
    std::signal(SIGTERM, SIG_DFL);
    const bool says_it = first_here_to_say(reason);
    // The first abort may not come through. So a rank that says nothing aborts too, before `laconic launch` gives up.
    std::this_thread::sleep_for(std::chrono::milliseconds(!says_it     ? 6000
                                                          : rank_ == 0 ? 0
                                                                       : 1500 + 250 * std::min(rank_, 6)));
    if (says_it) std::fprintf(stderr, "laconic: error: %s\n", Settings::as_options(reason).c_str());
    std::fflush(stderr);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // let mpirun pass it on before its own message
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }

 private:
  // Open MPI looks at its sockets in every eighth progress call only. In shared memory a yield after every test
  // costs 1.5 times on small messages, and timed sleeps cost the compute thread more. But who waits for long there, as
  // for a rank that computes, leaves the core to others.
  static constexpr int kTestsPerPass = 16;
  static constexpr double kYieldSeconds = 0.01;
  static constexpr std::chrono::microseconds kNap{200};
  static constexpr int kPassesBeforeSleep = 4;     // small messages over an idle network come back sooner than a sleep
  static constexpr std::size_t kNoteBytes = 2000;  // goes out at once: below every eager limit
  static constexpr double kSafetySeconds = 1e-3;   // an edge that was missed is made up for
  static constexpr double kUnacknowledgedSeconds =
      1;  // a kernel that is there acknowledges within 0.2 s and a round trip

  /// A word to every other rank, and one from each: it is known at any time which ranks are missing.
  void meet(MPI_Comm comm, ConnectionWatch* connecting) const {
    const int others = size_ - 1;
    char out = 0;
    std::vector<char> in(static_cast<std::size_t>(others));
    std::vector<MPI_Request> came(in.size(), MPI_REQUEST_NULL), went(in.size(), MPI_REQUEST_NULL);
    const auto before = [&](int i) { return (rank_ + size_ - 1 - i) % size_; };
    for (int i = 0; i < others; ++i)
      check_mpi(MPI_Irecv(&in[static_cast<std::size_t>(i)], 1, MPI_BYTE, before(i), 0, comm,
                          &came[static_cast<std::size_t>(i)]),
                "MPI_Irecv");
    for (int i = 0; i < others; ++i)
      check_mpi(MPI_Isend(&out, 1, MPI_BYTE, (rank_ + 1 + i) % size_, 0, comm, &went[static_cast<std::size_t>(i)]),
                "MPI_Isend");
    std::vector<int> done(in.size());
    for (int left = others, count = others; left > 0; left -= count) {
      if (count > 0 && connecting) {
        std::vector<int> missing;
        for (int i = 0; i < others; ++i)
          if (came[static_cast<std::size_t>(i)] != MPI_REQUEST_NULL) missing.push_back(before(i));
        std::sort(missing.begin(), missing.end());
        connecting->waits_for(std::move(missing));
      }
      std::this_thread::yield();
      check_mpi(MPI_Testsome(others, came.data(), &count, done.data(), MPI_STATUSES_IGNORE), "MPI_Testsome");
    }
    if (connecting) connecting->waits_for({});
    check_mpi(MPI_Waitall(others, went.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  /// True if a test found something, or wake() was called.
  bool test_some(int tests) {
    for (int i = 0; i < tests; ++i) {
      if (woken_.load(std::memory_order_relaxed)) return true;
      if ((found_ += test()) > 0) return true;
    }
    return false;
  }

  void start_tell(int rank, const std::string& text) override {
    if (const auto last = told_.find(rank); last != told_.end()) {
      int gone = 0;
      MPI_Test(&last->second.handle, &gone, MPI_STATUS_IGNORE);
      if (gone == 0) return;  // it does not even take the last one
    }
    Told& note = told_[rank];
    note.text = text.substr(0, kNoteBytes);
    MPI_Isend(note.text.data(), static_cast<int>(note.text.size()), MPI_BYTE, rank, 0, notes_, &note.handle);
  }

  /// Completes the requests that MPI has finished; how many.
  int test() {
    if (requests_.empty()) return 0;
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code =
        MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &count, indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto at = static_cast<std::size_t>(indices_[i]);
      Request& request = *std::exchange(requests_[at], nullptr);
      const int error = code == MPI_ERR_IN_STATUS ? statuses_[i].MPI_ERROR : MPI_SUCCESS;
      std::size_t bytes = request.size;
      if (request.kind == Request::Kind::recv && error == MPI_SUCCESS) {
        int came = 0;
        MPI_Get_count(&statuses_[i], MPI_BYTE, &came);
        bytes = static_cast<std::size_t>(came);
      }
      if (error == MPI_SUCCESS)
        request.complete(bytes);
      else
        request.complete(0, failure(request, error));
    }
    for (std::size_t i = requests_.size(); i-- > 0;)
      if (requests_[i] == nullptr) forget(i);
    return count;
  }

  std::exception_ptr failure(const Request& request, int error) const {
    const std::string what = concat(
        "mpi: rank ", rank_, request.kind == Request::Kind::recv ? " could not receive up to " : " could not send ",
        request.size, " bytes, peer rank ", request.peer, " (slot ", request.slot, "): ", text_of(error), ". ");
    int error_class = MPI_SUCCESS;
    MPI_Error_class(error, &error_class);
    if (error_class == MPI_ERR_TRUNCATE)
      return std::make_exception_ptr(CommError(what + "Do all ranks run the same model and options?"));
    return std::make_exception_ptr(LostRank(what + "Is that rank alive?"));
  }

  void forget(std::size_t i) {
    handles_[i] = handles_.back();
    handles_.pop_back();
    requests_[i] = requests_.back();
    requests_.pop_back();
  }

  struct Told {
    std::string text;
    MPI_Request handle = MPI_REQUEST_NULL;
  };

  MPI_Comm comm_ = MPI_COMM_NULL, notes_ = MPI_COMM_NULL;
  std::map<int, Told> told_;  // the last note to each rank
  int rank_ = 0, size_ = 1;
  std::unique_ptr<SocketWatch> watch_;
  bool all_over_tcp_ = false;
  int quiet_passes_ = 0;  // passes in which nothing moved
  Clock::time_point quiet_since_;
  int found_ = 0;                     // completed by wait(), not reported yet
  std::vector<MPI_Request> handles_;  // in the order of requests_
  std::vector<Request*> requests_;
  bool waited_in_vain_ = false;  // one wait for a receive that has begun is enough for all of them
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> woken_{false};
};

}  // namespace

bool mpi_built_in() { return true; }

MpiLibrary mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";  // "Open MPI v4.1.4, package: …"
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view said(text, static_cast<std::size_t>(length));
  const std::size_t begin = std::min(said.find_first_of("0123456789"), said.size());
  MpiLibrary library{.version = std::string(said.substr(begin, said.find_first_of(", ", begin) - begin)), .path = ""};
  Dl_info where{};
  void* const start = ::dlsym(RTLD_DEFAULT, "MPI_Init");  // the program may have another address for it
  if (start && ::dladdr(start, &where) != 0 && where.dli_fname) library.path = where.dli_fname;
  return library;
}

void start_mpi() {
  int there = 0, provided = 0;
  MPI_Initialized(&there);
  if (there == 0) {
    send_without_asking();
    avoid_single_copy();
    // The engine lets one thread in at a time: mostly its own, now and then the compute thread.
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    const auto finalize = [](int exit_code, void*) {
      if (exit_code == 0 || exit_code > 128) MPI_Finalize();
    };
    on_exit(finalize, nullptr);
  }
  MPI_Query_thread(&provided);
  require<CommError>(provided >= MPI_THREAD_SERIALIZED,
                     "mpi: this library lets one thread only use it. Install one built with thread support.");
}

std::unique_ptr<Transport> make_mpi_transport(std::optional<int> type_of_service, ConnectionWatch* connecting) {
  return std::make_unique<MpiTransport>(type_of_service, connecting);
}

}  // namespace laconic::dist
