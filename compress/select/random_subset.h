#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/random.h"
#include "core/slice.h"

namespace laconic::compress {

/// k of 0 .. n-1 that are not in `without`, each once, every set as likely as any other, ascending. n < 2^32
///   without : ascending, each once, below n.   k <= n - without.size()
///   few    Floyd (Bentley 1987); O(without + k log k) and n bits of memory
///   many   every number draws a lot of its own (8 random bits against a limit), which lets through somewhat more than
///          k. If too many come, evenly drawn ones go again; if too few, some of the others are drawn besides.
///          Lots are alike for all numbers, so every set of k is as likely, however coarse the limit is. O(n), about
///          0.3 ns a number with AVX-512
///   throws ShapeError where there are fewer than k
void random_subset(std::size_t n, std::size_t k, Slice<const std::uint32_t> without, Random random,
                   std::vector<std::uint32_t>& indices);

}  // namespace laconic::compress
