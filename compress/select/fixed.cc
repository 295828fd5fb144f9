#include <algorithm>

#include "compress/cuda/choosing.h"
#include "compress/select/filter.h"
#include "compress/select/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses all above SelectorOptions::threshold, however many they are.
/// source: Strom 2015
class Fixed final : public Selector {
 public:
  explicit Fixed(float threshold) : threshold_(threshold) {}

  std::size_t most(std::size_t, std::size_t n) const override { return n; }
  void prepare(Candidates& candidates, std::size_t, Sign sign) const override {
    keep_from(candidates, threshold_, sign, SIZE_MAX);
  }

 private:
  void choose(const Offer& o, Selection& out) override {
    filter_.above(o.in.values, o.in.candidates, o.in.sign, threshold_, std::min(o.in.most, o.in.values.size()), out);
  }
  Steps choose_on_cuda(Offer o, Selection& out) override {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      out.passes += 2;
      Steps taking = choosing.take_all(choosing.all(), {.key = key_above(threshold_, o.in.sign)});
      co_await taking;
      out.threshold = threshold_;
    }
  }

  float threshold_;
  Filter filter_;
};

}  // namespace

SelectorKind fixed_selector() {
  return {"fixed",
          {.by_name = false, .by_k = false, .keeps = 0.8, .one_magnitude = true},
          [](const SelectorOptions& o) { return std::make_unique<Fixed>(o.threshold); }};
}

}  // namespace laconic::compress
