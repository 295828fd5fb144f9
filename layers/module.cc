#include "layers/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <typeinfo>
#include <unordered_set>

#include "core/host_copy.h"

namespace laconic {

static std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

template <class F>
void Module::walk(const std::string& path, F&& f) const {
  f(const_cast<Module&>(*this), path);
  for (const Part& c : children_) c.module->walk(join(path, c.name), f);
}

namespace {

/// What a layer threw, on its way through the modules around it. Each of them knows more of the path.
class ErrorOfLayer final : public ShapeError {
 public:
  ErrorOfLayer(const Module* layer, const std::string& path, const std::string& text)
      : ShapeError(path.empty() ? text : path + ": " + text), layer(layer), text(text) {}
  const Module* layer;
  std::string text;
};

}  // namespace

void Module::throw_with_path(const ShapeError& e) const {
  const auto* const below = dynamic_cast<const ErrorOfLayer*>(&e);
  const Module* const layer = below ? below->layer : this;
  std::optional<std::string> path;
  walk(path_, [&](Module& m, const std::string& its) {
    if (&m == layer && !path) path = its;
  });
  if (!path) throw;  // it is no part of this module
  throw ErrorOfLayer(layer, *path, below ? below->text : e.what());
}

std::vector<Module::NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> all;
  walk("", [&](Module& m, const std::string& path) {
    for (const OwnParameter& p : m.parameters_) all.push_back({join(path, p.name), p.parameter});
  });
  return all;
}

std::vector<Module::NamedBuffer> Module::named_buffers() const {
  std::vector<NamedBuffer> all;
  walk("", [&](Module& m, const std::string& path) {
    for (const NamedBuffer& b : m.buffers_) all.push_back({join(path, b.name), b.tensor});
  });
  return all;
}

std::vector<Module::NamedModule> Module::named_modules() const {
  std::vector<NamedModule> all;
  walk("", [&](Module& m, const std::string& path) { all.push_back({path, &m}); });
  return all;
}

void Module::apply(const std::function<void(Module& module)>& f) {
  walk("", [&](Module& m, const std::string&) { f(m); });
}

StateDict Module::state_dict() const {
  StateDict state;
  std::unordered_set<const Parameter*> seen;
  for (const auto& [name, parameter] : named_parameters())
    if (seen.insert(parameter.get()).second) state.set(name, parameter->value());
  for (const auto& [name, tensor] : named_buffers()) state.set(name, tensor);
  return state;
}

void Module::load_state_dict(const StateDict& state, bool strict, const std::string& where, const std::string& what) {
  const StateDict mine = state_dict();
  StateDict asked;
  std::vector<ExpectedTensor> expected;
  for (const auto& [name, tensor] : mine)
    if (state.contains(name) || (strict && !name.ends_with("num_batches_tracked")))
      expected.push_back({name, tensor.shape(), tensor.dtype()});
  if (!strict)
    for (const auto& e : expected) asked.set(e.name, state.at(e.name));
  require_match(expected, strict ? state : asked, where, what);
  for (const auto& e : expected) mine.at(e.name).copy_from(state.at(e.name));
}

std::string Module::kind() const {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &failed), &std::free);
  const std::string full = failed ? typeid(*this).name() : name.get();
  return full.substr(full.rfind(':') + 1);
}

std::vector<std::shared_ptr<Parameter>> Module::parameters() const {
  std::vector<std::shared_ptr<Parameter>> all;
  for (const NamedParameter& p : named_parameters()) all.push_back(p.parameter);
  return all;
}

std::int64_t Module::parameter_count() const {
  std::unordered_set<const Parameter*> seen;
  std::int64_t count = 0;
  for (const NamedParameter& p : named_parameters())
    if (seen.insert(p.parameter.get()).second) count += p.parameter->info.elements;
  return count;
}

