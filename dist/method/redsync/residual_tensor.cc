#include "dist/method/redsync/residual_tensor.h"

#include <algorithm>
#include <limits>

namespace laconic::dist {
namespace {

using compress::Sign;

constexpr std::size_t kConvBin = 50, kOtherBin = 500;  // AdaComp's

std::unique_ptr<compress::Selector> selector_of(const Choice& choice, const ResidualRules& rules, Role role) {
  compress::SelectorOptions options;
  options.threshold = rules.threshold;
  options.bin = role == Role::conv ? kConvBin : kOtherBin;
  return compress::make_selector(choice.selector, options);
}

SparseWire wire_of(const Choice& choice, const ResidualRules& rules) {
  const bool both = compress::selector_kind(choice.selector).traits.one_magnitude;
  return {.format = {.coding = rules.coding, .one_value = both || choice.quantised}, .both_signs = both};
}

}  // namespace

ResidualTensor::ResidualTensor(const Parameter& p, Choice choice, const ResidualRules& rules, double weight_decay,
                               const Tensor& velocity, const Tensor& residual)
    : parameter_(p),
      choice_(choice),
      rules_(rules),
      rule_{.momentum = rules.momentum, .weight_decay = static_cast<float>(weight_decay), .nesterov = rules.nesterov},
      n_(p.info.elements),
      residual_(residual.range(p.info.offset, n_)),
      wire_(wire_of(choice, rules)),
      selector_(selector_of(choice, rules, p.info.role)) {
  require<UsageError>(n_ < std::numeric_limits<std::uint32_t>::max(), p.info.name, " has ", n_,
                      " elements: their indices have 32 bits. Let it travel whole (--sync allreduce).");
  if (velocity.defined()) velocity_ = velocity.range(p.info.offset, n_);
}

void ResidualTensor::begin(double density) {
  k_ = static_cast<std::size_t>(elements_to_send(n_, density));
  gathered_ = 0;
  stats_.clear();
  selector_->prepare(candidates_, k_,
                     !choice_.quantised ? Sign::any
                     : turn_ % 2 == 0   ? Sign::positive
                                        : Sign::negative);
}

void ResidualTensor::gather(Rows rows, float factor) {
  const std::int64_t row = n_ / parameter_.all_rows().count;
  const auto begin = static_cast<std::size_t>(rows.first * row), count = static_cast<std::size_t>(rows.count * row);
  const auto part = [&](const Tensor& t) { return t.slice().sub(begin, count); };
  const compress::ResidualPart elements{.gradient = part(parameter_.grad()),
                                        .weight = rule_.weight_decay != 0 ? part(parameter_.value()) : Slice<float>(),
                                        .velocity = velocity_.defined() ? part(velocity_) : Slice<float>(),
                                        .residual = part(residual_),
                                        .first = static_cast<std::uint32_t>(begin)};
  compress::accumulate_residual(elements, rule_, factor, &candidates_, stats_);
  gathered_ += rows.count * row;
}

std::size_t ResidualTensor::most() const {
  const std::size_t n = elements();
  // A selector may know no limit. There is one here, so that a message is smaller than all of the gradient.
  return std::min(selector_->most(k_, n), traits().by_k ? std::min(n, 2 * k_) : std::max<std::size_t>(1, n / 4));
}

Slice<const float> ResidualTensor::values() const {
  if (wire_.format.one_value && !wire_.both_signs) return chosen_.size() > 0 ? one_value_.slice() : Slice<float>();
  return chosen_.all_values();
}

void ResidualTensor::choose(std::int64_t step) {
  compress::SelectionInput input;
  input.values = residual_.slice();
  input.k = k_;
  if (choice_.quantised) input.sign = turn_ % 2 == 0 ? Sign::positive : Sign::negative;
  input.sums = &stats_;
  input.candidates = &candidates_;
  if (traits().needs_latest) input.latest = parameter_.grad().slice();
  input.key = {.seed = rules_.seed,
               .step = static_cast<std::uint64_t>(step),
               .operation = static_cast<std::uint32_t>(parameter_.info.index)};
  try {
    selector_->select(input, chosen_);
  } catch (const compress::NotANumber& e) {
    throw Error(concat("the residual of ", parameter_.info.name, " at step ", step, ": ", e.what(),
                       " Lower --lr, or clip gradients (--clip norm:5)."));
  }
  ++turn_;
  chosen_.shorten(most());  // the rest waits

  const bool mask = rules_.masking && velocity_.defined();
  const Slice<float> u = velocity(), v = residual();
  if (wire_.both_signs) {
    compress::keep_signs(chosen_.all_values(), rules_.threshold);
    compress::subtract_sent(u, v, indices(), values(), mask);
  } else if (wire_.format.one_value) {
    const Slice<float> all = chosen_.all_values();
    if (!one_value_.defined() || one_value_.device() != all.device())
      one_value_ = Tensor::zeros({1}, DType::f32, all.device());
    compress::mean_of(all, one_value_.slice());
    if (rules_.feedback && !all.empty())
      compress::subtract_sent(u, v, indices(), one_value_.slice(), mask);
    else
      compress::clear_sent(u, v, indices(), mask);
  } else {
    compress::clear_sent(u, v, indices(), mask);
  }
}

void ResidualTensor::save(StateDict& state) const {
  selector_->save(state);
  state.set("turn", Tensor::of({1}, std::span<const std::int64_t>(&turn_, 1)));
}

void ResidualTensor::load(const StateDict& state) {
  selector_->load(state);
  const Tensor& turn = state.at("turn");
  require<DataError>(turn.dtype() == DType::i64 && turn.elements() == 1 && turn.data<std::int64_t>()[0] >= 0,
                     "resume: the state of ", parameter_.info.name, " is damaged. Use an older checkpoint.");
  turn_ = turn.data<std::int64_t>()[0];
}

}  // namespace laconic::dist
