#include <algorithm>

#include "compress/cuda/choose.h"
#include "compress/choose/magnitude.h"
#include "compress/choose/select_fast.h"
#include "compress/choose/selector.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses all at or above a threshold that a sample estimates: about k. `dgc` keeps the top k, if there are more.
/// source: gradient dropping, Aji & Heafield 2017; DGC's hierarchical selection, Lin et al. 2018
class Dropping final : public Selector {
 public:
  Dropping(double sample, bool limited) : sample_(sample), limited_(limited) {}

  std::size_t most(std::size_t k, std::size_t n) const override { return limited_ ? std::min(k, n) : n; }

 private:
  void choose(const Offer& o, Selection& out) override {
    const std::int32_t key = fast::sampled_key(o.in.values, o.in.k, o.in.sign, sample_, o.turn);
    fast::collect(o.in.values, o.in.sign, key, o.in.values.size(), scratch_, out);
    out.threshold = magnitude_of(key);
    if (limited_) fast::keep_top(o.in.k, o.in.sign, key, scratch_, out);
  }
  Steps choose_on_cuda(const Offer& o, Selection& out) override {
    return cuda_only([&] { return cuda::estimated({o.in, cuda_scratch_, out}, sample_, o.turn, limited_); });
  }

  double sample_;
  bool limited_;
  fast::Scratch scratch_;
};

}  // namespace

SelectorKind dropping_selector() {
  return {"dropping", {.by_name = false, .keeps = 0.2}, [](const SelectorOptions& o) {
            return std::make_unique<Dropping>(o.sample, false);
          }};
}

SelectorKind dgc_selector() {
  return {"dgc", {.by_name = false, .keeps = 1}, [](const SelectorOptions& o) {
            return std::make_unique<Dropping>(o.sample, true);
          }};
}

}  // namespace laconic::compress
