#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic inspect WHAT ...`: what a method makes of given values. Returns the exit code.
int inspect(const std::vector<std::string>& arguments);

}  // namespace laconic
