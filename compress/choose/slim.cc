#include "compress/choose/slim.h"

#include <algorithm>
#include <cmath>

#include "compress/cuda/scatter.h"
#include "compress/mirrored.h"
#include "compress/choose/random_subset.h"
#include "core/dispatch.h"
#include "core/base/error.h"

namespace laconic::compress {

void require_sensible(const SlimRules& r) {
  require<UsageError>(r.alpha > 0 && r.alpha <= 1, "a share of ", r.alpha,
                      " of the elements cannot travel (`alpha`): give more than 0 and at most 1, as 0.3");
  require<UsageError>(r.explore >= 0 && r.explore <= r.alpha, "an explorer of ", r.explore,
                      " does not fit in a share of ", r.alpha,
                      " (`explore`): give at least 0 and at most `alpha`, as 0.15");
  require<UsageError>(r.core_every >= 1, "a core that is chosen every ", r.core_every,
                      " rounds (`core-every`): give at least 1, as 10");
}

std::size_t core_elements(const SlimRules& r, std::size_t n) {
  const double core = std::round((r.alpha - r.explore) * static_cast<double>(n));
  return std::min(n, static_cast<std::size_t>(std::max(0.0, core)));
}

std::size_t explorer_elements(const SlimRules& r, std::size_t n) {
  const auto all = static_cast<std::size_t>(std::max(1.0, std::round(r.alpha * static_cast<double>(n))));
  const std::size_t core = core_elements(r, n);
  return std::min(n, all) > core ? std::min(n, all) - core : 0;
}

std::uint64_t signature_of(Slice<const std::uint32_t> keys) {
  std::uint64_t hash = 1469598103934665603u ^ keys.size();
  for (const std::uint32_t key : keys) {
    hash = (hash ^ key) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

void SlimSet::choose(const SlimRules& rules, Slice<const float> by, const SlimKey& key) {
  const std::size_t n = by.size();
  if (by.device() == kGhost) {
    new_ = new_ || due(rules, key);
    chosen_ = true;
    return;
  }
  if (due(rules, key)) {
    selector_->select({.values = by, .k = core_elements(rules, n)}, found_);
    const Slice<const std::uint32_t> keys = found_.all_indices();
    std::vector<std::uint32_t> now(keys.size());
    copy_bytes(now.data(), kCpu, keys.data(), keys.device(), keys.size_bytes());
    new_ = new_ || !chosen_ || now != core_;
    core_.swap(now);
    signature_ = signature_of(slice(std::as_const(core_)));
    chosen_ = true;
    if (rules.core_every > 1) found_ = {}, selector_ = make_selector("exact");  // their memory is not needed for long
  }
  if (ahead_ == key)
    explorer_.swap(drawn_);
  else
    random_subset(n, explorer_elements(rules, n), slice(std::as_const(core_)), key.random(), explorer_);
  ahead_.reset();
}

void SlimSet::draw_ahead(const SlimRules& rules, std::size_t n, const SlimKey& key) {
  ahead_.reset();
  if (due(rules, key)) return;
  random_subset(n, explorer_elements(rules, n), slice(std::as_const(core_)), key.random(), drawn_);
  ahead_ = key;
}

void SlimSet::gather(Slice<const float> x, std::vector<float>& values) const {
  values.resize(core().size() + explorer().size());
  const auto on_host = [&] {
    std::size_t i = 0;
    for (const auto* keys : {&core(), &explorer()})
      for (const std::uint32_t key : *keys) values[i++] = x[key];
  };
  on_device(x.device(), on_host, [&] {
    const Storage there(values.size() * sizeof(float), x.device());
    auto* to = reinterpret_cast<float*>(there.data());
    for (const auto* keys : {&core(), &explorer()}) {
      const Mirrored<std::uint32_t> at(slice(*keys), x.device());
      cuda::gather_at(to, x.data(), at.data(), keys->size(), x.size());
      to += keys->size();
    }
    copy_bytes(values.data(), kCpu, there.data(), x.device(), values.size() * sizeof(float));
  });
}

void SlimSet::save(StateDict& state) const {
  const std::vector<std::int64_t> keys(core_.begin(), core_.end());
  state.set("core", Tensor::of({static_cast<std::int64_t>(keys.size())}, std::span<const std::int64_t>(keys)));
  const std::int64_t chosen = chosen_ ? 1 : 0;
  state.set("chosen", Tensor::of({1}, std::span<const std::int64_t>(&chosen, 1)));
}

void SlimSet::load(const StateDict& state, std::size_t n) {
  const Tensor &core = state.at("core"), &chosen = state.at("chosen");
  require<DataError>(core.dtype() == DType::i64 && chosen.dtype() == DType::i64 && chosen.elements() == 1,
                     "resume: a core of Slim-DP is damaged. Use an older checkpoint.");
  core_.clear(), ahead_.reset();
  for (std::int64_t i = 0; i < core.elements(); ++i) {
    const std::int64_t key = core.data<std::int64_t>()[i];
    require<DataError>(
        key >= 0 && static_cast<std::size_t>(key) < n && (core_.empty() || key > std::int64_t{core_.back()}),
        "resume: a core of Slim-DP is no set of keys below ", n, ". Use an older checkpoint.");
    core_.push_back(static_cast<std::uint32_t>(key));
  }
  signature_ = signature_of(slice(std::as_const(core_)));
  chosen_ = chosen.data<std::int64_t>()[0] != 0;
  new_ = true;
}

void put_step_by(Slice<float> value, Slice<float> before, Slice<float> delta, float weight) {
  require<ShapeError>(value.size() == before.size() && value.size() == delta.size(), "slim: a step of ", value.size(),
                      ", ", before.size(), " and ", delta.size(), " elements");
  const auto on_host = [&] {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const float now = value[i], then = before[i];
      delta[i] += weight * (now - then);
      value[i] = then;
      before[i] = now;
    }
  };
  on_device(value.device(), on_host,
            [&] { cuda::put_step_by(value.data(), before.data(), delta.data(), value.size(), weight); });
}

}  // namespace laconic::compress
