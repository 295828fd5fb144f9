// RedSync (Fang et al.), plainly and slowly: Algorithm 4, "Residual Gradient Compression using MSGD", with top k as its
// selection. The lines of the algorithm have no numbers in print; here its first line after the inputs is 1.
//
// Settled (docs/papers/redsync.md): Nesterov is the usual look-ahead, V += m U + G, where lines 9 and 11 together would
// add U + G. "Allreduce" is the allgather of section 2.2, and all workers add in rank order. SGD is the step by the
// mean.
//
// As fast in the product: dist/method/redsync/redsync.cc (lines 3 to 24), residual_tensor.cc (7 to 16 and 18 to 21);
// dist/method/carry.cc (17), compress/select/residual.h (7 to 15), compress/select/top_k.cc (16).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace laconic::reference {

struct RedSync {
  float momentum = 0, weight_decay = 0;  ///< momentum 0: use_momentum is false
  bool use_nesterov = false, masking = true;
  double density = 1e-3;  ///< D
};

/// Places and values of one worker's communication-set.
struct Chosen {
  std::vector<std::uint32_t> places;
  std::vector<float> values;
};

/// One layer on one worker.
struct RedSyncLayer {
  explicit RedSyncLayer(std::size_t n) : V(n, 0.0f), U(n, 0.0f) {}  // lines 1 and 2
  std::vector<float> V, U;

  /// Lines 7 to 21. G : its gradient, w : its weights
  Chosen step(const RedSync& o, std::vector<float> G, const std::vector<float>& w) {
    for (std::size_t i = 0; i < G.size(); ++i) {
      if (o.weight_decay != 0) G[i] = G[i] + o.weight_decay * w[i];
      if (o.momentum != 0) {                                               //  7 if use_momentum then
        U[i] = o.momentum * U[i] + G[i];                                   //  8   U = momentum U + G
        V[i] = V[i] + (o.use_nesterov ? o.momentum * U[i] + G[i] : U[i]);  //  9   V = V + U        10, 11: Nesterov
      } else {                                                             // 13 else
        V[i] = V[i] + G[i];                                                // 14   V = V + G
      }
    }
    const Chosen sent = selection(o.density);      // 16 Masks = selection(V, D)
    for (const std::uint32_t i : sent.places) {    // 17 is all_gathered below
      V[i] = 0;                                    // 18 V = V (1 - Masks)
      if (o.momentum != 0 && o.masking) U[i] = 0;  // 20 U = U (1 - Masks)
    }
    return sent;
  }

  /// The k largest magnitudes, of equal ones those that come first: max(1, ceil(D n)).
  Chosen selection(double density) const {
    std::vector<std::uint32_t> order(V.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return std::abs(V[a]) > std::abs(V[b]); });
    order.resize(static_cast<std::size_t>(std::max(1.0, std::ceil(density * static_cast<double>(V.size())))));
    std::sort(order.begin(), order.end());
    Chosen chosen{.places = order, .values = {}};
    for (const std::uint32_t i : order) chosen.values.push_back(V[i]);
    return chosen;
  }
};

/// Lines 17 and 23: G = Allreduce(compress(V Masks)), w = SGD(w, decompress(G)). sent : by rank
inline void redsync_update(std::vector<float>& w, const std::vector<Chosen>& sent, double lr) {
  const auto factor = -static_cast<float>(lr * (1.0 / static_cast<double>(sent.size())));
  for (const Chosen& one : sent)
    for (std::size_t j = 0; j < one.places.size(); ++j) w[one.places[j]] += factor * one.values[j];
}

}  // namespace laconic::reference
