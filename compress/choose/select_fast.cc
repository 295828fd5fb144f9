#include "compress/choose/select_fast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "compress/cpu/residual.h"
#include "compress/cpu/select.h"
#include "compress/choose/magnitude.h"
#include "compress/choose/select_steps.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/random.h"

namespace laconic::compress::fast {
namespace {

constexpr std::size_t kLine = 16, kBins = 4096, kDense = 32;

void require_numbers(std::int32_t largest_key) { require<NotANumber>(largest_key <= kInfinityKey, kNaNSentence); }

/// The key of rank r (from 0) among the n largest. Changes the order.
std::int32_t key_of_rank(std::vector<std::int32_t>& keys, std::size_t r) {
  const auto at = keys.begin() + static_cast<std::ptrdiff_t>(r);
  std::nth_element(keys.begin(), at, keys.end(), std::greater<>());
  return *at;
}

/// A key that probably some more than `need` of the values reach, from lines of 16 neighbours spread over the tensor;
/// the lowest key where they say nothing. Only the lines' largest keys are ordered, and then what is above a
/// floor that these give: 16 times less than ordering all.
std::int32_t sampled_floor(const Request& r, double aim, std::vector<std::int32_t>& keys) {
  const std::size_t n = r.values.size(), lines = n / kLine;
  const std::int32_t lowest = lowest_key(r.sign);
  if (lines == 0) return lowest;
  const std::size_t sample = std::min(std::clamp<std::size_t>(n / 2048, 256, 4096), lines);
  const double expected = aim * static_cast<double>(r.need) * static_cast<double>(sample) / static_cast<double>(lines);
  // Neighbours are alike: so many hits in clusters of c vary as if they were 1/c as many.
  const auto rank_for = [&](double cluster) {
    return static_cast<std::size_t>(1.1 * expected + 2 * std::sqrt(cluster * expected)) + 2;
  };
  const std::size_t stride = lines / sample;
  const auto line = [&](std::size_t j) {  // one of each `stride`; no division, which would take as long as the look
    const std::uint64_t jitter = static_cast<std::uint64_t>(static_cast<std::uint32_t>(j * 0x9E3779B9u)) * stride >> 32;
    return r.values.data() + kLine * (j * stride + jitter);
  };
  std::size_t rank = rank_for(1);
  if (rank > sample / 2) {
    keys.resize(sample * kLine);
    if (rank > keys.size()) return lowest;
    for (std::size_t j = 0; j < sample; ++j) cpu::to_keys(line(j), kLine, r.sign, keys.data() + j * kLine);
    return std::max(lowest, key_of_rank(keys, rank - 1));
  }
  keys.resize(sample);
  for (std::size_t j = 0; j < sample; ++j) keys[j] = cpu::largest_of_line(line(j), r.sign);
  const std::vector<std::int32_t> largest = keys;
  const std::int32_t floor = std::max(lowest, key_of_rank(keys, rank - 1));
  keys.clear();
  std::int32_t of_line[kLine];
  for (std::size_t j = 0; j < sample; ++j) {
    if (largest[j] < floor) continue;
    cpu::to_keys(line(j), kLine, r.sign, of_line);
    for (const std::int32_t key : of_line)
      if (key >= floor) keys.push_back(key);
  }
  if (keys.size() <= rank) return floor;
  rank = std::min(rank_for(static_cast<double>(keys.size()) / static_cast<double>(rank)), keys.size());
  return key_of_rank(keys, rank - 1);
}

/// A key that at least `need` of the values reach, and few more octaves than needed; the lowest if fewer compete.
std::int32_t certain_floor(const Request& r) {
  constexpr int kShift = 20;
  std::vector<std::size_t> counts(std::size_t{1} << (31 - kShift));
  const std::int32_t lowest = lowest_key(r.sign);
  for (float v : r.values)
    if (const std::int32_t key = key_of(v, r.sign); key >= lowest) ++counts[static_cast<std::size_t>(key >> kShift)];
  std::size_t reached = 0;
  for (std::size_t bin = counts.size(); bin-- > 0;)
    if ((reached += counts[bin]) >= r.need) return std::max(lowest, static_cast<std::int32_t>(bin << kShift));
  return lowest;
}

/// All elements whose key is at least `floor`.
struct Kept {
  const std::uint32_t* indices = nullptr;
  const float* values = nullptr;
  std::size_t size = 0;
  std::int32_t floor = 0;
  std::int32_t largest = 0;  ///< key
  /// Fewer than were needed are above it, but with those that have the key floor - 1 there are enough.
  bool ties = false;
  bool remembered = false;  ///< the floor was that of an earlier step
};

/// Raises the floor of a part so that about twice `need` elements stay: at least `need` have at least the new floor, or
/// the key below it.
void prune(Elements& part, Sign sign, std::size_t need, std::int32_t& floor, bool& ties) {
  std::vector<std::int32_t> keys(part.size());
  cpu::to_keys(part.values(), part.size(), sign, keys.data());
  std::vector<std::int32_t> order = keys;
  const std::int32_t t = key_of_rank(order, std::min(2 * need, part.size()) - 1);
  ties = cpu::count_from(keys.data(), keys.size(), t) > 3 * need;
  floor = ties ? t + 1 : t;
  part.resize(cpu::compact(part.indices(), part.values(), keys.data(), part.size(), floor - 1, 0, part.indices(),
                           part.values()));
}

/// What a thread finds, by the first of its chunks.
struct Part {
  std::int32_t floor = 0;
  bool ties = false, used = false;
};

/// One pass: what is at or above its part's floor goes to scratch.parts. `noted`, after each chunk, may raise the
/// floor; it says whether to go on.
template <class Noted>
std::vector<Part> emit(Slice<const float> values, Sign sign, std::int32_t floor, bool dense, Scratch& scratch,
                       Noted&& noted) {
  const std::size_t n = values.size(), chunks = (n + cpu::kChunk - 1) / cpu::kChunk;
  std::vector<Part> parts(chunks);
  scratch.parts.resize(std::max(scratch.parts.size(), chunks));
  parallel_for(static_cast<std::int64_t>(chunks), 2, [&](std::int64_t begin, std::int64_t end) {
    const auto b = static_cast<std::size_t>(begin);
    Part& part = parts[b];
    Elements& found = scratch.parts[b];
    part = {floor, false, true};
    found.resize(0);
    for (std::size_t c = b; c < static_cast<std::size_t>(end); ++c) {
      const std::size_t at = c * cpu::kChunk, length = std::min(cpu::kChunk, n - at);
      found.reserve(found.size() + length + 16);
      cpu::Emission e{.sign = sign,
                      .floor = part.floor,
                      .first = static_cast<std::uint32_t>(at),
                      .indices = found.indices() + found.size(),
                      .values = found.values() + found.size()};
      cpu::emit_chunk(values.data() + at, length, dense, e);
      found.resize(found.size() + e.count);
      if (!noted(found, part)) return;
    }
  });
  return parts;
}

/// What is at or above the floor. A part that gets too many raises its floor.
Kept filter(const Request& r, std::int32_t floor, Scratch& scratch) {
  const std::size_t most = std::max<std::size_t>(8 * r.need, cpu::kChunk);
  const bool dense = r.need > r.values.size() / kDense;
  const std::vector<Part> parts = emit(r.values, r.sign, floor, dense, scratch, [&](Elements& found, Part& part) {
    if (found.size() > most) prune(found, r.sign, r.need, part.floor, part.ties);
    return true;
  });
  Kept kept;
  kept.floor = floor;
  for (const Part& p : parts)
    if (p.used) kept.floor = std::max(kept.floor, p.floor);
  std::size_t size = 0, used = 0, last = 0;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (!parts[c].used) continue;
    kept.ties |= parts[c].ties && parts[c].floor == kept.floor;
    if (parts[c].floor < kept.floor) {
      Elements& found = scratch.parts[c];
      scratch.keys.resize(found.size());
      cpu::to_keys(found.values(), found.size(), r.sign, scratch.keys.data());
      found.resize(cpu::compact(found.indices(), found.values(), scratch.keys.data(), found.size(), kept.floor - 1, 0,
                                found.indices(), found.values()));
    }
    size += scratch.parts[c].size();
    ++used, last = c;
  }
  const Elements* all = &scratch.parts[last];
  if (used != 1) {
    scratch.kept.resize(0);
    scratch.kept.reserve(size + 16);
    for (std::size_t c = 0; c < parts.size(); ++c)
      if (parts[c].used) scratch.kept.append(scratch.parts[c]);
    all = &scratch.kept;
  }
  kept.indices = all->indices(), kept.values = all->values(), kept.size = size;
  return kept;
}

/// Where a list of keys is cut to give its top k.
struct Cut {
  std::int32_t key = 0;    ///< those above it are in
  std::size_t equal = 0;   ///< and the first so many of those that have it
  std::int32_t floor = 0;  ///< about `target` reach this, or would
};

/// 1 <= k <= n; smallest <= all keys <= largest. Bins between these two, nth_element inside of one.
Cut cut(const std::vector<std::int32_t>& keys, std::int32_t smallest, std::int32_t largest, std::size_t k,
        std::size_t target, std::vector<std::int32_t>& line) {
  const std::size_t bins = std::clamp<std::size_t>(std::bit_ceil(keys.size()) / 2, kBins / 16, kBins);
  int shift = 0;
  while (static_cast<std::size_t>((largest - smallest) >> shift) >= bins) ++shift;
  std::uint32_t counts[kBins];
  std::fill_n(counts, bins, 0u);
  for (const std::int32_t key : keys) ++counts[(key - smallest) >> shift];
  // The last bin that holds some of the first `rank` keys, and how many are above it.
  struct Place {
    std::size_t bin, above;
  };
  const auto place_of = [&](std::size_t rank, Place from) {
    for (; from.above + counts[from.bin] < rank; --from.bin) from.above += counts[from.bin];
    return from;
  };
  const auto key_at = [&](Place place) { return smallest + (static_cast<std::int32_t>(place.bin) << shift); };
  const Place top{bins - 1, 0}, last = place_of(k, top);
  Cut result;
  if (target <= keys.size()) {
    result.floor = key_at(place_of(target, target >= k ? last : top));
  } else {
    const float middle = magnitude_of(std::max(key_at(place_of((keys.size() + 1) / 2, top)), 0));
    const double times = static_cast<double>(target) / static_cast<double>(keys.size());
    result.floor = key_of(floor_below(times, magnitude_of(std::max(smallest, 0)), middle), Sign::any);
  }
  line.clear();
  for (const std::int32_t key : keys)
    if ((key - smallest) >> shift == static_cast<std::int32_t>(last.bin)) line.push_back(key);
  result.key = key_of_rank(line, k - last.above - 1);
  std::size_t above = last.above;
  for (const std::int32_t key : line) above += key > result.key;
  result.equal = k - above;
  return result;
}

/// How many elements the next floor should aim at, where k are chosen.
std::size_t next_target(const Request& r, const Kept& kept, std::size_t k) {
  const std::size_t target = target_for(r.need, k);
  if (!kept.remembered || kept.size <= target) return target;
  const auto less = static_cast<std::size_t>(static_cast<double>(target) * static_cast<double>(target) /
                                             static_cast<double>(kept.size));
  return std::max(less, r.need + (target - r.need) / 4);
}

/// A floor for the next step: zeros are never worth keeping.
float next_floor(const Cut& c) { return magnitude_of(std::max(c.floor, 1)); }

/// Adds the first `count` elements whose key is `key` to out, which has none of them.
void merge_ties(Slice<const float> values, Sign sign, std::int32_t key, std::size_t count, Selection& out) {
  Selection all;
  ++out.passes;
  std::size_t j = 0;
  for (std::size_t i = 0; i < values.size() && (count > 0 || j < out.size()); ++i) {
    const bool taken = j < out.size() && out.indices[j] == i, tie = count > 0 && key_of(values[i], sign) == key;
    if (!taken && !tie) continue;
    all.indices.push_back(static_cast<std::uint32_t>(i)), all.values.push_back(values[i]);
    j += taken, count -= tie;
  }
  out.indices.swap(all.indices), out.values.swap(all.values);
}

bool complete(const Candidates* c, std::size_t n, Sign sign) {
  return c && c->complete() && c->sign() == sign && c->elements() == n;
}

/// At least `need` elements, or all that compete. Keys go to scratch.keys.
Kept keep(const Request& r, Scratch& scratch, Selection& out) {
  const std::int32_t lowest = lowest_key(r.sign);
  Kept kept;
  const auto enough = [&] { return kept.size >= r.need || kept.ties || kept.floor == lowest; };
  const auto with_keys = [&] {
    scratch.keys.resize(kept.size);
    kept.largest = cpu::to_keys(kept.values, kept.size, r.sign, scratch.keys.data());
    require_numbers(kept.largest);
    return kept;
  };
  float floor = r.floor;
  if (Candidates* c = r.candidates; complete(c, r.values.size(), r.sign)) {
    kept.indices = c->indices().data(), kept.values = c->values().data(), kept.size = c->indices().size();
    kept.floor = key_from(c->floor(), r.sign);
    kept.remembered = true;
    if (enough()) return with_keys();
    if (c->floor() <= floor) floor = -1;
  }
  for (int attempt = floor >= 0 ? 0 : 1;; ++attempt) {
    std::int32_t key = lowest;
    if (attempt == 0) {
      key = key_from(floor, r.sign);
    } else if (attempt <= 2) {
      key = sampled_floor(r, attempt == 1 ? 1 : 4, scratch.line);
    } else {
      key = certain_floor(r);
      ++out.passes;
    }
    kept = filter(r, key, scratch);
    kept.remembered = attempt == 0;
    ++out.passes;
    if (enough()) return with_keys();
  }
}

/// Those of `kept` above a key, and the first `equal` that have it. `size`: how many that are.
void take(const Kept& kept, const std::vector<std::int32_t>& keys, std::int32_t key, std::size_t equal,
          std::size_t size, Selection& out) {
  out.indices.resize(size + 16), out.values.resize(size + 16);
  size = cpu::compact(kept.indices, kept.values, keys.data(), kept.size, key, equal, out.indices.data(),
                      out.values.data());
  out.indices.resize(size), out.values.resize(size);
}

/// The top k, of what keep() gave for need >= k.
float top_of(const Request& r, const Kept& kept, std::size_t k, Scratch& scratch, Selection& out) {
  const std::size_t target = next_target(r, kept, k);
  k = std::min(k, kept.ties ? k : kept.size);
  if (k == 0) return -1;
  if (kept.size >= k) {
    const Cut c = cut(scratch.keys, kept.floor, kept.largest, k, target, scratch.line);
    take(kept, scratch.keys, c.key, c.equal, k, out);
    out.threshold = magnitude_of(c.key);
    return next_floor(c);
  }
  out.indices.assign(kept.indices, kept.indices + kept.size);
  out.values.assign(kept.values, kept.values + kept.size);
  merge_ties(r.values, r.sign, kept.floor - 1, k - kept.size, out);
  out.threshold = magnitude_of(kept.floor - 1);
  return magnitude_of(std::max(kept.floor - 1, 1));
}

}  // namespace

