#pragma once

namespace laconic::compress::cpu {

/// True on processors with AVX-512, VBMI and VBMI2 (core/base/processor.h), unless forbidden. Kernels give the same bits
/// with and without.
bool use_avx512();
/// Likewise with AVX2.
bool use_avx2();
/// For tests and benchmarks: what is next best is taken while `allowed` is false. Not while kernels run.
void allow_avx512(bool allowed);
void allow_avx2(bool allowed);

}  // namespace laconic::compress::cpu
