#include "core/base/processor.h"

#include "core/base/cores.h"

namespace laconic::cpu {

#if defined(__x86_64__)
bool has_avx2() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt");
  return yes;
}

bool has_avx512() {
  static const bool yes = !kAvx2AtMost && has_avx2() && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return yes;
}

bool has_avx512_vbmi2() {
  static const bool yes = has_avx512() && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
  return yes;
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_vbmi2() { return false; }
#endif

int available_cores() { return cores_of_process().usable(); }

const char* instruction_set() { return has_avx512() ? "avx512" : has_avx2() ? "avx2" : "baseline"; }

}  // namespace laconic::cpu
