// Run by mpirun with 1 to 4 ranks: every collective over MPI against the naive sums, and against threads bit for bit.
// Prints one line and exits with 0 if all holds on this rank; anything else ends all ranks.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "compress/codecs.h"
#include "core/stream.h"
#include "dist/collective/allgatherv.h"
#include "dist/collective/allreduce.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/collective/ring_halves.h"
#include "dist/collective/tree_allreduce.h"
#include "dist/method/redsync/redsync.h"
#include "dist/engine/thread_engine.h"
#include "dist/transport/local.h"
#include "dist/world.h"
#include "tests/unwatched.h"
#include "tests/values_of.h"

namespace laconic::dist {
namespace {

template <class... Parts>
void expect(bool ok, const Parts&... what) {
  require<Error>(ok, what...);
}

/// Returns the first place of another value, or n.
template <class T>
LACONIC_UNWATCHED std::size_t first_other(T value, const T* x, std::size_t n) {
  std::size_t i = 0;
  while (i < n && x[i] == value) ++i;
  return i;
}
void expect_all(float value, const std::vector<float>& x, const std::string& what) {
  const std::size_t i = first_other(value, x.data(), x.size());
  expect(i == x.size(), what, " holds ", i < x.size() ? x[i] : value, " and not ", value);
}

/// The sums over all ranks of values_of(). An error is judged by the sum of magnitudes.
class NaiveSums {
 public:
  NaiveSums(int ranks, std::size_t n) : sums_(n), magnitudes_(n) {
    for (int r = 0; r < ranks; ++r) add(values_of(r, n).data());
  }
  void expect_near(const std::vector<float>& x, const char* what) const {
    const std::size_t i = first_far(x.data());
    expect(i == sums_.size(), what, " of ", sums_.size(), ": element ", i, " is ", i < x.size() ? x[i] : 0, " and not ",
           i < x.size() ? sums_[i] : 0);
  }

 private:
  LACONIC_UNWATCHED void add(const float* x) {
    double *const sums = sums_.data(), *const magnitudes = magnitudes_.data();
    for (std::size_t i = 0, n = sums_.size(); i < n; ++i) sums[i] += x[i], magnitudes[i] += std::abs(x[i]);
  }
  LACONIC_UNWATCHED std::size_t first_far(const float* x) const {
    const double *const sums = sums_.data(), *const magnitudes = magnitudes_.data();
    std::size_t i = 0;
    for (const std::size_t n = sums_.size(); i < n; ++i)
      if (!(std::abs(x[i] - sums[i]) <= 1e-6 * magnitudes[i])) break;
    return i;
  }

