#include "dist/world.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "core/base/settings.h"
#include "dist/collective/meeting.h"
#include "dist/engine/thread_engine.h"
#include "dist/transport/linked.h"
#include "dist/transport/local.h"
#include "dist/transport/mpi.h"

namespace laconic::dist {
namespace {

/// The first error of several threads.
class FirstError {
 public:
  /// True if this one is the first.
  bool set(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    return true;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// Runs one rank; if the body throws, all ranks end.
void run_rank(Engine& engine, int servers, const std::function<void(Worker&)>& body, FirstError& first) {
  Worker worker{engine.rank(), engine.size() - servers, engine};
  const auto failed = [&](const std::string& sentence, int exit_code) {
    first.set(std::current_exception());
    engine.abort(sentence, exit_code);
  };
  try {
    body(worker);
    engine.drain();
  } catch (const std::exception& e) {
    failed(Settings::as_options(e.what()), exit_code_of(e));
  } catch (...) {
    failed("a worker ended with an unknown exception", 1);
  }
}

/// The body, in the view of the first N ranks.
Task<> among_first(Communicator& comm, int N, const std::function<Task<>(Communicator&)>& body) {
  std::vector<int> ranks(static_cast<std::size_t>(N));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::unique_ptr<Communicator> group = comm.subgroup(ranks);
  co_await body(*group);
}

/// This thread gives way to communication threads at once. Needs no privilege; there is no way back without one.
void lower_priority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19); }

/// All ranks of a world that are threads of this process. They meet in the hub; `prepare`, of a rank, comes before the
/// body. Rank 0 is the calling thread unless `all_anew`.
template <class Transport, class Hub>
void run_threads(const std::shared_ptr<Hub>& hub, const WorldOptions& o, bool all_anew, void (*prepare)(),
                 const std::function<void(Worker&)>& body) {
  FirstError first;
  const auto rank_main = [&](int rank) {
    try {
      ThreadEngine engine([&] { return std::make_unique<Transport>(hub, rank); }, o.timeout_seconds, o.tell_seconds);
      prepare();
      run_rank(engine, o.servers, body, first);
    } catch (const std::exception& e) {  // no engine, for want of threads or memory
      first.set(std::current_exception());
      hub->abort(e.what());
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = all_anew ? 0 : 1; rank < hub->size(); ++rank)
      threads.emplace_back([&rank_main, rank] {
        pthread_setname_np(pthread_self(), concat("laconic-", rank).c_str());
        rank_main(rank);
      });
    if (!all_anew) rank_main(0);
  } catch (const std::exception& e) {  // no room for another thread
    first.set(std::current_exception());
    hub->abort(e.what());
  }
  for (std::thread& t : threads) t.join();
  first.rethrow();
}

/// Lines of "key=value" that others do not have alike, {theirs, ours}: the first whose key both know. Else the first
/// line whose key only one of them knows, and "".
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const auto lines = [](const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  };
  const auto key = [](const std::string& line) { return line.substr(0, line.find('=')); };
  const std::vector<std::string> left = lines(a);
  std::vector<std::string> right = lines(b);  // at the end the lines whose key the others do not know
  std::string only_left;
  for (const std::string& x : left) {
    const auto y = std::ranges::find(right, key(x), key);
    if (y != right.end() && *y != x) return {x, *y};
    if (y != right.end())
      right.erase(y);
    else if (only_left.empty())
      only_left = x;
  }
  return {only_left, only_left.empty() && !right.empty() ? right[0] : ""};
}

void require_equal(const std::vector<std::string>& all) {
  std::vector<int> others;
  for (int r = 1; r < static_cast<int>(all.size()); ++r)
    if (all[static_cast<std::size_t>(r)] != all[0]) others.push_back(r);
  if (others.empty()) return;
  const auto [theirs, zeros] = first_difference(all[static_cast<std::size_t>(others[0])], all[0]);
  std::string ranks = concat(others[0]);
  for (std::size_t i = 1; i < others.size(); ++i) ranks += concat(", ", others[i]);
  const auto shown = [](const std::string& line) { return line.empty() ? std::string("nothing") : "'" + line + "'"; };
  throw CommError(concat("fingerprint: rank ", others[0], " has ", shown(theirs), " where rank 0 has ", shown(zeros),
                         others.size() > 1 ? concat(" (ranks ", ranks, " differ from rank 0)") : "",
                         ". Start all ranks with the same program, options and data."));
}

}  // namespace