float top(const Request& r, Scratch& scratch, Selection& out) {
  return top_of(r, keep(r, scratch, out), r.need, scratch, out);
}

float search(const Request& r, std::size_t k, const ResidualStats& stats, Scratch& scratch, Selection& out) {
  const Kept kept = keep(r, scratch, out);
  const std::size_t n = r.values.size();
  // Down from the key below the floor there are at least as many as were needed: more than 2k, or all.
  const auto count = [&](std::int32_t key) {
    if (key < kept.floor && kept.floor > lowest_key(r.sign)) return r.need < n ? n + 1 : n;
    return cpu::count_from(scratch.keys.data(), kept.size, key);
  };
  const float threshold = steps::bisect(k, r.sign, stats, count);
  if (threshold < 0) return top_of(r, kept, k, scratch, out);
  const std::int32_t key = key_above(threshold, r.sign);
  if (key >= kept.floor || kept.floor == lowest_key(r.sign)) {
    const std::size_t size = count(key);
    take(kept, scratch.keys, key - 1, 0, size, out);
    if (size > 2 * k) out.indices.resize(2 * k), out.values.resize(2 * k);
  } else {
    collect(r.values, r.sign, key, 2 * k, scratch, out);
  }
  out.threshold = threshold;
  if (kept.size == 0) return -1;
  return next_floor(cut(scratch.keys, kept.floor, kept.largest, 1, next_target(r, kept, k), scratch.line));
}

