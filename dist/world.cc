#include "dist/world.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "core/settings.h"
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

/// A network emulated between threads.
WorldReport run_linked_threads(int workers, int servers, const Engine::Options& options, const LinkOptions& link,
                               const std::function<void(Worker&)>& body) {
  const auto hub = std::make_shared<LinkedHub>(link, workers + servers);
  FirstError first;
  std::vector<std::thread> threads;  // rank 0 too: the calling thread keeps its priority
  for (int rank = 0; rank < workers + servers; ++rank)
    threads.emplace_back([&, rank] {
      pthread_setname_np(pthread_self(), concat("laconic-", rank).c_str());
      try {
        Engine engine([&] { return std::make_unique<LinkedTransport>(hub, rank); }, options);
        lower_priority();  // after the engine has started its thread, which would inherit it
        run_rank(engine, servers, body, first);
      } catch (const std::exception& e) {  // no engine, for want of threads or memory
        first.set(std::current_exception());
        LinkedTransport(hub, rank).abort(e.what(), 1);
      }
    });
  for (std::thread& t : threads) t.join();
  first.rethrow();
  return {hub->use()};
}

void run_threads(int workers, int servers, const Engine::Options& options, const std::function<void(Worker&)>& body) {
  const auto hub = std::make_shared<LocalHub>(workers + servers);
  FirstError first;
  const auto rank_main = [&](int rank) {
    try {
      Engine engine([&] { return std::make_unique<LocalTransport>(hub, rank); }, options);
      run_rank(engine, servers, body, first);
    } catch (const std::exception& e) {  // no engine, for want of threads or memory
      first.set(std::current_exception());
      LocalTransport(hub, rank).abort(e.what(), 1);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < workers + servers; ++rank)
    threads.emplace_back([&rank_main, rank] {
      pthread_setname_np(pthread_self(), concat("laconic-", rank).c_str());
      rank_main(rank);
    });
  rank_main(0);
  for (std::thread& t : threads) t.join();
  first.rethrow();
}

}  // namespace

int ranks_under_mpirun() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size == nullptr ? 0 : std::atoi(size);
}

void Worker::run(std::string name, std::function<Task<>(Communicator&)> body, Device device, bool patiently) const {
  if (servers() == 0) return engine.run(std::move(name), std::move(body), device, patiently);
  engine.run(
      std::move(name), [N = size, &body](Communicator& comm) { return among_first(comm, N, body); }, device, patiently);
}

WorldReport run_workers(const WorldOptions& options, const std::function<void(Worker&)>& body) {
  const Engine::Options engine_options{.timeout_seconds = options.timeout_seconds};
  const int ranks = ranks_under_mpirun(), servers = options.servers;
  const int workers = options.workers == 0 ? 1 : options.workers;
  require<UsageError>(servers >= 0, "there are ", servers, " servers (`servers`): give at least 1");
  if (options.link) {
    require<UsageError>(ranks == 0, "a link is emulated between threads only, and these are ", ranks,
                        " MPI processes (`link`): use `workers` without mpirun, or a real network");
    require<UsageError>(workers + servers > 1, "one worker has nobody to talk to (`link`): add `workers` 4");
    return run_linked_threads(workers, servers, engine_options, *options.link, body);
  }
  if (ranks == 0) {
    run_threads(workers, servers, engine_options, body);
    return {};
  }

  require<UsageError>(ranks > servers, "mpirun started ", ranks, " ranks, and ", servers,
                      " of them are to serve (`servers`): start more, so that some are left to train");
  require<UsageError>(options.workers == 0 || options.workers + servers == ranks, "`workers` ", options.workers,
                      servers > 0 ? concat(" and `servers` ", servers) : "", ": mpirun started ", ranks,
                      " ranks. Leave `workers` out, or give both the same number.");
  start_mpi();
  FirstError first;
  {
    Engine engine([&] { return make_mpi_transport(options.type_of_service); }, engine_options);
    run_rank(engine, servers, body, first);
  }
  first.rethrow();
  return {};
}

}  // namespace laconic::dist
