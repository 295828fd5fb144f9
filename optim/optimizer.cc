#include "optim/optimizer.h"

#include "core/error.h"

namespace laconic {

Optimizer::Optimizer(const ParameterArena& arena)
    : arena_(arena),
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

void Optimizer::update(Parameter& parameter, const Tensor& gradient, double lr, double gradient_scale) {
  require_mine(parameter);
  const std::int64_t t = begin_update(parameter, parameter.all_rows().count);
  apply({parameter.info, parameter.value(), gradient, parameter.info.offset}, lr, gradient_scale, t);
}

void Optimizer::update(Parameter& parameter, Rows rows, double lr, double gradient_scale) {
  if (rows.count == parameter.all_rows().count) return update(parameter, lr, gradient_scale);
  require_mine(parameter);
  const std::int64_t row = parameter.info.elements / parameter.all_rows().count;
  const std::int64_t t = begin_update(parameter, rows.count);
  apply({parameter.info, parameter.value().rows(rows.first, rows.count), parameter.grad().rows(rows.first, rows.count),
         parameter.info.offset + rows.first * row},
        lr, gradient_scale, t);
  parameter.value().bump_version();
}

void Optimizer::update_all(double lr, double gradient_scale) {
  for (const auto& p : arena_.parameters()) update(*p, lr, gradient_scale);
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
