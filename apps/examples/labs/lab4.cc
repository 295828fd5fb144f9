// Lab 4: the k largest elements of a gradient, and what becomes of the others. docs/labs/4-topk.md
#include <algorithm>
#include <cmath>
#include <numeric>

#include "labs.h"

namespace lab {

/// Chooses what this worker sends of one parameter in this step.
///   gradient   this step's
///   residual   what has not been sent so far, one number for each of the gradient's. Zeros before step 1. Yours to
///              change: it is kept from step to step
///   returns    the k elements with the largest magnitude, 1 <= k <= n
std::vector<Element> choose(Slice<const float> gradient, Slice<float> residual, std::size_t k) {
  // TO DO: choose by gradient + residual, and leave in the residual what is not sent. What stands here forgets it.
  (void)residual;
  std::vector<std::uint32_t> order(gradient.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                    [&](auto a, auto b) { return std::abs(gradient[a]) > std::abs(gradient[b]); });
  std::vector<Element> chosen;
  for (std::size_t i = 0; i < k; ++i) chosen.push_back({order[i], gradient[order[i]]});
  return chosen;
}

}  // namespace lab
