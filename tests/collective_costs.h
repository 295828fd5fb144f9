#pragma once
#include <bit>

#include "dist/collective/allgatherv.h"
#include "dist/collective/cost.h"
#include "dist/collective/hop.h"

/// What the docstrings of collectives say that they cost, where the product never asks.   bytes : of x, on each of N
/// ranks
namespace laconic::dist {

inline double lg_up(int N) { return std::bit_width(static_cast<unsigned>(N - 1)); }

inline Cost barrier_cost(int N) { return cost_of_equals(N, lg_up(N), 0, 0); }
inline Cost broadcast_cost(int N, double bytes) { return {lg_up(N), lg_up(N) * bytes, 0, N - 1.0, (N - 1.0) * bytes}; }
inline Cost reduce_scatter_cost(int N, double bytes, const compress::Codec* codec = nullptr) {
  return cost_of_equals(N, N - 1, (N - 1) * wire_bytes(codec, bytes, N), (N - 1.0) / N * bytes);
}
inline Cost ring_allgather_cost(int N, double bytes, const compress::Codec* codec = nullptr) {
  return cost_of_equals(N, N - 1, (N - 1) * wire_bytes(codec, bytes, N), 0);
}
inline Cost ring_allgatherv_cost(int N, double bytes) {
  return cost_of_equals(N, N - 1, allgatherv_cost(N, bytes).all_bytes, 0);
}
inline Cost alltoallv_cost(int N, double mean_bytes) {
  return cost_of_equals(N, N - 1, static_cast<double>(N) * (N - 1) * mean_bytes, 0);
}

}  // namespace laconic::dist
