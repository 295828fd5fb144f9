#include "compress/candidates.h"

#include <algorithm>

namespace laconic::compress {

void Candidates::disable() {
  begin(0, Sign::any, 0);
  active_ = false;
}

void Candidates::begin(float floor, Sign sign, std::size_t most) {
  active_ = true, sign_ = sign, floor_ = floor, most_ = most;
  elements_ = count_ = 0;
  indices_.clear(), values_.clear(), runs_.clear();
}

void Candidates::add(std::uint32_t first, std::uint64_t elements, std::uint64_t count, const std::uint32_t* indices,
                     const float* values, std::size_t kept) {
  kept = std::min(kept, room());
  elements_ += elements, count_ += count;
  if (kept == 0) return;
  runs_.push_back({first, indices_.size(), indices_.size() + kept});
  indices_.insert(indices_.end(), indices, indices + kept);
  values_.insert(values_.end(), values, values + kept);
}

Slice<const std::uint32_t> Candidates::indices() {
  order();
  return {indices_.data(), indices_.size()};
}

Slice<const float> Candidates::values() {
  order();
  return {values_.data(), values_.size()};
}

void Candidates::order() {
  const auto before = [](const Run& a, const Run& b) { return a.first < b.first; };
  if (!std::is_sorted(runs_.begin(), runs_.end(), before)) {
    std::sort(runs_.begin(), runs_.end(), before);
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    indices.reserve(indices_.size()), values.reserve(values_.size());
    for (const Run& r : runs_) {
      indices.insert(indices.end(), indices_.data() + r.begin, indices_.data() + r.end);
      values.insert(values.end(), values_.data() + r.begin, values_.data() + r.end);
    }
    indices_.swap(indices), values_.swap(values);
  }
  runs_.assign(1, {0, 0, indices_.size()});
}

}  // namespace laconic::compress