void collect(Slice<const float> values, Sign sign, std::int32_t key, std::size_t most, Scratch& scratch,
             Selection& out) {
  ++out.passes;
  const auto parts =
      emit(values, sign, key, false, scratch, [&](const Elements& found, Part&) { return found.size() < most; });
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (!parts[c].used) continue;
    const Elements& found = scratch.parts[c];
    const std::size_t take = std::min(found.size(), most - out.size());
    out.indices.insert(out.indices.end(), found.indices(), found.indices() + take);
    out.values.insert(out.values.end(), found.values(), found.values() + take);
  }
}

void keep_top(std::size_t k, Sign sign, std::int32_t floor, Scratch& scratch, Selection& out) {
  if (out.size() <= k) return;
  scratch.keys.resize(out.size());
  const std::int32_t largest = cpu::to_keys(out.values.data(), out.size(), sign, scratch.keys.data());
  const Cut c = cut(scratch.keys, floor, largest, k, k, scratch.line);
  Selection top;
  const Kept all{.indices = out.indices.data(), .values = out.values.data(), .size = out.size()};
  take(all, scratch.keys, c.key, c.equal, k, top);
  out.indices.swap(top.indices), out.values.swap(top.values);
  out.threshold = magnitude_of(c.key);
}

void above(Slice<const float> values, Candidates* c, Sign sign, float threshold, std::size_t most, Scratch& scratch,
           Selection& out) {
  const std::int32_t key = key_above(threshold, sign);
  out.threshold = threshold;
  if (!complete(c, values.size(), sign) || key_from(c->floor(), sign) > key)
    return collect(values, sign, key, most, scratch, out);
  const auto indices = c->indices();
  const auto kept = c->values();
  for (std::size_t j = 0; j < indices.size() && out.size() < most; ++j)
    if (key_of(kept[j], sign) >= key) out.indices.push_back(indices[j]), out.values.push_back(kept[j]);
}

