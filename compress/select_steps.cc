#include "compress/select_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "compress/cpu/select.h"
#include "compress/magnitude.h"

namespace laconic::compress::steps {
namespace {

constexpr std::size_t kBlock = 1024;  // values whose keys are made at once

/// The top k of a list of elements are those above `key`, and the first `equal` of those that have it.
struct Cut {
  std::int32_t key = 0;
  std::size_t equal = 0;
};

void take(Slice<const float> values, Sign sign, Cut cut, Selection& out) {
  std::vector<std::int32_t> keys(kBlock);
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const std::size_t length = std::min(kBlock, values.size() - first);
    if (cpu::to_keys(values.data() + first, length, sign, keys.data()) < cut.key) continue;
    for (std::size_t j = 0; j < length; ++j) {
      if (keys[j] < cut.key) continue;
      if (keys[j] == cut.key && cut.equal-- == 0) {
        cut.equal = 0;
        continue;
      }
      out.indices.push_back(static_cast<std::uint32_t>(first + j));
      out.values.push_back(values[first + j]);
    }
  }
  out.threshold = magnitude_of(cut.key);
}

/// Keys that compete, of all values.
std::vector<std::int32_t> keys_of(Slice<const float> values, Sign sign) {
  std::vector<std::int32_t> keys;
  keys.reserve(values.size());
  for (float v : values)
    if (const std::int32_t key = key_of(v, sign); key >= lowest_key(sign)) keys.push_back(key);
  return keys;
}

/// 1 <= k <= keys.size(). Changes the order of keys.
Cut nth_cut(std::vector<std::int32_t>& keys, std::size_t k) {
  const auto at = keys.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys.begin(), at, keys.end(), std::greater<>());
  return {*at, k - static_cast<std::size_t>(std::count_if(keys.begin(), at, [&](auto key) { return key > *at; }))};
}

/// The top k of what out holds.
void keep_top(std::size_t k, Sign sign, Selection& out) {
  if (out.size() <= k) return;
  std::vector<std::int32_t> keys = keys_of(slice(std::as_const(out.values)), sign);
  const Cut cut = nth_cut(keys, k);
  std::size_t kept = 0, equal = cut.equal;
  for (std::size_t j = 0; j < out.size(); ++j) {
    const std::int32_t key = key_of(out.values[j], sign);
    if (key < cut.key || (key == cut.key && equal == 0)) continue;
    if (key == cut.key) --equal;
    out.indices[kept] = out.indices[j], out.values[kept] = out.values[j];
    ++kept;
  }
  out.indices.resize(kept), out.values.resize(kept);
  out.threshold = magnitude_of(cut.key);
}

}  // namespace

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

float threshold_at(double ratio, Sign sign, const ResidualStats& stats) {
  const double mean = stats.mean(sign);
  return static_cast<float>(mean + ratio * (static_cast<double>(stats.max(sign)) - mean));
}

void nth_element(Slice<const float> values, std::size_t k, Sign sign, Selection& out) {
  std::vector<std::int32_t> keys = keys_of(values, sign);
  out.passes += 2;
  k = std::min(k, keys.size());
  if (k > 0) take(values, sign, nth_cut(keys, k), out);
}

void radix(Slice<const float> values, std::size_t k, Sign sign, Selection& out) {
  std::vector<std::int32_t> keys, next, block(kBlock);
  const std::int32_t lowest = lowest_key(sign);
  Cut cut{0, k};
  for (int shift = 24; shift >= 0; shift -= 8) {
    // f(keys, how many): of all values, block by block, as long as nothing is decided.
    const auto each = [&](auto&& f) {
      if (shift < 24) return f(keys.data(), keys.size());
      ++out.passes;
      for (std::size_t first = 0; first < values.size(); first += kBlock) {
        const std::size_t length = std::min(kBlock, values.size() - first);
        cpu::to_keys(values.data() + first, length, sign, block.data());
        f(block.data(), length);
      }
    };
    // Neighbours often have the same digit: a count in one place would wait for the one before.
    constexpr std::size_t kTables = 4;
    std::uint32_t tables[kTables][256] = {};
    each([&](const std::int32_t* key, std::size_t n) {
      for (std::size_t j = 0; j < n; ++j) tables[j % kTables][key[j] >> shift & 255] += key[j] >= lowest;
    });
    std::array<std::size_t, 256> counts{};
    for (const auto& table : tables)
      for (std::size_t d = 0; d < 256; ++d) counts[d] += table[d];
    if (shift == 24) {
      std::size_t all = 0;
      for (std::size_t count : counts) all += count;
      cut.equal = std::min(cut.equal, all);
      if (cut.equal == 0) return;
    }
    std::int32_t digit = 255;
    for (; counts[static_cast<std::size_t>(digit)] < cut.equal; --digit)
      cut.equal -= counts[static_cast<std::size_t>(digit)];
    cut.key |= digit << shift;
    next.resize(counts[static_cast<std::size_t>(digit)] + 1);  // one more, which every key is written to first
    std::size_t taken = 0;
    each([&](const std::int32_t* key, std::size_t n) {
      for (std::size_t j = 0; j < n; ++j) {
        next[taken] = key[j];
        taken += static_cast<std::size_t>((key[j] >> shift & 255) == digit && key[j] >= lowest);
      }
    });
    next.resize(taken);
    keys.swap(next);
  }
  ++out.passes;
  take(values, sign, cut, out);
}

void radix_histogram(Slice<const float> values, std::size_t k, Sign sign, Selection& out) {
  Cut cut{0, k};
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
  if (threshold < 0) return nth_element(values, k, sign, out);
  collect(values, sign, key_above(threshold, sign), 2 * k, out);
  out.threshold = threshold;
}

}  // namespace laconic::compress::steps
