#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic inspect WHAT ...`: what a method makes of given values, or what a file of ours says. Returns the exit code.
int inspect(const std::vector<std::string>& arguments);

/// `laconic inspect codec`: see its --help.
int inspect_codec(const std::vector<std::string>& arguments);

/// `laconic inspect checkpoint`: see its --help.
int inspect_checkpoint(const std::vector<std::string>& arguments);

/// `laconic inspect trace`: see its --help.
int inspect_trace(const std::vector<std::string>& arguments);

}  // namespace laconic
