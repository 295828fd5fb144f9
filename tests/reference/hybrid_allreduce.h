// Hybrid allreduce with layer overlapping (Kim, Yeo, Oh), plainly and slowly: the ring of equation (1), the butterfly
// of equation (2), which layer takes which (section 3.2), and when a layer is updated (section 3.1). All nodes in one
// place: x[r] is what node r holds, and afterwards all hold the sum.
//
// Settled (docs/papers/hybrid-allreduce.md): convolutions take the butterfly, as text and abstract say, and not the
// ring, as Table 4 does; each step of the butterfly sends half of what the step before did.
//
// As fast in the product: dist/collective/ring_allreduce.cc, butterfly_allreduce.cc; dist/plan/plan.cc (short_window:
// which layer takes which, small and large ones by their size); dist/method/bucket_sync.cc (gradient_ready: B_n,
// before_forward: F_n).
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace laconic::reference {

using Nodes = std::vector<std::vector<float>>;

/// Where block b of N begins in n elements: the first n mod N blocks have one more.
inline std::size_t block_begin(std::size_t n, std::size_t b, std::size_t N) { return b * (n / N) + std::min(b, n % N); }

/// (1): 2 (N - 1) steps, in each of which every node sends a block to its right neighbour.
inline void ring_allreduce(Nodes& x) {
  const std::size_t N = x.size(), n = x[0].size();
  for (std::size_t step = 1; step <= 2 * (N - 1); ++step) {
    const Nodes before = x;  // all send at once
    for (std::size_t r = 0; r < N; ++r) {
      const bool adds = step < N;  // reduce-scatter, then allgather
      const std::size_t left = (r + N - 1) % N, b = (r + 2 * N - step) % N;
      for (std::size_t i = block_begin(n, b, N); i < block_begin(n, b + 1, N); ++i)
        x[r][i] = adds ? before[r][i] + before[left][i] : before[left][i];
    }
  }
}

/// (2): 2 lg N steps; N is a power of two. In step i node x exchanges with node x + N / 2^i the half that the other one
/// keeps; then the same partners give back what they have finished, in the other order.
inline void butterfly_allreduce(Nodes& x) {
  const std::size_t N = x.size(), n = x[0].size();
  for (std::size_t half = N / 2; half >= 1; half /= 2) {
    const Nodes before = x;
    for (std::size_t r = 0; r < N; ++r) {
      const std::size_t keeps = r / half * half;  // the first of its `half` blocks
      for (std::size_t i = block_begin(n, keeps, N); i < block_begin(n, keeps + half, N); ++i)
        x[r][i] = before[r][i] + before[r ^ half][i];
    }
  }
  for (std::size_t half = 1; half < N; half *= 2) {
    const Nodes before = x;
    for (std::size_t r = 0; r < N; ++r) {
      const std::size_t lacks = (r ^ half) / half * half;
      for (std::size_t i = block_begin(n, lacks, N); i < block_begin(n, lacks + half, N); ++i)
        x[r][i] = before[r ^ half][i];
    }
  }
}

/// One layer: its kind, and its gradients by node.
struct HybridLayer {
  bool convolution = false;
  Nodes gradient;
};

/// A step: layer by layer as backward finishes them (B_n), from the last; and their updates right before their next
/// forward (F_n), from the first. In between the layer is on its way: F_n - B_n is its window.
///   update : called with a layer's number and the sum over nodes
inline void hybrid_step(std::vector<HybridLayer>& layers,
                        const std::function<void(std::size_t, const std::vector<float>&)>& update) {
  for (std::size_t n = layers.size(); n-- > 0;) {
    if (layers[n].convolution)
      butterfly_allreduce(layers[n].gradient);  // few elements, short window: few messages
    else
      ring_allreduce(layers[n].gradient);  // many elements, long window: all of the link
  }
  for (std::size_t n = 0; n < layers.size(); ++n) update(n, layers[n].gradient[0]);
}

}  // namespace laconic::reference
