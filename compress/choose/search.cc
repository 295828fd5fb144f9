#include <algorithm>

#include "compress/cuda/choose.h"
#include "compress/choose/select_fast.h"
#include "compress/choose/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses k to 2k elements above a threshold that bisection finds: RedSync Algorithm 3, settled in
/// compress/choose/select_steps.h.
/// `sampled` searches every `interval`-th time; in between it takes what is above the same threshold, 2k at most.
class Search final : public Selector {
 public:
  explicit Search(std::uint64_t interval) : interval_(interval) {}

  std::size_t most(std::size_t k, std::size_t n) const override { return std::min(2 * k, n); }

  void prepare(Candidates& candidates, std::size_t k, Sign sign) const override {
    const Memory& m = memory(sign);
    if (searches(m.turn)) return keep_from(candidates, m.floor, sign, k == 0 ? 0 : 2 * k + 1);
    keep_from(candidates, m.threshold, sign, k);
  }

 private:
  bool searches(std::uint64_t turn) const { return turn % interval_ == 0; }

  void choose(const Offer& o, Selection& out) override {
    const std::size_t k = o.in.k, need = std::min(o.in.values.size(), 2 * k + 1);
    if (!searches(o.turn))
      return fast::above(o.in.values, o.in.candidates, o.in.sign, o.memory.threshold, 2 * k, scratch_, out);
    const fast::Request request{o.in.values, o.in.sign, need, o.in.candidates, o.memory.floor};
    o.remember(fast::search(request, k, o.stats, scratch_, out), out);
    o.memory.threshold = out.threshold;
  }
  Steps choose_on_cuda(const Offer& o, Selection& out) override {
    return cuda_only([&] {
      if (!searches(o.turn)) return cuda::above({o.in, cuda_scratch_, out}, o.memory.threshold, 2 * o.in.k);
      return cuda::search({o.in, cuda_scratch_, out}, [o, &out](float floor) {
        o.remember(floor, out);
        o.memory.threshold = out.threshold;
      });
    });
  }

  std::uint64_t interval_;
  fast::Scratch scratch_;
};

}  // namespace

SelectorKind search_selector() {
  return {"search", {.keeps = 2.6}, [](const SelectorOptions&) { return std::make_unique<Search>(1); }};
}

SelectorKind sampled_selector() {
  // Values of one sign come every other time: a threshold for all of them would be too old.
  return {"sampled", {.one_value = false, .keeps = 3}, [](const SelectorOptions& o) {
            return std::make_unique<Search>(o.interval);
          }};
}

}  // namespace laconic::compress
