#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "apps/bench/harness.h"
#include "apps/bench/layers.h"
#include "apps/common/machine.h"
#include "apps/torch_peer_source.h"
#include "apps/training/device_options.h"
#include "core/base/clock.h"
#include "core/base/parallel.h"
#include "core/ops/losses.h"
#include "core/precision.h"
#include "core/raw.h"
#include "core/stream.h"
#include "dist/trainer/step_watch.h"
#include "layers/models/language_model.h"
#include "layers/models/zoo.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

/// One program under test, ours or the peer's.
struct Program {
  std::string label;  ///< "laconic", or the peer's form: contiguous, channels_last, compiled
  std::unique_ptr<Peer> process;
  double memory_bytes = 0, activation_bytes = 0;  ///< when it ran last; the process's, or the GPU's

  /// Seconds of each of so many steps.
  double run(int steps) {
    const auto answer = process->ask(fmt::format("run {}", steps));
    memory_bytes = answer.at("memory_bytes").get<double>();
    activation_bytes = answer.value("activation_bytes", 0.0);
    return answer.at("seconds").get<double>() / steps;
  }
};

/// What is measured as one: every program with a model, and as it is told.
struct Case {
  const ModelInfo& model;
  int batch, threads;
  std::string precision;
};

std::vector<Program> start(const Case& c, const Bench& bench, const std::string& python, bool compiled) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<Program> all;
  const auto add = [&](const std::string& label, std::vector<std::string> command, bool is_peer) {
    command.insert(command.end(),
                   {c.model.name, std::to_string(c.batch), std::to_string(c.threads), bench.device_name, c.precision});
    if (is_peer) command.push_back(label);
    all.push_back({label, std::make_unique<Peer>(
                              command, is_peer ? torch_environment(c.threads) : thread_environment(c.threads))});
  };
  add("laconic", {self, "bench", "step-child"}, false);
  if (python.empty()) return all;
  add("contiguous", {python, "-c", kTorchPeerSource}, true);
  if (!c.model.reads_text()) add("channels_last", {python, "-c", kTorchPeerSource}, true);
  if (compiled) add("compiled", {python, "-c", kTorchPeerSource}, true);
  return all;
}

