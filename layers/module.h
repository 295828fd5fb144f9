#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/parameter.h"
#include "core/state.h"

namespace laconic {

/// A part of a module that is called like a function: y = fc(x).
///   Child<Linear> fc = child<Linear>("fc", {.in = 84, .out = 10});
template <class M>
struct Child : std::shared_ptr<M> {
  using std::shared_ptr<M>::shared_ptr;
  Child(std::shared_ptr<M> module) : std::shared_ptr<M>(std::move(module)) {}
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    return (**this)(std::forward<Arguments>(arguments)...);
  }
};

/// Fills a new parameter: receives its memory as host values and a stream of its own.
using Initializer = std::function<void(std::span<float> values, Random& random)>;

/// What a forward pass may depend on besides its input. One per model replica; the trainer sets it before each forward.
struct ForwardContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< updates made so far: dropout draws anew each step
  std::int64_t first_sample =
      0;                ///< position of row 0 in the global batch: masks do not depend on the number of workers
  bool dropout = true;  ///< false: --no-dropout
};

/// Called after each layer's forward on this model, with its path and output (search for the first NaN, traces).
using ForwardWatch = std::function<void(const std::string& path, const Tensor& output)>;

/// A part of a model: named parameters, buffers and children, and a forward pass.
///
/// Build: a constructor calls parameter(), buffer(), child(). Then initialize(seed) once on the root, or load values.
/// Call: module(x); never forward(x) directly. Backward needs nothing from a module: its operations are recorded.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Runs forward under this module's name. A ShapeError from within begins with the path of the layer that threw it.
  Tensor operator()(const Tensor& x) {
    const auto run = [this](const Tensor& in) { return call([&] { return forward(in); }); };
    return segment_ ? checkpoint(x, run) : run(x);
  }

  /// Names from the root, in order of registration, own before children: "layer1.0.conv1.weight". A parameter that two
  /// modules share appears once per use, under both names.
  struct NamedParameter {
    std::string name;
    std::shared_ptr<Parameter> parameter;
  };
  struct NamedBuffer {
    std::string name;
    Tensor tensor;
  };
  std::vector<NamedParameter> named_parameters() const;
  std::vector<NamedBuffer> named_buffers() const;  ///< state that is not trained: running statistics
  std::vector<std::shared_ptr<Parameter>> parameters() const;
  struct NamedModule {
    std::string path;
    const Module* module;
  };
  std::vector<NamedModule> named_modules() const;  ///< this one ("") and all below, parents first
  std::string kind() const;                        ///< "Conv2d"
  /// Calls f for this module and all below, parents first.
  void apply(const std::function<void(Module& module)>& f);

  /// Parameters and buffers under their names, as PyTorch would name them; a tied parameter once, under its first name.
  /// The tensors share memory with the model:
  ///   save_safetensors(model.state_dict(), "model.safetensors")
  StateDict state_dict() const;
  /// Copies weights into the model:   model.load_state_dict(load_safetensors("model.safetensors"))
  ///   strict : the names are the model's; else what one side lacks is passed over
  ///   where, what : the file and the reader, for messages
  /// Throws DataError naming the first mismatch, expected and found shapes.
  void load_state_dict(const StateDict& state, bool strict = true, const std::string& where = "the state",
                       const std::string& what = "the model");
  /// What this model calls the tensor that a file has under `name`; "" for one that holds no weights, as a mask.
  virtual std::string own_name(const std::string& name) const { return name; }
  /// Weights that another program saved, under this model's names and in its order. What is its own, or unknown, stays
  /// as it is.
  virtual StateDict translated(const StateDict& weights) const { return weights; }
  /// Options by which the same weights compute something else, as the number of heads does. Files of weights hold them.
  const std::map<std::string, std::string>& settings() const { return settings_; }
  void set_setting(const std::string& name, std::string value) { settings_[name] = std::move(value); }
  bool composite() const { return !children_.empty(); }
  std::int64_t parameter_count() const;  ///< numbers in all parameters, shared ones once

  /// Gives every module its path and position and every parameter its name. On the root; initialize(), set_context()
  /// and set_watch() do it too.
  void name_all();
  /// Draws all initial values, each parameter from its own stream (seed, position). On the root.
  void initialize(std::uint64_t seed);
  /// Moves parameters and buffers to a device. Throws Error if a Trainer has them on another one.
  void to(Device device);
  /// Stops the training of the parameters of this module and of all below, or begins it again:
  ///   model->features->freeze();   // fine-tuning trains and sends the rest alone
  /// A Trainer draws initial values of frozen parameters too. TrainerOptions::init names a file to take them from.
  /// Throws Error once a Trainer has them.
  void freeze(bool on = true);
  void train(bool on = true);  ///< recursively; new modules are in training mode
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Shares a context with all children; null: the default one (seed 0, step 0). Not owned.
  void set_context(const ForwardContext* context);
  void set_watch(const ForwardWatch* watch);  ///< recursively; null: none. Not owned
  /// While on, training keeps of each segment of the model its input alone and computes the rest again in backward
  /// (core/autograd.h, checkpoint()): less memory for about a third more work, and the same bits. A module made of
  /// others is a segment; a Sequential or a whole model says which of its parts are. On the root.
  virtual void checkpoint_activations(bool on = true) { segment_ = on && composite(); }
  const std::string& path() const { return path_; }

 protected:
  virtual Tensor forward(const Tensor& x) = 0;

  // Each of a module's parameters, buffers and children has a name of its own. What follows throws Error if it is
  // taken.

  /// Registers a parameter of this module. `initializer` runs in initialize().
  std::shared_ptr<Parameter> parameter(const std::string& name, const Shape& shape, Role role, Initializer initializer);
  /// Registers a parameter that another module made (weight tying).
  void share(const std::string& name, const std::shared_ptr<Parameter>& parameter);
  /// Registers a buffer; the reference stays valid and follows to().
  const Tensor& buffer(const std::string& name, const Tensor& initial);
  template <class M>
  Child<M> child(const std::string& name, std::shared_ptr<M> module) {
    require_new(name);
    children_.push_back({name, module});
    return module;
  }
  /// Makes and registers a layer: child<Linear>("fc", {.in = 84, .out = 10}).
  template <class M>
  Child<M> child(const std::string& name, typename M::Options options) {
    return child(name, std::make_shared<M>(options));
  }
  template <class M>
  Child<M> child(const std::string& name) {
    return child(name, std::make_shared<M>());
  }

  const ForwardContext& context() const;
  int position() const { return position_; }  ///< unique in the model, the same on every rank: keys dropout

  /// Runs f as this module's forward: names it for traces and messages, then shows the output to the watch.
  template <class F>
  Tensor call(F&& f) {
    LayerScope scope(path_);
    Tensor y;
    try {
      y = f();
    } catch (const ShapeError& e) {
      throw_with_path(e);
    }
    if (watch_ && children_.empty() && !recomputing()) (*watch_)(path_, y);
    return y;
  }

 private:
  struct OwnParameter {
    std::string name;
    std::shared_ptr<Parameter> parameter;
    Initializer initializer;  // empty: shared
  };
  struct Part {
    std::string name;
    std::shared_ptr<Module> module;
  };
  friend class EvalMode;
  template <class F>
  void walk(const std::string& path, F&& f) const;  // f(module, path), parents first
  [[noreturn]] void throw_with_path(const ShapeError& e) const;
  void require_new(const std::string& name) const;

  std::vector<OwnParameter> parameters_;
  std::deque<NamedBuffer> buffers_;  // a deque: buffer() hands out references
  std::vector<Part> children_;
  std::map<std::string, std::string> settings_;
  std::string path_;
  int position_ = 0;
  bool training_ = true;
  bool segment_ = false;
  const ForwardContext* context_ = nullptr;
  const ForwardWatch* watch_ = nullptr;
};

