#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace laconic {

/// The text of the exception of type E that f throws; "" if it throws none.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

/// Expects that f throws an E whose text has all these parts.
template <class E, class F>
void expect_error(F&& f, std::initializer_list<std::string> parts) {
  const std::string said = error_of<E>(f);
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << (said.empty() ? "nothing was thrown" : said);
}

}  // namespace laconic
