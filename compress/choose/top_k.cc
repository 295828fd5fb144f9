#include <algorithm>

#include "compress/cuda/choose.h"
#include "compress/choose/select_fast.h"
#include "compress/choose/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses the top k among the candidates above a floor, which is remembered or found by a sample. It makes about one
/// pass, or none.
class TopK final : public Selector {
 public:
  void prepare(Candidates& candidates, std::size_t k, Sign sign) const override {
    keep_from(candidates, memory(sign).floor, sign, k);
  }

 private:
  // The largest of all is among the top k, and so would be a NaN.
  bool meets_nan(Sign sign) const override { return sign == Sign::any; }

  void choose(const Offer& o, Selection& out) override {
    const fast::Request request{o.in.values, o.in.sign, o.in.k, o.in.candidates, o.memory.floor};
    o.remember(fast::top(request, scratch_, out), out);
  }
  Steps choose_on_cuda(const Offer& o, Selection& out) override {
    return cuda_only([&] {
      return cuda::top({o.in, cuda_scratch_, out, !meets_nan(o.in.sign)},
                       [o, &out](float floor) { o.remember(floor, out); });
    });
  }

  fast::Scratch scratch_;
};

SelectorKind top_k(const char* name) {
  return {name, {}, [](const SelectorOptions&) { return std::make_unique<TopK>(); }};
}

}  // namespace

SelectorKind exact_selector() { return top_k("exact"); }

// RedSync's Algorithm 2 sends the top k (settled): the way in which it finds them is no part of the result.
SelectorKind trimmed_selector() { return top_k("trimmed"); }

}  // namespace laconic::compress
