#include "dist/method/redsync/residual_tensor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/stream.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

using compress::Sign;

constexpr std::size_t kHeader = sizeof(std::uint32_t);  // of two messages
constexpr std::size_t kConvBin = 50, kOtherBin = 500;   // AdaComp's

SparseWire wire_of(const Choice& choice, const SparseOptions& options) {
  const bool both = compress::selector_kind(choice.selector).traits.one_magnitude;
  return {.format = {.coding = options.coding(), .one_value = both || choice.quantised}, .both_signs = both};
}

compress::SparseView& view_at(std::vector<compress::SparseView>& views, std::size_t i) {
  if (views.size() <= i) views.resize(i + 1);
  return views[i];
}

}  // namespace

std::size_t SparseWire::max_bytes(std::size_t count, std::size_t n) const {
  const std::size_t one = (max_sparse_bytes(format, count, n) + 3) / 4 * 4;
  return both_signs ? kHeader + one + (max_sparse_bytes(format, 0, n) + 3) / 4 * 4 + one : one;
}

void SparseWire::encode(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
                        compress::Bytes& payload) const {
  if (!both_signs) return encode_sparse(format, indices, values, n, payload);
  const std::size_t at = payload.size();
  payload.append(kHeader);
  for (const bool positive : {true, false}) {
    compress::Selection some;
    elements_of_sign(indices, values, positive ? compress::Sign::positive : compress::Sign::negative, some);
    const Slice<const float> all = std::as_const(some).all_values();
    encode_sparse(format, some.all_indices(), all.first(std::min<std::size_t>(1, all.size())), n, payload);
    if (!positive) continue;
    const auto bytes = static_cast<std::uint32_t>(payload.size() - at - kHeader);
    copy_bytes(payload.data() + at, payload.device(), &bytes, kCpu, kHeader);
  }
}

std::size_t SparseWire::read(Slice<const std::byte> payload, std::size_t n, std::vector<compress::SparseView>& views,
                             std::size_t next) const {
  if (!both_signs) {
    view_at(views, next).read(format, payload, n);
    return next + 1;
  }
  require<DataError>(payload.size() >= kHeader, "two sparse messages: ", payload.size(), " bytes are too few.");
  std::uint32_t bytes = 0;
  copy_bytes(&bytes, kCpu, payload.data(), payload.device(), kHeader);
  const Slice<const std::byte> both = payload.sub(kHeader, payload.size() - kHeader);
  require<DataError>(bytes <= both.size(), "two sparse messages: the first is said to have ", bytes, " bytes where ",
                     both.size(), " follow.");
  view_at(views, next).read(format, both.first(bytes), n);
  view_at(views, next + 1).read(format, both.sub(bytes, both.size() - bytes), n);
  return next + 2;
}

ResidualTensor::ResidualTensor(const Parameter& p, Choice choice, const SparseOptions& options, std::uint64_t seed,
                               const compress::MomentumRule& rule, const Tensor& velocity, const Tensor& residual)
    : parameter_(p),
      choice_(choice),
      options_(options),
      seed_(seed),
      rule_(rule),
      n_(p.info.elements),
      residual_(residual.range(p.info.offset, n_)),
      wire_(wire_of(choice, options)),
      selector_(compress::make_selector(choice.selector, {.threshold = static_cast<float>(options.threshold),
                                                          .bin = p.info.role == Role::conv ? kConvBin : kOtherBin})) {
  require<UsageError>(n_ < std::numeric_limits<std::uint32_t>::max(), p.info.name, " has ", n_,
                      " elements: their indices have 32 bits. Let it travel whole (`sync` allreduce).");
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
  if (!traits().by_k && residual_.device().kind != Device::Kind::cuda) candidates_.limit(most());
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

std::size_t ResidualTensor::most_of(std::size_t k) const {
  const std::size_t n = elements();
  // A selector may know no limit. There is one here, so that a message is smaller than all of the gradient.
  return std::min(selector_->most(k, n), traits().by_k ? std::min(n, 2 * k) : std::max<std::size_t>(1, n / 4));
}

/// A corrected momentum makes values grow, so that more pass the last step's floor.
double ResidualTensor::choosing_bytes(double density) const {
  const auto k = static_cast<std::size_t>(elements_to_send(n_, density));
  return selector_->bytes(traits().one_magnitude ? most_of(k) : k, elements(), velocity_.defined() ? 1.45 : 1);
}

Slice<const float> ResidualTensor::values() const {
  if (wire_.format.one_value && !wire_.both_signs) return chosen_.size() > 0 ? one_value_.slice() : Slice<float>();
  return chosen_.all_values();
}

Steps ResidualTensor::choose(std::int64_t step) {
  compress::SelectionInput input;
  input.values = residual_.slice();
  input.k = k_;
  if (!traits().by_k) input.most = most();
  if (choice_.quantised) input.sign = turn_ % 2 == 0 ? Sign::positive : Sign::negative;
  input.sums = &stats_;
  input.candidates = &candidates_;
  if (traits().needs_latest) input.latest = parameter_.grad().slice();
  input.key = {.seed = seed_,
               .step = static_cast<std::uint64_t>(step),
               .operation = static_cast<std::uint32_t>(parameter_.info.index)};
  GhostWork::tell(residual_.device(), Work::selecting, elements());
  try {
    Steps choosing = selector_->select_in_steps(input, chosen_);
    co_await choosing;
  } catch (const compress::NotANumber& e) {
    throw Error(concat("the residual of ", parameter_.info.name, " at step ", step, ": ", e.what(),
                       " Lower `lr`, or clip gradients (`clip` norm:5)."));
  }
  ++turn_;
  chosen_.shorten(most());  // the rest waits

  const bool mask = options_.masking && velocity_.defined();
  const Slice<float> u = velocity(), v = residual();
  if (wire_.both_signs) {
    compress::keep_signs(chosen_.all_values(), static_cast<float>(options_.threshold));
    compress::subtract_sent(u, v, indices(), values(), mask);
  } else if (wire_.format.one_value) {
    const Slice<float> all = chosen_.all_values();
    if (!one_value_.defined() || one_value_.device() != all.device())
      one_value_ = Tensor::zeros({1}, DType::f32, all.device());
    compress::mean_of(all, one_value_.slice());
    if (options_.feedback && !all.empty())
      compress::subtract_sent(u, v, indices(), one_value_.slice(), mask);
    else
      compress::clear_sent(u, v, indices(), mask);
  } else {
    compress::clear_sent(u, v, indices(), mask);
  }
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
