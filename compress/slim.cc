#include "compress/slim.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "compress/cuda/scatter.h"
#include "compress/mirrored.h"
#include "compress/select/random_subset.h"
#include "compress/sparse_message.h"
#include "core/base/error.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

constexpr std::uint32_t kCoreKeys = 1, kExplorerKeys = 2;

struct Header {
  std::uint32_t round = 0, what = 0;
  std::uint64_t signature = 0;
};
static_assert(sizeof(Header) == 16);

Header header_of(Slice<const std::byte> message) {
  Header header;
  require<DataError>(message.size() >= sizeof header, "a Slim-DP message of ", message.size(), " bytes has no header.");
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

void append(Bytes& message, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Slice<std::byte> to = message.append(bytes);
  if (message.device() != kGhost) std::memcpy(to.data(), from, bytes);
}

/// `count` keys that stand at `at`, ascending and below n.
void read_keys(Slice<const std::byte> message, std::size_t& at, std::size_t count, std::size_t n,
               std::vector<std::uint32_t>& keys) {
  require<DataError>(count * sizeof(std::uint32_t) <= message.size() - at, "a Slim-DP message of ", message.size(),
                     " bytes ends before its ", count, " keys.");
  keys.resize(count);
  if (count > 0) std::memcpy(keys.data(), message.data() + at, count * sizeof(std::uint32_t));
  at += count * sizeof(std::uint32_t);
  for (std::size_t i = 0; i < count; ++i)
    require<DataError>(keys[i] < n && (i == 0 || keys[i] > keys[i - 1]),
                       "the keys of a Slim-DP message do not ascend below ", n, " at place ", i, ".");
}

/// Both ascending.
bool share_a_key(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end(); *i < *j ? ++i : ++j)
    if (*i == *j) return true;
  return false;
}

/// f(slice of keys, place of their first value) for the core's keys and the explorer's.
template <class F>
void for_both(const SlimKeys& keys, F&& f) {
  f(slice(keys.core()), std::size_t{0});
  f(slice(keys.explorer()), keys.core().size());
}

}  // namespace

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

void SlimKeys::set_core(std::vector<std::uint32_t> core) {
  core_ = std::move(core);
  signature_ = signature_of(slice(std::as_const(core_)));
}

void SlimKeys::draw(const SlimRules& rules, std::size_t n, const SlimKey& key,
                    std::vector<std::uint32_t>& explorer) const {
  random_subset(n, explorer_elements(rules, n), slice(core_), key.random(), explorer);
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
    set_core(std::move(now));
    chosen_ = true;
    if (rules.core_every > 1) found_ = {}, selector_ = make_selector("exact");  // their memory is not needed for long
  }
  if (ahead_ == key)
    explorer_.swap(drawn_);
  else
    draw(rules, n, key, explorer_);
  ahead_.reset();
}

void SlimSet::draw_ahead(const SlimRules& rules, std::size_t n, const SlimKey& key) {
  ahead_.reset();
  if (due(rules, key)) return;
  draw(rules, n, key, drawn_);
  ahead_ = key;
}

