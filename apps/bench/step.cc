#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/bench/bench.h"
#include "apps/bench/synthetic_batch.h"
#include "apps/bench/torch.h"
#include "apps/child_process.h"
#include "apps/device_options.h"
#include "apps/machine.h"
#include "apps/statistics.h"
#include "apps/subcommand.h"
#include "apps/torch_peer_source.h"
#include "core/clock.h"
#include "core/ops/cross_entropy.h"
#include "core/parallel.h"
#include "core/precision.h"
#include "core/raw.h"
#include "core/stream.h"
#include "dist/trainer/step_memory.h"
#include "layers/models/language_model.h"
#include "layers/models/zoo.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

constexpr const char *kContiguous = "contiguous", *kChannelsLast = "channels_last";  // how the peer lays out images

struct StepBenchOptions {
  std::vector<std::string> models{"resnet20"}, precisions{"fp32"};
  std::string device = "cpu";
  std::vector<int> batches{32}, threads{1};
  std::string against;
  int blocks = 15;
  double block_seconds = 0.4;
  bool json = false, markdown = false;
};

/// One program under test, ours or the peer's, and what it did block by block.
struct Contestant {
  std::string label;
  std::unique_ptr<ChildProcess> process;
  int steps = 1;                    ///< per block
  std::vector<double> step_seconds{};  ///< by block
  double memory_bytes = 0, activation_bytes = 0;

  void run_block(bool count) {
    const auto answer = nlohmann::json::parse(process->ask(fmt::format("run {}", steps)));
    if (!count) return;
    step_seconds.push_back(answer.at("seconds").get<double>() / steps);
    memory_bytes = answer.at("memory_bytes").get<double>();
    activation_bytes = answer.value("activation_bytes", 0.0);
  }
  /// Finds out how many steps fill a block; the first ones also warm up.
  void calibrate(double block_seconds) {
    run_block(false);
    for (int round = 0; round < 2; ++round) {
      const auto answer = nlohmann::json::parse(process->ask(fmt::format("run {}", steps)));
      const double each = answer.at("seconds").get<double>() / steps;
      steps = std::clamp(static_cast<int>(block_seconds / each), 1, 100000);
    }
  }
};

Contestant start(const std::string& label, const std::vector<std::string>& command,
                 const ChildProcess::Environment& environment) {
  Contestant c{label, std::make_unique<ChildProcess>(command, environment)};
  wait_until_ready(*c.process);
  return c;
}

struct Result {
  const ModelInfo& model;
  int batch = 0, threads = 0;
  std::string device{}, precision{};
  double rate = 0, memory_bytes = 0;  ///< images, or words of a language model, a second; the process's, or the GPU's
  double activation_bytes = 0;     ///< ours, as StepMemory counts them
  const char* unit() const { return model.reads_text() ? "words/s" : "images/s"; }
  struct Peer {
    std::string label;
    double rate, memory_bytes;
    Median ratio;  ///< our rate / the peer's, by blocks side by side
  };
  std::vector<Peer> peers;  ///< the best first
  bool on_gpu() const { return device != "cpu"; }
};

Result measure(const StepBenchOptions& o, const ModelInfo& model, int batch, int threads, const std::string& precision,
               const std::string& python) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> arguments{model.name, std::to_string(batch), std::to_string(threads), o.device,
                                           precision};
  const auto with = [&](std::vector<std::string> command, std::vector<std::string> more) {
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  std::vector<Contestant> all;
  all.push_back(start("laconic", with({self, "bench", "step-child"}, {}), thread_environment(threads)));
  const std::vector<std::string> layouts =
      model.reads_text() ? std::vector<std::string>{kContiguous} : std::vector<std::string>{kContiguous, kChannelsLast};
  if (!python.empty())
    for (const std::string& layout : layouts)
      all.push_back(start(layout, with({python, "-c", kTorchPeerSource}, {layout}), torch_environment(threads)));
  for (auto& c : all) c.calibrate(o.block_seconds);
  for (int block = 0; block < o.blocks; ++block)
    for (auto& c : all) c.run_block(true);

  const double each = static_cast<double>(batch) * (model.reads_text() ? static_cast<double>(model.input[0]) : 1.0);
  const auto rate = [&](const Contestant& c) { return each / median(c.step_seconds).value; };
  Result r{.model = model,
           .batch = batch,
           .threads = threads,
           .device = o.device,
           .precision = precision,
           .rate = rate(all[0]),
           .memory_bytes = all[0].memory_bytes,
           .activation_bytes = all[0].activation_bytes,
           .peers = {}};
  for (std::size_t i = 1; i < all.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t b = 0; b < all[0].step_seconds.size(); ++b)
      ratios.push_back(all[i].step_seconds[b] / all[0].step_seconds[b]);
    r.peers.push_back({all[i].label, rate(all[i]), all[i].memory_bytes, median(ratios)});
  }
  std::sort(r.peers.begin(), r.peers.end(), [](const auto& a, const auto& b) { return a.rate > b.rate; });
  return r;
}

