#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic pack DATA OUT ...`: a data set of photographs in one file; see its --help. Returns the exit code.
int pack(const std::vector<std::string>& arguments);

}  // namespace laconic
