#pragma once
#include <cstdint>

#include "apps/bench/harness.h"

namespace laconic {

/// `laconic bench select`, as its parts see it.
struct SelectBench : Bench {
  using Bench::Bench;
  double density = 0.001;
  int rounds = 15;
  bool baselines = true;            ///< what is written down in papers too
  std::string with_torch;           ///< the Python of the peer; empty: none
  std::string link = "1gbit,50us";  ///< of the dense exchange that selection stands beside
  int workers = 4;                  ///< likewise

  /// How many of n are chosen.
  std::size_t count(std::int64_t n) const;
};
/// The residual pass beside the dense update of SGD with momentum.   n : elements of the tensor, here and below
Bench::Json bench_residual(const SelectBench& bench, std::int64_t n);
/// Adding the payloads of 16 workers, and clearing what was sent, in read passes.
Bench::Json bench_scatter(const SelectBench& bench, std::int64_t n);
/// Bits and speeds of the index codings.
Bench::Json bench_codings(const SelectBench& bench, std::int64_t n);

}  // namespace laconic
