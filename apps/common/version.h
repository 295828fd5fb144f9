#pragma once
#include <string>
#include <vector>

namespace laconic {

/// The version of this build, "0.1.0".
const char* version();
/// The commit that it was built from, in ten digits, with a + where files had been changed; "unknown"
/// where git did not say.
const char* commit();
/// What --version prints: version, commit, compiler, and what the build has of what it can do without.
std::string version_text();
/// Names of what it can do without and has not: "libjpeg-turbo", "Snappy", ...
std::vector<std::string> built_without();

}  // namespace laconic