float floor_below(double times, float least, float middle) {
  const float down = std::max(0.0f, static_cast<float>(std::log2(times)) * (middle - least));
  return down < 0.2f * least ? least - down : 0.8f * least;
}

std::size_t target_for(std::size_t need, std::size_t k) {
  return need + k / 2 + static_cast<std::size_t>(3 * std::sqrt(static_cast<double>(need))) + 16;
}

Sample sample_of(std::size_t n, std::size_t k, double share) {
  const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(n)));
  const std::size_t size = std::min(n, std::max<std::size_t>(wanted, 1024));
  const auto rank =
      static_cast<std::size_t>(std::ceil(static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(n)));
  return {size, std::max<std::size_t>(rank, 1)};
}

std::int32_t sampled_key(Slice<const float> values, std::size_t k, Sign sign, double share, std::uint64_t turn) {
  const auto [size, rank] = sample_of(values.size(), k, share);
  const std::size_t n = values.size(), stride = n / size;
  std::vector<std::int32_t> keys(size);
  for (std::size_t j = 0; j < size; ++j) {
    const std::size_t first = static_cast<std::size_t>(static_cast<unsigned __int128>(j) * n / size);
    const auto bits = philox({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(turn)}, {})[0];
    keys[j] = key_of(values[first + bits % stride], sign);
  }
  return std::max(key_of_rank(keys, rank - 1), 1);  // zeros are not worth sending
}

}  // namespace laconic::compress::fast
