#include "compress/cuda/choosing.h"
#include "compress/select/filter.h"
#include "compress/select/selector.h"
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
    filter_.keep({o.in.values, o.in.sign, o.in.k, o.in.candidates, o.memory.floor}, out);
    o.remember(filter_.take_top(o.in.k, out), out);
  }
  Steps choose_on_cuda(Offer o, Selection& out) override {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out, !meets_nan(o.in.sign));
      const Sign sign = o.in.sign;
      const std::size_t k = o.in.k, target = target_for(k, k);
      if (choosing.bring_candidates()) {
        cuda::cut_at(choosing.list(), sign, cuda::word(k), cuda::word(target), cuda::word(k), true, choosing.state());
        choosing.take(choosing.list(), k);
        const cuda::SelectState& s = co_await choosing.outcome();
        if (choosing.enough(s, k)) {
          choosing.finish(s.cut);
          o.remember(choosing.next_floor(s.cut, choosing.floor()), out);
          co_return;
        }
      }
      out.passes += 5;
      cuda::cut_at(choosing.all(), sign, cuda::word(k), cuda::word(target), cuda::word(k), false, choosing.state());
      choosing.take(choosing.all(), k);
      const cuda::SelectState& s = co_await choosing.outcome();
      choosing.finish(s.cut);
      o.remember(choosing.next_floor(s.cut, lowest_key(sign)), out);
    }
  }

  Filter filter_;
};

SelectorKind top_k(const char* name) {
  return {name, {}, [](const SelectorOptions&) { return std::make_unique<TopK>(); }};
}

}  // namespace

SelectorKind exact_selector() { return top_k("exact"); }

// RedSync's Algorithm 2 sends the top k (settled): the way in which it finds them is no part of the result.
SelectorKind trimmed_selector() { return top_k("trimmed"); }

}  // namespace laconic::compress
