#include "compress/cpu/isa.h"

namespace laconic::compress::cpu {
namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}
#else
bool has_avx512() { return false; }
bool has_avx2() { return false; }
#endif

bool avx512_allowed = true, avx2_allowed = true;

}  // namespace

bool use_avx512() {
  static const bool has = has_avx512();
  return has && avx512_allowed;
}

bool use_avx2() {
  static const bool has = has_avx2();
  return has && avx2_allowed;
}

void allow_avx512(bool allowed) { avx512_allowed = allowed; }
void allow_avx2(bool allowed) { avx2_allowed = allowed; }

}  // namespace laconic::compress::cpu
