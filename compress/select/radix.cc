#include <algorithm>
#include <array>
#include <vector>

#include "compress/cpu/select.h"
#include "compress/cuda/choosing.h"
#include "compress/select/filter.h"
#include "compress/select/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Top k by radix select: the digits of 8 bits are counted, the values with the deciding digit are scattered into a
/// buffer, and the same again on that. On the calling thread alone.
/// source: Alabi et al. 2012, as RedSync's baseline has it
void radix_select(Slice<const float> values, std::size_t k, Sign sign, Selection& out) {
  std::vector<std::int32_t> keys, next;
  const std::int32_t lowest = lowest_key(sign);
  RankCut cut{0, k};
  for (int shift = 24; shift >= 0; shift -= 8) {
    // f(keys, how many): of all values, block by block, as long as nothing is decided.
    const auto each = [&](auto&& f) {
      if (shift < 24) return f(keys.data(), keys.size());
      ++out.passes;
      cpu::each_block(values, sign, [&](std::size_t, const std::int32_t* block, std::size_t n, std::int32_t) {
        f(block, n);
      });
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

class Radix final : public Selector {
  void choose(const Offer& offer, Selection& out) override {
    radix_select(offer.in.values, offer.in.k, offer.in.sign, out);
  }
  Steps choose_on_cuda(Offer o, Selection& out) override {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      out.passes += 5;
      cuda::cut_by_scattering(choosing.all(), o.in.sign, cuda::word(o.in.k), choosing.state());
      choosing.take(choosing.all(), o.in.k);
      const cuda::SelectState& s = co_await choosing.outcome();
      choosing.finish(s.cut);
    }
  }
};

}  // namespace

SelectorKind radix_selector() {
  return {"radix", {.keeps = 0.5}, [](const SelectorOptions&) { return std::make_unique<Radix>(); }};
}

}  // namespace laconic::compress
