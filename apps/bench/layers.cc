#include "apps/bench/layers.h"

#include <map>
#include <span>

#include "apps/bench/harness.h"
#include "apps/common/machine.h"
#include "apps/launch/child_process.h"
#include "apps/training/device_options.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/ops/losses.h"
#include "dist/plan/plan.h"
#include "dist/trainer/layer_stopwatch.h"
#include "layers/models/gpt.h"
#include "layers/summary.h"
#include "optim/optimizer.h"

namespace laconic {
namespace {

std::shared_ptr<Module> on(Device device, std::shared_ptr<Module> model) {
  model->initialize(0);
  model->to(device);
  return model;
}

Cells figures(const dist::LayerTimes::Layer& l, bool is_sum) {
  double update = 0, ready = 0;
  std::int64_t elements = 0;
  int chunks = 0;
  for (const auto& p : l.parameters) {
    update += p.update_ms, elements += p.elements;
    ready = std::max(ready, p.ready_ms), chunks = std::max(chunks, p.chunks);
  }
  Cells row{
      {"layer", "", l.name}, {"forward ms", "", l.forward_ms, "{:.3f}"}, {"backward ms", "", l.backward_ms, "{:.3f}"}};
  if (elements == 0) return row;
  if (!is_sum) row.emplace_back("of it ready ms", "", ready, "{:.3f}");
  row.emplace_back("update ms", "", update, "{:.3f}");
  row.emplace_back("parameters", "", elements);
  if (!is_sum) row.emplace_back("chunks", "", chunks);
  return row;
}

/// As the model's kind is usually trained.
OptimizerOptions optimizer_of(const ModelInfo& info) {
  if (models::gpt_recipe(info.name)) return {.name = "adamw"};
  return {.momentum = info.reads_text() ? 0 : 0.9};
}

}  // namespace

SyntheticTraining::SyntheticTraining(const ModelInfo& info, std::int64_t batch, Device device)
    : model(on(device, make_model(info.name, {.classes = info.classes}))),
      arena(model->parameters(), device),
      optimizer(make_optimizer(arena, optimizer_of(info))) {
  Random random(0, Purpose::test);
  const auto below_classes = [&](const Shape& shape) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(shape.elements()));
    for (auto& v : values) v = random.below(static_cast<std::uint32_t>(info.classes));
    return Tensor::of(shape, std::span<const std::int64_t>(values), device);
  };
  if (info.reads_text()) {
    x = below_classes({info.input[0], batch});
    y = below_classes({x.elements()});
    return;
  }
  std::vector<float> pixels(static_cast<std::size_t>(batch * info.input.elements()));
  for (float& p : pixels) p = random.normal();
  x = Tensor::of({batch, info.input[0], info.input[1], info.input[2]}, pixels, device);
  y = below_classes({batch});
}

void add_layers(ResultTable& table, const dist::LayerTimes& times) {
  dist::LayerTimes::Layer sum{"sum", 0, 0, {}};
  for (const auto& l : times.layers) {
    table.add(figures(l, false));
    sum.forward_ms += l.forward_ms, sum.backward_ms += l.backward_ms;
    sum.parameters.insert(sum.parameters.end(), l.parameters.begin(), l.parameters.end());
  }
  table.add(figures(sum, true));
}

dist::LayerTimes measure_layers(const std::string& model_name, std::int64_t batch, int threads, int steps,
                                const std::string& plan_json, int classes, Device device, double threads_per_core) {
  ModelInfo info = model_info(model_name);
  if (classes > 0) info.classes = classes;
  set_kernel_threads(threads);
  SyntheticTraining t(info, batch, device);
  if (!plan_json.empty()) {
    const auto plan = dist::Plan::from_json(plan_json, t.arena.parameters(), "--plan");
    for (const auto& p : t.arena.parameters()) p->set_chunk_rows(plan.chunk_rows(p->info.index));
  }

  LayerStopwatch watch(*t.model, t.arena, threads_per_core);
  std::vector<dist::LayerTimes> measured;
  constexpr int kWarmUp = 3;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    watch.begin_step();
    t.arena.begin_step();
    const Tensor loss = ops::cross_entropy((*t.model)(t.x), t.y);
    loss.item();
    watch.end_forward();
    t.arena.backward(loss);
    t.arena.finish_gradients();
    watch.end_backward();
    for (const auto& p : t.arena.parameters()) {
      t.optimizer->update(*p, 1e-3);
      watch.updated(*p);
    }
    if (step >= kWarmUp) measured.push_back(watch.times());
  }
  return dist::medians(measured);
}

