#pragma once
#include <bit>

namespace laconic::dist {

/// What a collective takes, as its docstring says it: time = messages alpha + bytes beta + bytes_added gamma.
/// The first three count what happens one after another on the busiest rank; the last two count what is handed to the
/// network by all ranks together, which is what the accounting sees.
struct Cost {
  double messages = 0;     ///< one after another
  double bytes = 0;        ///< sent (or received, whichever is more) one after another
  double bytes_added = 0;  ///< summed up
  double all_messages = 0;
  double all_bytes = 0;
};

/// Where N ranks do the same at the same time.
inline Cost cost_of_equals(int N, double messages, double all_bytes, double bytes_added) {
  return {messages, all_bytes / N, bytes_added, N * messages, all_bytes};
}

/// The cost of allgatherv().   bytes : mean of a part, with what stands before it
inline Cost allgatherv_cost(int N, double bytes) {
  return cost_of_equals(N, std::bit_width(static_cast<unsigned>(N - 1)), static_cast<double>(N) * (N - 1) * bytes, 0);
}

/// The model of a network in which costs are seconds.
struct LinkModel {
  double alpha = 0;  ///< s per message
  double beta = 0;   ///< s per byte sent
  double gamma = 0;  ///< s per byte added
  double seconds(const Cost& cost) const {
    return cost.messages * alpha + cost.bytes * beta + cost.bytes_added * gamma;
  }
};

}  // namespace laconic::dist
