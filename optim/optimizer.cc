#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/catalogue.h"
#include "core/host_copy.h"

namespace laconic {
namespace {

/// A frozen v has at least this share of the parameter's largest.
constexpr float kLeastShare = 1e-4f;

}  // namespace

Optimizer::Optimizer(const ParameterArena& arena, const OptimizerOptions& options)
    : arena_(arena),
      name_(options.name),
      decay_(options.decay),
      updates_(Tensor::zeros({static_cast<std::int64_t>(arena.parameters().size())}, DType::i64)),
      rows_updated_(arena.parameters().size()) {}

void Optimizer::require_mine(const Parameter& parameter) const {
  const int index = parameter.info.index;
  require<Error>(index >= 0 && index < static_cast<int>(arena_.parameters().size()) &&
                     arena_.parameters()[static_cast<std::size_t>(index)].get() == &parameter,
                 "optimizer: parameter ", parameter.info.name,
                 " is not in the arena that this optimizer was made for.");
}

/// The number of the update that these rows belong to.
std::int64_t Optimizer::begin_update(const Parameter& parameter, std::int64_t rows) {
  const auto i = static_cast<std::size_t>(parameter.info.index);
  const std::int64_t all = parameter.all_rows().count;
  std::int64_t& count = updates_.data<std::int64_t>()[i];
  if (rows_updated_[i] == 0) ++count;
  rows_updated_[i] += rows;
  require<Error>(rows_updated_[i] <= all, "optimizer: ", rows, " more rows of ", parameter.info.name, " after ",
                 rows_updated_[i] - rows, " of ", all, " in the same update. Each row has to come once.");
  if (rows_updated_[i] == all) rows_updated_[i] = 0;
  return count;
}

Optimizer::Part Optimizer::part_of(const Parameter& parameter, Rows rows) const {
  const auto [first, count] = parameter.info.part(rows);
  const std::int64_t offset = parameter.info.offset + first;
  return {decay_.of(parameter.info), offset, arena_.values().range(offset, count),
          arena_.gradients().range(offset, count)};
}

void Optimizer::update(Parameter& parameter, Rows rows, double lr, double gradient_scale) {
  require_mine(parameter);
  const std::int64_t t = begin_update(parameter, rows.count);
  apply(part_of(parameter, rows), lr, gradient_scale, t);
  parameter.value().bump_version();
}

void Optimizer::update(std::vector<std::pair<Parameter*, Rows>> parts, double lr, double gradient_scale) {
  for (const auto& [p, rows] : parts) require_mine(*p);
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->info.index, a.second.first) < std::pair(b.first->info.index, b.second.first);
  });
  struct Run {
    double weight_decay = 0;
    std::int64_t begin = 0, end = 0, update = 0;
  } run;
  const auto apply_run = [&] {
    const std::int64_t elements = run.end - run.begin;
    if (elements == 0) return;
    apply({run.weight_decay, run.begin, arena_.values().range(run.begin, elements),
           arena_.gradients().range(run.begin, elements)},
          lr, gradient_scale, run.update);
  };
  for (const auto& [p, rows] : parts) {
    const Part part = part_of(*p, rows);
    const std::int64_t t = begin_update(*p, rows.count), end = part.offset + part.value.elements();
    if (run.end == part.offset && run.update == t && run.weight_decay == part.weight_decay) {
      run.end = end;
    } else {
      apply_run();
      run = {part.weight_decay, part.offset, end, t};
    }
  }
  apply_run();
  for (const auto& [p, rows] : parts) p->value().bump_version();
}

void Optimizer::form_moment(Parameter& parameter, Rows rows) {
  require_mine(parameter);
  form(part_of(parameter, rows));
}

void Optimizer::take_moment(Parameter& parameter, Rows rows, double lr, std::int64_t updates_of_v) {
  require_mine(parameter);
  const std::int64_t t = begin_update(parameter, rows.count);
  take(part_of(parameter, rows), lr, t, updates_of_v);
  parameter.value().bump_version();
}

