#pragma once

/// The instructions that this processor has (nobody else asks it), and how many processors there are.
namespace laconic::cpu {

/// Built with -Dinstructions=avx2: all is computed as on a processor without AVX-512, by oneDNN too.
#ifdef LACONIC_AVX2_AT_MOST
inline constexpr bool kAvx2AtMost = true;
#else
inline constexpr bool kAvx2AtMost = false;
#endif

/// AVX2, and what came with it or before: FMA, BMI 1 and 2, F16C, POPCNT. Intel from Haswell on, AMD from Zen on.
bool has_avx2();
/// AVX-512 F, BW, CD, DQ and VL, and AVX2.
bool has_avx512();
/// VBMI and VBMI2 too. Intel from Ice Lake on, AMD from Zen 4 on.
bool has_avx512_vbmi2();

/// "avx512", "avx2", "baseline": what kernels are chosen by, for logs and checkpoints.
const char* instruction_set();

/// The processors that this process may use; at least 1.
int available_cores();

}  // namespace laconic::cpu
