#include "dist/method/redsync/residual_tensor.h"

#include <algorithm>
#include <limits>

#include "dist/engine/ghost_work.h"

namespace laconic::dist {

using compress::Sign;

ResidualTensor::ResidualTensor(const Parameter& p, Choice choice, const SparseOptions& options, const TrainingFacts& facts,
                               const compress::MomentumRule& rule, const Tensor& velocity, const Tensor& residual)
    : parameter_(p),
      options_(options),
      seed_(facts.seed),
      rule_(rule),
      n_(p.info.elements),
      residual_(residual.range(p.info.offset, n_)),
      selector_(compress::make_selector(choice.selector, {.threshold = static_cast<float>(options.threshold),
                                                          .bin = p.info.role == Role::conv ? 50u : 500u})),
      wire_{.format = {.coding = options.coding(facts), .one_value = traits().one_magnitude || choice.quantised},
            .both_signs = traits().one_magnitude} {
  require<UsageError>(n_ < std::numeric_limits<std::uint32_t>::max(), p.info.name, " has ", n_,
                      " elements: their indices have 32 bits. Let it travel whole (`sync` allreduce).");
  if (velocity.defined()) velocity_ = velocity.range(p.info.offset, n_);
}

/// Quantised: the largest and the smallest in turns.
Sign ResidualTensor::sign() const {
  if (!sends_mean()) return Sign::any;
  return turn_ % 2 == 0 ? Sign::positive : Sign::negative;
}

void ResidualTensor::begin(double density) {
  k_ = k_of(density);
  gathered_ = 0;
  stats_.clear();
  selector_->prepare(candidates_, k_, sign());
  if (!traits().by_k && residual_.device().kind != Device::Kind::cuda) candidates_.limit(most(k_));
}

void ResidualTensor::gather(Rows rows, float factor) {
  const auto [first, count] = parameter_.info.part(rows);
  const auto part = [first = first, count = count](const Tensor& t) { return t.range(first, count).slice(); };
  const compress::ResidualPart elements{.gradient = part(parameter_.grad()),
                                        .weight = rule_.weight_decay != 0 ? part(parameter_.value()) : Slice<float>(),
                                        .velocity = velocity_.defined() ? part(velocity_) : Slice<float>(),
                                        .residual = part(residual_),
                                        .first = static_cast<std::uint32_t>(first)};
  compress::accumulate_residual(elements, rule_, factor, &candidates_, stats_);
  GhostWork::tell(residual_.device(), Work::gathering, static_cast<std::size_t>(count));
  gathered_ += count;
}

std::size_t ResidualTensor::most(std::size_t k) const {
  const std::size_t n = elements();
  // A selector may know no limit. There is one here, so that a message is smaller than all of the gradient.
  return std::min(selector_->most(k, n), traits().by_k ? std::min(n, 2 * k) : std::max<std::size_t>(1, n / 4));
}

/// A corrected momentum makes values grow, so that more pass the last step's floor.
double ResidualTensor::choosing_bytes(double density) const {
  const std::size_t k = k_of(density);
  return selector_->bytes(wire_.both_signs ? most(k) : k, elements(), velocity_.defined() ? 1.45 : 1);
}

Slice<const float> ResidualTensor::values() const {
  if (!sends_mean()) return chosen_.all_values();
  return chosen_.size() > 0 ? mean_.slice() : Slice<float>();
}

Chosen ResidualTensor::chosen() {
  return {.indices = indices(),
          .values = values(),
          .shared = residual_.device() == kGhost ? residual_.slice().first(chosen_.size()) : chosen_.all_values(),
          .count = k_,
          .most = most(k_)};
}

Steps ResidualTensor::choose(std::int64_t step) {
  const compress::SelectionInput input{.values = residual_.slice(),
                                       .k = k_,
                                       .sign = sign(),
                                       .sums = &stats_,
                                       .candidates = &candidates_,
                                       .latest = traits().needs_latest ? parameter_.grad().slice() : Slice<float>(),
                                       .most = traits().by_k ? SIZE_MAX : most(k_),
                                       .key = {.seed = seed_,
                                               .step = static_cast<std::uint64_t>(step),
                                               .operation = static_cast<std::uint32_t>(parameter_.info.index)}};
  GhostWork::tell(residual_.device(), Work::selecting, elements());
  try {
    Steps choosing = selector_->select_in_steps(input, chosen_);
    co_await choosing;
  } catch (const compress::NotANumber& e) {
    throw Error(concat("the residual of ", parameter_.info.name, " at step ", step, ": ", e.what(),
                       " Lower `lr`, or clip gradients (`clip` norm:5)."));
  }
  ++turn_;
  chosen_.shorten(most(k_));  // the rest waits

  const bool mask = options_.masking && velocity_.defined();
  const Slice<float> u = velocity_.defined() ? velocity_.slice() : Slice<float>(), v = residual_.slice();
  const Slice<float> all = chosen_.all_values();
  if (wire_.both_signs) compress::keep_signs(all, static_cast<float>(options_.threshold));
  if (sends_mean()) {
    if (!mean_.defined() || mean_.device() != all.device()) mean_ = Tensor::zeros({1}, DType::f32, all.device());
    compress::mean_of(all, mean_.slice());
  }
  if (wire_.both_signs || (sends_mean() && options_.feedback && !all.empty()))
    compress::subtract_sent(u, v, indices(), values(), mask);
  else
    compress::clear_sent(u, v, indices(), mask);
}

void ResidualTensor::save(RankState& state) const {
  state.save("", *selector_, Join::own);
  state.set_numbers("turn", {&turn_, 1}, Join::equal);
}

void ResidualTensor::load(const StateDict& state) {
  selector_->load(state);
  turn_ = state.numbers("turn", 1, "the state of " + parameter_.info.name)[0];
  require<DataError>(turn_ >= 0, "resume: the state of ", parameter_.info.name,
                     " is damaged. Use an older checkpoint.");
}

}  // namespace laconic::dist
