#include "compress/select/filter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "compress/cpu/residual.h"
#include "compress/cpu/select.h"
#include "core/base/parallel.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kLine = 16, kBins = 4096, kDense = 32;

/// Where a list of keys is cut to give its top k.
struct Cut {
  RankCut top{};
  std::int32_t floor = 0;  ///< about `target` keys reach it, or would
};

/// 1 <= k <= n; smallest <= all keys <= largest. Counts in bins between these two, then orders the keys of one bin.
Cut cut_of(const std::vector<std::int32_t>& keys, std::int32_t smallest, std::int32_t largest, std::size_t k,
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
  Cut cut;
  if (target <= keys.size()) {
    cut.floor = key_at(place_of(target, target >= k ? last : top));
  } else {
    const float middle = magnitude_of(std::max(key_at(place_of((keys.size() + 1) / 2, top)), 0));
    const double times = static_cast<double>(target) / static_cast<double>(keys.size());
    cut.floor = key_of(floor_below(times, magnitude_of(std::max(smallest, 0)), middle), Sign::any);
  }
  line.clear();
  for (const std::int32_t key : keys)
    if ((key - smallest) >> shift == static_cast<std::int32_t>(last.bin)) line.push_back(key);
  cut.top.key = key_of_rank(line, k - last.above - 1);
  std::size_t above = last.above;
  for (const std::int32_t key : line) above += key > cut.top.key;
  cut.top.equal = k - above;
  return cut;
}

/// A floor for the next step: zeros are never worth keeping.
float floor_of(const Cut& cut) { return magnitude_of(std::max(cut.floor, 1)); }

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

/// Writes the elements above a key, and the first `equal` that have it, to out: `size` elements in all.
void take_above(const std::uint32_t* indices, const float* values, const std::vector<std::int32_t>& keys, RankCut cut,
                std::size_t size, Selection& out) {
  out.indices.resize(size + 16), out.values.resize(size + 16);
  size = cpu::compact(indices, values, keys.data(), keys.size(), cut.key, cut.equal, out.indices.data(),
                      out.values.data());
  out.indices.resize(size), out.values.resize(size);
}

}  // namespace

std::int32_t key_of_rank(std::vector<std::int32_t>& keys, std::size_t r) {
  const auto at = keys.begin() + static_cast<std::ptrdiff_t>(r);
  std::nth_element(keys.begin(), at, keys.end(), std::greater<>());
  return *at;
}