GhostModel::GhostModel(const std::string& name, int classes)
    : model(make_model(name, {.classes = classes})), arena(model->parameters(), kGhost) {}

dist::LayerTimes layer_times_at(double flop_per_second, const std::string& name, int classes, std::int64_t batch) {
  const GhostModel ghost(name, classes);
  const auto ms = [&](double flop) { return 1e3 * flop / flop_per_second; };
  dist::LayerTimes times;
  std::map<std::string, std::size_t> place;
  for (const LayerSummary& layer : summarize(*ghost.model, ghost_batch(model_info(name).input, batch).x)) {
    place[layer.name] = times.layers.size();
    times.layers.push_back({layer.name, ms(layer.flop), ms(2 * layer.flop), {}});
  }
  for (const auto& p : ghost.arena.parameters()) {
    const auto found = place.find(p->info.name.substr(0, p->info.name.rfind('.')));
    require<Error>(found != place.end(), "simulate: parameter ", p->info.name, " belongs to no layer of ", name, ".");
    dist::LayerTimes::Layer& layer = times.layers[found->second];
    layer.parameters.push_back(
        {p->info.name, p->info.elements, layer.backward_ms, ms(4 * static_cast<double>(p->info.elements)), 1});
  }
  for (const dist::LayerTimes::Layer& layer : times.layers) times.step_ms += layer.forward_ms + layer.backward_ms;
  return times;
}

int bench_layers(const std::vector<std::string>& arguments) {
  std::string model = "alexnet-32", plan, precision = "fp32";
  int batch = 32, threads = 1, steps = 15, classes = 0;
  Bench bench("layers", "Time of each layer in a training step, and when its gradients are ready.");
  bench.option("--model", model, "M", "a model of the zoo [alexnet-32]");
  bench.option("--classes", classes, "K", "outputs; of a language model words in the vocabulary [the model's own]",
               CLI::Range(1, 1 << 24));
  bench.option("--batch", batch, "B", "samples, of a language model streams [32]", CLI::Range(1, 1 << 20));
  bench.option("--threads", threads, "T", "kernel threads [1]", CLI::Range(1, 1024));
  bench.add_device("cpu or cuda[:I] [cpu]");
  bench.option("--precision", precision, "P", "of products on a GPU: fp32, tf32, bf16 [fp32]");
  bench.option("--steps", steps, "S", "measured steps, after 3 more [15]", CLI::Range(1, 100000));
  bench.option("--plan", plan, "FILE",
               "large weights in the chunks of this plan: what --dry-run --json of an app prints");
  if (const auto done = bench.parse(arguments)) return *done;
  set_matmul_precision(checked_precision(precision, bench.device_name, "--precision"));
  std::string plan_json;
  if (!plan.empty()) {
    plan_json = last_line_of(plan);
    require<DataError>(!plan_json.empty(), plan, " could not be read or is empty (--plan): check the path");
  }
  const dist::LayerTimes times = measure_layers(model, batch, threads, steps, plan_json, classes, bench.device);
  bench.say(fmt::format("{}\n{}, batch {}, {}: {:.3f} ms a step (medians of {} steps)", machine(bench.device), model,
                        batch, bench.computed_by(threads, precision), times.step_ms, steps));
  ResultTable table(bench.markdown);
  add_layers(table, times);
  bench.show(table);
  Bench::Json result;
  if (bench.json) {
    result = {{"model", model}, {"batch", batch}, {"threads", threads}};
    result.update(ordered_json_from(to_json(times), "a measurement"));
  }
  return bench.finish(std::move(result));
}

}  // namespace laconic