int ranks_under_mpirun() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size == nullptr ? 0 : std::atoi(size);
}

void leave_world() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}) ::unsetenv(name);
}

std::string how_to_meet(int ranks) {
  const std::string version = mpi_library().version;
  return concat(version.empty() ? "this build has no MPI" : "this build speaks Open MPI " + version,
                ": start it by `laconic launch -n ", ranks, " ", ::program_invocation_short_name,
                " ...`, or give `alone` if each is to train by itself");
}

void Worker::run(std::string name, std::function<Task<>(Communicator&)> body, Device device, bool patiently) const {
  if (servers() == 0) return engine.run(std::move(name), std::move(body), device, patiently);
  engine.run(
      std::move(name), [N = size, &body](Communicator& comm) { return among_first(comm, N, body); }, device, patiently);
}

std::vector<std::string> texts_of_all(const Worker& worker, const std::string& what, const std::string& mine) {
  std::vector<std::string> all;
  worker.run(what, [&](Communicator& comm) { return allgather_blobs(comm, mine, all); });
  return all;
}

WorldReport run_workers(const WorldOptions& options, const std::function<void(Worker&)>& body) {
  const int ranks = ranks_under_mpirun(), servers = options.servers;
  const int workers = options.workers == 0 ? 1 : options.workers;
  require<UsageError>(servers >= 0, "there are ", servers, " servers (`servers`): give at least 1");
  if (options.link) {
    require<UsageError>(ranks == 0, "a link is emulated between threads only, and these are ", ranks,
                        " MPI processes (`link`): use `workers` without mpirun, or a real network");
    require<UsageError>(workers + servers > 1, "one worker has nobody to talk to (`link`): add `workers` 4");
    const auto hub = std::make_shared<LinkedHub>(*options.link, workers + servers);
    // The calling thread keeps its priority. An engine's thread has started before, and would inherit a lower one.
    run_threads<LinkedTransport>(hub, options, true, lower_priority, body);
    return {hub->use()};
  }
  if (ranks == 0) {
    const auto hub = std::make_shared<LocalHub>(workers + servers);
    run_threads<LocalTransport>(
        hub, options, false, [] {}, body);
    return {};
  }

  require<UsageError>(ranks > servers, "mpirun started ", ranks, " ranks, and ", servers,
                      " of them are to serve (`servers`): start more, so that some are left to train");
  require<UsageError>(options.workers == 0 || options.workers + servers == ranks, "`workers` ", options.workers,
                      servers > 0 ? concat(" and `servers` ", servers) : "", ": mpirun started ", ranks,
                      " ranks. Leave `workers` out, or give both the same number.");
  std::optional<ConnectionWatch> connecting(std::in_place,
                                            std::max(options.timeout_seconds, options.connect_seconds));
  start_mpi();
  FirstError first;
  {
    ThreadEngine engine([&] { return make_mpi_transport(options.type_of_service, &*connecting); },
                        options.timeout_seconds, options.tell_seconds);
    connecting.reset();
    require<UsageError>(engine.size() == ranks, "mpirun started ", ranks,
                        " ranks (OMPI_COMM_WORLD_SIZE), and they do not meet, for ", how_to_meet(ranks));
    run_rank(
        engine, servers,
        [&](Worker& worker) {
          body(worker);
          // Rank 0 may still write text or weights, and MPI_Finalize would wait for ever for a rank that stops
          // meanwhile. One barrier shows who has come, the next one who is there still.
          const auto meet_twice = [](Communicator& comm) -> Task<> {
            co_await barrier(comm);
            co_await barrier(comm);
          };
          engine.run("meeting at the end", meet_twice, kCpu, true);
        },
        first);
  }
  first.rethrow();
  return {};
}

void check_fingerprint(Engine& engine, const std::string& mine, bool patiently) {
  check_fingerprint(Worker{engine.rank(), engine.size(), engine}, mine, patiently);
}

void check_fingerprint(const Worker& worker, const std::string& mine, bool patiently) {
  std::vector<std::string> all;
  worker.run(
      "comparing options", [&](Communicator& comm) { return allgather_blobs(comm, mine, all); }, kCpu, patiently);
  require_equal(all);
}

}  // namespace laconic::dist
