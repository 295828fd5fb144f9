// Slim-DP (Sun et al. 2018), plainly and slowly: Algorithm 1. Its lines have no numbers in print; here 1 is the first
// of the local agent, and 10 the first of the center agent.
//
// Settled (docs/papers/slim-dp.md): delta already holds the learning rate, so the center adds the mean of what came; it
// chooses from its updated parameters; alpha and epsilon are shares of all elements; the core is chosen anew every q
// exchanges (section 3.4).
//
// As fast in the product: compress/slim.cc (SlimSet), compress/select/random.cc (Exploration),
// dist/method/slim/slim.cc (SlimSync: a local agent), slim_server.cc (the center agent).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace laconic::reference {

using Places = std::vector<std::uint32_t>;

/// CoreSelection: the places of the `count` largest magnitudes, of equal ones those that come first; ascending.
inline Places core_selection(const float* x, std::size_t n, std::size_t count) {
  Places order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

/// Exploration: places drawn outside this core.
using Exploration = std::function<Places(const Places& core)>;

/// An agent's choice, exchange after exchange.
struct SlimChoice {
  std::size_t core_elements = 0;  ///< (alpha - epsilon) n
  std::uint64_t core_every = 1;   ///< q
  Places core{};                  ///< T_S

  /// Lines 4 to 6, or 12 to 14: T_C, the core's places and then the explorer's. t : exchanges before this one
  Places choose(const float* x, std::size_t n, std::uint64_t t, const Exploration& explore) {
    if (t % core_every == 0) core = core_selection(x, n, core_elements);  //  4, 12  T_S = CoreSelection
    const Places explorer = explore(core);                                //  5, 13  T_R = Exploration
    Places all = core;                                                    //  6, 14  T_C = T_S and T_R
    all.insert(all.end(), explorer.begin(), explorer.end());
    return all;
  }
};

/// Line 7, Push(T_C(delta)): the values that travel.
inline std::vector<float> gathered(const float* x, const Places& places) {
  std::vector<float> values;
  for (const std::uint32_t i : places) values.push_back(x[i]);
  return values;
}

/// Line 11 for one worker of K: w += T_C(delta_k) / K.
inline void add_pushed(float* w, const Places& places, const std::vector<float>& values, std::size_t K) {
  const auto share = static_cast<float>(1.0 / static_cast<double>(K));
  for (std::size_t j = 0; j < places.size(); ++j) w[places[j]] += share * values[j];
}

/// Lines 8 and 9, Merge(w_k, Pull(T_C(w))): what came takes the place of the worker's own.
inline void merge(float* w_k, const Places& places, const std::vector<float>& values) {
  for (std::size_t j = 0; j < places.size(); ++j) w_k[places[j]] = values[j];
}

}  // namespace laconic::reference
