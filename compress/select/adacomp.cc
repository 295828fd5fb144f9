#include <algorithm>

#include "compress/cuda/choosing.h"
#include "compress/select/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses what reaches the largest value of its bin when the latest step counts twice.
/// source: Chen et al. 2018, AdaComp, Algorithm 2: H = G + dW with G the residue including dW; sent where |H| reaches
/// the largest |G| of the bin.
class AdaComp final : public Selector {
 public:
  explicit AdaComp(std::size_t bin) : bin_(bin) {}

  std::size_t most(std::size_t, std::size_t n) const override { return n; }

 private:
  void choose(const Offer& o, Selection& out) override {
    const Slice<const float> values = o.in.values, latest = o.in.latest;
    ++out.passes;
    for (std::size_t first = 0; first < values.size(); first += bin_) {
      const std::size_t end = std::min(values.size(), first + bin_);
      std::int32_t largest = 1;  // a bin of zeros sends nothing
      for (std::size_t i = first; i < end; ++i) largest = std::max(largest, key_of(values[i], Sign::any));
      for (std::size_t i = first; i < end; ++i) {
        if (key_of(values[i] + latest[i], Sign::any) < largest) continue;
        out.indices.push_back(static_cast<std::uint32_t>(i));
        out.values.push_back(values[i]);
      }
    }
  }
  Steps choose_on_cuda(Offer o, Selection& out) override {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      const std::size_t n = o.in.values.size();
      ++out.passes;
      Bytes& bins = choosing.scratch().bins;
      bins.clear();
      bins.resize((n + bin_ - 1) / bin_ * sizeof(std::int32_t));
      auto* const largest = reinterpret_cast<std::int32_t*>(bins.data());
      cuda::largest_of_bins(o.in.values.data(), n, bin_, largest);
      Steps taking = choosing.take_all(choosing.all(), {.latest = o.in.latest.data(), .bin = bin_, .largest = largest});
      co_await taking;
    }
  }

  std::size_t bin_;
};

}  // namespace

SelectorKind adacomp_selector() {
  return {"adacomp",
          {.by_name = false, .by_k = false, .by_sign = false, .one_value = false, .needs_latest = true, .keeps = 0},
          [](const SelectorOptions& o) { return std::make_unique<AdaComp>(o.bin); }};
}

}  // namespace laconic::compress
