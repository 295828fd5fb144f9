#include "core/base/random.h"

#include "compress/cuda/choose.h"
#include "compress/choose/random_subset.h"
#include "compress/choose/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Draws k elements evenly, by SelectionInput::key: every rank draws the same ones.
class Evenly final : public Selector {
  void choose(const Offer& o, Selection& out) override {
    out.indices = draw(o.in);
    for (const std::uint32_t i : out.indices) out.values.push_back(o.in.values[i]);
  }
  Steps choose_on_cuda(const Offer& o, Selection& out) override {
    return cuda_only([&] { return cuda::at({o.in, cuda_scratch_, out}, draw(o.in)); });
  }
  static std::vector<std::uint32_t> draw(const SelectionInput& in) {
    std::vector<std::uint32_t> indices;
    random_subset(in.values.size(), in.k, {}, Random(in.key.seed, Purpose::selection, in.key.step, in.key.operation),
                  indices);
    return indices;
  }
};

}  // namespace

SelectorKind random_selector() {
  return {"random",
          {.by_name = false, .by_sign = false, .one_value = false, .same_everywhere = true},
          [](const SelectorOptions&) { return std::make_unique<Evenly>(); }};
}

}  // namespace laconic::compress
