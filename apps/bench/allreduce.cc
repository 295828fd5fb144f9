// laconic bench allreduce: our algorithms and MPI's, in turns, over the network that the ranks have.
//     laconic launch -n 4 laconic bench allreduce
#include "dist/collective/allreduce.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.h"
#include "apps/bench/cost_fit.h"
#include "apps/machine.h"
#include "apps/options.h"
#include "apps/statistics.h"
#include "apps/subcommand.h"
#include "apps/text.h"
#include "core/clock.h"
#include "dist/collective/allgather.h"
#include "dist/collective/barrier.h"
#include "dist/collective/native_allreduce.h"
#include "dist/collective/reduce.h"
#include "dist/plan.h"
#include "dist/world.h"

namespace laconic {
namespace {

using dist::Communicator;
using dist::Cost;
using dist::Task;
using dist::Worker;

struct AllreduceBenchOptions {
  std::vector<std::string> sizes{"4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB"};
  std::vector<std::string> algorithms{};
  std::optional<int> workers;
  int blocks = 15;
  double block_seconds = 0.05;
  bool json = false, markdown = false;
};

struct Contestant {
  std::string name;
  std::function<Task<>(Communicator&, Slice<float>)> run{};
  std::function<Cost(int N, double bytes)> cost{};  ///< none of MPI's
  std::string native{};                             ///< what prepare_native takes, if it is MPI's
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
  const auto native = [&](const std::string& which) { return Contestant{name, native_allreduce, {}, which}; };
  if (name == "mpi") return native("blocking");
  if (name == "mpi:nonblocking") return native("");
  if (name.rfind("mpi:", 0) == 0) return native("blocking:" + name.substr(4));
  throw UsageError(concat("unknown algorithm '", name, "' (--algorithms): there are ", ours,
                          "and under laconic launch mpi, mpi:nonblocking, mpi:ring, mpi:recursive_doubling, "
                          "mpi:rabenseifner and MPI's other ones"));
}

std::size_t bytes_named(const std::string& text) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  const std::string unit = text.substr(used);
  const double factor = unit == "KiB"   ? 1024
                        : unit == "MiB" ? 1048576
                        : unit == "GiB" ? 1073741824
                        : unit == "B"   ? 1
                                        : 0;
  const double bytes = number * factor;
  require<UsageError>(bytes >= 4 && bytes <= 1e10 && std::fmod(bytes, 4) == 0, "'", text,
                      "' is not a size of whole floats (--sizes): write 4KiB, 1MiB or 400B");
  return static_cast<std::size_t>(bytes);
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
/// in the calling thread would take. Returns the median of their times on the slowest rank; appends this rank's times.
double run_block(Worker& w, const Contestant& c, Slice<float> x, int times, std::vector<double>& samples) {
  std::vector<double> seconds;
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await dist::barrier(comm);
    auto last = Clock::now();
    for (int i = 0; i < times; ++i) {
      co_await c.run(comm, x);
      const auto now = Clock::now();
      seconds.push_back(std::chrono::duration<double>(now - last).count());
      last = now;
    }
  };
  w.engine.wait(w.engine.submit({.name = c.name, .slot = c.slot, .priority = 0, .body = body}));
  samples.insert(samples.end(), seconds.begin(), seconds.end());
  return slowest(w, percentile(seconds, 0.5));
}

struct AllreduceRow {
  std::size_t bytes = 0;
  const Contestant* contestant = nullptr;
  std::vector<double> blocks{}, samples{};
  Median seconds{};
  Median ratio{};  ///< time of MPI's best here / ours, block by block; 0 without MPI
  double model_seconds = 0;

