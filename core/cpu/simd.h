#pragma once
#include "core/base/processor.h"

// Functions marked LACONIC_MULTIVERSION are compiled for AVX-512, AVX2 and the baseline; the first call picks by CPU.
// Their loops are plain C++ and rely on the compiler's vectoriser. Not under sanitizers: the resolvers run before the
// sanitizer's own start-up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(LACONIC_NO_MULTIVERSION)
#define LACONIC_HAS_TARGETS 1  // functions may be for one set of instructions
#endif
#if defined(LACONIC_HAS_TARGETS) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LACONIC_HAS_MULTIVERSION 1
#ifdef LACONIC_AVX2_AT_MOST
#define LACONIC_MULTIVERSION __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define LACONIC_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#else
#define LACONIC_MULTIVERSION
#endif

#define LACONIC_RESTRICT __restrict__

// Before a loop whose iterations are independent although its pointers may be equal (in-place operations).
#if defined(__clang__)
#define LACONIC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LACONIC_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define LACONIC_INLINE inline __attribute__((always_inline))
#define LACONIC_FLATTEN __attribute__((flatten))  // all that it calls is compiled into it
// Before a statement: its calls are compiled into it. clang's flatten does so for the function's own calls alone.
#if defined(__clang__)
#define LACONIC_INLINE_CALLS [[clang::always_inline]]
#else
#define LACONIC_INLINE_CALLS
#endif

namespace laconic::cpu {

/// Most floats of a vector in kernels that are written for each set of instructions (core/cpu/panels.h): 16, 8, or with
/// 0 those that any processor has. Tests lower it, while no kernel runs.
inline int most_floats = 16;
/// Whether such kernels take AVX-512, or else AVX2, here and now.
inline bool takes_avx512() { return has_avx512() && most_floats >= 16; }
inline bool takes_avx2() { return has_avx2() && most_floats >= 8; }

/// 16 floats, a vector of the compiler: the same code for every instruction set. Where loops over plain arrays are
/// compiled badly. Only as locals, never passed by value (how depends on the instruction set).
typedef float Lanes __attribute__((vector_size(64)));
/// Half of them, for code that compares: of vectors that are wider than the processor's g++ 12 takes comparisons apart
/// into single values (eight times slower).
typedef float HalfLanes __attribute__((vector_size(32)));

// In memory, wherever it lies. (Copied as bytes they would go through halves on AVX2.)
typedef Lanes LanesInMemory __attribute__((aligned(1), may_alias));
typedef HalfLanes HalfLanesInMemory __attribute__((aligned(1), may_alias));

/// Unaligned moves.
template <class Vector>
LACONIC_INLINE void load(Vector& v, const void* from) {
  __builtin_memcpy(&v, from, sizeof v);
}
template <class Vector>
LACONIC_INLINE void store(void* to, const Vector& v) {
  __builtin_memcpy(to, &v, sizeof v);
}
LACONIC_INLINE void load(Lanes& v, const void* from) { v = *static_cast<const LanesInMemory*>(from); }
LACONIC_INLINE void load(HalfLanes& v, const void* from) { v = *static_cast<const HalfLanesInMemory*>(from); }
LACONIC_INLINE void store(void* to, const Lanes& v) { *static_cast<LanesInMemory*>(to) = v; }
LACONIC_INLINE void store(void* to, const HalfLanes& v) { *static_cast<HalfLanesInMemory*>(to) = v; }

}  // namespace laconic::cpu
