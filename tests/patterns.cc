#include "tests/patterns.h"

#include <map>
#include <regex>

namespace laconic {
namespace {

const std::regex& compiled(const std::string& pattern) {
  thread_local std::map<std::string, std::regex> kept;
  return kept.try_emplace(pattern, pattern).first->second;
}

}  // namespace

std::vector<std::vector<std::string>> found_in(const std::string& text, const std::string& pattern) {
  std::vector<std::vector<std::string>> parts;
  for (std::sregex_iterator it(text.begin(), text.end(), compiled(pattern)), end; it != end; ++it)
    parts.emplace_back(it->begin(), it->end());
  return parts;
}

bool fits(const std::string& text, const std::string& pattern) { return std::regex_match(text, compiled(pattern)); }

}  // namespace laconic
