#pragma once
#include <string>
#include <vector>

namespace laconic {

std::string human_bytes(double bytes);   ///< "1.5 MB": three figures, steps of 1000
std::string human_count(double count);   ///< "61.3 k"
std::string human_seconds(double time);  ///< "8.2 s", "3 min 05 s", "2 h 10 min"

/// "a, b, c"
std::string join(const std::vector<std::string>& words, const char* separator);

}  // namespace laconic
