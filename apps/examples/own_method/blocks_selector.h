#pragma once
#include <laconic/compress/select/selector.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace own {
using namespace laconic;

/// Chooses whole blocks of neighbours, those with the largest sums of squares. The indices of neighbours take few bytes
/// with `index-coding` delta.
class Blocks final : public compress::Selector {
 public:
  static compress::SelectorKind kind() {
    return {"blocks", {.by_sign = false, .one_value = false}, [](const compress::SelectorOptions&) {
              return std::make_unique<Blocks>();
            }};
  }
  std::size_t most(std::size_t k, std::size_t n) const override { return std::min(n, std::max(k, kBlock)); }

 private:
  static constexpr std::size_t kBlock = 32;

  void choose(const Offer& offer, compress::Selection& out) override {
    const Slice<const float> x = offer.in.values;
    std::vector<double> energy((x.size() + kBlock - 1) / kBlock);
    for (std::size_t i = 0; i < x.size(); ++i) energy[i / kBlock] += double{x[i]} * x[i];
    std::vector<std::size_t> blocks(energy.size());
    std::iota(blocks.begin(), blocks.end(), 0);
    std::stable_sort(blocks.begin(), blocks.end(), [&](auto a, auto b) { return energy[a] > energy[b]; });
    blocks.resize(std::max<std::size_t>(1, offer.in.k / kBlock));
    std::sort(blocks.begin(), blocks.end());
    for (const std::size_t block : blocks)
      for (std::size_t i = block * kBlock; i < std::min(x.size(), (block + 1) * kBlock); ++i) {
        out.indices.push_back(static_cast<std::uint32_t>(i));
        out.values.push_back(x[i]);
      }
    out.threshold = static_cast<float>(energy[blocks.front()]);
  }
};

}  // namespace own
