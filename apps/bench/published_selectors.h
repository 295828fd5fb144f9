#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compress/select/selector.h"

namespace laconic::compress {

/// Selectors as the literature writes them down, one pass over the tensor for every step: what `laconic bench select`
/// compares with, and what tests hold the fast ones against. Host memory, on the calling thread alone.
///
///   nth-element      top k with std::nth_element over the keys of all values: one pass, and as many elements of work
///                    again and again
///   radix-histogram  top k by counting digits of 11, 11 and 10 bits over all values, and one pass that collects
///   trimmed-steps    RedSync Algorithm 2, then the exact top k of what survives
///       settled: ratio = 1 - eps;
///       do { threshold = mean + ratio (max - mean);  nnz = count(|x| > threshold);  ratio -= eps } while (nnz < k),
///       eps = 0.2. Where the threshold falls below 0, or does not fall (all equal), all survive.
///   search-steps     RedSync Algorithm 3 (bisect). The set of `search`
const std::vector<SelectorKind>& published_selectors();
/// Finds one of them.   throws Error if there is none
const SelectorKind& published_selector(const std::string& name);

/// The plain pass that selections are compared with: the sum of |x|, on kernel_threads() threads.
double read_pass(const float* x, std::int64_t n);

}  // namespace laconic::compress
