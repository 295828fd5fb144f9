#pragma once
#include <string>

namespace laconic {

/// Where a benchmark ran: processor, cores, instruction set, compiler.
std::string machine();

}  // namespace laconic
