#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "compress/cuda/choosing.h"
#include "compress/select/filter.h"
#include "compress/select/selector.h"
#include "core/base/random.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

/// Chooses all at or above a threshold that a sample estimates: about k. `dgc` keeps the top k, if there are more.
/// source: gradient dropping, Aji & Heafield 2017; DGC's hierarchical selection, Lin et al. 2018
class Dropping final : public Selector {
 public:
  Dropping(double share, bool limited) : share_(share), limited_(limited) {}

  std::size_t most(std::size_t k, std::size_t n) const override { return limited_ ? std::min(k, n) : n; }

 private:
  /// The values that are looked at, and the rank among them (from 1) of the threshold for k of n.
  struct Sample {
    std::size_t size, rank;
  };
  static Sample sample_of(std::size_t n, std::size_t k, double share) {
    const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(n)));
    const std::size_t size = std::min(n, std::max<std::size_t>(wanted, 1024));
    const double rank = std::ceil(static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(n));
    return {size, std::max<std::size_t>(static_cast<std::size_t>(rank), 1)};
  }

  void choose(const Offer& o, Selection& out) override {
    const Slice<const float> values = o.in.values;
    const auto [size, rank] = sample_of(values.size(), o.in.k, share_);
    const std::size_t n = values.size(), stride = n / size;
    std::vector<std::int32_t> keys(size);
    for (std::size_t j = 0; j < size; ++j) {  // spread evenly, and other ones each turn
      const std::size_t first = static_cast<std::size_t>(static_cast<unsigned __int128>(j) * n / size);
      const auto bits = philox({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(o.turn)}, {})[0];
      keys[j] = key_of(values[first + bits % stride], o.in.sign);
    }
    const std::int32_t key = std::max(key_of_rank(keys, rank - 1), 1);  // zeros are not worth sending
    filter_.collect(values, o.in.sign, key, n, out);
    out.threshold = magnitude_of(key);
    if (limited_) filter_.keep_top(o.in.k, o.in.sign, key, out);
  }

  Steps choose_on_cuda(Offer o, Selection& out) override {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      const Sign sign = o.in.sign;
      const std::size_t n = o.in.values.size(), k = o.in.k;
      const auto [size, look_for] = sample_of(n, k, share_);
      DeviceElements& sampled = choosing.scratch().sampled;
      sampled.renew(o.in.values.device(), size);
      cuda::sample(o.in.values.data(), n, size, o.turn, sampled.values());
      const std::uint32_t rank = cuda::word(look_for);
      cuda::cut_at({sampled.values(), nullptr, size, nullptr}, sign, rank, rank, rank, false, choosing.state());
      const cuda::SelectState& of_sample = co_await choosing.outcome();
      const std::int32_t key = rank <= of_sample.cut.competing ? std::max(of_sample.cut.key, 1) : 1;
      out.passes += 2;
      Steps taking = choosing.take_all(choosing.all(), {.key = key});
      co_await taking;
      out.threshold = magnitude_of(key);
      if (!limited_ || out.size() <= k) co_return;
      const DeviceElements reached = std::exchange(out.on_device, {});
      const cuda::Source from{reached.values(), reached.indices(), reached.size(), nullptr};
      cuda::cut_at(from, sign, cuda::word(k), cuda::word(k), cuda::word(k), false, choosing.state());
      choosing.take(from, k);
      const cuda::SelectState& s = co_await choosing.outcome();
      choosing.finish(s.cut);
    }
  }

  double share_;
  bool limited_;
  Filter filter_;
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
