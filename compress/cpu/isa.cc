#include "compress/cpu/isa.h"

#include "core/base/processor.h"

namespace laconic::compress::cpu {
namespace {

bool avx512_allowed = true, avx2_allowed = true;

}  // namespace

bool use_avx512() { return avx512_allowed && laconic::cpu::has_avx512_vbmi2(); }
bool use_avx2() { return avx2_allowed && laconic::cpu::has_avx2(); }

void allow_avx512(bool allowed) { avx512_allowed = allowed; }
void allow_avx2(bool allowed) { avx2_allowed = allowed; }

}  // namespace laconic::compress::cpu
