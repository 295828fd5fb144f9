#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/catalogue.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/host_copy.h"
#include "core/raw.h"

namespace laconic {

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
  return part_at(parameter.info.offset + first, count, decay_.of(parameter.info));
}

Optimizer::Part Optimizer::part_at(std::int64_t offset, std::int64_t count, double weight_decay) const {
  return {weight_decay, offset, arena_.values().range(offset, count), arena_.gradients().range(offset, count)};
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
    if (run.end > run.begin)
      apply(part_at(run.begin, run.end - run.begin, run.weight_decay), lr, gradient_scale, run.update);
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
      constexpr float kLeastShare = 1e-4f;  // the share of the parameter's largest that a frozen v has at least
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

namespace {

/// Stochastic gradient descent.
///   d = g + weight_decay w
///   momentum = 0:  w -= lr d
///   else           v = momentum v + (1 - dampening) d   (the first time v = d);   w -= lr v
///   nesterov       w -= lr (d + momentum v)
/// source: Sutskever et al. 2013, with PyTorch's meaning of lr, dampening and the first step. Cost: one pass.
class Sgd final : public Optimizer {
 public:
  Sgd(const ParameterArena& arena, const OptimizerOptions& o) : Optimizer(arena, o), o_(o) {
    require<UsageError>(o.momentum >= 0 && o.momentum < 1, "sgd: momentum is ", o.momentum,
                        ", it must be from 0 up to but not 1. Correct `momentum`.");
    require<UsageError>(std::isfinite(o.dampening), "sgd: dampening is ", o.dampening, ", it must be finite.");
    require<UsageError>(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "sgd: nesterov with momentum ", o.momentum,
                        " and dampening ", o.dampening, ". It needs momentum above 0 and no dampening.");
    if (o.momentum > 0) momentum_ = arena.make_state();
  }
  Tensor momentum() const override { return momentum_; }

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override {
    raw::sgd(part.value, part.gradient, momentum_.defined() ? part.of(momentum_) : Tensor(),
             {.lr = static_cast<float>(lr),
              .gradient_scale = static_cast<float>(gradient_scale),
              .weight_decay = static_cast<float>(part.weight_decay),
              .momentum = static_cast<float>(o_.momentum),
              .dampening = static_cast<float>(o_.dampening),
              .nesterov = o_.nesterov,
              // else 0 in the buffer does the same, and what a strategy put there stays
              .first = t == 1 && o_.dampening != 0});
  }
  std::vector<StateDict::Entry> arenas() const override {
    if (!momentum_.defined()) return {};
    return {{"momentum", momentum_}};
  }

  const OptimizerOptions o_;
  Tensor momentum_;
};

/// Adam, and AdamW, whose decay is decoupled.
///   Adam    d = g + weight_decay w            AdamW   d = g,  w = w (1 - lr weight_decay) first
///   m = beta1 m + (1 - beta1) d     v = beta2 v + (1 - beta2) d^2
///   w -= lr / (1 - beta1^t)  m / (sqrt(v / (1 - beta2^t)) + eps)
/// source: Kingma & Ba 2015, Algorithm 1; Loshchilov & Hutter 2019, Algorithm 2. Cost: one pass.
class Adam final : public Optimizer {
 public:
  Adam(const ParameterArena& arena, const OptimizerOptions& o)
      : Optimizer(arena, o),
        decoupled_(o.name == "adamw"),
        beta1_(o.beta1),
        beta2_(o.beta2),
        first_(arena.make_state()),
        second_(arena.make_state()) {}

  bool has_moments() const override { return true; }

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override {
    AdamStep step = step_at(part, lr, t, t - missed());
    step.gradient_scale = static_cast<float>(gradient_scale);
    step.weight_decay = decoupled_ ? 0.0f : static_cast<float>(part.weight_decay);
    step.beta1 = static_cast<float>(beta1_), step.beta2 = static_cast<float>(beta2_);
    step.rest1 = static_cast<float>(1 - beta1_), step.rest2 = static_cast<float>(1 - beta2_);
    raw::adam(part.value, part.gradient, part.of(first_), part.of(second_), step);
  }
  /// g = beta1 m + (1 - beta1) d
  void form(const Part& part) override {
    if (!decoupled_ && part.weight_decay > 0)
      raw::axpy(part.gradient, static_cast<float>(part.weight_decay), part.value);
    raw::scale(part.gradient, static_cast<float>(1 - beta1_));
    raw::axpy(part.gradient, static_cast<float>(beta1_), part.of(first_));
  }
  /// m = g, and the step by it.
  void take(const Part& part, double lr, std::int64_t t, std::int64_t updates_of_v) override {
    raw::adam(part.value, part.gradient, part.of(first_), part.of(second_), step_at(part, lr, t, updates_of_v));
  }
  /// Adam's update where beta1 is 0 and beta2 is 1, with the bias corrections of update t.
  AdamStep step_at(const Part& part, double lr, std::int64_t t, std::int64_t updates_of_v) const {
    constexpr float kEps = 1e-8f;
    return {.gradient_scale = 1,
            .weight_decay = 0,
            .beta1 = 0,
            .beta2 = 1,
            .rest1 = 1,
            .rest2 = 0,
            .eps = kEps,
            .step_size = static_cast<float>(lr / (1 - std::pow(beta1_, static_cast<double>(t)))),
            .root_correction = static_cast<float>(std::sqrt(1 - std::pow(beta2_, static_cast<double>(updates_of_v)))),
            .keep = decoupled_ ? static_cast<float>(1 - lr * part.weight_decay) : 1.0f};
  }
  Tensor first_moment() const override { return first_; }
  Tensor second_moment() const override { return second_; }
  std::vector<StateDict::Entry> arenas() const override {
    return {{"first_moment", first_}, {"second_moment", second_}};
  }

  const bool decoupled_;
  const double beta1_, beta2_;
  Tensor first_, second_;
};

template <class Method>
std::unique_ptr<Optimizer> make(const ParameterArena& arena, const OptimizerOptions& options) {
  return std::make_unique<Method>(arena, options);
}

}  // namespace

std::vector<OptimizerKind>& optimizers() {
  static std::vector<OptimizerKind> all{
      {.name = "sgd", .has_momentum = true, .arenas = 1, .make = make<Sgd>},
      {.name = "adam", .has_betas = true, .arenas = 2, .lr = 0.001, .make = make<Adam>},
      {.name = "adamw", .has_betas = true, .arenas = 2, .lr = 0.001, .make = make<Adam>}};
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

Clip Clip::parse(const std::string& text, const std::string& where) {
  if (text == "none") return {};
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const float limit = colon == std::string::npos ? 0 : number_from<float>(text.substr(colon + 1)).value_or(0);
  if ((kind != "norm" && kind != "value") || limit <= 0)
    refuse("'" + text + "' is not a clipping rule", where, "give norm:X or value:X with X above 0, as norm:5, or none");
  return {kind == "norm" ? Kind::norm : Kind::value, limit};
}

double gradient_sum_of_squares(const ParameterArena& arena) {
  std::vector<Tensor> gradients;
  for (const auto& p : arena.parameters()) gradients.push_back(p->grad());
  return raw::sum_of_squares(gradients);
}

double clip_scale(double sum_of_squares, double limit) {
  const double norm = std::sqrt(sum_of_squares);
  const double scale = limit / (norm + 1e-6);
  return scale >= 1 ? 1 : scale;
}

void clip_value(const Tensor& gradient, double limit) { raw::clamp(gradient, static_cast<float>(limit)); }

}  // namespace laconic
