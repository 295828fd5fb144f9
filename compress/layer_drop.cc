#include "compress/layer_drop.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "core/dispatch.h"
#include "core/error.h"

namespace laconic::compress {
namespace {

constexpr const char* kNorms[] = {"mean", "l1", "l2"};
constexpr std::size_t kLanes = 16;  // sums beside each other: the same on every instruction set

template <bool squares, bool adds>
double pass(const float* gradient, float* accumulated, std::size_t n) {
  double sums[kLanes] = {};
  const auto term = [](float x) { return squares ? double{x} * double{x} : double{std::abs(x)}; };
  const auto value = [&](std::size_t i) {
    if constexpr (adds) return accumulated[i] += gradient[i];
    return gradient[i];
  };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(value(i + lane));
  for (std::size_t lane = 0; i < n; ++i, ++lane) sums[lane] += term(value(i));
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

}  // namespace

const char* to_string(LayerNorm norm) { return kNorms[static_cast<int>(norm)]; }

LayerNorm layer_norm_named(const std::string& name, const std::string& where) {
  for (int i = 0; i < static_cast<int>(std::size(kNorms)); ++i)
    if (name == kNorms[i]) return static_cast<LayerNorm>(i);
  refuse_unknown("value", name, where, {std::begin(kNorms), std::end(kNorms)});
}

double accumulate_layer(Slice<const float> gradient, Slice<float> accumulated, LayerNorm norm) {
  require<ShapeError>(accumulated.empty() || accumulated.size() == gradient.size(), "layer: ", gradient.size(),
                      " gradients for ", accumulated.size(), " elements put by");
  return on_device(gradient.device(), [&] {
    const bool squares = norm == LayerNorm::l2;
    const auto run = accumulated.empty() ? (squares ? pass<true, false> : pass<false, false>)
                                         : (squares ? pass<true, true> : pass<false, true>);
    return run(gradient.data(), accumulated.data(), gradient.size());
  });
}

double layer_value(double sum, std::int64_t elements, LayerNorm norm) {
  switch (norm) {
    case LayerNorm::mean:
      return elements > 0 ? sum / static_cast<double>(elements) : 0;
    case LayerNorm::l1:
      return sum;
    case LayerNorm::l2:
      return std::sqrt(sum);
  }
  return sum;  // not reached
}

double drop_threshold(std::span<const LayerSize> layers, double drop_ratio) {
  require<UsageError>(drop_ratio >= 0 && drop_ratio < 1, "a share of ", drop_ratio,
                      " of the layers cannot be dropped (--drop-ratio): give at least 0 and less than 1, as 0.9");
  std::vector<LayerSize> sorted(layers.begin(), layers.end());
  std::int64_t total = 0;
  for (LayerSize& layer : sorted) {
    total += layer.elements;
    if (std::isnan(layer.value)) layer.value = std::numeric_limits<double>::infinity();
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const LayerSize& a, const LayerSize& b) { return a.value > b.value; });
  const double wanted = static_cast<double>(total) * (1 - drop_ratio);
  std::int64_t taken = 0;
  for (const LayerSize& layer : sorted) {
    taken += layer.elements;
    if (static_cast<double>(taken) > wanted) return layer.value;
  }
  return -1;
}

}  // namespace laconic::compress
