#include "compress/select/search.h"

#include <algorithm>

#include "compress/cuda/choosing.h"
#include "compress/select/filter.h"
#include "compress/select/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses k to 2k elements above a threshold that bisection finds: RedSync Algorithm 3, settled in search.h. `sampled`
/// searches every `interval`-th time; in between it takes what is above the same threshold, 2k at most.
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
    const std::size_t most = 2 * o.in.k;
    if (!searches(o.turn))
      return filter_.above(o.in.values, o.in.candidates, o.in.sign, o.memory.threshold, most, out);
    const std::size_t need = std::min(o.in.values.size(), most + 1);
    filter_.keep({o.in.values, o.in.sign, need, o.in.candidates, o.memory.floor}, out);
    o.remember(take(o, most, out), out);
    o.memory.threshold = out.threshold;
  }

  /// The set of the bisection, from what the filter has kept. Returns a floor for the next step.
  float take(const Offer& o, std::size_t most, Selection& out) {
    const auto count = [&](std::int32_t key) { return filter_.count_from(key); };
    const float threshold = bisect(o.in.k, o.in.sign, o.stats, count);
    if (threshold < 0) return filter_.take_top(o.in.k, out);
    const std::int32_t key = key_above(threshold, o.in.sign);
    if (filter_.holds(key)) {
      filter_.take_from(key, out);
      out.shorten(most);
    } else {
      filter_.collect(o.in.values, o.in.sign, key, most, out);
    }
    out.threshold = threshold;
    return filter_.next_floor(o.in.k);
  }

  Steps choose_on_cuda(Offer o, Selection& out) override {
    return searches(o.turn) ? search_on_cuda(o, out) : above_on_cuda(o, out);
  }

  Steps search_on_cuda(Offer o, Selection& out) {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      const Sign sign = o.in.sign;
      const std::size_t n = o.in.values.size(), k = o.in.k, most = 2 * k, need = std::min(n, most + 1),
                        target = target_for(need, k);
      std::int32_t lowest = lowest_key(sign);
      const auto ask = [&](const cuda::Source& from, bool remembered) {
        cuda::cut_at(from, sign, cuda::word(k), cuda::word(target), cuda::word(need), remembered, choosing.state());
        cuda::bisect(from, sign, cuda::word(k), lowest, choosing.state());
        choosing.take(from, cuda::Above{.bisected = true}, most);
        return choosing.outcome();
      };
      bool listed = false;
      cuda::Source from{};
      cuda::SelectState s{};
      if (need > most && need < n && choosing.bring_candidates()) {
        from = choosing.list(), lowest = choosing.floor();
        s = co_await ask(from, true);
        listed = choosing.enough(s, need);
      }
      if (!listed) {
        from = choosing.all(), lowest = lowest_key(sign);
        out.passes += 11;
        s = co_await ask(from, false);
      }
      const cuda::Cut cut = s.cut;
      const float threshold = s.bisection.with_enough;
      std::size_t size = s.chosen.taken;
      if (threshold < 0) {
        choosing.take(from, k);
        out.passes += listed ? 0 : 2;
        choosing.finish(cut);
      } else {
        if (key_above(threshold, sign) < lowest) {
          out.passes += 2;
          choosing.take(choosing.all(), cuda::Above{.key = key_above(threshold, sign)}, most);
          s = co_await choosing.outcome();
          size = s.chosen.taken;
        }
        out.on_device.resize(std::min(size, most));
        out.threshold = threshold;
      }
      o.remember(choosing.next_floor(cut, lowest), out);
      o.memory.threshold = out.threshold;
    }
  }

  /// What is above the threshold of the last search, from candidates if they hold all of it.
  Steps above_on_cuda(Offer o, Selection& out) {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      const std::size_t most = 2 * o.in.k;
      const cuda::Above above{.key = key_above(o.memory.threshold, o.in.sign)};
      out.threshold = o.memory.threshold;
      const auto keep = [&](const cuda::SelectState& s) {
        out.on_device.resize(std::min<std::size_t>(s.chosen.taken, most));
      };
      if (choosing.bring_candidates() && choosing.floor() <= above.key) {
        choosing.take(choosing.list(), above, most);
        const cuda::SelectState& s = co_await choosing.outcome();
        if (choosing.enough(s, 0)) {
          keep(s);
          co_return;
        }
      }
      out.passes += 2;
      choosing.take(choosing.all(), above, most);
      const cuda::SelectState& s = co_await choosing.outcome();
      keep(s);
    }
  }

  std::uint64_t interval_;
  Filter filter_;
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
