#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/parameter.h"
#include "core/state.h"

namespace laconic {

/// Turns gradients into new values, one parameter at a time and in any order, as soon as its gradient has arrived. What
/// is remembered lies in flat tensors laid out like the parameter arena. How many updates a parameter has had is
/// counted for each parameter (as PyTorch does): a first update and Adam's bias correction depend on it. All calls from
/// one thread.
class Optimizer {
 public:
  struct Decay {
    double weight_decay = 0;
    bool norm_and_bias = true;  ///< false: parameters whose role is norm or bias are not decayed
    double of(const ParameterInfo& p) const {
      return norm_and_bias || (p.role != Role::norm && p.role != Role::bias) ? weight_decay : 0.0;
    }
  };

  virtual ~Optimizer() = default;

  /// One update of `parameter` from its gradient times `gradient_scale` (for a mean over ranks, or a clipped norm).
  void update(Parameter& parameter, double lr, double gradient_scale = 1) {
    update(parameter, parameter.grad(), lr, gradient_scale);
  }
  /// The same from a gradient that lies elsewhere. gradient : as many elements as the parameter
  void update(Parameter& parameter, const Tensor& gradient, double lr, double gradient_scale = 1);
  /// These rows' share of one update, from parameter.grad(). The parts of an update come in any order and hold each row
  /// once; they count as one update together, and give the bits of a whole one.
  void update(Parameter& parameter, Rows rows, double lr, double gradient_scale = 1);
  /// Every parameter, in arena order.
  void update_all(double lr, double gradient_scale = 1);

  /// Everything that later updates depend on: always "updates" (int64, one count for each parameter in arena order),
  /// and the arenas of the method. save() shares memory with the optimiser: write it out before the next update.
  void save(StateDict& state) const;
  /// throws DataError: a tensor is missing or does not fit this arena and method
  void load(const StateDict& state);

  virtual const char* name() const = 0;  ///< as in --optimizer
  const ParameterArena& arena() const { return arena_; }

 protected:
  /// Some neighbouring elements of a parameter.
  struct Part {
    const ParameterInfo& info;
    Tensor value, gradient;
    std::int64_t offset;  ///< of the first one in the arena
    Tensor of(const Tensor& state) const { return state.range(offset, value.elements()); }
  };

  explicit Optimizer(const ParameterArena& arena);
  /// t : the number of this update of the parameter, first 1
  virtual void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) = 0;
  /// What the method remembers, under its names; sharing memory.
  virtual std::vector<StateDict::Entry> arenas() const = 0;

 private:
  void require_mine(const Parameter& parameter) const;
  std::int64_t begin_update(const Parameter& parameter, std::int64_t rows);

  const ParameterArena& arena_;
  Tensor updates_;
  std::vector<std::int64_t> rows_updated_;  // of the update that a parameter is in; 0 between updates
};

/// Stochastic gradient descent.
///   d = g + weight_decay w
///   momentum = 0:  w -= lr d
///   else           v = momentum v + (1 - dampening) d   (the first time v = d);   w -= lr v
///   nesterov       w -= lr (d + momentum v)
/// source: Sutskever et al. 2013, with PyTorch's meaning of lr, dampening and the first step. Cost: one pass.
class Sgd final : public Optimizer {
 public:
  struct Options {
    double momentum = 0, dampening = 0;
    bool nesterov = false;
    Decay decay{};
  };
  /// throws UsageError: a number out of range; nesterov without momentum or with dampening
  Sgd(const ParameterArena& arena, const Options& options);
  const char* name() const override { return "sgd"; }
  /// v, laid out like the arena; undefined without momentum. For strategies that correct momentum.
  const Tensor& momentum() const { return momentum_; }

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override;
  std::vector<StateDict::Entry> arenas() const override;
  Options o_;
  Tensor momentum_;
};

/// Adam, and AdamW with decoupled = true.
///   Adam    d = g + weight_decay w            AdamW   d = g,  w = w (1 - lr weight_decay) first
///   m = beta1 m + (1 - beta1) d     v = beta2 v + (1 - beta2) d^2
///   w -= lr / (1 - beta1^t)  m / (sqrt(v / (1 - beta2^t)) + eps)
/// source: Kingma & Ba 2015, Algorithm 1; Loshchilov & Hutter 2019, Algorithm 2. Cost: one pass.
class Adam final : public Optimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    bool decoupled = false;
    Decay decay{};
  };
  /// throws UsageError: a number out of range
  Adam(const ParameterArena& arena, const Options& options);
  const char* name() const override { return o_.decoupled ? "adamw" : "adam"; }

 private:
  void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) override;
  std::vector<StateDict::Entry> arenas() const override;
  Options o_;
  Tensor first_, second_;
};

/// What the command line says of an optimiser.
struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd, adam, adamw
  double momentum = 0;       ///< sgd only, as dampening and nesterov
  double dampening = 0;
  bool nesterov = false;
  Optimizer::Decay decay{};

  int arenas() const { return name == "sgd" ? int{momentum != 0} : 2; }  ///< of state that it keeps
};
/// throws UsageError: no such optimiser (suggests the nearest), a number out of range, an option that it does not have
std::unique_ptr<Optimizer> make_optimizer(const ParameterArena& arena, const OptimizerOptions& options);

}  // namespace laconic
