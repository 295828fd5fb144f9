#pragma once
#include <string>

namespace laconic {

/// The version of this build, "0.1.0".
const char* version();
/// The commit that it was built from, in ten digits, with a + where files had been changed; "unknown"
/// where git did not say.
const char* commit();
/// What --version prints: version, commit, compiler, and what the build has of what it can do without.
std::string version_text();

}  // namespace laconic
