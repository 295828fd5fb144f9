#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/parameter.h"
#include "core/state.h"

namespace laconic {

struct OptimizerOptions;

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
    update(parameter, parameter.all_rows(), lr, gradient_scale);
  }
  /// These rows' share of one update. The parts of an update come in any order and hold each row once; they count as
  /// one update together, and give the bits of a whole one.
  void update(Parameter& parameter, Rows rows, double lr, double gradient_scale = 1);
  /// These parts at once, with the bits of one update after another. Neighbours that have no padding between them, one
  /// decay and one count of updates become one pass: on a GPU one launch.
  void update(std::vector<std::pair<Parameter*, Rows>> parts, double lr, double gradient_scale = 1);
  /// Every parameter.
  void update_all(double lr, double gradient_scale = 1);

  /// Everything that later updates depend on: always "updates" (int64, one count for each parameter in arena order),
  /// and the arenas of the method. save() shares memory with the optimiser: write it out before the next update.
  void save(StateDict& state) const;
  /// throws DataError: a tensor is missing or does not fit this arena and method
  void load(const StateDict& state);

  /// Its velocity, laid out like the arena, for strategies that correct momentum. Undefined: it has none.
  virtual Tensor momentum() const { return {}; }

  /// Whether it has Adam's two moments, m and v. Then an update can be made in two halves, between which m travels, and
  /// v stays as it is (1-bit Adam).
  virtual bool has_moments() const { return false; }
  /// The gradient of these rows becomes what m would become by it; m itself stays.
  void form_moment(Parameter& parameter, Rows rows);
  /// m becomes what stands in the place of the gradient, and the value follows: this is an update of these rows.
  ///   updates_of_v : how many gradients v has seen, for its bias correction
  void take_moment(Parameter& parameter, Rows rows, double lr, std::int64_t updates_of_v);
  /// Keeps v as it is from now on. An element that no gradient has ever reached has no size for a step and rests: its v
  /// becomes infinite. Others get at least 1e-4 of the largest v of their parameter: what travels has one size for all,
  /// and an element whose v says that its gradients are tiny would leap. A second call changes nothing.
  void freeze_second_moment();
  /// Lets v change again. Elements that rested begin anew with an m and a v of 0: what travelled wrote into their m,
  /// too, and a step by m without a v would be huge. Bias corrections know that v has missed `missed` updates.
  void thaw_second_moment(std::int64_t missed);

 protected:
  /// Some neighbouring elements of the arena.
  struct Part {
    double weight_decay;
    std::int64_t offset;  ///< the first one's place in the arena
    Tensor value, gradient;
    Tensor of(const Tensor& state) const { return state.range(offset, value.elements()); }
  };

  /// options : its name, as in --optimizer, is for errors, and its decay is for parts
  Optimizer(const ParameterArena& arena, const OptimizerOptions& options);
  /// t : the number of this update of the parameter, first 1
  virtual void apply(const Part& part, double lr, double gradient_scale, std::int64_t t) = 0;
  /// The halves of an update, where there are moments.
  virtual void form(const Part& part);
  virtual void take(const Part& part, double lr, std::int64_t t, std::int64_t updates_of_v);
  virtual Tensor first_moment() const { return {}; }
  virtual Tensor second_moment() const { return {}; }
  /// Updates that v has not seen.
  std::int64_t missed() const { return missed_; }
  /// What the method remembers, under its names; sharing memory.
  virtual std::vector<StateDict::Entry> arenas() const = 0;

 private:
  void require_mine(const Parameter& parameter) const;
  std::int64_t begin_update(const Parameter& parameter, std::int64_t rows);
  Part part_of(const Parameter& parameter, Rows rows) const;
  Part part_at(std::int64_t offset, std::int64_t count, double weight_decay) const;

  const ParameterArena& arena_;
  const std::string name_;
  const Decay decay_;
  Tensor updates_;
  std::int64_t missed_ = 0;
  std::vector<std::int64_t> rows_updated_;  // rows of the update that a parameter is in; 0 between updates
};

/// What the command line says of an optimiser.
struct OptimizerOptions {
  std::string name = "sgd";  ///< one of optimizers()
  double momentum = 0;       ///< for kinds with has_momentum, as dampening and nesterov are
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;  ///< shares of the two moments that a step of adam or adamw leaves
  Optimizer::Decay decay{};

  int arenas() const;  ///< arenas of state that it keeps
};

/// A kind of optimiser, as `optimizer` names it.
struct OptimizerKind {
  std::string name;            ///< "sgd"
  bool has_momentum = false;   ///< `momentum`, `dampening` and `nesterov` have an effect
  bool has_betas = false;      ///< `betas` has
  int arenas = 0;              ///< copies of the parameters that its state takes; with momentum 0 it takes none
  std::optional<double> lr{};  ///< the rate to start from; nothing: the program's
  std::function<std::unique_ptr<Optimizer>(const ParameterArena& arena, const OptimizerOptions& options)> make;
};
/// The table of all kinds. Add your own before training begins.
std::vector<OptimizerKind>& optimizers();
/// throws UsageError: there is none of that name (suggests the nearest)
const OptimizerKind& optimizer_kind(const std::string& name);

/// throws UsageError: no such optimiser, a number out of range, an option that it does not have
std::unique_ptr<Optimizer> make_optimizer(const ParameterArena& arena, const OptimizerOptions& options);

/// Bounds on the gradient of a step, `--clip norm:X`, `value:X` or `none`.
struct Clip {
  enum class Kind { none, norm, value };
  Kind kind = Kind::none;
  double limit = 0;

  /// "none", "norm:X", "value:X" with X > 0.   throws UsageError naming `where`
  static Clip parse(const std::string& text, const std::string& where = "`clip`");
};

/// Sum over the parameters of their squared gradients, in double. Each parameter is added in chunks of fixed size, and
/// the parameters in arena order: the same for any number of threads. Ranks that hold parts add theirs before
/// clip_scale.
double gradient_sum_of_squares(const ParameterArena& arena);

/// What every gradient is to be multiplied by so that their common norm is at most `limit`: 1 if it is already, else
/// limit / (norm + 1e-6), as PyTorch's clip_grad_norm_ does. NaN if the norm is: it must show, not vanish. Pass it to
/// Optimizer::update as gradient_scale.
double clip_scale(double sum_of_squares, double limit);

/// Every element of the gradient to [-limit, limit]. NaN stays NaN.
void clip_value(const Tensor& gradient, double limit);

}  // namespace laconic
