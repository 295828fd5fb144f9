#include "compress/cpu/isa.h"

namespace laconic::compress::cpu {
namespace {

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
#else
  return false;
#endif
}

bool is_allowed = true;

}  // namespace

bool use_avx512() {
  static const bool has = has_avx512();
  return has && is_allowed;
}

void allow_avx512(bool allowed) { is_allowed = allowed; }

}  // namespace laconic::compress::cpu
