// laconic bench allreduce: our algorithms and MPI's, in turns, over the network that the ranks have.
//     laconic launch -n 4 laconic bench allreduce
#include "dist/collective/allreduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "apps/bench/allreduce.h"
#include "apps/bench/harness.h"
#include "apps/common/machine.h"
#include "apps/common/version.h"
#include "apps/training/options.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/plan/plan.h"
#include "dist/world.h"

namespace laconic {
namespace {

using dist::Communicator;
using dist::Cost;
using dist::Task;
using dist::Worker;

struct Contestant {
  std::string name;
  std::function<Task<>(Communicator&, Slice<float>)> run{};
  std::function<Cost(int N, double bytes)> cost{};  ///< none of MPI's
  std::string native{};                             ///< what make_mpi_sums takes, if it is MPI's
  int slot = 0;

  bool is_mpi() const { return !cost; }
};

Contestant contestant(const std::string& name) {
  using namespace dist;
  if (const auto found = find_allreduce(name); found && found->kind.carrier == Carrier::messages) {
    const AllreduceNumbers numbers{.group = found->group, .pieces = 0};
    return {name,
            [run = found->kind.run, numbers](Communicator& comm, Slice<float> x) { return run(comm, x, numbers, {}); },
            [cost = found->kind.cost, numbers](int N, double bytes) {
              return cost ? cost(N, bytes, numbers, nullptr).value_or(Cost()) : Cost();
            }};
  }
  std::string ours;
  for (const AllreduceKind& kind : allreduces()) {
    require<UsageError>(kind.least_group == 0 || !name.starts_with(kind.name + ":"), "'", name,
                        "' has no group size of at least ", kind.least_group, " (--algorithms): write ", kind.name,
                        ":2");
    if (kind.carrier == Carrier::messages) ours += kind.form() + ", ";
  }
  if (name == "mpi") return {.name = name};
  if (name.starts_with("mpi:")) return {.name = name, .native = name.substr(4)};
  throw UsageError(concat("unknown algorithm '", name, "' (--algorithms): there are ", ours,
                          "and under laconic launch mpi, mpi:nonblocking, mpi:ring, mpi:recursive_doubling, "
                          "mpi:rabenseifner and MPI's other ones"));
}

std::size_t bytes_named(const std::string& text) {
  const std::size_t bytes = size_from(text);
  require<UsageError>(bytes >= 4 && bytes <= 10'000'000'000 && bytes % 4 == 0, "'", text,
                      "' is not a size of whole floats (--sizes): write 4KiB, 1MiB or 400B");
  return bytes;
}

std::string size_name(std::size_t bytes) {
  if (bytes % 1048576 == 0) return fmt::format("{} MiB", bytes / 1048576);
  if (bytes % 1024 == 0) return fmt::format("{} KiB", bytes / 1024);
  return fmt::format("{} B", bytes);
}

/// The largest over all ranks, on every rank.
double slowest(Worker& w, double mine) {
  std::vector<double> all(static_cast<std::size_t>(w.size), 0.0);
  all[static_cast<std::size_t>(w.rank)] = mine;
  w.engine.run("gather", [&](Communicator& comm) { return dist::sum_over_ranks(comm, slice(all)); });
  return *std::max_element(all.begin(), all.end());
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

/// Runs `times` allreduces one after the other on the communication thread, without the way to it and back: what a call
/// in the calling thread would take. Returns the median of their times on the slowest rank, the same everywhere;
/// appends this rank's times.
double run_block(Worker& w, const Contestant& c, Slice<float> x, int times, std::vector<double>& samples) {
  std::vector<double> seconds;
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await dist::barrier(comm);
    for (int i = 0; i < times; ++i) {
      const auto begin = Clock::now();
      co_await c.run(comm, x);
      seconds.push_back(seconds_since(begin));
    }
  };
  w.engine.wait(w.engine.submit({.name = c.name, .slot = c.slot, .priority = 0, .body = body}));
  samples.insert(samples.end(), seconds.begin(), seconds.end());
  return slowest(w, percentile(seconds, 0.5));
}

/// One contestant at one size.
struct Measured {
  std::size_t bytes = 0;
  const Contestant* contestant = nullptr;
  std::vector<double> samples{};  ///< of each call on this rank, in seconds
  Median seconds{};               ///< of blocks
  std::optional<Median> ratio{};  ///< time of MPI's best here / ours, block by block; none without MPI
  double model_seconds = 0;
};

/// All contestants at one size, in turns.
void measure(Worker& w, const std::vector<Contestant>& contestants, std::size_t bytes, Slice<float> x, int blocks,
             double block_seconds, std::vector<Measured>& rows) {
  std::vector<std::vector<double>> samples(contestants.size());
  std::vector<Contender> all;
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    const auto block = [&w, &c = contestants[i], x, &own = samples[i]](int times) {
      return run_block(w, c, x, times, own);
    };
    all.push_back({.name = contestants[i].name, .by_own_clock = in_blocks(block, block_seconds, 10'000)});
  }
  run_in_turns(all, blocks, 0, [&] { samples.assign(samples.size(), {}); });
  const Contender* best = nullptr;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (contestants[i].is_mpi() && (best == nullptr || all[i].time().value < best->time().value)) best = &all[i];
  for (std::size_t i = 0; i < all.size(); ++i)
    rows.push_back({bytes, &contestants[i], std::move(samples[i]), all[i].time(),
                    best ? std::optional(ratio(*best, all[i])) : std::nullopt});
}

/// Median over blocks of the mean of `times` calls, on the slowest rank.
Median time_calls(Worker& w, int blocks, int times, const std::function<void()>& call) {
  std::vector<double> seconds;
  call();
  for (int b = 0; b < blocks; ++b) {
    w.engine.run("barrier", dist::barrier);
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) call();
    seconds.push_back(slowest(w, seconds_since(start) / times));
  }
  return median(seconds);
}

constexpr int kTensors = 50;
constexpr std::size_t kTensorElements = 1024;

/// A way to sum many tensors, by the algorithm that is the best at it.
struct Fusion {
  Median time;
  std::string by{};

  std::string text() const { return fmt::format("{} us ({})", with_interval(time, "{:.0f}", 1e6), by); }
};

/// 50 tensors of 4 KiB: one after the other, all in flight at once, and as one message.
std::array<Fusion, 3> fusion(Worker& w, int blocks) {
  const int slots = w.engine.reserve_slots(kTensors);
  std::vector<float> memory(kTensors * kTensorElements, 0.0f);
  std::array<Fusion, 3> best;
  for (const char* name : {"doubling", "butterfly", "ring"}) {
    const Contestant c = contestant(name);
    const auto submit = [&](int i, Slice<float> x) {
      return w.engine.submit({.name = name, .slot = slots + i, .priority = 0, .body = [&c, x](Communicator& comm) {
                                return c.run(comm, x);
                              }});
    };
    const auto submit_tensor = [&](int i) {
      return submit(i, slice(memory).sub(static_cast<std::size_t>(i) * kTensorElements, kTensorElements));
    };
    const std::function<void()> ways[] = {[&] {
                                            for (int i = 0; i < kTensors; ++i) w.engine.wait(submit_tensor(i));
                                          },
                                          [&] {
                                            std::vector<dist::Ticket> tickets;
                                            for (int i = 0; i < kTensors; ++i) tickets.push_back(submit_tensor(i));
                                            for (const auto& t : tickets) w.engine.wait(t);
                                          },
                                          [&] { w.engine.wait(submit(0, slice(memory))); }};
    for (std::size_t i = 0; i < best.size(); ++i) {
      const Median m = time_calls(w, blocks, i == 2 ? 30 : 3, ways[i]);
      if (best[i].by.empty() || m.value < best[i].time.value) best[i] = {m, name};
    }
  }
  return best;
}

std::string network(const std::optional<dist::LinkOptions>& link) {
  if (link) return "threads, " + link->to_string() + " (emulated)";
  if (dist::ranks_under_mpirun() == 0) return "threads of one process";
  const char* btl = std::getenv("OMPI_MCA_btl");
  return btl == nullptr ? "MPI, btl as it chooses" : concat("MPI, btl ", btl);
}

Cells figures(const Measured& m, int N) {
  const double rate = 2.0 * (N - 1) / N * static_cast<double>(m.bytes) / m.seconds.value;
  const std::string model = "model us", ratio = "MPI's best time / this (95 %)";
  return {{"bytes", "bytes", m.bytes, size_name(m.bytes)},
          {"algorithm", "algorithm", m.contestant->name},
          {"p50 us", "p50_seconds", percentile(m.samples, 0.5), "{:.1f}", 1e6},
          {"p99 us", "p99_seconds", percentile(m.samples, 0.99), "{:.1f}", 1e6},
          {"median us of blocks (95 %)", "seconds", to_json(m.seconds), with_interval(m.seconds, "{:.1f}", 1e6)},
          m.contestant->is_mpi() ? Cell(model, "", "-") : Cell(model, "model_seconds", m.model_seconds, "{:.1f}", 1e6),
          {"GB/s (2(N-1)/N bytes / median)", "bus_bytes_per_second", rate, "{:.3f}", 1e-9},
          m.ratio ? Cell(ratio, "mpi_best_over_this", to_json(*m.ratio), with_interval(*m.ratio, "{:.2f}"))
                  : Cell(ratio, "", "-"),
          {"samples", "samples", m.samples.size()}};
}

void bench_on(Worker& w, const Bench& bench, std::vector<Contestant> contestants, const std::vector<std::size_t>& sizes,
              int blocks, double block_seconds, const std::string& network) {
  require<UsageError>(w.size > 1,
                      "one rank has nobody to talk to (laconic bench allreduce): start it by laconic launch "
                      "-n 4 laconic bench allreduce, or give --workers 4");
  for (Contestant& c : contestants) {
    c.slot = w.engine.reserve_slots(1);
    if (!c.is_mpi()) continue;
    std::shared_ptr<MpiSums> mpi;
    w.engine.run("preparing MPI", [&](Communicator&) -> Task<> {
      mpi = make_mpi_sums(c.native);
      co_return;
    });
    c.run = [mpi](Communicator&, Slice<float> x) -> Task<> {
      mpi->sum(x);
      co_return;
    };
  }
  // Zeros stay zeros, however often they are added.
  std::vector<float> memory(*std::max_element(sizes.begin(), sizes.end()) / sizeof(float), 0.0f);
  std::vector<Measured> rows;
  for (const std::size_t bytes : sizes)
    measure(w, contestants, bytes, slice(memory).first(bytes / sizeof(float)), blocks, block_seconds, rows);
  const auto cost_of = [&](const Measured& m) { return m.contestant->cost(w.size, static_cast<double>(m.bytes)); };
  std::vector<Timed> timed;
  for (const Measured& m : rows)
    if (!m.contestant->is_mpi()) timed.push_back({cost_of(m), m.seconds.value});
  const LinkModel link = fit_link(timed);
  for (Measured& m : rows)
    if (!m.contestant->is_mpi()) m.model_seconds = link.seconds(cost_of(m));
  // What it costs to ask the communication thread for nothing and wait.
  const auto nothing = [](Communicator&) -> Task<> { co_return; };
  const Median asked = time_calls(w, blocks, 200, [&] { w.engine.run("nothing", nothing); });
  const auto [one_by_one, together, fused] = fusion(w, blocks);
  if (w.rank != 0) return;
  bench.say(fmt::format(
      "laconic bench allreduce   {} ranks, {} | {}, laconic {} | alpha {:.2f} us, beta {:.4f} ns/B, gamma {:.4f} ns/B "
      "(fitted)",
      w.size, network, machine(), version(), link.alpha * 1e6, link.beta * 1e9, link.gamma * 1e9));
  ResultTable table(bench.markdown);
  for (const Measured& m : rows) table.add(figures(m, w.size));
  bench.show(table);
  bench.say(
      fmt::format("\nhand-off to the communication thread and back: {} us\n"
                  "{} tensors of 4 KiB: one by one {}, together in flight {}, fused {}: fused is {:.1f} times as fast "
                  "as one by one",
                  with_interval(asked, "{:.1f}", 1e6), kTensors, one_by_one.text(), together.text(), fused.text(),
                  one_by_one.time.value / fused.time.value));
  bench.finish({{"machine", machine()},
                {"network", network},
                {"ranks", w.size},
                {"alpha_seconds", link.alpha},
                {"beta_seconds_per_byte", link.beta},
                {"gamma_seconds_per_byte", link.gamma},
                {"hand_off_seconds", to_json(asked)},
                {"fusion",
                 {{"tensors", kTensors},
                  {"bytes_each", 4 * kTensorElements},
                  {"one_by_one_seconds", to_json(one_by_one.time)},
                  {"together_seconds", to_json(together.time)},
                  {"fused_seconds", to_json(fused.time)}}},
                {"rows", table.objects()}});
  std::fflush(stdout);
}

}  // namespace

LinkModel fit_link(const std::vector<Timed>& measured) {
  using Costs = std::array<double, 3>;
  // Every measurement is divided by its seconds, so that errors are relative. Columns are scaled too: bytes in millions
  // and messages in ones meet on the same footing.
  std::vector<Costs> rows;
  Costs scale{}, x{};
  for (const auto& [cost, seconds] : measured) {
    const Costs& row =
        rows.emplace_back(Costs{cost.messages / seconds, cost.bytes / seconds, cost.bytes_added / seconds});
    for (std::size_t i = 0; i < 3; ++i) scale[i] = std::max(scale[i], row[i]);
  }
  for (Costs& row : rows)
    for (std::size_t i = 0; i < 3; ++i) row[i] /= scale[i] > 0 ? scale[i] : 1;
  // Least squares with none below 0, one of the three at a time (coordinate descent); some hundred rounds are enough.
  for (int round = 0; round < 10'000; ++round)
    for (std::size_t i = 0; i < 3; ++i) {
      double own = 0, rest = 0;  // of the normal equation: own x[i] = rest
      for (const Costs& row : rows) {
        own += row[i] * row[i];
        rest += row[i] * (1 + row[i] * x[i] - row[0] * x[0] - row[1] * x[1] - row[2] * x[2]);
      }
      if (own > 0) x[i] = std::max(0.0, rest / own);
    }
  for (std::size_t i = 0; i < 3; ++i) x[i] /= scale[i] > 0 ? scale[i] : 1;
  return {x[0], x[1], x[2]};
}

int bench_allreduce(const std::vector<std::string>& arguments) {
  std::vector<std::string> sizes{"4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"}, algorithms;
  std::string link_text;
  int workers = 0, blocks = 15;
  double block_seconds = 0.05;
  Bench bench("allreduce",
              "Time of an allreduce by size and algorithm, ours and MPI's in turns, beside what the cost model "
              "predicts.\nFor MPI's: laconic launch -n 4 [--mca btl tcp,self] laconic bench allreduce ...");
  bench.option("--sizes", sizes, "S", "of the messages [4KiB,16KiB,...,64MiB]");
  bench.option("--algorithms", algorithms, "A",
               "ring, butterfly, doubling, hierarchical:G, ring-tree:G, tree:G; under laconic launch also mpi "
               "(MPI_Allreduce as Open MPI chooses), mpi:A (its algorithm A), mpi:nonblocking (MPI_Iallreduce) [all "
               "but MPI's slow ones]");
  bench.option("--workers", workers, "N", "threads of this process instead of MPI", CLI::Range(2, 1024));
  bench.option("--link", link_text, "RATE,LATENCY", "of these threads' emulated network [none]");
  bench.option("--blocks", blocks, "K", "turns per algorithm and size [15]", CLI::Range(1, 10000));
  bench.option("--block-seconds", block_seconds, "S", "length of a turn [0.05]", number_from_to(1e-3, 1e4));
  if (const auto done = bench.parse(arguments)) return *done;
  const bool mpi = dist::ranks_under_mpirun() > 0;
  if (algorithms.empty()) {
    algorithms = {"ring", "butterfly", "doubling", "hierarchical:2"};
    if (mpi)
      for (const char* name : {"mpi", "mpi:recursive_doubling", "mpi:ring", "mpi:rabenseifner", "mpi:nonblocking"})
        algorithms.emplace_back(name);
  }
  std::vector<Contestant> contestants;
  for (const std::string& name : algorithms) {
    contestants.push_back(contestant(name));
    require<UsageError>(mpi || !contestants.back().is_mpi(), "'", name,
                        "' needs MPI (--algorithms): start this by laconic launch -n 4 laconic bench allreduce");
  }
  std::vector<std::size_t> bytes;
  for (const std::string& size : sizes) bytes.push_back(bytes_named(size));
  ::setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);  // else MPI's algorithms cannot be chosen
  std::optional<dist::LinkOptions> link;
  if (!link_text.empty()) link = dist::LinkOptions{.all = dist::LinkSpec::parse(link_text, "--link")};
  dist::run_workers({.workers = workers, .link = link}, [&](Worker& w) {
    bench_on(w, bench, contestants, bytes, blocks, block_seconds, network(link));
  });
  return 0;
}

}  // namespace laconic