void Module::name_all() {
  int position = 0;
  std::unordered_set<const void*> seen;  // a part that is used twice keeps its first name
  walk("", [&](Module& m, const std::string& path) {
    if (!seen.insert(&m).second) return;
    m.path_ = path;
    m.position_ = position++;
    for (const OwnParameter& p : m.parameters_)
      if (seen.insert(p.parameter.get()).second) p.parameter->info.name = join(path, p.name);
  });
}

void Module::initialize(std::uint64_t seed) {
  name_all();
  std::unordered_set<const Module*> seen;
  std::uint64_t stream = 0;
  walk("", [&](Module& m, const std::string&) {
    if (!seen.insert(&m).second) return;
    for (const OwnParameter& p : m.parameters_) {
      if (!p.initializer) continue;  // shared: its owner draws
      Random random(seed, Purpose::init, stream++);
      const Slice<float> values = p.parameter->value().slice();
      write_on_host(values, [&](float* to) {
        std::fill_n(to, values.size(), 0.0f);
        p.initializer({to, values.size()}, random);
      });
      p.parameter->value().bump_version();
    }
  });
}

void Module::to(Device device) {
  for (const auto& p : parameters()) p->to(device);
  walk("", [&](Module& m, const std::string&) {
    for (NamedBuffer& b : m.buffers_) {
      if (b.tensor.device() == device) continue;
      const Tensor moved = Tensor::empty(b.tensor.shape(), b.tensor.dtype(), device);
      moved.copy_from(b.tensor);
      b.tensor = moved;
    }
  });
}

void Module::freeze(bool on) {
  for (const auto& p : parameters()) p->freeze(on);
}

void Module::train(bool on) {
  walk("", [&](Module& m, const std::string&) { m.training_ = on; });
}

void Module::set_context(const ForwardContext* context) {
  name_all();
  walk("", [&](Module& m, const std::string&) { m.context_ = context; });
}

void Module::set_watch(const ForwardWatch* watch) {
  name_all();
  walk("", [&](Module& m, const std::string&) { m.watch_ = watch; });
}

std::shared_ptr<Parameter> Module::parameter(const std::string& name, const Shape& shape, Role role,
                                             Initializer initializer) {
  require_new(name);
  auto p = std::make_shared<Parameter>(shape, role);
  p->info.name = name;
  parameters_.push_back({name, p, std::move(initializer)});
  return p;
}

void Module::require_new(const std::string& name) const {
  const auto has = [&](const auto& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  };
  require<Error>(!has(parameters_) && !has(buffers_) && !has(children_), kind(), ": two parts are called '", name,
                 "'. Rename one: a file of weights has a place for each name.");
}

void Module::share(const std::string& name, const std::shared_ptr<Parameter>& parameter) {
  require_new(name);
  parameters_.push_back({name, parameter, nullptr});
}

const Tensor& Module::buffer(const std::string& name, const Tensor& initial) {
  require_new(name);
  buffers_.push_back({name, initial});
  return buffers_.back().tensor;
}

const ForwardContext& Module::context() const {
  static const ForwardContext kDefault;
  return context_ ? *context_ : kDefault;
}

}  // namespace laconic

namespace laconic::init {

Initializer uniform_fan_in(std::int64_t fan_in) {
  return uniform(fan_in > 0 ? 1.0f / std::sqrt(static_cast<float>(fan_in)) : 0.0f);
}

Initializer uniform(float k) {
  return [k](std::span<float> values, Random& random) {
    for (float& v : values) v = random.uniform(-k, k);
  };
}

Initializer xavier(std::int64_t fan_in) { return uniform(std::sqrt(3.0f / static_cast<float>(fan_in))); }

Initializer normal(float deviation) {
  return [deviation](std::span<float> values, Random& random) {
    for (float& v : values) v = deviation * random.normal();
  };
}

Initializer he_normal(std::int64_t fan) { return normal(std::sqrt(2.0f / static_cast<float>(fan))); }

Initializer constant(float value) {
  return [value](std::span<float> values, Random&) { std::fill(values.begin(), values.end(), value); };
}

}  // namespace laconic::init