/// Measures a case: a row of the table for docs, or a table of its programs. Returns its object.
Bench::Json measure(const Case& c, const Bench& bench, const std::string& python, bool compiled, int blocks,
                    double block_seconds, ResultTable& table) {
  std::vector<Program> programs = start(c, bench, python, compiled);
  std::vector<Contender> all;
  for (Program& p : programs)
    all.push_back(
        {.name = p.label, .by_own_clock = in_blocks([&p](int steps) { return p.run(steps); }, block_seconds, 100'000)});
  run_in_turns(all, blocks, 0);

  const bool images = !c.model.reads_text();
  const double each = c.batch * (images ? 1.0 : static_cast<double>(c.model.input[0]));
  const auto rate = [&](std::size_t i) { return each / all[i].time().value; };
  const char* const memory = bench.on_gpu() ? "device_bytes" : "rss_bytes";
  const std::string unit = images ? "images/s" : "words/s";
  std::vector<std::size_t> order;  // ours, then the peers, the best first
  for (std::size_t i = 0; i < all.size(); ++i) order.push_back(i);
  std::sort(order.begin() + 1, order.end(), [&](auto a, auto b) { return rate(a) > rate(b); });

  ResultTable of_programs(
      false, fmt::format("{}, batch {}, {}", c.model.name, c.batch, bench.computed_by(c.threads, c.precision)));
  for (const std::size_t i : order) {
    Cells row{{"program", i == 0 ? "" : "name", i == 0 ? "laconic" : "PyTorch " + all[i].name},
              {unit, "rate", rate(i), "{:.0f}"},
              {"MB", memory, programs[i].memory_bytes, "{:.0f}", 1e-6}};
    if (i == 0) row.emplace_back("activations, MB", "activation_bytes", programs[i].activation_bytes, "{:.1f}", 1e-6);
    if (i > 0) row.emplace_back("laconic is so many times as fast (95 %)", "ratio", ratio(all[i], all[0]));
    of_programs.add(row);
  }
  Bench::Json object{{"model", c.model.name}, {"batch", c.batch}, {"threads", c.threads}, {"unit", unit}};
  if (bench.on_gpu()) object.update({{"device", bench.device_name}, {"precision", c.precision}});
  object.update(of_programs.objects()[0]);
  for (std::size_t i = 1; i < all.size(); ++i) object["peers"].push_back(of_programs.objects()[i]);

  Cells row{{"model", "", c.model.name},
            {"batch", "", c.batch},
            bench.on_gpu() ? Cell("precision", "", c.precision) : Cell("threads", "", c.threads),
            {"laconic, " + unit, "", rate(0), "{:.0f}"}};
  if (all.size() > 1) {
    const std::size_t best = order[1];
    row.emplace_back(images ? "PyTorch contiguous" : "PyTorch", "", rate(1), "{:.0f}");
    if (images) row.emplace_back("PyTorch channels-last", "", rate(2), "{:.0f}");
    if (compiled) row.emplace_back("PyTorch compiled", "", rate(all.size() - 1), "{:.0f}");
    row.emplace_back(all.size() > 3   ? "ratio to the best (95 %)"
                     : all.size() > 2 ? "ratio to the better (95 %)"
                                      : "ratio (95 %)",
                     "", Bench::Json(), with_interval(ratio(all[best], all[0]), "{:.2f}"));
    row.emplace_back(
        "MB, ours / PyTorch", "", Bench::Json(),
        fmt::format("{:.0f} / {:.0f}", programs[0].memory_bytes * 1e-6, programs[best].memory_bytes * 1e-6));
  }
  table.add(row);
  bench.show(bench.markdown ? table : of_programs);
  return object;
}

}  // namespace

int bench_step(const std::vector<std::string>& arguments) {
  std::vector<std::string> names{"resnet20"}, precisions{"fp32"};
  std::vector<int> batches{32}, threads{1};
  int blocks = 15;
  double block_seconds = 0.4;
  bool compiled = false;
  Bench bench("step",
              "Training throughput: forward, backward and update on one batch, again and again: SGD, for images with "
              "momentum, for LSTMs with clipping; AdamW with clipping for GPTs.");
  bench.option("--model", names, "M", "models of the zoo, with commas between");
  bench.option("--batch", batches, "B", "batch sizes [32]", CLI::Range(1, 1 << 20));
  bench.option("--threads", threads, "T", "kernel threads [1]", CLI::Range(1, 1024));
  bench.add_device("cpu or cuda[:I], for both [cpu]");
  bench.option("--precision", precisions, "P", "of products on a GPU: fp32, tf32, bf16, for both [fp32]");
  bench.add_against("torch", "run it in PyTorch too, in turns with ours");
  bench.app.add_flag("--compile", compiled, "PyTorch's compiled model too, which takes it a minute to make");
  bench.option("--blocks", blocks, "K", "turns per program [15]", CLI::Range(1, 10000));
  bench.option("--block-seconds", block_seconds, "S", "length of a turn [0.4]", number_from_to(1e-3, 1e4));
  if (const auto done = bench.parse(arguments)) return *done;
  for (const auto& precision : precisions) checked_precision(precision, bench.device_name, "--precision");
  for (const auto& name : names) model_info(name);
  ResultTable of_images(bench.markdown), of_texts(bench.markdown);  // only of images PyTorch has another layout
  const std::string python = bench.python("torchvision");
  require<UsageError>(!compiled || !python.empty(),
                      "bench: --compile measures PyTorch's compiled model: give --against torch too");
  bench.say(machine(bench.device));
  auto results = Bench::Json::array();
  for (const auto& name : names)
    for (int batch : batches)
      for (int t : threads)
        for (const std::string& precision : precisions) {
          const Case c{model_info(name), batch, t, precision};
          results.push_back(
              measure(c, bench, python, compiled, blocks, block_seconds, c.model.reads_text() ? of_texts : of_images));
        }
  return bench.finish(results.size() == 1 ? results[0] : Bench::Json{{"results", results}});
}

int bench_step_child(const std::vector<std::string>& arguments) {
  require<UsageError>(arguments.size() == 5, "bench step-child: MODEL BATCH THREADS DEVICE PRECISION");
  const ModelInfo& info = model_info(arguments[0]);
  const std::int64_t batch = std::atoll(arguments[1].c_str());
  set_kernel_threads(std::atoi(arguments[2].c_str()));
  const Device device = device_named(arguments[3]);
  set_matmul_precision(checked_precision(arguments[4], arguments[3], "--precision"));
  SyntheticTraining t(info, batch, device);
  const models::LanguageRecipe* const lstm = models::language_recipe(info.name);
  const double clip_norm = lstm ? lstm->clip_norm : info.reads_text() ? 1 : 0;
  StepMemory memory(device);
  std::cout << "{\"ready\": true}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const int steps = std::atoi(line.substr(line.find(' ') + 1).c_str());
    memory.begin();
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      t.arena.begin_step();
      const Tensor loss = ops::cross_entropy((*t.model)(t.x), t.y);
      t.arena.backward(loss);
      t.arena.finish_gradients();
      double scale = 1;
      if (clip_norm > 0) {
        const double norm = std::sqrt(raw::sum_of_squares(t.arena.gradients()));
        scale = std::min(1.0, clip_norm / (norm + 1e-6));
      }
      t.optimizer->update_all(1e-3, scale);
      if (device == kCpu) loss.item();
    }
    synchronize(device);
    const double seconds = seconds_since(start);
    memory.after_step();
    memory.between_steps();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const std::size_t resident = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
    std::cout << fmt::format("{{\"seconds\": {:.9f}, \"memory_bytes\": {}, \"activation_bytes\": {}}}", seconds,
                             device == kCpu ? resident : memory_stats(device).reserved_bytes, memory.activation_bytes())
              << std::endl;
  }
  return 0;
}

}  // namespace laconic