  std::vector<double> sums_, magnitudes_;
};

using Allreduce = Task<> (*)(Communicator&, Slice<float>);
struct Algorithm {
  const char* name;
  Allreduce run;
  Cost (*cost)(int, double);
};
const Algorithm kAlgorithms[] = {
    {"ring", [](Communicator& comm, Slice<float> x) { return ring_allreduce(comm, x); },
     [](int N, double bytes) { return ring_allreduce_cost(N, bytes); }},
    {"butterfly", [](Communicator& comm, Slice<float> x) { return butterfly_allreduce(comm, x); },
     [](int N, double bytes) { return butterfly_allreduce_cost(N, bytes); }},
    {"doubling", [](Communicator& comm, Slice<float> x) { return doubling_allreduce(comm, x); },
     [](int N, double bytes) { return doubling_allreduce_cost(N, bytes); }},
    {"hierarchical:2", [](Communicator& comm, Slice<float> x) { return hierarchical_allreduce(comm, x, 2); },
     [](int N, double bytes) { return hierarchical_allreduce_cost(N, bytes, 2); }},
    {"tree:2", [](Communicator& comm, Slice<float> x) { return tree_allreduce(comm, x, 2); },
     [](int N, double bytes) { return tree_allreduce_cost(N, bytes, 2); }}};

template <Task<> (*allreduce)(Communicator&, Slice<float>, Hops)>
Task<> through_a_codec(Communicator& comm, Slice<float> x) {
  static const auto codec = compress::make_codec("qsgd:8:512");
  return allreduce(comm, x, {.codec = codec.get(), .key = {.seed = 5, .step = 6}});
}
Task<> coded_ring(Communicator& comm, Slice<float> x, Hops hops) { return ring_allreduce(comm, x, 0, hops); }
Task<> coded_groups(Communicator& comm, Slice<float> x, Hops hops) { return hierarchical_allreduce(comm, x, 2, hops); }
Task<> coded_ring_tree(Communicator& comm, Slice<float> x, Hops hops) {
  return hierarchical_allreduce(comm, x, 2, hops, LeadersBy::tree);
}
Task<> coded_tree(Communicator& comm, Slice<float> x, Hops hops) { return tree_allreduce(comm, x, 2, hops); }
const Algorithm kCoded[] = {{"ring with a codec", through_a_codec<coded_ring>, nullptr},
                            {"butterfly with a codec", through_a_codec<butterfly_allreduce>, nullptr},
                            {"doubling with a codec", through_a_codec<doubling_allreduce>, nullptr},
                            {"groups with a codec", through_a_codec<coded_groups>, nullptr},
                            {"groups below a tree with a codec", through_a_codec<coded_ring_tree>, nullptr},
                            {"tree with a codec", through_a_codec<coded_tree>, nullptr}};

using OnARank = std::function<std::vector<float>(Engine&)>;

/// Runs it over the other transport, by N threads, and returns what the first of them gets.
std::vector<float> over_threads(int N, const OnARank& body) {
  const auto hub = std::make_shared<LocalHub>(N);
  std::vector<float> result;
  std::vector<std::thread> threads;
  for (int r = 0; r < N; ++r)
    threads.emplace_back([&, r] {
      ThreadEngine engine([&] { return std::make_unique<LocalTransport>(hub, r); });
      std::vector<float> x = body(engine);
      engine.drain();
      if (r == 0) result = std::move(x);
    });
  for (auto& t : threads) t.join();
  return result;
}

/// Compares x with what threads get. Rank 0 lets them run, and tells the others.
void expect_what_threads_get(Worker& w, const std::string& what, const std::vector<float>& x, const OnARank& body) {
  std::vector<float> threads(x.size());
  if (w.rank == 0) threads = over_threads(w.size, body);
  require<Error>(threads.size() == x.size(), what, ": MPI gives ", x.size(), " values, threads ", threads.size());
  w.engine.run("what threads get", [&](Communicator& comm) { return broadcast(comm, slice(threads).bytes()); });
  expect(same_bits(x, threads), what, " of ", x.size(), ": MPI and threads differ");
}

OnARank allreduce_of(const Algorithm& algorithm, std::size_t n) {
  return [&algorithm, n](Engine& engine) {
    std::vector<float> x = values_of(engine.rank(), n);
    engine.run("allreduce", [&](Communicator& comm) { return algorithm.run(comm, slice(x)); });
    return x;
  };
}

void allreduce_matches(Worker& w) {
  for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, static_cast<std::size_t>(w.size - 1),
                        std::size_t{1000}, std::size_t{1003}, std::size_t{300'001}}) {
    const NaiveSums naive(w.size, n);
    for (const Algorithm& algorithm : kAlgorithms) {
      const Traffic before = w.engine.counters().sent;
      const std::vector<float> x = allreduce_of(algorithm, n)(w.engine);
      const Traffic after = w.engine.counters().sent;
      naive.expect_near(x, algorithm.name);
      expect_what_threads_get(w, algorithm.name, x, allreduce_of(algorithm, n));
      double sent[] = {static_cast<double>(after.messages - before.messages),
                       static_cast<double>(after.bytes - before.bytes)};
      w.engine.run("sum", [&](Communicator& comm) { return sum_over_ranks(comm, {sent, 2}); });
      const Cost cost = algorithm.cost(w.size, 4.0 * static_cast<double>(n));
      const double slack =
          std::strchr(algorithm.name, ':') != nullptr ? 8.0 * w.size : 1e-6;  // uneven blocks of groups
      expect(sent[0] == cost.all_messages && std::abs(sent[1] - cost.all_bytes) <= slack, algorithm.name, " of ", n,
             ": sent ", sent[0], " messages and ", sent[1], " bytes, not ", cost.all_messages, " and ", cost.all_bytes);
    }
  }
}

/// Payloads of a codec, over MPI and over threads: the same bits.
void codecs_match(Worker& w) {
  for (const Algorithm& algorithm : kCoded)
    for (std::size_t n : {std::size_t{0}, std::size_t{7}, std::size_t{1003}, std::size_t{300'001}})
      expect_what_threads_get(w, algorithm.name, allreduce_of(algorithm, n)(w.engine), allreduce_of(algorithm, n));
}

void many_in_flight(Worker& w) {
  constexpr int kOperations = 40;
  const int slots = w.engine.reserve_slots(kOperations);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<float>> x(kOperations);
    for (int j = 0; j < kOperations; ++j) {
      const int i = (j * 7 + w.rank * 13) % kOperations;  // another order on every rank
      auto& mine = x[static_cast<std::size_t>(i)];
      mine.assign(static_cast<std::size_t>(1000 * i), static_cast<float>(i + w.rank));
      (void)w.engine.submit(
          {.name = "allreduce", .slot = slots + i, .priority = i, .body = [&mine, i](Communicator& comm) {
             return i % 2 == 0 ? ring_allreduce(comm, slice(mine)) : butterfly_allreduce(comm, slice(mine));
           }});
    }
    w.engine.drain();
    for (int i = 0; i < kOperations; ++i)
      expect_all(static_cast<float>(w.size * i + w.size * (w.size - 1) / 2), x[static_cast<std::size_t>(i)],
                 concat("operation ", i));
  }
}

void small_collectives(Worker& w) {
  for (int root = 0; root < w.size; ++root) {
    std::vector<float> x(1000, static_cast<float>(w.rank));
    w.engine.run("broadcast", [&](Communicator& comm) { return broadcast(comm, slice(x).bytes(), root); });
    expect_all(static_cast<float>(root), x, concat("broadcast from ", root));
  }
  for (int i = 0; i < 10; ++i) w.engine.run("barrier", barrier);
  check_fingerprint(w.engine, "the same on all ranks");
}

void parts(Worker& w) {
  const auto rank = static_cast<std::size_t>(w.rank), size = static_cast<std::size_t>(w.size);
  for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1003}, std::size_t{300'001}}) {
    std::vector<float> x = values_of(w.rank, n);
    w.engine.run("reduce-scatter", [&](Communicator& comm) { return reduce_scatter(comm, slice(x)); });
    std::vector<float> y(n, -1.0f);
    const Slice<float> from = slice(x).part(rank, size), to = slice(y).part(rank, size);
    std::copy(from.begin(), from.end(), to.begin());
    w.engine.run("allgather", [&](Communicator& comm) { return ring_allgather(comm, slice(y)); });
    NaiveSums(w.size, n).expect_near(y, "ring allgather");
  }
  for (const auto& algorithm : {allgatherv, ring_allgatherv})
    for (std::size_t step : {std::size_t{0}, std::size_t{7}, std::size_t{100'000}}) {
      const std::vector<std::byte> mine(rank * step, static_cast<std::byte>(w.rank));
      Gathered all;
      w.engine.run("allgatherv", [&](Communicator& comm) { return algorithm(comm, slice(mine), size * step, all); });
      for (int r = 0; r < w.size; ++r) {
        expect(all[r].size() == static_cast<std::size_t>(r) * step, "allgatherv: rank ", r, " gave ", all[r].size());
        expect(first_other(static_cast<std::byte>(r), all[r].data(), all[r].size()) == all[r].size(),
               "allgatherv: wrong byte of rank ", r);
      }
    }
}

/// Memory of a CUDA device, where there is one: what was asked of it just before travels, and what is asked next sees
/// what came. Threads give the same bits.
void device_memory(Worker& w) {
  if (cuda_devices() == 0) return;
  const Device device{Device::Kind::cuda, 0};
  constexpr int kOperations = 6;
  const auto summed = [&](Engine& engine) {
    const int slots = engine.reserve_slots(kOperations);
    std::vector<Tensor> x;
    std::vector<Ticket> tickets;
    for (int i = 0; i < kOperations; ++i) {
      const std::vector<float> mine = values_of(engine.rank() + 10 * i, static_cast<std::size_t>(7001 * i));
      x.push_back(Tensor::zeros({static_cast<std::int64_t>(mine.size())}, DType::f32, device));
      add_in_place(x.back().slice(), Tensor::of(x.back().shape(), std::span<const float>(mine), device).slice());
      tickets.push_back(engine.submit({.name = "sum",
                                       .slot = slots + i,
                                       .device = device,
                                       .body = [mine = x.back().slice(), i](Communicator& comm) {
                                         return i % 2 == 0 ? ring_allreduce(comm, mine)
                                                           : butterfly_allreduce(comm, mine);
                                       }}));
    }
    std::vector<float> all;
    for (int i = 0; i < kOperations; ++i) {
      engine.wait(tickets[static_cast<std::size_t>(i)]);
      const Tensor& sum = x[static_cast<std::size_t>(i)];
      const Tensor twice = Tensor::zeros(sum.shape(), DType::f32, device);
      add_in_place(twice.slice(), sum.slice());
      add_in_place(twice.slice(), sum.slice());
      for (const float v : twice.to_vector()) all.push_back(v);
    }
    return all;
  };
  expect_what_threads_get(w, "device memory", summed(w.engine), summed);
}

/// Twelve steps of a strategy that sends a choice of elements; the parameters that they lead to.
std::vector<float> trained(Engine& engine, const std::string& sync, const SparseOptions& sparse) {
  std::vector<std::shared_ptr<Parameter>> parameters;
  for (const std::int64_t rows : {40, 7, 90}) {
    parameters.push_back(std::make_shared<Parameter>(Shape{rows, 50}, Role::linear));
    parameters.back()->info.name = concat("p", rows);
    std::fill_n(parameters.back()->value().data<float>(), rows * 50, 1.0f);
  }
  const ParameterArena arena(parameters);
  PlanOptions options{.sparse = dispatch_of(*sparse_method(sync), sparse)};
  const TrainingFacts facts{.workers = engine.size(), .momentum = 0.9};
  const Plan plan = make_plan(arena.parameters(), options, engine.size());
  WorkerSide side{.facts = facts, .arena = arena, .engine = engine, .plan = plan, .velocity = arena.make_state()};
  side.update = [](Parameter& p, Rows, const StepContext& c) {
    for (std::int64_t i = 0; i < p.info.elements; ++i)
      p.value().data<float>()[i] -= static_cast<float>(c.lr * c.gradient_scale) * p.grad().data<float>()[i];
  };
  RedSync strategy(std::move(side), *sparse_method(sync), sparse, density_of(*sparse_method(sync), sparse, 4));
  for (int step = 1; step <= 12; ++step) {
    strategy.begin_step({.step = step, .lr = 0.1});
    for (auto p = arena.parameters().rbegin(); p != arena.parameters().rend(); ++p)
      strategy.before_forward(**p, (*p)->all_rows());
    for (const auto& p : arena.parameters()) {
      const auto n = static_cast<std::size_t>(p->info.elements);
      const auto g = values_of(engine.rank() * 1000 + step, n);
      std::copy(g.begin(), g.end(), p->grad().data<float>());
      strategy.gradient_ready(*p, p->all_rows());
    }
    strategy.end_step();
  }
  strategy.flush();
  return arena.values().to_vector();
}

/// Over MPI and over threads the same bits, on all ranks.
void sparse_strategies(Worker& w) {
  SparseOptions plain{.density = 0.02, .selector = "exact", .dense_below = 2000}, packed = plain, signs = plain;
  packed.delta = true, packed.selector = "sampled", signs.quantised = true;
  signs.warmup = Warmup::parse("dense:1", "");
  for (const auto& [sync, sparse] : {std::pair{"redsync", plain},
                                     {"redsync", packed},
                                     {"redsync", signs},
                                     {"dgc", plain},
                                     {"topk", plain},
                                     {"randomk", plain}}) {
    const OnARank body = [&, sync = sync, &sparse = sparse](Engine& engine) { return trained(engine, sync, sparse); };
    expect_what_threads_get(w, sync, body(w.engine), body);
  }
}

void scenario(const std::string& name, Worker& w) {
  if (name == "fingerprint") {
    check_fingerprint(w.engine, concat("batch=", w.rank == 1 ? 16 : 32));
  } else if (name == "error") {
    if (w.rank == w.size - 1) throw DataError("batch 7 has a label out of range");
    w.engine.run("barrier", barrier);
  } else if (name == "timeout") {
    if (w.rank == 0) {
      w.engine.run("waiting in vain", barrier);
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(60));
    }
  } else if (name == "stopped" || name == "killed") {
    w.engine.run("hello", barrier);
    if (w.rank == w.size - 1) raise(name == "stopped" ? SIGSTOP : SIGKILL);
    w.engine.run("waiting in vain", barrier);
  } else if (name == "again") {
    small_collectives(w);
  } else {
    allreduce_matches(w);
    codecs_match(w);
    many_in_flight(w);
    small_collectives(w);
    parts(w);
    device_memory(w);
    sparse_strategies(w);
  }
}

}  // namespace
}  // namespace laconic::dist

namespace {
bool hangs_while_it_connects = false;
}

/// In place of Open MPI's, which the real one is behind: where a rank is to hang its second message goes nowhere.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  static int calls = 0;
  if (hangs_while_it_connects && ++calls == 2)
    while (true) pause();
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int main(int argc, char** argv) {
  using namespace laconic::dist;
  const std::string name = argc > 1 ? argv[1] : "all";
  try {
    int rank = 0;
    const double timeout = name == "timeout" ? 4.0 : name == "stopped" || name == "connecting" ? 3.0 : 60.0;
    const auto play = [&](const std::string& scene) {
      const char* const own = std::getenv("OMPI_COMM_WORLD_RANK");
      hangs_while_it_connects = name == "connecting" && own && std::string(own) == "1";
      const double connect = name == "connecting" ? timeout : 20.0;
      run_workers({.workers = 0, .timeout_seconds = timeout, .connect_seconds = connect}, [&](Worker& w) {
        rank = w.rank;
        scenario(scene, w);
      });
    };
    play(name);
    if (name == "all") play("again");  // MPI goes on from one world to the next
    if (rank == 0) std::puts("ok");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "laconic: error: %s\n", e.what());
    return 1;
  }
}
