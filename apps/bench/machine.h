#pragma once
#include <string>

namespace laconic {

/// Where a figure was measured: "AMD EPYC 9005, 2 cores, avx512; g++ 12.2.0".
std::string machine();

}  // namespace laconic
