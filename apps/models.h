#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic models`: the zoo as a table, or one model's layers; see its --help. Returns the exit code.
int list_models(const std::vector<std::string>& arguments);

}  // namespace laconic