/// The head of the table. Only of images PyTorch has another layout.
std::string head(bool against, bool images, bool text, bool on_gpu) {
  const char* unit = !text ? "images/s" : images ? "images or words/s" : "words/s";
  std::string names = fmt::format("| model | batch | {} | laconic, {} |", on_gpu ? "precision" : "threads", unit),
              rule = "|---|---|---|---|";
  if (against && images) names += " PyTorch contiguous | PyTorch channels-last | ratio to the better (95 %) |";
  if (against && !images) names += " PyTorch | ratio (95 %) |";
  if (against) names += " MB, ours / PyTorch |", rule += images ? "---|---|---|---|" : "---|---|---|";
  return names + "\n" + rule;
}

/// images : whether the table has a column for the layout that only they have
std::string row(const Result& r, bool markdown, bool images) {
  const double mb = 1e-6;
  if (markdown) {
    std::string text = fmt::format("| {} | {} | {} | {:.0f} |", r.model.name, r.batch,
                                   r.on_gpu() ? r.precision : std::to_string(r.threads), r.rate);
    if (r.peers.empty()) return text;
    for (const char* layout : {kContiguous, kChannelsLast}) {
      if (layout == std::string(kChannelsLast) && !images) continue;
      const auto peer =
          std::find_if(r.peers.begin(), r.peers.end(), [&](const auto& p) { return p.label == layout; });
      text += peer == r.peers.end() ? std::string(" – |") : fmt::format(" {:.0f} |", peer->rate);
    }
    const Result::Peer& best = r.peers[0];
    return text + fmt::format(" {:.2f} ({:.2f} … {:.2f}) | {:.0f} / {:.0f} |", best.ratio.value, best.ratio.low,
                              best.ratio.high, r.memory_bytes * mb, best.memory_bytes * mb);
  }
  const std::string how =
      r.on_gpu() ? r.device + ", " + r.precision : fmt::format("{} thread{}", r.threads, r.threads == 1 ? "" : "s");
  std::string text = fmt::format("{}, batch {}, {}: {:.0f} {}, {:.0f} MB, {:.1f} MB of it activations", r.model.name,
                                 r.batch, how, r.rate, r.unit(), r.memory_bytes * mb, r.activation_bytes * mb);
  for (const auto& p : r.peers)
    text +=
        fmt::format("\n    PyTorch {:<14} {:>8.0f} {}, {:.0f} MB: we are {:.2f} times as fast (95 %: {:.2f} … {:.2f})",
                    p.label, p.rate, r.unit(), p.memory_bytes * mb, p.ratio.value, p.ratio.low, p.ratio.high);
  return text;
}

nlohmann::json to_json(const Result& r) {
  const char* const memory = r.on_gpu() ? "device_bytes" : "rss_bytes";
  nlohmann::json j = {{"model", r.model.name},
                      {"batch", r.batch},
                      {"threads", r.threads},
                      {"rate", r.rate},
                      {"unit", r.unit()},
                      {memory, r.memory_bytes},
                      {"activation_bytes", r.activation_bytes}};
  if (r.on_gpu()) j.update({{"device", r.device}, {"precision", r.precision}});
  for (const auto& p : r.peers)
    j["peers"].push_back({{"name", "PyTorch " + p.label},
                          {"rate", p.rate},
                          {memory, p.memory_bytes},
                          {"ratio", p.ratio.value},
                          {"ratio_low", p.ratio.low},
                          {"ratio_high", p.ratio.high}});
  return j;
}

}  // namespace

