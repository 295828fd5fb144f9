#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic bench WHAT ...`: measurements, paired with a peer where there is one. Returns the exit code.
int bench(const std::vector<std::string>& arguments);

}  // namespace laconic
