#pragma once
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

}  // namespace laconic
