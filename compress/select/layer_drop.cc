#include "compress/select/layer_drop.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "compress/cuda/scatter.h"
#include "compress/ordered_sum.h"
#include "core/dispatch.h"
#include "core/base/error.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace laconic::compress {
namespace {

constexpr const char* kNorms[] = {"mean", "l1", "l2"};

template <bool squares, bool adds>
double pass(const float* gradient, float* accumulated, std::size_t n) {
  return ordered_sums<1>(n, [=](std::size_t i, std::size_t lane, auto& sums) {
    const float x = adds ? accumulated[i] += gradient[i] : gradient[i];
    sums[0][lane] += squares ? double{x} * double{x} : double{std::abs(x)};
  })[0];
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
  const bool squares = norm == LayerNorm::l2;
  const auto on_host = [&] {
    const auto run = accumulated.empty() ? (squares ? pass<true, false> : pass<false, false>)
                                         : (squares ? pass<true, true> : pass<false, true>);
    return run(gradient.data(), accumulated.data(), gradient.size());
  };
  return on_device(gradient.device(), on_host, [&] {
    const Tensor sum = Tensor::empty({2}, DType::f32, gradient.device());  // a double
    auto* const there = static_cast<double*>(sum.raw_data());
    cuda::accumulate_layer(gradient.data(), accumulated.data(), gradient.size(), squares, there);
    double total = 0;
    copy_bytes(&total, kCpu, there, gradient.device(), sizeof total);
    return total;
  });
}

double layer_value(double sum, std::int64_t elements, LayerNorm norm) {
  if (norm == LayerNorm::l2) return std::sqrt(sum);
  if (norm == LayerNorm::l1) return sum;
  return elements > 0 ? sum / static_cast<double>(elements) : 0;
}

double drop_threshold(std::span<const LayerSize> layers, double drop_ratio) {
  require<UsageError>(drop_ratio >= 0 && drop_ratio < 1, "a share of ", drop_ratio,
                      " of the layers cannot be dropped (`drop-ratio`): give at least 0 and less than 1, as 0.9");
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