void Optimizer::freeze_second_moment() {
  const Tensor v = second_moment();
  require<Error>(v.defined(), name_, " has no second moment that could be frozen.");
  for (const auto& p : arena_.parameters())
    change_on_host(v.range(p->info.offset, p->info.elements), [&](float* first) {
      float* const last = first + p->info.elements;
      float largest = 0;
      std::for_each(first, last, [&](float x) { largest = std::isfinite(x) ? std::max(largest, x) : largest; });
      std::for_each(first, last, [&](float& x) {
        x = x == 0 ? std::numeric_limits<float>::infinity() : std::max(x, kLeastShare * largest);
      });
    });
}

void Optimizer::thaw_second_moment(std::int64_t missed) {
  const Tensor v = second_moment();
  require<Error>(v.defined(), name_, " has no second moment that could be thawed.");
  const Tensor m = first_moment();
  for (const auto& p : arena_.parameters()) {
    const auto part = [&](const Tensor& t) { return t.range(p->info.offset, p->info.elements); };
    change_on_host(part(v), [&](float* of_v) {
      change_on_host(part(m), [&](float* of_m) {
        for (std::int64_t i = 0; i < p->info.elements; ++i)
          if (std::isinf(of_v[i])) of_m[i] = of_v[i] = 0;
      });
    });
  }
  missed_ = missed;
}

void Optimizer::form(const Part&) { throw Error(concat(name_, " has no moments that could travel.")); }

void Optimizer::take(const Part&, double, std::int64_t, std::int64_t) {
  throw Error(concat(name_, " has no moments that could travel."));
}

void Optimizer::update_all(double lr, double gradient_scale) {
  std::vector<std::pair<Parameter*, Rows>> all;
  for (const auto& p : arena_.parameters()) all.emplace_back(p.get(), p->all_rows());
  update(std::move(all), lr, gradient_scale);
}

void Optimizer::save(StateDict& state) const {
  for (std::size_t i = 0; i < rows_updated_.size(); ++i)
    require<Error>(rows_updated_[i] == 0, "optimizer: ", arena_.parameters()[i]->info.name,
                   " is in the middle of an update by rows and cannot be saved. Flush first.");
  state.set("updates", updates_);
  for (const auto& [name, tensor] : arenas()) state.set(name, tensor);
}

void Optimizer::load(const StateDict& state) {
  std::vector<StateDict::Entry> mine = arenas();
  mine.insert(mine.begin(), {"updates", updates_});
  std::vector<ExpectedTensor> expected;
  for (const auto& [entry, tensor] : mine) expected.push_back({entry, tensor.shape(), tensor.dtype()});
  require_match(expected, state, "checkpoint", name_);
  for (const auto& [entry, tensor] : mine) tensor.copy_from(state.at(entry));
}

// Each in its own file.
std::unique_ptr<Optimizer> make_sgd(const ParameterArena& arena, const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_adam(const ParameterArena& arena, const OptimizerOptions& options);

std::vector<OptimizerKind>& optimizers() {
  static std::vector<OptimizerKind> all{
      {.name = "sgd", .has_momentum = true, .arenas = 1, .make = make_sgd},
      {.name = "adam", .has_betas = true, .arenas = 2, .lr = 0.001, .make = make_adam},
      {.name = "adamw", .has_betas = true, .arenas = 2, .lr = 0.001, .make = make_adam}};
  return all;
}

const OptimizerKind& optimizer_kind(const std::string& name) {
  return row_named(optimizers(), name, "optimizer", "`optimizer`");
}

int OptimizerOptions::arenas() const {
  const OptimizerKind& kind = optimizer_kind(name);
  return kind.has_momentum && momentum == 0 ? 0 : kind.arenas;
}

std::unique_ptr<Optimizer> make_optimizer(const ParameterArena& arena, const OptimizerOptions& o) {
  const OptimizerKind& kind = optimizer_kind(o.name);
  require<UsageError>(kind.has_momentum || (o.momentum == 0 && o.dampening == 0 && !o.nesterov), "`optimizer` ", o.name,
                      " has no momentum, dampening or nesterov. Leave these options out, or take sgd.");
  require<UsageError>(o.decay.weight_decay >= 0 && std::isfinite(o.decay.weight_decay), o.name, ": weight decay is ",
                      o.decay.weight_decay, ", it must be 0 or more. Correct `weight-decay`.");
  require<UsageError>(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, o.name, ": its betas are ", o.beta1,
                      " and ", o.beta2, ", they must be at least 0 and below 1. Correct `betas`.");
  return kind.make(arena, o);
}

}  // namespace laconic