/// A module that keeps options O, for layers that need nothing else of them:
///   class Softmax final : public Configured<SoftmaxOptions> {
///     using Configured::Configured;
///     Tensor forward(const Tensor& x) override { return ops::softmax(x, o_.dim); }
///   };
template <class O>
class Configured : public Module {
 public:
  using Options = O;
  Configured() = default;
  explicit Configured(O o) : o_(std::move(o)) {}

 protected:
  O o_;
};

/// While it lives a model is in evaluation mode. At its end each module has the mode that it had before: a batch
/// norm that was kept from training stays so.
class EvalMode {
 public:
  explicit EvalMode(Module& model) {
    model.apply([&](Module& m) {
      if (m.training_) trained_.push_back(&m);
    });
    model.eval();
  }
  ~EvalMode() {
    for (Module* m : trained_) m->training_ = true;
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<Module*> trained_;
};

/// While it lives a model shows its layers' outputs to a watch.
class Watched {
 public:
  Watched(Module& model, const ForwardWatch& watch) : model_(model) { model.set_watch(&watch); }
  ~Watched() { model_.set_watch(nullptr); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Module& model_;
};

/// A layer for a Sequential: make<Conv2d>({.in = 3, .out = 64, .pad = 1}), make<ReLU>().
template <class M>
std::shared_ptr<M> make(typename M::Options options) {
  return std::make_shared<M>(options);
}
template <class M>
std::shared_ptr<M> make() {
  return std::make_shared<M>();
}

}  // namespace laconic

/// How new parameters are filled.
namespace laconic::init {

/// Uniform(-k, k), k = 1 / sqrt(fan_in): PyTorch's default for weights and biases of linear and convolution layers.
/// fan_in = inputs that one output sums: in, or in / groups * kernel^2.
Initializer uniform_fan_in(std::int64_t fan_in);

/// Uniform(-k, k), k = sqrt(3 / fan_in): outputs vary as much as inputs.
/// source   Glorot & Bengio 2010, as Caffe's "xavier" has it
Initializer xavier(std::int64_t fan_in);

/// Uniform(-k, k).
Initializer uniform(float k);

/// Normal(0, deviation^2).
Initializer normal(float deviation);

/// Normal(0, 2 / fan).   source: He et al. 2015, "Delving deep into rectifiers", eq. 10 (fan_in) and 14 (fan_out)
Initializer he_normal(std::int64_t fan);

Initializer constant(float value);

}  // namespace laconic::init
