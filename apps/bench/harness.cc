#include "apps/bench/harness.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/bench/cuda/device_clock.h"
#include "apps/training/device_options.h"
#include "core/base/atomic_file.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/processor.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace laconic {
namespace {

constexpr Subcommand kBenchmarks[] = {
    {"step", "training steps per second, alone or paired with PyTorch", bench_step},
    {"step-child", nullptr, bench_step_child},
    {"layers", "time of each layer in a training step", bench_layers},
    {"ops", "operations on tensors, and what recording them costs", bench_ops},
    {"allreduce", "our allreduces and MPI's in turns, over threads or MPI", bench_allreduce},
    {"select", "choosing what to send, and packing it, in passes over the tensor", bench_select},
    {"codec", "speed of codecs on one core, beside memcpy and general compressors", bench_codec},
};

double timed(const Contender& c) {
  if (c.before) c.before();
  if (c.by_own_clock) return c.by_own_clock();
  const auto begin = Clock::now();
  c.run();
  return seconds_since(begin);
}

}  // namespace

int bench(const std::vector<std::string>& arguments) { return run_subcommand("laconic bench", kBenchmarks, arguments); }

void Bench::add_against(const std::string& module, const std::string& help) {
  option("--against", against_, module, help + ": LACONIC_PYTHON, python3 or /usr/bin/python3",
         CLI::IsMember({module}));
}

void Bench::add_device(const std::string& help) { option("--device", device_name, "DEVICE", help); }

std::optional<int> Bench::parse(const std::vector<std::string>& arguments) {
  app.add_flag("--json", json, "one object, on the last line");
  app.add_flag("--markdown", markdown, "tables for docs");
  if (const auto done = parse_tool(app, arguments)) return done;
  device = device_named(checked_device(device_name, "--device"));
  return std::nullopt;
}

std::string Bench::computed_by(int threads, const std::string& precision) const {
  if (!on_gpu()) return plural(threads, "thread");
  return device_name + (precision.empty() ? "" : ", " + precision);
}

std::string Bench::python(const std::string& also) const {
  if (against_.empty()) return "";
  std::vector<std::string> candidates{"python3", "/usr/bin/python3"}, wanted{against_};
  if (const char* own = std::getenv("LACONIC_PYTHON")) candidates = {own};
  if (!also.empty()) wanted.insert(wanted.begin(), against_ + ", " + also);
  for (const auto& modules : wanted)
    for (const auto& python : candidates)
      if (succeeds({python, "-c", "import " + modules})) return python;
  throw DataError(concat("bench: no Python that can import ", against_, " was found (--against ", against_,
                         "): install it, or name one in LACONIC_PYTHON"));
}

void Bench::say(const std::string& line) const {
  if (!json) fmt::print("{}\n", line);
}

void Bench::show(ResultTable& table) const {
  if (!json) fmt::print("{}", table.text());
  std::fflush(stdout);
}

int Bench::finish(const Json& object) const {
  if (json) fmt::print("{}\n", object.dump());
  return 0;
}

void run_in_turns(std::vector<Contender>& all, int rounds, double least_seconds, const std::function<void()>& begin) {
  constexpr double kShort = 0.02;
  std::vector<double> once;
  for (Contender& c : all) once.push_back(timed(c));
  if (begin) begin();
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::size_t i = (k + static_cast<std::size_t>(round)) % all.size();
      Contender& c = all[i];
      if (round >= c.most_rounds) continue;
      if (least_seconds > 0 && once[i] < kShort) timed(c);
      double sum = 0;
      int runs = 0;
      for (; runs == 0 || sum < least_seconds; ++runs) sum += timed(c);
      c.seconds.push_back(sum / runs);
    }
}

std::function<double()> in_blocks(std::function<double(int runs)> time, double turn_seconds, int most_runs) {
  return [time = std::move(time), turn_seconds, most_runs, runs = 0]() mutable {
    if (runs > 0) return time(runs);
    time(1);  // warms up
    double each = 0;
    for (int round = 0; round < 2; ++round) {
      each = time(std::max(1, runs));
      runs = static_cast<int>(std::clamp(turn_seconds / each, 1.0, static_cast<double>(most_runs)));
    }
    return each;
  };
}

Median ratio(const Contender& a, const Contender& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.seconds.size(), b.seconds.size()); ++i)
    ratios.push_back(a.seconds[i] / b.seconds[i]);
  return median(ratios);
}

void beside_a_copy(std::vector<Contender>& all, const Tensor& values) {
  constexpr double kTurnSeconds = 2e-3;
  constexpr int kMostRuns = 100;
  const Tensor to = Tensor::like(values);
  all.insert(all.begin(), {.name = "copy", .run = [from = values, to] { to.copy_from(from); }});
  for (Contender& c : all)
    if (c.run)
      c.by_own_clock = in_blocks(
          [run = std::exchange(c.run, nullptr), before = std::exchange(c.before, nullptr),
           device = values.device()](int runs) {
            double seconds = 0;
            // Where nothing is to be done before, the next run is asked for while the last one goes on.
            const int together = before ? 1 : runs;
            for (int i = 0; i < runs; i += together) {
              if (before) before();
              seconds += device_seconds(device, [&] {
                for (int k = 0; k < together; ++k) run();
              });
            }
            return seconds / runs;
          },
          kTurnSeconds, kMostRuns);
}

std::optional<double> share_of_bandwidth(const Contender& c, const Contender& copy, double bytes, double copied_bytes) {
  constexpr double kBeyondCaches = 2.0 * (1 << 24) * sizeof(float);
  if (bytes <= 0 || copied_bytes < kBeyondCaches) return std::nullopt;
  return bytes / copied_bytes / ratio(c, copy).value;
}

Peer::Peer(const std::vector<std::string>& command, const ChildProcess::Environment& environment)
    : process_(command, environment) {
  const auto ready = json_from(process_.receive(), "the peer's answer");
  require<DataError>(!ready.contains("error"), "bench: ", ready.value("error", ""), ".");
}

nlohmann::json Peer::ask(const std::string& command) { return json_from(process_.ask(command), "the peer's answer"); }

ChildProcess::Environment thread_environment(int threads) {
  ChildProcess::Environment e{{"OMP_NUM_THREADS", std::to_string(threads)}};
  if (threads > 1) e.insert(e.end(), {{"OMP_PROC_BIND", "close"}, {"OMP_PLACES", "cores"}});
  return e;
}

ChildProcess::Environment torch_environment(int threads) {
  auto e = thread_environment(threads);
  // torch.compile would take kernels from its cache that are for other instructions, or half written, and they fail.
  static const ScratchFolder compiled("bench");
  e.insert(e.end(), {{"MALLOC_MMAP_THRESHOLD_", "1073741824"},
                     {"MALLOC_TRIM_THRESHOLD_", "8589934592"},
                     {"TORCHINDUCTOR_CACHE_DIR", compiled.path()}});
  if (cpu::kAvx2AtMost)
    e.insert(e.end(),
             {{"ATEN_CPU_CAPABILITY", "avx2"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}, {"MKL_ENABLE_INSTRUCTIONS", "AVX2"}});
  const std::string openblas = "/usr/lib/x86_64-linux-gnu/openblas-openmp";
  std::error_code ignored;
  if (std::filesystem::exists(openblas, ignored)) {
    const char* own = std::getenv("LD_LIBRARY_PATH");  // a GPU's libraries may lie there
    e.emplace_back("LD_LIBRARY_PATH", own && *own ? openblas + ":" + own : openblas);
  }
  return e;
}

}  // namespace laconic