/// A key that probably some more than `need` of the values reach, from lines of 16 neighbours spread over the tensor;
/// the lowest key where they say nothing. Only the lines' largest keys are ordered, and then what is above a floor that
/// these give: 16 times less than ordering all.
std::int32_t Filter::sampled_floor(double aim) {
  const Request& r = request_;
  std::vector<std::int32_t>& keys = line_;
  const std::size_t n = r.values.size(), lines = n / kLine;
  const std::int32_t lowest = lowest_key(r.sign);
  if (lines == 0) return lowest;
  const std::size_t sample = std::min(std::clamp<std::size_t>(n / 2048, 256, 4096), lines);
  const double expected = aim * static_cast<double>(r.need) * static_cast<double>(sample) / static_cast<double>(lines);
  // Neighbours are alike: hits in clusters of c vary as if there were 1/c of them.
  const auto rank_for = [&](double cluster) {
    return static_cast<std::size_t>(1.1 * expected + 2 * std::sqrt(cluster * expected)) + 2;
  };
  const std::size_t stride = lines / sample;
  const auto line = [&](std::size_t j) {  // one of each `stride`; a division would take as long as the look
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
std::int32_t Filter::certain_floor() const {
  constexpr int kShift = 20;
  std::vector<std::size_t> counts(std::size_t{1} << (31 - kShift));
  const std::int32_t lowest = lowest_key(request_.sign);
  for (float v : request_.values)
    if (const std::int32_t key = key_of(v, request_.sign); key >= lowest)
      ++counts[static_cast<std::size_t>(key >> kShift)];
  std::size_t reached = 0;
  for (std::size_t bin = counts.size(); bin-- > 0;)
    if ((reached += counts[bin]) >= request_.need) return std::max(lowest, static_cast<std::int32_t>(bin << kShift));
  return lowest;
}

/// Drops what is below the floor.
void Filter::shrink(Elements& part, std::int32_t floor) {
  std::vector<std::int32_t> keys(part.size());
  cpu::to_keys(part.values(), part.size(), request_.sign, keys.data());
  part.resize(cpu::compact(part.indices(), part.values(), keys.data(), part.size(), floor - 1, 0, part.indices(),
                           part.values()));
}

/// One pass: what is at or above its part's floor goes to parts_. noted(found, part), after each chunk, may raise the
/// floor, and says whether to go on.
template <class Noted>
std::vector<Filter::Part> Filter::emit(Slice<const float> values, Sign sign, std::int32_t floor, bool dense,
                                       Noted&& noted) {
  const std::size_t n = values.size(), chunks = (n + cpu::kChunk - 1) / cpu::kChunk;
  std::vector<Part> parts(chunks);
  parts_.resize(std::max(parts_.size(), chunks));
  parallel_for(static_cast<std::int64_t>(chunks), 2, [&](std::int64_t begin, std::int64_t end) {
    const auto b = static_cast<std::size_t>(begin);
    Part& part = parts[b];
    Elements& found = parts_[b];
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

/// What is at or above the floor. A part that gets too many elements raises its floor so that about twice as many as
/// are needed stay: at least `need` have at least the new floor, or the key below it.
Filter::Kept Filter::filter(std::int32_t floor) {
  const std::size_t need = request_.need, most = std::max<std::size_t>(8 * need, cpu::kChunk);
  const bool dense = need > request_.values.size() / kDense;
  const auto prune = [&](Elements& found, Part& part) {
    if (found.size() <= most) return true;
    std::vector<std::int32_t> keys(found.size());
    cpu::to_keys(found.values(), found.size(), request_.sign, keys.data());
    std::vector<std::int32_t> order = keys;
    const std::int32_t t = key_of_rank(order, std::min(2 * need, found.size()) - 1);
    part.ties = cpu::count_from(keys.data(), keys.size(), t) > 3 * need;
    part.floor = part.ties ? t + 1 : t;
    shrink(found, part.floor);
    return true;
  };
  const std::vector<Part> parts = emit(request_.values, request_.sign, floor, dense, prune);
  Kept kept;
  kept.floor = floor;
  for (const Part& p : parts)
    if (p.used) kept.floor = std::max(kept.floor, p.floor);
  std::size_t used = 0, last = 0;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (!parts[c].used) continue;
    kept.ties |= parts[c].ties && parts[c].floor == kept.floor;
    if (parts[c].floor < kept.floor) shrink(parts_[c], kept.floor);
    kept.size += parts_[c].size();
    ++used, last = c;
  }
  const Elements* all = &parts_[last];
  if (used != 1) {
    joined_.resize(0);
    joined_.reserve(kept.size + 16);
    for (std::size_t c = 0; c < parts.size(); ++c)
      if (parts[c].used) joined_.append(parts_[c]);
    all = &joined_;
  }
  kept.indices = all->indices(), kept.values = all->values();
  return kept;
}

bool Filter::enough() const {
  return kept_.size >= request_.need || kept_.ties || kept_.floor == lowest_key(request_.sign);
}

void Filter::keep(const Request& request, Selection& out) {
  request_ = request;
  kept_ = {};
  float floor = request.floor;
  bool found = false;
  if (Candidates* c = request.candidates; complete(c, request.values.size(), request.sign)) {
    kept_ = {.indices = c->indices().data(),
             .values = c->values().data(),
             .size = c->indices().size(),
             .floor = key_from(c->floor(), request.sign),
             .remembered = true};
    found = enough();
    if (!found && c->floor() <= floor) floor = -1;
  }
  for (int attempt = floor >= 0 ? 0 : 1; !found; ++attempt) {
    std::int32_t key = 0;
    if (attempt == 0) {
      key = key_from(floor, request.sign);
    } else if (attempt <= 2) {
      key = sampled_floor(attempt == 1 ? 1 : 4);
    } else {
      key = certain_floor();
      ++out.passes;
    }
    kept_ = filter(key);
    kept_.remembered = attempt == 0;
    ++out.passes;
    found = enough();
  }
  keys_.resize(kept_.size);
  kept_.largest = cpu::to_keys(kept_.values, kept_.size, request.sign, keys_.data());
  require<NotANumber>(kept_.largest <= kInfinityKey, kNaNSentence);
}

std::size_t Filter::count_from(std::int32_t key) const {
  const std::size_t need = request_.need, n = request_.values.size();
  if (!holds(key)) return need < n ? n + 1 : n;  // at least as many as were needed
  return cpu::count_from(keys_.data(), kept_.size, key);
}

/// How many elements the next floor should aim at, where k are chosen.
std::size_t Filter::next_target(std::size_t k) const {
  const std::size_t need = request_.need, target = target_for(need, k);
  if (!kept_.remembered || kept_.size <= target) return target;
  const auto less = static_cast<std::size_t>(static_cast<double>(target) * static_cast<double>(target) /
                                             static_cast<double>(kept_.size));
  return std::max(less, need + (target - need) / 4);
}

float Filter::take_top(std::size_t k, Selection& out) {
  const std::size_t target = next_target(k);
  k = std::min(k, kept_.ties ? k : kept_.size);
  if (k == 0) return -1;
  if (kept_.size >= k) {
    const Cut cut = cut_of(keys_, kept_.floor, kept_.largest, k, target, line_);
    take_above(kept_.indices, kept_.values, keys_, cut.top, k, out);
    out.threshold = magnitude_of(cut.top.key);
    return floor_of(cut);
  }
  out.indices.assign(kept_.indices, kept_.indices + kept_.size);
  out.values.assign(kept_.values, kept_.values + kept_.size);
  merge_ties(request_.values, request_.sign, kept_.floor - 1, k - kept_.size, out);
  out.threshold = magnitude_of(kept_.floor - 1);
  return magnitude_of(std::max(kept_.floor - 1, 1));
}

void Filter::take_from(std::int32_t key, Selection& out) {
  take_above(kept_.indices, kept_.values, keys_, {key - 1, 0}, count_from(key), out);
}

float Filter::next_floor(std::size_t k) {
  if (kept_.size == 0) return -1;
  return floor_of(cut_of(keys_, kept_.floor, kept_.largest, 1, next_target(k), line_));
}

void Filter::collect(Slice<const float> values, Sign sign, std::int32_t key, std::size_t most, Selection& out) {
  ++out.passes;
  const auto parts =
      emit(values, sign, key, false, [&](const Elements& found, Part&) { return found.size() < most; });
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (!parts[c].used) continue;
    const Elements& found = parts_[c];
    const std::size_t take = std::min(found.size(), most - out.size());
    out.indices.insert(out.indices.end(), found.indices(), found.indices() + take);
    out.values.insert(out.values.end(), found.values(), found.values() + take);
  }
}

void Filter::above(Slice<const float> values, Candidates* c, Sign sign, float threshold, std::size_t most,
                   Selection& out) {
  const std::int32_t key = key_above(threshold, sign);
  out.threshold = threshold;
  if (!complete(c, values.size(), sign) || key_from(c->floor(), sign) > key)
    return collect(values, sign, key, most, out);
  const auto indices = c->indices();
  const auto kept = c->values();
  for (std::size_t j = 0; j < indices.size() && out.size() < most; ++j)
    if (key_of(kept[j], sign) >= key) out.indices.push_back(indices[j]), out.values.push_back(kept[j]);
}

void Filter::keep_top(std::size_t k, Sign sign, std::int32_t floor, Selection& out) {
  if (out.size() <= k) return;
  keys_.resize(out.size());
  const std::int32_t largest = cpu::to_keys(out.values.data(), out.size(), sign, keys_.data());
  const Cut cut = cut_of(keys_, floor, largest, k, k, line_);
  Selection top;
  take_above(out.indices.data(), out.values.data(), keys_, cut.top, k, top);
  out.indices.swap(top.indices), out.values.swap(top.values);
  out.threshold = magnitude_of(cut.top.key);
}

std::size_t target_for(std::size_t need, std::size_t k) {
  return need + k / 2 + static_cast<std::size_t>(3 * std::sqrt(static_cast<double>(need))) + 16;
}

float floor_below(double times, float least, float middle) {
  const float down = std::max(0.0f, static_cast<float>(std::log2(times)) * (middle - least));
  return down < 0.2f * least ? least - down : 0.8f * least;
}

void take(Slice<const float> values, Sign sign, RankCut cut, Selection& out) {
  cpu::each_block(values, sign, [&](std::size_t first, const std::int32_t* keys, std::size_t n, std::int32_t largest) {
    if (largest < cut.key) return;
    for (std::size_t j = 0; j < n; ++j) {
      if (keys[j] < cut.key || (keys[j] == cut.key && cut.equal == 0)) continue;
      if (keys[j] == cut.key) --cut.equal;
      out.indices.push_back(static_cast<std::uint32_t>(first + j));
      out.values.push_back(values[first + j]);
    }
  });
  out.threshold = magnitude_of(cut.key);
}

}  // namespace laconic::compress
