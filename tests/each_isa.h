#pragma once
#include "compress/cpu/isa.h"

namespace laconic::compress {

/// Runs f with each set of instructions that this processor has.
template <class F>
void with_each_isa(F f) {
  struct Restore {
    ~Restore() { cpu::allow_avx512(true), cpu::allow_avx2(true); }
  } restore;
  if (cpu::use_avx512()) f("AVX-512");
  cpu::allow_avx512(false);
  if (cpu::use_avx2()) f("AVX2");
  cpu::allow_avx2(false);
  f("portable");
}

}  // namespace laconic::compress
