#include "dist/world.h"

#include <pthread.h>

#include <cstdlib>
#include <thread>
#include <vector>

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
void run_rank(Engine& engine, const std::function<void(Worker&)>& body, FirstError& first) {
  Worker worker{engine.rank(), engine.size(), engine};
  const auto failed = [&](const std::string& sentence, int exit_code) {
    first.set(std::current_exception());
    engine.abort(sentence, exit_code);
  };
  try {
    body(worker);
    engine.drain();
  } catch (const UsageError& e) {
    failed(e.what(), 2);
  } catch (const std::exception& e) {
    failed(e.what(), 1);
  } catch (...) {
    failed("a worker ended with an unknown exception", 1);
  }
}

void run_threads(int workers, const Engine::Options& options, const std::function<void(Worker&)>& body) {
  const auto hub = std::make_shared<LocalHub>(workers);
  FirstError first;
  const auto rank_main = [&](int rank) {
    try {
      Engine engine([&] { return std::make_unique<LocalTransport>(hub, rank); }, options);
      run_rank(engine, body, first);
    } catch (const std::exception& e) {  // no engine, for want of threads or memory
      first.set(std::current_exception());
      LocalTransport(hub, rank).abort(e.what(), 1);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < workers; ++rank)
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

void run_workers(const WorldOptions& options, const std::function<void(Worker&)>& body) {
  const Engine::Options engine_options{.timeout_seconds = options.timeout_seconds};
  const int ranks = ranks_under_mpirun();
  if (ranks == 0) return run_threads(options.workers == 0 ? 1 : options.workers, engine_options, body);

  require<UsageError>(options.workers == 0 || options.workers == ranks, "--workers ", options.workers,
                      ": mpirun started ", ranks, " ranks. Leave --workers out, or give both the same number.");
  FirstError first;
  {
    Engine engine([] { return make_mpi_transport(); }, engine_options);
    run_rank(engine, body, first);
  }
  first.rethrow();
}

}  // namespace laconic::dist