void SlimSet::gather(Slice<const float> x, std::vector<float>& values) const {
  values.resize(core().size() + explorer().size());
  const auto on_host = [&] {
    for_both(*this, [&](Slice<const std::uint32_t> keys, std::size_t first) {
      for (std::size_t i = 0; i < keys.size(); ++i) values[first + i] = x[keys[i]];
    });
  };
  on_device(x.device(), on_host, [&] {
    const Storage there(values.size() * sizeof(float), x.device());
    auto* const to = reinterpret_cast<float*>(there.data());
    for_both(*this, [&](Slice<const std::uint32_t> keys, std::size_t first) {
      const Mirrored<std::uint32_t> at(keys, x.device());
      if constexpr (kCudaBuilt) cuda::gather_at(to + first, x.data(), at.data(), keys.size(), x.size());
    });
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
  std::vector<std::uint32_t> keys;
  for (std::int64_t i = 0; i < core.elements(); ++i) {
    const std::int64_t key = core.data<std::int64_t>()[i];
    require<DataError>(
        key >= 0 && static_cast<std::size_t>(key) < n && (keys.empty() || key > std::int64_t{keys.back()}),
        "resume: a core of Slim-DP is no set of keys below ", n, ". Use an older checkpoint.");
    keys.push_back(static_cast<std::uint32_t>(key));
  }
  set_core(std::move(keys));
  ahead_.reset();
  chosen_ = chosen.data<std::int64_t>()[0] != 0;
  new_ = true;
}

std::size_t SlimFormat::max_bytes() const {
  const std::size_t all = count();
  return sizeof(Header) + all * sizeof(std::uint32_t) +
         (codec != nullptr ? codec->max_bytes(all) : all * sizeof(float));
}

void write_slim(const SlimFormat& format, const SlimSet& set, bool with_keys, std::uint32_t round,
                Slice<const float> values, const Key& key, Bytes& message) {
  const bool ghost = message.device() == kGhost;
  const std::size_t core = ghost ? core_elements(format.rules, format.n) : set.core().size(),
                    explorer = ghost ? explorer_elements(format.rules, format.n) : set.explorer().size();
  require<ShapeError>(values.size() == core + explorer, "slim: ", values.size(), " values for ", core, " and ",
                      explorer, " keys");
  const Header header{round, (with_keys ? kCoreKeys : 0) | (format.rules.keys_sent ? kExplorerKeys : 0),
                      set.signature()};
  append(message, &header, sizeof header);
  if (with_keys) append(message, set.core().data(), core * sizeof(std::uint32_t));
  if (format.rules.keys_sent) append(message, set.explorer().data(), explorer * sizeof(std::uint32_t));
  if (format.codec != nullptr)
    format.codec->encode(values, key, message);
  else
    append(message, values.data(), values.size_bytes());
}

SlimBytes bytes_of(const SlimFormat& format, Slice<const std::byte> message) {
  const Header header = header_of(message);
  const auto core = static_cast<double>(core_elements(format.rules, format.n)),
             explorer = static_cast<double>(explorer_elements(format.rules, format.n));
  const double keys = sizeof(std::uint32_t) * (((header.what & kCoreKeys) != 0 ? core : 0) +
                                               ((header.what & kExplorerKeys) != 0 ? explorer : 0));
  const double values = static_cast<double>(message.size() - sizeof header) - keys,
               all = std::max(1.0, core + explorer);
  return {.core = values * core / all, .explorer = values * explorer / all, .keys = keys};
}

void SlimReader::expect(const SlimFormat& format, const SlimKey& key) {
  if (!known_ || format.rules.keys_sent || drawn_ == key) return;
  draw(format.rules, format.n, key, explorer_);
  drawn_ = key;
}

bool SlimReader::read(const SlimFormat& format, Slice<const std::byte> message, const SlimKey& key) {
  if (message.device() == kGhost) return true;
  const Header header = header_of(message);
  const std::uint32_t sent = format.rules.keys_sent ? kExplorerKeys : 0;
  require<DataError>(header.round == static_cast<std::uint32_t>(key.round) && (header.what & ~kCoreKeys) == sent,
                     "a Slim-DP message is of round ", header.round, " and kind ", header.what, " where round ",
                     key.round, " is due.");
  std::size_t at = sizeof header;
  const std::size_t core = core_elements(format.rules, format.n), explorer = explorer_elements(format.rules, format.n);
  if ((header.what & kCoreKeys) != 0) {
    known_ = false;
    drawn_.reset();
    std::vector<std::uint32_t> keys;
    read_keys(message, at, core, format.n, keys);
    set_core(std::move(keys));
    require<DataError>(signature_ == header.signature, "the keys of a Slim-DP message are not those of its signature.");
    known_ = true;
  } else if (!known_ || header.signature != signature_) {
    return false;
  }
  if (sent != 0) {
    read_keys(message, at, explorer, format.n, explorer_);
    require<DataError>(!share_a_key(core_, explorer_), "a Slim-DP message names a key of its core twice.");
  }
  expect(format, key);
  values_.resize(core + explorer);
  const Slice<const std::byte> payload = message.sub(at, message.size() - at);
  if (format.codec != nullptr) {
    format.codec->decode(payload, slice(values_));
  } else {
    require<DataError>(payload.size() == values_.size() * sizeof(float), "a Slim-DP message has ", payload.size(),
                       " bytes of values where ", values_.size() * sizeof(float), " are due.");
    if (!values_.empty()) std::memcpy(values_.data(), payload.data(), payload.size());
  }
  return true;
}

void SlimReader::add_to(float factor, Slice<float> dense) const {
  for_both(*this, [&](Slice<const std::uint32_t> keys, std::size_t first) {
    scatter_add(keys, slice(values_).sub(first, keys.size()), factor, dense);
  });
}

void SlimReader::overwrite(Slice<float> dense) const {
  const auto on_host = [&] {
    for_both(*this, [&](Slice<const std::uint32_t> keys, std::size_t first) {
      for (std::size_t i = 0; i < keys.size(); ++i) dense[keys[i]] = values_[first + i];
    });
  };
  on_device(dense.device(), on_host, [&] {
    const Mirrored<float> values(slice(values_), dense.device());
    for_both(*this, [&](Slice<const std::uint32_t> keys, std::size_t first) {
      const Mirrored<std::uint32_t> at(keys, dense.device());
      if constexpr (kCudaBuilt)
        cuda::put_at(dense.data(), values.data() + first, at.data(), keys.size(), dense.size());
    });
  });
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
