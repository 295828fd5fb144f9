#pragma once
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/raw.h"
#include "dist/method/strategy.h"
#include "dist/plan/plan.h"
#include "tests/unwatched.h"
#include "tests/whole_forward.h"

/// A small training whose gradients are a formula, for strategies that send all of them.
namespace laconic::dist::dense_training {

/// Parameters of all kinds of sizes, registered first to last as a model would.
inline std::vector<std::shared_ptr<Parameter>> some_parameters() {
  std::vector<std::shared_ptr<Parameter>> parameters;
  const std::vector<Shape> shapes = {{3, 5}, {7}, {64, 100}, {1}, {60, 100}, {17}, {10, 33}, {10}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto p = std::make_shared<Parameter>(shapes[i], shapes[i].rank() == 1 ? Role::bias : Role::linear);
    p->info.name = concat("p", i);
    raw::fill(p->value(), static_cast<float>(i) + 1.0f);
    parameters.push_back(std::move(p));
  }
  return parameters;
}

/// What rank `rank` finds in step `step`: any function of place and value that tells ranks and steps apart.
LACONIC_UNWATCHED inline float gradient_at(int rank, int step, std::size_t i, float value) {
  return 0.1f * value +
         std::sin(static_cast<float>(i % 1000) + 10.0f * static_cast<float>(rank)) / static_cast<float>(step);
}
/// Makes n values their gradients; the first of them is value `first` of the arena.
LACONIC_UNWATCHED inline void make_gradients(float* values, std::size_t n, int rank, int step, std::size_t first) {
  for (std::size_t i = 0; i < n; ++i) values[i] = gradient_at(rank, step, first + i, values[i]);
}

LACONIC_UNWATCHED inline void descend(float* values, const float* gradient, std::size_t n, float lr) {
  for (std::size_t i = 0; i < n; ++i) values[i] -= lr * gradient[i];
}
inline void sgd_by(Parameter& p, Rows rows, float lr) {
  // No other rows are touched: they may be under way.
  const Tensor here = p.value().rows(rows.first, rows.count);
  std::vector<float> values = here.to_vector();
  const std::vector<float> gradient = p.grad().rows(rows.first, rows.count).to_vector();
  descend(values.data(), gradient.data(), values.size(), lr);
  here.copy_from(Tensor::of(here.shape(), std::span<const float>(values)));
}
inline void sgd(Parameter& p, Rows rows, const StepContext& context) {
  sgd_by(p, rows, static_cast<float>(context.lr * context.gradient_scale));
}

inline double lr_of(int step) { return 0.1 / step; }

/// Forward asks for every parameter, first to last, large ones by chunks; backward finishes them last to first, in two
/// halves of their rows.
inline void train(Strategy& sync, const ParameterArena& arena, int rank, int from, int to) {
  const auto& parameters = arena.parameters();
  for (int step = from; step <= to; ++step) {
    sync.begin_step({.step = step, .lr = lr_of(step)});
    whole_forward(sync, arena);
    for (const auto& p : parameters) {
      std::vector<float> gradient = p->value().to_vector();
      make_gradients(gradient.data(), gradient.size(), rank, step, static_cast<std::size_t>(p->info.offset));
      p->grad().copy_from(Tensor::of(p->info.shape, std::span<const float>(gradient)));
      const Rows all = p->all_rows();
      if (all.count > 1) sync.gradient_ready(*p, {0, all.count / 2});
      sync.gradient_ready(*p, {all.count > 1 ? all.count / 2 : 0, all.count - (all.count > 1 ? all.count / 2 : 0)});
    }
    sync.end_step();
  }
  sync.flush();
}

/// That training in one thread and double.
inline std::vector<double> oracle(const ParameterArena& arena, int N, int steps, double divisor) {
  std::vector<float> start = arena.values().to_vector();
  std::vector<double> x(start.begin(), start.end());
  for (int step = 1; step <= steps; ++step)
    for (const auto& p : arena.parameters())
      for (auto i = static_cast<std::size_t>(p->info.offset);
           i < static_cast<std::size_t>(p->info.offset + p->info.elements); ++i) {
        double sum = 0;
        for (int r = 0; r < N; ++r) sum += gradient_at(r, step, i, static_cast<float>(x[i]));
        x[i] -= lr_of(step) * sum / divisor;
      }
  return x;
}

/// Every algorithm that runs without MPI.
inline std::vector<std::string> algorithms() {
  std::vector<std::string> all{"hybrid", "hybrid-printed"};
  for (const AllreduceKind& kind : allreduces())
    if (kind.carrier == Carrier::messages) all.push_back(kind.least_group > 0 ? kind.name + ":2" : kind.name);
  return all;
}

inline PlanOptions plan_options(const std::string& allreduce, const std::string& fusion, std::size_t chunk_bytes) {
  PlanOptions options;
  set_allreduce(options, allreduce);
  set_fusion(options, fusion);
  options.chunk_bytes = chunk_bytes;
  return options;
}

}  // namespace laconic::dist::dense_training
