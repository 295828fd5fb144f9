#include "apps/bench/layers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.h"
#include "apps/bench/synthetic_batch.h"
#include "apps/device_options.h"
#include "apps/machine.h"
#include "apps/statistics.h"
#include "apps/subcommand.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "core/parallel.h"
#include "core/stream.h"
#include "dist/plan.h"
#include "layers/models/zoo.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

/// Gives every moment of a step to the layer that is at work, as the hooks of forward, backward and arena tell.
class Stopwatch final : public BackwardWatch, public ParameterListener {
 public:
  explicit Stopwatch(const ParameterArena& arena)
      : device_(arena.values().device()), ready_(arena.parameters().size()), chunks_(ready_.size()) {}

  struct Part {
    std::string name;
    double forward = 0, backward = 0;  // ms
  };
  void begin_step() {
    for (Part& p : parts_) p.forward = p.backward = 0;
    std::fill(chunks_.begin(), chunks_.end(), 0);
    mark_ = Clock::now();
  }
  /// What came after the last layer is the loss.
  void end_forward() { part("loss").forward += lap(); }
  void end_backward() { parts_[current_].backward += lap(); }
  const std::vector<Part>& parts() const { return parts_; }
  double ready(std::size_t parameter) const { return ready_[parameter]; }  // ms into its layer's backward
  int chunks(std::size_t parameter) const { return chunks_[parameter]; }

  const ForwardWatch forward_watch = [this](const std::string& layer, const Tensor&) { part(layer).forward += lap(); };
  void before(const char*, const std::string& layer) override {
    // The tape's own work, and what a block of layers does (a sum of branches), counts for the layer before it.
    parts_[current_].backward += lap();
    const auto found = place_.find(layer.empty() ? "loss" : layer);
    if (found != place_.end()) current_ = found->second;
  }
  void after() override {}
  void gradient_ready(Parameter& p, Rows) override {
    Part& now = parts_[current_];
    now.backward += lap();
    ready_[static_cast<std::size_t>(p.info.index)] = now.backward;
    ++chunks_[static_cast<std::size_t>(p.info.index)];
  }
  void before_forward(Parameter&, Rows) override {}

 private:
  double lap() {
    synchronize(device_);
    const auto now = Clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(mark_, now)).count();
  }
  Part& part(const std::string& name) {
    const auto [it, is_new] = place_.emplace(name, parts_.size());
    if (is_new) parts_.push_back({name});
    current_ = it->second;
    return parts_[it->second];
  }
  const Device device_;
  std::vector<Part> parts_;  // in the order of forward
  std::map<std::string, std::size_t> place_;
  std::vector<double> ready_;  // by place in the arena
  std::vector<int> chunks_;
  std::size_t current_ = 0;
  Clock::time_point mark_;
};

/// "conv1" of "conv1.weight".
std::string layer_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

void print(const LayerTimes& times, bool markdown) {
  std::size_t width = 5;
  for (const auto& l : times.layers) width = std::max(width, l.name.size());
  const auto line = [&](const std::string& name, const std::vector<std::string>& cells) {
    std::string text = markdown ? "| " + name + " |" : fmt::format("{:<{}}", name, width);
    for (const auto& c : cells) text += markdown ? " " + c + " |" : fmt::format(" {:>14}", c);
    fmt::print("{}\n", text);
  };
  line("layer", {"forward ms", "backward ms", "of it ready ms", "update ms", "parameters", "chunks"});
  if (markdown) fmt::print("|---|---|---|---|---|---|---|\n");
  LayerTimes::Layer sum{"sum", 0, 0, {}};
  double updates = 0;
  std::int64_t elements = 0;
  for (const auto& l : times.layers) {
    double update = 0, ready = 0;
    std::int64_t own = 0;
    int chunks = 0;
    for (const auto& p : l.parameters)
      update += p.update_ms, ready = std::max(ready, p.ready_ms), own += p.elements,
                             chunks = std::max(chunks, p.chunks);
    line(l.name, {fmt::format("{:.3f}", l.forward_ms), fmt::format("{:.3f}", l.backward_ms),
                  own ? fmt::format("{:.3f}", ready) : "", own ? fmt::format("{:.3f}", update) : "",
                  own ? fmt::format("{}", own) : "", own ? fmt::format("{}", chunks) : ""});
    sum.forward_ms += l.forward_ms, sum.backward_ms += l.backward_ms;
    updates += update, elements += own;
  }
  line("sum", {fmt::format("{:.3f}", sum.forward_ms), fmt::format("{:.3f}", sum.backward_ms), "",
               fmt::format("{:.3f}", updates), fmt::format("{}", elements), ""});
}

}  // namespace

