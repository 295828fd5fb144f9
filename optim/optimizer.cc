#include "optim/optimizer.h"

#include "core/error.h"

namespace laconic {

Optimizer::Optimizer(const ParameterArena& arena)
    : arena_(arena), updates_(Tensor::zeros({static_cast<std::int64_t>(arena.parameters().size())}, DType::i64)) {}

void Optimizer::update(Parameter& parameter, const Tensor& gradient, double lr, double gradient_scale) {
  const int index = parameter.info.index;
  require<Error>(index >= 0 && index < static_cast<int>(arena_.parameters().size()) &&
                     arena_.parameters()[static_cast<std::size_t>(index)].get() == &parameter,
                 "optimizer: parameter ", parameter.info.name,
                 " is not in the arena that this optimizer was made for.");
  const std::int64_t t = ++updates_.data<std::int64_t>()[index];
  apply(parameter, gradient, lr, gradient_scale, t);
}

void Optimizer::update_all(double lr, double gradient_scale) {
  for (const auto& p : arena_.parameters()) update(*p, lr, gradient_scale);
}

void Optimizer::save(StateDict& state) const {
  state.set("updates", updates_);
  for (const auto& [name, tensor] : arenas()) state.set(name, tensor);
}

void Optimizer::load(const StateDict& state) {
  std::vector<StateDict::Entry> mine = arenas();
  mine.insert(mine.begin(), {"updates", updates_});
  std::vector<ExpectedTensor> expected;
  for (const auto& [entry, tensor] : mine) expected.push_back({entry, tensor.shape(), tensor.dtype()});
  require_match(expected, state, "checkpoint", name());
  for (const auto& [entry, tensor] : mine) tensor.copy_from(state.at(entry));
}

std::unique_ptr<Optimizer> make_optimizer(const ParameterArena& arena, const OptimizerOptions& o) {
  if (o.name == "sgd")
    return std::make_unique<Sgd>(
        arena,
        Sgd::Options{.momentum = o.momentum, .dampening = o.dampening, .nesterov = o.nesterov, .decay = o.decay});
  const char* const names[] = {"sgd", "adam", "adamw"};
  const std::string near = nearest(o.name, names, 3);
  require<UsageError>(o.name == "adam" || o.name == "adamw", "--optimizer: there is no ", o.name, ". ",
                      near.empty() ? "" : concat("Did you mean ", near, "? "), "Known are sgd, adam and adamw.");
  require<UsageError>(o.momentum == 0 && o.dampening == 0 && !o.nesterov, "--optimizer ", o.name,
                      " has no momentum, dampening or nesterov. Leave these options out, or take sgd.");
  return std::make_unique<Adam>(arena, Adam::Options{.decoupled = o.name == "adamw", .decay = o.decay});
}

}  // namespace laconic