  double bus_rate(int N) const { return 2.0 * (N - 1) / N * static_cast<double>(bytes) / seconds.value; }
};

/// All contestants at one size, in turns: every block begins with another one.
std::vector<AllreduceRow> measure(Worker& w, const std::vector<Contestant>& contestants, std::size_t bytes,
                                  Slice<float> x, const AllreduceBenchOptions& o) {
  std::vector<AllreduceRow> rows;
  std::vector<int> times;
  for (const Contestant& c : contestants) {
    std::vector<double> warm;
    if (run_block(w, c, x, 2, warm) < o.block_seconds / 5) run_block(w, c, x, 10, warm);
    const double each = slowest(w, percentile(warm, 0));  // a machine with other work to do stretches some, never all
    times.push_back(std::clamp(static_cast<int>(o.block_seconds / each), 1, 10'000));  // `each` is the same everywhere
    rows.push_back({.bytes = bytes, .contestant = &c});
  }
  for (int block = 0; block < o.blocks; ++block)
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const std::size_t i = (k + static_cast<std::size_t>(block)) % rows.size();
      rows[i].blocks.push_back(run_block(w, *rows[i].contestant, x, times[i], rows[i].samples));
    }
  const AllreduceRow* best = nullptr;
  for (AllreduceRow& r : rows) {
    r.seconds = median(r.blocks);
    if (r.contestant->is_mpi() && (best == nullptr || r.seconds.value < best->seconds.value)) best = &r;
  }
  for (AllreduceRow& r : rows) {
    if (best == nullptr) continue;
    std::vector<double> ratios;
    for (std::size_t b = 0; b < r.blocks.size(); ++b) ratios.push_back(best->blocks[b] / r.blocks[b]);
    r.ratio = median(ratios);
  }
  return rows;
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

/// What it costs to ask the communication thread for nothing and wait.
Median hand_off(Worker& w, int blocks) {
  const auto nothing = [](Communicator&) -> Task<> { co_return; };
  return time_calls(w, blocks, 200, [&] { w.engine.run("nothing", nothing); });
}

constexpr int kTensors = 50;
constexpr std::size_t kTensorElements = 1024;

struct Fusion {
  Median one_by_one, together, fused;
  std::string one_by_one_by, together_by, fused_by;  ///< the best algorithm of each
};

/// 50 tensors of 4 KiB: one after the other, all in flight at once, and as one message.
Fusion fusion(Worker& w, int blocks) {
  const int slots = w.engine.reserve_slots(kTensors);
  std::vector<float> memory(kTensors * kTensorElements, 0.0f);
  Fusion best;
  const auto keep = [](Median m, const std::string& name, Median& least, std::string& by) {
    if (by.empty() || m.value < least.value) least = m, by = name;
  };
  for (const char* name : {"doubling", "butterfly", "ring"}) {
    const Contestant c = contestant(name);
    const auto submit = [&](int i, Slice<float> x) {
      return w.engine.submit({.name = name, .slot = slots + i, .priority = 0, .body = [&c, x](Communicator& comm) {
                                return c.run(comm, x);
                              }});
    };
    const auto tensor = [&](int i) {
      return slice(memory).sub(static_cast<std::size_t>(i) * kTensorElements, kTensorElements);
    };
    keep(time_calls(w, blocks, 3,
                    [&] {
                      for (int i = 0; i < kTensors; ++i) w.engine.wait(submit(i, tensor(i)));
                    }),
         name, best.one_by_one, best.one_by_one_by);
    keep(time_calls(w, blocks, 3,
                    [&] {
                      std::vector<dist::Ticket> tickets;
                      for (int i = 0; i < kTensors; ++i) tickets.push_back(submit(i, tensor(i)));
                      for (const auto& t : tickets) w.engine.wait(t);
                    }),
         name, best.together, best.together_by);
    keep(time_calls(w, blocks, 30, [&] { w.engine.wait(submit(0, slice(memory))); }), name, best.fused, best.fused_by);
  }
  return best;
}

std::string network() {
  if (dist::ranks_under_mpirun() == 0) return "threads of one process";
  const char* btl = std::getenv("OMPI_MCA_btl");
  return btl == nullptr ? "MPI, btl as it chooses" : concat("MPI, btl ", btl);
}

struct Report {
  int ranks = 0;
  LinkModel link;
  std::vector<AllreduceRow> rows;
  Median hand_off;
  Fusion fusion;
};

std::string spread(const Median& m, double unit, const char* format) {
  const auto one = [&](double v) { return fmt::format(fmt::runtime(format), v * unit); };
  return fmt::format("{} ({} … {})", one(m.value), one(m.low), one(m.high));
}

void print_text(const Report& r, bool markdown) {
  fmt::print(
      "laconic bench allreduce   {} ranks, {} | {}, laconic {} | alpha {:.2f} us, beta {:.4f} ns/B, gamma {:.4f} ns/B "
      "(fitted)\n\n",
      r.ranks, network(), machine(), version(), r.link.alpha * 1e6, r.link.beta * 1e9, r.link.gamma * 1e9);
  if (markdown)
    fmt::print(
        "| bytes | algorithm | p50 us | p99 us | median us of blocks (95 %) | model us | GB/s (2(N-1)/N bytes / "
        "median) | MPI's best time / this (95 %) | samples |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
  else
    fmt::print("{:>8}  {:<22} {:>10} {:>10}  {:<34} {:>10} {:>7}  {:<22} {:>7}\n", "bytes", "algorithm", "p50 us",
               "p99 us", "median us of blocks (95 %)", "model us", "GB/s", "MPI's best / this", "samples");
  for (const AllreduceRow& row : r.rows) {
    const std::string model = row.contestant->is_mpi() ? "-" : fmt::format("{:.1f}", row.model_seconds * 1e6);
    const std::string ratio = row.ratio.value == 0 ? "-" : spread(row.ratio, 1, "{:.2f}");
    const auto line = markdown ? "| {} | {} | {:.1f} | {:.1f} | {} | {} | {:.3f} | {} | {} |\n"
                               : "{:>8}  {:<22} {:>10.1f} {:>10.1f}  {:<34} {:>10} {:>7.3f}  {:<22} {:>7}\n";
    fmt::print(fmt::runtime(line), size_name(row.bytes), row.contestant->name, percentile(row.samples, 0.5) * 1e6,
               percentile(row.samples, 0.99) * 1e6, spread(row.seconds, 1e6, "{:.1f}"), model,
               row.bus_rate(r.ranks) * 1e-9, ratio, row.samples.size());
  }
  const Fusion& f = r.fusion;
  fmt::print(
      "\nhand-off to the communication thread and back: {} us\n"
      "{} tensors of 4 KiB: one by one {} us ({}), together in flight {} us ({}), fused {} us ({}): fused is {:.1f} "
      "times as fast as one by one\n",
      spread(r.hand_off, 1e6, "{:.1f}"), kTensors, spread(f.one_by_one, 1e6, "{:.0f}"), f.one_by_one_by,
      spread(f.together, 1e6, "{:.0f}"), f.together_by, spread(f.fused, 1e6, "{:.0f}"), f.fused_by,
      f.one_by_one.value / f.fused.value);
}

void print_json(const Report& r) {
  const auto of = [](const Median& m) { return nlohmann::json{{"median", m.value}, {"low", m.low}, {"high", m.high}}; };
  nlohmann::json j{{"machine", machine()},
                   {"network", network()},
                   {"ranks", r.ranks},
                   {"alpha_seconds", r.link.alpha},
                   {"beta_seconds_per_byte", r.link.beta},
                   {"gamma_seconds_per_byte", r.link.gamma},
                   {"hand_off_seconds", of(r.hand_off)},
                   {"fusion",
                    {{"tensors", kTensors},
                     {"bytes_each", 4 * kTensorElements},
                     {"one_by_one_seconds", of(r.fusion.one_by_one)},
                     {"together_seconds", of(r.fusion.together)},
                     {"fused_seconds", of(r.fusion.fused)}}}};
  for (const AllreduceRow& row : r.rows) {
    nlohmann::json one{{"bytes", row.bytes},
                       {"algorithm", row.contestant->name},
                       {"p50_seconds", percentile(row.samples, 0.5)},
                       {"p99_seconds", percentile(row.samples, 0.99)},
                       {"seconds", of(row.seconds)},
                       {"bus_bytes_per_second", row.bus_rate(r.ranks)},
                       {"samples", row.samples.size()}};
    if (!row.contestant->is_mpi()) one["model_seconds"] = row.model_seconds;
    if (row.ratio.value != 0) one["mpi_best_over_this"] = of(row.ratio);
    j["rows"].push_back(one);
  }
  fmt::print("{}\n", j.dump());
}

void bench_on(Worker& w, const AllreduceBenchOptions& o, std::vector<Contestant> contestants,
              const std::vector<std::size_t>& sizes) {
  require<UsageError>(w.size > 1,
                      "one rank has nobody to talk to (laconic bench allreduce): start it by laconic launch "
                      "-n 4 laconic bench allreduce, or give --workers 4");
  for (Contestant& c : contestants) {
    c.slot = w.engine.reserve_slots(1);
    if (!c.is_mpi()) continue;
    w.engine.run("prepare", [&](Communicator& comm) { return dist::prepare_native(comm, c.slot, 1, c.native); });
  }
  // Zeros stay zeros, however often they are added.
  std::vector<float> memory(*std::max_element(sizes.begin(), sizes.end()) / sizeof(float), 0.0f);
  Report report;
  report.ranks = w.size;
  for (const std::size_t bytes : sizes) {
    const auto rows = measure(w, contestants, bytes, slice(memory).first(bytes / sizeof(float)), o);
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  std::vector<Timed> timed;
  for (const AllreduceRow& r : report.rows)
    if (!r.contestant->is_mpi())
      timed.push_back({r.contestant->cost(w.size, static_cast<double>(r.bytes)), r.seconds.value});
  report.link = fit_link(timed);
  for (AllreduceRow& r : report.rows)
    if (!r.contestant->is_mpi())
      r.model_seconds = report.link.seconds(r.contestant->cost(w.size, static_cast<double>(r.bytes)));
  report.hand_off = hand_off(w, o.blocks);
  report.fusion = fusion(w, o.blocks);
  if (w.rank != 0) return;
  o.json ? print_json(report) : print_text(report, o.markdown);
  std::fflush(stdout);
}

}  // namespace

int bench_allreduce(const std::vector<std::string>& arguments) {
  AllreduceBenchOptions o;
  CLI::App app(
      "Time of an allreduce by size and algorithm, ours and MPI's in turns, beside what the cost model predicts.\n"
      "For MPI's: laconic launch -n 4 [--mca btl tcp,self] laconic bench allreduce ...",
      "laconic bench allreduce");
  app.add_option("--sizes", o.sizes, "of the messages [4KiB,16KiB,...,64MiB]")->delimiter(',')->type_name("S,..");
  app.add_option("--algorithms", o.algorithms,
                 "ring, butterfly, doubling, hierarchical:G, ring-tree:G, tree:G; under laconic launch also mpi "
                 "(MPI_Allreduce as Open MPI chooses), mpi:A (its algorithm A), mpi:nonblocking (MPI_Iallreduce) [all "
                 "but MPI's slow ones]")
      ->delimiter(',')
      ->type_name("A,..");
  app.add_option("--workers", o.workers, "threads of this process instead of MPI")->check(CLI::Range(2, 1024));
  app.add_option("--blocks", o.blocks, "turns per algorithm and size [15]")->check(CLI::Range(1, 10000));
  app.add_option("--block-seconds", o.block_seconds, "length of a turn [0.05]")->check(CLI::PositiveNumber);
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  const bool mpi = dist::ranks_under_mpirun() > 0;
  if (o.algorithms.empty()) {
    o.algorithms = {"ring", "butterfly", "doubling", "hierarchical:2"};
    if (mpi)
      for (const char* name : {"mpi", "mpi:recursive_doubling", "mpi:ring", "mpi:rabenseifner", "mpi:nonblocking"})
        o.algorithms.push_back(name);
  }
  std::vector<Contestant> contestants;
  for (const std::string& name : o.algorithms) {
    contestants.push_back(contestant(name));
    require<UsageError>(mpi || !contestants.back().is_mpi(), "'", name,
                        "' needs MPI (--algorithms): start this by laconic launch -n 4 laconic bench allreduce");
  }
  std::vector<std::size_t> sizes;
  for (const std::string& size : o.sizes) sizes.push_back(bytes_named(size));
  ::setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);  // else MPI's algorithms cannot be chosen
  dist::run_workers({.workers = o.workers.value_or(0)}, [&](Worker& w) { bench_on(w, o, contestants, sizes); });
  return 0;
}

}  // namespace laconic
