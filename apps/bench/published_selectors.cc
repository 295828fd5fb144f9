#include "apps/bench/published_selectors.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "compress/select/selection.h"
#include "compress/select/filter.h"
#include "compress/select/search.h"
#include "core/cpu/simd.h"
#include "core/base/error.h"
#include "core/base/parallel.h"

namespace laconic::compress {
namespace {

/// Keys that compete, of all values.
std::vector<std::int32_t> keys_of(Slice<const float> values, Sign sign) {
  std::vector<std::int32_t> keys;
  keys.reserve(values.size());
  for (float v : values)
    if (const std::int32_t key = key_of(v, sign); key >= lowest_key(sign)) keys.push_back(key);
  return keys;
}

/// 1 <= k <= keys.size(). Changes the order of keys.
RankCut nth_cut(std::vector<std::int32_t>& keys, std::size_t k) {
  const auto at = keys.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys.begin(), at, keys.end(), std::greater<>());
  return {*at, k - static_cast<std::size_t>(std::count_if(keys.begin(), at, [&](auto key) { return key > *at; }))};
}

/// Keeps the top k of what out holds.
void keep_top(std::size_t k, Sign sign, Selection& out) {
  if (out.size() <= k) return;
  const Slice<const float> values = slice(std::as_const(out.values));
  std::vector<std::int32_t> keys = keys_of(values, sign);
  Selection top;
  take(values, sign, nth_cut(keys, k), top);
  for (std::uint32_t& i : top.indices) i = out.indices[i];
  top.passes = out.passes;
  out = std::move(top);
}

std::size_t count_from(Slice<const float> values, Sign sign, std::int32_t key) {
  std::size_t count = 0;
  for (float v : values) count += key_of(v, sign) >= key;
  return count;
}

void collect(Slice<const float> values, Sign sign, std::int32_t key, std::size_t most, Selection& out) {
  ++out.passes;
  for (std::size_t i = 0; i < values.size() && out.size() < most; ++i) {
    if (key_of(values[i], sign) < key) continue;
    out.indices.push_back(static_cast<std::uint32_t>(i));
    out.values.push_back(values[i]);
  }
}

void nth_element(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats&, Selection& out) {
  std::vector<std::int32_t> keys = keys_of(values, sign);
  out.passes += 2;
  k = std::min(k, keys.size());
  if (k > 0) take(values, sign, nth_cut(keys, k), out);
}

void radix_histogram(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats&, Selection& out) {
  RankCut cut{0, k};
  int above = 31;  // the bits from here on are decided
  for (const int bits : {11, 10, 10}) {
    const int shift = above - bits;
    std::vector<std::size_t> counts(std::size_t{1} << bits);
    ++out.passes;
    for (float v : values) {
      const std::int32_t key = key_of(v, sign);
      if (key < lowest_key(sign)) continue;
      if (above < 31 && key >> above != cut.key >> above) continue;
      ++counts[static_cast<std::size_t>(key >> shift) & (counts.size() - 1)];
    }
    if (above == 31) {
      std::size_t all = 0;
      for (std::size_t count : counts) all += count;
      cut.equal = std::min(cut.equal, all);
      if (cut.equal == 0) return;
    }
    std::size_t digit = counts.size() - 1;
    for (; counts[digit] < cut.equal; --digit) cut.equal -= counts[digit];
    cut.key |= static_cast<std::int32_t>(digit << shift);
    above = shift;
  }
  ++out.passes;
  take(values, sign, cut, out);
}

void trimmed(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats& stats, Selection& out) {
  constexpr double kEps = 0.2;
  double ratio = 1 - kEps;
  float threshold = 0, before = std::numeric_limits<float>::infinity();
  std::size_t nnz = 0;
  do {
    threshold = threshold_at(ratio, sign, stats);
    if (!(threshold >= 0 && threshold < before)) {  // below 0, all equal, or nothing finite
      threshold = -1;
      break;
    }
    ++out.passes;
    nnz = count_from(values, sign, key_above(threshold, sign));
    before = threshold;
    ratio -= kEps;
  } while (nnz < k);
  collect(values, sign, key_above(threshold, sign), values.size(), out);
  out.threshold = threshold < 0 ? 0 : threshold;
  keep_top(k, sign, out);
}

void search(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats& stats, Selection& out) {
  const float threshold = bisect(k, sign, stats, [&](std::int32_t key) {
    ++out.passes;
    return count_from(values, sign, key);
  });
  if (threshold < 0) return nth_element(values, k, sign, stats, out);
  collect(values, sign, key_above(threshold, sign), 2 * k, out);
  out.threshold = threshold;
}

using Way = void (*)(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats& stats, Selection& out);

class Published final : public Selector {
 public:
  Published(Way way, std::size_t most_by_k) : way_(way), most_by_k_(most_by_k) {}
  std::size_t most(std::size_t k, std::size_t n) const override { return std::min(most_by_k_ * k, n); }

 private:
  void choose(const Offer& offer, Selection& out) override {
    way_(offer.in.values, offer.in.k, offer.in.sign, offer.stats, out);
  }
  Way way_;
  std::size_t most_by_k_;
};

SelectorKind kind(const char* name, Way way, std::size_t most_by_k = 1) {
  return {
      name, {.by_name = false}, [=](const SelectorOptions&) { return std::make_unique<Published>(way, most_by_k); }};
}

LACONIC_MULTIVERSION void sum_of_magnitudes(const float* x, std::int64_t n, float* sums) {
  laconic::cpu::HalfLanes lanes[8] = {};
  const laconic::cpu::HalfLanes zero{};
  for (std::int64_t i = 0; i + 64 <= n; i += 64)
#pragma GCC unroll 8
    for (int l = 0; l < 8; ++l) {
      laconic::cpu::HalfLanes v;
      laconic::cpu::load(v, x + i + 8 * l);
      lanes[l] = lanes[l] + (v < zero ? -v : v);
    }
  laconic::cpu::store(sums, lanes[0] + lanes[2] + lanes[4] + lanes[6]);
  laconic::cpu::store(sums + 8, lanes[1] + lanes[3] + lanes[5] + lanes[7]);
}

}  // namespace

const std::vector<SelectorKind>& published_selectors() {
  static const std::vector<SelectorKind> all{kind("nth-element", nth_element), kind("radix-histogram", radix_histogram),
                                             kind("trimmed-steps", trimmed), kind("search-steps", search, 2)};
  return all;
}

const SelectorKind& published_selector(const std::string& name) {
  for (const SelectorKind& kind : published_selectors())
    if (kind.name == name) return kind;
  throw Error(concat("there is no published selector '", name, "'."));
}

double read_pass(const float* x, std::int64_t n) {
  constexpr std::int64_t kChunk = 65536;
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<float> sums(static_cast<std::size_t>(16 * chunks));
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      sum_of_magnitudes(x + c * kChunk, std::min(kChunk, n - c * kChunk), sums.data() + 16 * c);
  });
  double sum = 0;
  for (const float s : sums) sum += static_cast<double>(s);
  return sum;
}

}  // namespace laconic::compress
