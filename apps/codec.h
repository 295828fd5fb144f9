#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic codec encode|decode ...`: files of float32 to and from INCEPTIONN's format (compress/lacc.h).
/// Returns the exit code.
int codec(const std::vector<std::string>& arguments);

}  // namespace laconic
