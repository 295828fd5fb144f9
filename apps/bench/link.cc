#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "apps/bench/harness.h"
#include "apps/common/machine.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/base/processor.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/world.h"

namespace laconic {
namespace {

std::size_t bytes_from(const std::string& text) {
  const std::size_t bytes = size_from(text);
  require<UsageError>(bytes >= 1 && bytes <= 10'000'000'000, "'", text,
                      "' is not a size (laconic bench link, --size): give bytes, as 64KiB or 4MiB");
  return bytes;
}

/// Threads that compute without a pause, at the priority that compute threads have while a link is emulated. They stop
/// when they go.
std::vector<std::jthread> busy_cores(int count) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([](const std::stop_token& stop) {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
      volatile double x = 1;
      while (!stop.stop_requested()) x = x * 0.999999 + 1e-6;
    });
  return threads;
}

/// Blocks that go round a ring, 2(N-1) steps as in an allreduce, nothing added: what is measured is the link.
dist::Task<> rings(dist::Communicator& comm, std::size_t block, int rounds, std::vector<double>* seconds) {
  const int N = comm.size(), r = comm.rank(), left = (r + N - 1) % N, right = (r + 1) % N;
  std::vector<std::byte> memory(2 * block);
  const Slice<std::byte> out(memory.data(), block), in(memory.data() + block, block);
  for (int round = 0; round < rounds; ++round) {
    co_await dist::barrier(comm);
    const auto begin = Clock::now();
    for (int step = 0; step < 2 * (N - 1); ++step) co_await dist::exchange(comm, right, out, left, in);
    if (seconds != nullptr) seconds->push_back(seconds_since(begin));
  }
}

/// `seconds` : about how long the rings go round, 3 at least
Cells measure(const std::string& link, const std::string& size, bool busy, int workers, double seconds) {
  const dist::LinkSpec spec = dist::LinkSpec::parse(link, "--link");
  const std::size_t block = bytes_from(size) / static_cast<std::size_t>(workers);
  require<UsageError>(block > 0, size, " are less than a byte for each of ", workers, " ranks (--size): give more");
  const double model = 2.0 * (workers - 1) *
                       (8.0 * static_cast<double>(block) / static_cast<double>(spec.bits_per_second) +
                        1e-9 * static_cast<double>(spec.latency.count()));
  const int rounds = std::clamp(static_cast<int>(seconds / model), 3, 500);
  const auto load = busy_cores(busy ? std::max(workers, cpu::available_cores()) : 0);
  std::vector<double> times, errors;  // of each ring; errors in % of the model's time
  const dist::WorldReport report =
      dist::run_workers({.workers = workers, .link = dist::LinkOptions{.all = spec}}, [&](dist::Worker& w) {
        w.engine.run("rings", [&](dist::Communicator& comm) {
          return rings(comm, block, rounds, comm.rank() == 0 ? &times : nullptr);
        });
      });
  const auto error = [model](double time) { return 100 * (time / model - 1); };
  for (const double time : times) errors.push_back(error(time));
  std::sort(errors.begin(), errors.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  const double middle = median(times).value;
  return {{"link", "link", link},
          {"bytes", "size", size},
          {"cores", "busy", busy, busy ? "busy" : "idle"},
          {"model, ms", "model_ms", 1e3 * model, "{:.2f}"},
          {"measured, ms", "ms", 1e3 * middle, "{:.2f}"},
          {"error, %", "error_percent", error(middle), "{:+.2f}"},
          {"90 % of rings within, %", "error_p90_percent",
           errors[static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(errors.size()))) - 1], "{:+.2f}"},
          {"late > 2 ms, %", "late_percent", 100 * report.link.late_share(), "{:.1f}"},
          {"rings", "rings", times.size()}};
}

}  // namespace

int bench_link(const std::vector<std::string>& arguments) {
  std::vector<std::string> links{"1gbit,50us", "100mbit,1ms"}, sizes{"64KiB", "4MiB", "64MiB"};
  int workers = 4;
  double seconds = 3;
  Bench bench("link",
              "How well the emulated link keeps its times: blocks round a ring of workers, cores idle and all busy.");
  bench.app.add_option("--link", links, "RATE,LATENCY; may be given again [1gbit,50us and 100mbit,1ms]")
      ->type_name("LINK");
  bench.option("--size", sizes, "S", "bytes round the ring, with commas between [64KiB,4MiB,64MiB]");
  bench.option("--workers", workers, "N", "workers [4]", CLI::Range(2, 64));
  bench.option("--seconds", seconds, "S", "for each line; 3 rings at least [3]", number_from_to(1e-3, 1e4));
  if (const auto done = bench.parse(arguments)) return *done;
  for (const auto& link : links) dist::LinkSpec::parse(link, "--link");
  for (const auto& size : sizes) bytes_from(size);
  bench.say(fmt::format("ring of {} workers, blocks of 1/{} each, nothing added | {}", workers, workers, machine()));
  ResultTable table(bench.markdown);
  for (const auto& link : links)
    for (const auto& size : sizes)
      for (bool busy : {false, true}) {
        table.add(measure(link, size, busy, workers, seconds));
        bench.show(table);
      }
  return bench.finish({{"results", table.objects()}});
}

}  // namespace laconic
