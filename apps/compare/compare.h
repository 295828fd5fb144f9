#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic compare APP COMMON OPTIONS --vs "SET 1" --vs "SET 2" ...`: trains with each option set on the same data and
/// seeds, the sets in turns within each seed so that a drift of the machine hits all alike, and prints one table. For
/// sets whose link is known the schedule's bound stands beside the measured step. Every run is a process of its own,
/// with OPENBLAS_*, OMP_*, OMPI_* of the caller taken out of its environment. Returns 1 if a set failed (the others are
/// shown), else 0. Throws UsageError.
int compare(const std::vector<std::string>& arguments);

}  // namespace laconic
