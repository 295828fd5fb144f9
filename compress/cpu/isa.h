#pragma once
#include "core/base/processor.h"

namespace laconic::compress::cpu {

/// For tests and benchmarks: what is next best is taken while one is false. Not changed while kernels run.
inline bool avx512_allowed = true, avx2_allowed = true;

/// True on processors with AVX-512, VBMI and VBMI2, unless forbidden. Kernels give the same bits with and without.
inline bool use_avx512() { return avx512_allowed && laconic::cpu::has_avx512_vbmi2(); }
/// True on processors with AVX2, unless forbidden.
inline bool use_avx2() { return avx2_allowed && laconic::cpu::has_avx2(); }

}  // namespace laconic::compress::cpu
