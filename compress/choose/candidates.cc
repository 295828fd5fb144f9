#include "compress/choose/candidates.h"

#include <algorithm>

namespace laconic::compress {

void Candidates::disable() {
  begin(0, Sign::any, 0);
  active_ = false;
}

void Candidates::begin(float floor, Sign sign, std::size_t most) {
  active_ = true, sign_ = sign, floor_ = floor, most_ = most;
  elements_ = count_ = 0;
  found_.resize(0);
  runs_.clear();
  tiles_.tiles = 0;
  tiles_.parts.clear();
}

void Candidates::note(std::uint32_t first, std::uint64_t elements, std::uint64_t count, std::size_t kept) {
  elements_ += elements, count_ += count;
  if (kept > 0) runs_.push_back({first, found_.size() - kept, found_.size()});
}

Slice<const std::uint32_t> Candidates::indices() {
  order();
  return {found_.indices(), found_.size()};
}

Slice<const float> Candidates::values() {
  order();
  return {found_.values(), found_.size()};
}

void Candidates::order() {
  const auto before = [](const Run& a, const Run& b) { return a.first < b.first; };
  if (std::is_sorted(runs_.begin(), runs_.end(), before)) return;
  std::sort(runs_.begin(), runs_.end(), before);
  Elements ordered;
  ordered.reserve(found_.size());
  for (Run& r : runs_) {
    const std::size_t count = r.end - r.begin;
    ordered.append(found_.indices() + r.begin, found_.values() + r.begin, count);
    r.begin = ordered.size() - count, r.end = ordered.size();
  }
  std::swap(found_, ordered);
}

}  // namespace laconic::compress