int bench_step(const std::vector<std::string>& arguments) {
  StepBenchOptions o;
  CLI::App app(
      "Training throughput: forward, backward and SGD on one batch, again and again; images with momentum, language\n"
      "models with clipping.",
      "laconic bench step");
  app.add_option("--model", o.models, "models of the zoo, with commas between")->delimiter(',')->type_name("M,..");
  app.add_option("--batch", o.batches, "batch sizes [32]")
      ->delimiter(',')
      ->type_name("B,..")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", o.threads, "kernel threads [1]")
      ->delimiter(',')
      ->type_name("T,..")
      ->check(CLI::Range(1, 1024));
  app.add_option("--device", o.device, "cpu or cuda[:I], for both [cpu]")->type_name("DEVICE");
  app.add_option("--precision", o.precisions, "of products on a GPU: fp32, tf32, bf16, for both [fp32]")
      ->delimiter(',')
      ->type_name("P,..");
  app.add_option("--against", o.against,
                 "run it in PyTorch too, in turns with ours: LACONIC_PYTHON, python3 or /usr/bin/python3")
      ->type_name("torch")
      ->check(CLI::IsMember({"torch"}));
  app.add_option("--blocks", o.blocks, "turns per program [15]")->check(CLI::Range(1, 10000));
  app.add_option("--block-seconds", o.block_seconds, "length of a turn [0.4]")->check(CLI::PositiveNumber);
  app.add_flag("--json", o.json, "one object, on the last line");
  app.add_flag("--markdown", o.markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  checked_device(o.device, "--device");
  for (const auto& precision : o.precisions) checked_precision(precision, o.device, "--precision");
  std::vector<std::reference_wrapper<const ModelInfo>> models;
  for (const auto& model : o.models) models.emplace_back(model_info(model));
  const std::string python = o.against.empty() ? "" : python_with("torch", "torchvision");
  const bool on_gpu = o.device != "cpu";
  if (!o.json) fmt::print("{}\n", machine(device_named(o.device)));
  const auto reads_text = [](const ModelInfo& model) { return model.reads_text(); };
  const bool images = !std::all_of(models.begin(), models.end(), reads_text);
  const bool text = std::any_of(models.begin(), models.end(), reads_text);
  if (o.markdown) fmt::print("\n{}\n", head(!python.empty(), images, text, on_gpu));
  nlohmann::json all = nlohmann::json::array();
  for (const ModelInfo& model : models)
    for (int batch : o.batches)
      for (int threads : o.threads)
        for (const std::string& precision : o.precisions) {
          const Result r = measure(o, model, batch, threads, precision, python);
          all.push_back(to_json(r));
          if (!o.json) fmt::print("{}\n", row(r, o.markdown, images));
          std::fflush(stdout);
        }
  if (o.json) fmt::print("{}\n", all.size() == 1 ? all[0].dump() : nlohmann::json{{"results", all}}.dump());
  return 0;
}

int bench_step_child(const std::vector<std::string>& arguments) {
  require<UsageError>(arguments.size() == 5, "bench step-child: MODEL BATCH THREADS DEVICE PRECISION");
  const ModelInfo& info = model_info(arguments[0]);
  const std::int64_t batch = std::atoll(arguments[1].c_str());
  set_kernel_threads(std::atoi(arguments[2].c_str()));
  const Device device = device_named(arguments[3]);
  set_matmul_precision(checked_precision(arguments[4], arguments[3], "--precision"));
  const auto model = make_model(info.name);
  model->initialize(0);
  model->to(device);
  ParameterArena arena(model->parameters(), device);
  Sgd sgd(arena, {.momentum = info.reads_text() ? 0 : 0.9});
  const models::LanguageRecipe* recipe = models::language_recipe(info.name);
  const auto [x, y] = synthetic_batch(info, batch, device);
  StepMemory memory(device);
  std::cout << "{\"ready\": true}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const int steps = std::atoi(line.substr(line.find(' ') + 1).c_str());
    memory.begin();
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      arena.begin_step();
      const Tensor loss = ops::softmax_cross_entropy((*model)(x), y);
      arena.backward(loss);
      arena.finish_gradients();
      double scale = 1;
      if (recipe) {
        const double norm = std::sqrt(raw::sum_of_squares(arena.gradients()));
        scale = std::min(1.0, recipe->clip_norm / (norm + 1e-6));
      }
      sgd.update_all(1e-3, scale);
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
