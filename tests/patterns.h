#pragma once
#include <string>
#include <vector>

namespace laconic {

// std::regex for tests, compiled in one place: it takes two seconds of every source that includes it.

/// The parts of `text` that fit `pattern` (ECMAScript), from left to right: each the whole part, and then its groups.
std::vector<std::vector<std::string>> found_in(const std::string& text, const std::string& pattern);
/// Whether all of `text` fits it.
bool fits(const std::string& text, const std::string& pattern);

}  // namespace laconic
