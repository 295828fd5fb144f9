#pragma once

namespace laconic::compress::cpu {

/// True on processors with AVX-512 F, BW, VL, DQ, VBMI and VBMI2 (Intel from Ice Lake on, AMD from Zen 4 on), unless
/// forbidden. Kernels give the same bits with and without.
bool use_avx512();
/// For tests and benchmarks: the portable kernels are taken while `allowed` is false. Not while kernels run.
void allow_avx512(bool allowed);

}  // namespace laconic::compress::cpu
