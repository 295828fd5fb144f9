#pragma once

namespace laconic::compress::cpu {

/// True on processors with AVX-512 F, BW, VL, DQ, VBMI and VBMI2 (Intel from Ice Lake on, AMD from Zen 4 on), unless
/// forbidden. Kernels give the same bits with and without.
bool use_avx512();
/// True on processors with AVX2, BMI, BMI2 and POPCNT (Intel from Haswell on, AMD from Zen on), unless forbidden.
bool use_avx2();
/// For tests and benchmarks: what is next best is taken while `allowed` is false. Not while kernels run.
void allow_avx512(bool allowed);
void allow_avx2(bool allowed);

}  // namespace laconic::compress::cpu
