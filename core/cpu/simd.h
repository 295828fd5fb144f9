#pragma once

// Functions marked LACONIC_MULTIVERSION are compiled for AVX-512, AVX2 and the baseline; the first call picks by CPU.
// Their loops are plain C++ and rely on the compiler's vectoriser. Not under sanitizers: the resolvers run before the
// sanitizer's own start-up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(LACONIC_NO_MULTIVERSION)
#define LACONIC_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
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
