#pragma once
#include "compress/cpu/isa.h"

namespace laconic::compress {

/// Runs f with each set of instructions that this processor has.
template <class F>
void with_each_isa(F f) {
  struct Restore {
    ~Restore() { cpu::avx512_allowed = true, cpu::avx2_allowed = true; }
  } restore;
  if (cpu::use_avx512()) f("AVX-512");
  cpu::avx512_allowed = false;
  if (cpu::use_avx2()) f("AVX2");
  cpu::avx2_allowed = false;
  f("portable");
}

}  // namespace laconic::compress
