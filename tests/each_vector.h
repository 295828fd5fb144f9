#pragma once
#include <gtest/gtest.h>

#include "core/cpu/simd.h"

namespace laconic {

/// Calls f with the vectors of this processor, then with shorter ones.
template <class F>
void with_each_vector(F f) {
  struct Restore {
    ~Restore() { cpu::most_floats = 16; }
  } restore;
  for (const int floats : {16, 8, 0}) {
    SCOPED_TRACE(testing::Message() << floats << " floats");
    cpu::most_floats = floats, f();
  }
}

}  // namespace laconic