LayerTimes measure_layers(const std::string& model_name, std::int64_t batch, int threads, int steps,
                          const std::string& plan_json, int classes, Device device) {
  ModelInfo info = model_info(model_name);
  if (classes > 0) info.classes = classes;
  set_kernel_threads(threads);
  const auto model = make_model(info.name, {.classes = info.classes});
  model->initialize(0);
  model->to(device);
  ParameterArena arena(model->parameters(), device);
  if (!plan_json.empty()) {
    const auto plan = dist::Plan::from_json(plan_json, arena.parameters(), "--plan");
    for (const auto& p : arena.parameters()) p->set_chunk_rows(plan.chunk_rows(p->info.index));
  }
  Sgd sgd(arena, {.momentum = info.reads_text() ? 0 : 0.9});
  const auto [x, y] = synthetic_batch(info, batch, device);

  Stopwatch watch(arena);
  model->set_watch(&watch.forward_watch);
  arena.set_listener(&watch);
  set_backward_watch(&watch);
  struct Restore {  // on the way out, whichever it is
    ~Restore() { set_backward_watch(nullptr), model.set_watch(nullptr), arena.set_listener(nullptr); }
    Module& model;
    ParameterArena& arena;
  } restore{*model, arena};

  const std::size_t parameters = arena.parameters().size();
  std::vector<std::vector<double>> forward, backward, ready(parameters), update(parameters);
  std::vector<double> whole;
  constexpr int kWarmUp = 3;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    const auto start = Clock::now();
    watch.begin_step();
    arena.begin_step();
    const Tensor loss = ops::softmax_cross_entropy((*model)(x), y);
    loss.item();
    watch.end_forward();
    arena.backward(loss);
    arena.finish_gradients();
    watch.end_backward();
    std::vector<double> updates;
    for (const auto& p : arena.parameters()) {
      const auto begin = Clock::now();
      sgd.update(*p, 1e-3);
      synchronize(device);
      updates.push_back(1e3 * seconds_since(begin));
    }
    if (step < kWarmUp) continue;
    whole.push_back(1e3 * seconds_since(start));
    const auto& parts = watch.parts();
    forward.resize(parts.size()), backward.resize(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      forward[i].push_back(parts[i].forward);
      backward[i].push_back(parts[i].backward);
    }
    for (std::size_t i = 0; i < parameters; ++i) {
      ready[i].push_back(watch.ready(i));
      update[i].push_back(updates[i]);
    }
  }

  LayerTimes times;
  times.step_ms = median(whole).value;
  for (std::size_t i = 0; i < watch.parts().size(); ++i)
    times.layers.push_back({watch.parts()[i].name, median(forward[i]).value, median(backward[i]).value, {}});
  for (std::size_t i = parameters; i-- > 0;) {  // the arena holds them in backward's order
    const ParameterInfo& p = arena.parameters()[i]->info;
    const auto layer = std::find_if(times.layers.begin(), times.layers.end(),
                                    [name = layer_of(p.name)](const auto& l) { return l.name == name; });
    require<Error>(layer != times.layers.end(), "bench layers: parameter ", p.name, " belongs to no layer of ",
                   model_name, ".");
    layer->parameters.push_back({p.name, p.elements, std::min(median(ready[i]).value, layer->backward_ms),
                                 median(update[i]).value, std::max(1, watch.chunks(i))});
  }
  return times;
}

int bench_layers(const std::vector<std::string>& arguments) {
  std::string model = "alexnet-32", plan, device = "cpu", precision = "fp32";
  int batch = 32, threads = 1, steps = 15, classes = 0;
  bool json = false, markdown = false;
  CLI::App app("Time of each layer in a training step, and when its gradients are ready.", "laconic bench layers");
  app.add_option("--model", model, "a model of the zoo [alexnet-32]")->type_name("M");
  app.add_option("--classes", classes, "outputs; of a language model words in the vocabulary [the model's own]")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("K");
  app.add_option("--batch", batch, "samples, of a language model streams [32]")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("B");
  app.add_option("--threads", threads, "kernel threads [1]")->check(CLI::Range(1, 1024))->type_name("T");
  app.add_option("--device", device, "cpu or cuda[:I] [cpu]")->type_name("DEVICE");
  app.add_option("--precision", precision, "of products on a GPU: fp32, tf32, bf16 [fp32]")->type_name("P");
  app.add_option("--steps", steps, "measured steps, after 3 more [15]")->check(CLI::Range(1, 100000))->type_name("S");
  app.add_option("--plan", plan, "large weights in the chunks of this plan: what --dry-run --json of an app prints")
      ->type_name("FILE");
  app.add_flag("--json", json, "one object, on the last line");
  app.add_flag("--markdown", markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  checked_device(device, "--device");
  set_matmul_precision(checked_precision(precision, device, "--precision"));
  std::string plan_json;
  if (!plan.empty()) {
    std::ifstream in(plan);
    for (std::string line; std::getline(in, line);) plan_json = line;  // the last
    require<DataError>(!plan_json.empty(), plan, " could not be read or is empty (--plan): check the path");
  }
  const Device on = device_named(device);
  const LayerTimes times = measure_layers(model, batch, threads, steps, plan_json, classes, on);
  if (json) {
    fmt::print("{}\n", to_json(times));
    return 0;
  }
  fmt::print("{}\n{}, batch {}, {}: {:.3f} ms a step (medians of {} steps)\n\n", machine(on), model, batch,
             on == kCpu ? fmt::format("{} thread{}", threads, threads == 1 ? "" : "s") : device + ", " + precision,
             times.step_ms, steps);
  print(times, markdown);
  return 0;
}

}  // namespace laconic
