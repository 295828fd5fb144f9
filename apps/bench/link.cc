#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/bench/bench.h"
#include "apps/machine.h"
#include "apps/subcommand.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/parse.h"
#include "dist/collective/barrier.h"
#include "dist/collective/reduce.h"
#include "dist/world.h"

namespace laconic {
namespace {

struct LinkBenchOptions {
  std::vector<std::string> links;
  std::vector<std::string> sizes;
  int workers = 4;
  double seconds = 3;
  bool json = false, markdown = false;
};

struct LinkResult {
  std::string link, size;
  bool busy = false;
  double model_seconds = 0;
  std::vector<double> seconds{};  ///< of each ring, sorted
  double late_share = 0;

  double quantile(double q) const {
    const double at = q * static_cast<double>(seconds.size() - 1);
    const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, seconds.size() - 1);
    return seconds[low] + (at - static_cast<double>(low)) * (seconds[high] - seconds[low]);
  }
  /// How far a ring was from the model's time, in %: the median over rings, or the 90th percentile of its size.
  double error(double q) const {
    std::vector<double> errors;
    for (double s : seconds) errors.push_back(100 * (s / model_seconds - 1));
    if (q == 0.5) return 100 * (quantile(0.5) / model_seconds - 1);
    std::sort(errors.begin(), errors.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    return errors[static_cast<std::size_t>(std::ceil(q * static_cast<double>(errors.size()))) - 1];
  }
};

std::size_t bytes_from(const std::string& text) {
  const std::size_t bytes = size_from(text);
  require<UsageError>(bytes >= 1 && bytes <= 10'000'000'000, "'", text,
                      "' is not a size (laconic bench link, --size): give bytes, as 64KiB or 4MiB");
  return bytes;
}

/// Threads that compute without a pause, at the priority that compute threads have while a link is emulated.
class BusyCores {
 public:
  explicit BusyCores(int count) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
        double x = 1;
        while (!stop_.load(std::memory_order_relaxed))
          for (int k = 0; k < 10'000; ++k) x = x * 0.999999 + 1e-6;
        sink_ = x;
      });
  }
  ~BusyCores() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::atomic<double> sink_{0};
  std::vector<std::thread> threads_;
};

/// Blocks that go round a ring, 2(N-1) steps as in an allreduce, nothing added: what is measured is the link.
dist::Task<> rings(dist::Communicator& comm, std::size_t bytes, int rounds, std::vector<double>* seconds) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  const std::size_t block = bytes / static_cast<std::size_t>(N);
  std::vector<std::byte> memory(2 * block);
  const Slice<std::byte> out(memory.data(), block), in(memory.data() + block, block);
  for (int round = 0; round < rounds; ++round) {
    co_await dist::barrier(comm);
    const auto begin = Clock::now();
    for (int step = 0; step < 2 * (N - 1); ++step) co_await dist::exchange(comm, right, out, left, in);
    if (seconds != nullptr) seconds->push_back(seconds_since(begin));
  }
}

LinkResult measure(const LinkBenchOptions& o, const std::string& link, const std::string& size, bool busy) {
  LinkResult result{.link = link, .size = size, .busy = busy};
  const dist::LinkSpec spec = dist::LinkSpec::parse(link, "--link");
  const std::size_t bytes = bytes_from(size);
  const double N = o.workers;
  result.model_seconds = 2 * (N - 1) *
                         (8.0 * static_cast<double>(bytes / static_cast<std::size_t>(o.workers)) /
                              static_cast<double>(spec.bits_per_second) +
                          1e-9 * static_cast<double>(spec.latency.count()));
  const int rounds = std::clamp(static_cast<int>(o.seconds / result.model_seconds), 3, 500);
  const BusyCores load(busy ? std::max(o.workers, static_cast<int>(std::thread::hardware_concurrency())) : 0);
  const dist::WorldReport report =
      dist::run_workers({.workers = o.workers, .link = dist::LinkOptions{.all = spec}}, [&](dist::Worker& w) {
        w.engine.run("rings", [&](dist::Communicator& comm) {
          return rings(comm, bytes, rounds, comm.rank() == 0 ? &result.seconds : nullptr);
        });
      });
  std::sort(result.seconds.begin(), result.seconds.end());
  result.late_share = report.link.late_share();
  return result;
}

std::string row(const LinkResult& r, bool markdown) {
  return fmt::format(fmt::runtime(markdown ? "| {} | {} | {} | {:.2f} | {:.2f} | {:+.2f} | {:+.2f} | {:.1f} | {} |"
                                           : "{:>14} {:>8} {:>5} {:>11.2f} {:>11.2f} {:>9.2f} {:>9.2f} {:>9.1f} {:>6}"),
                     r.link, r.size, r.busy ? "busy" : "idle", 1e3 * r.model_seconds, 1e3 * r.quantile(0.5),
                     r.error(0.5), r.error(0.9), 100 * r.late_share, r.seconds.size());
}

nlohmann::json to_json(const LinkResult& r) {
  return {{"link", r.link},
          {"size", r.size},
          {"busy", r.busy},
          {"model_ms", 1e3 * r.model_seconds},
          {"ms", 1e3 * r.quantile(0.5)},
          {"error_percent", r.error(0.5)},
          {"error_p90_percent", r.error(0.9)},
          {"late_percent", 100 * r.late_share},
          {"rings", r.seconds.size()}};
}

}  // namespace

int bench_link(const std::vector<std::string>& arguments) {
  LinkBenchOptions o;
  CLI::App app("How well the emulated link keeps its times: blocks round a ring of workers, cores idle and all busy.",
               "laconic bench link");
  app.add_option("--link", o.links, "RATE,LATENCY; may be given again [1gbit,50us and 100mbit,1ms]")->type_name("LINK");
  app.add_option("--size", o.sizes, "bytes round the ring, with commas between [64KiB,4MiB,64MiB]")
      ->delimiter(',')
      ->type_name("S,..");
  app.add_option("--workers", o.workers, "workers [4]")->check(CLI::Range(2, 64));
  app.add_option("--seconds", o.seconds, "for each line; 3 rings at least [3]")->check(CLI::PositiveNumber);
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  if (o.links.empty()) o.links = {"1gbit,50us", "100mbit,1ms"};
  if (o.sizes.empty()) o.sizes = {"64KiB", "4MiB", "64MiB"};
  for (const auto& link : o.links) dist::LinkSpec::parse(link, "--link");
  for (const auto& size : o.sizes) bytes_from(size);
  if (!o.json)
    fmt::print("ring of {} workers, blocks of 1/{} each, nothing added | {}\n", o.workers, o.workers, machine());
  if (o.markdown)
    fmt::print(
        "\n| link | bytes | cores | model, ms | measured, ms | error, % | 90 % of rings within, % | late > 2 ms, % | "
        "rings |\n|---|---|---|---|---|---|---|---|---|\n");
  else if (!o.json)
    fmt::print("{:>14} {:>8} {:>5} {:>11} {:>11} {:>9} {:>9} {:>9} {:>6}\n", "link", "bytes", "cores", "model ms",
               "median ms", "error %", "p90 %", "late %", "rings");
  nlohmann::json all = nlohmann::json::array();
  for (const auto& link : o.links)
    for (const auto& size : o.sizes)
      for (bool busy : {false, true}) {
        const LinkResult r = measure(o, link, size, busy);
        all.push_back(to_json(r));
        if (!o.json) fmt::print("{}\n", row(r, o.markdown));
        std::fflush(stdout);
      }
  if (o.json) fmt::print("{}\n", nlohmann::json{{"results", all}}.dump());
  return 0;
}

}  // namespace laconic
