#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

namespace laconic {

/// Kernel threads of the calling (compute) thread, T >= 1. Each worker's compute thread sets its own; a new thread has
/// 1. oneDNN obeys too.
int kernel_threads();
void set_kernel_threads(int threads);

/// The oneDNN that this process has loaded.
struct OnednnVersion {
  std::string number;  ///< "3.1.1"
  bool openmp;         ///< it computes on OpenMP's threads; else set_kernel_threads() is nothing to it
};
OnednnVersion onednn_version();

namespace detail {
void run_parallel(int parts, void (*body)(void*, int), void* context);
}

/// Calls f(begin, end) for consecutive parts of [0, n), on up to kernel_threads() threads, each part at least `grain`
/// long. For independent work only: how [0, n) is cut depends on the number of threads, so that reductions go by
/// chunks of fixed size instead (each part writes its chunks' results; add them up in order).
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  if (n <= 0) return;
  const std::int64_t most = grain > 0 ? n / grain : n;
  const int parts = static_cast<int>(most < kernel_threads() ? most : kernel_threads());
  if (parts <= 1) return f(std::int64_t{0}, n);
  struct Context {
    std::remove_reference_t<F>& f;
    std::int64_t n;
    int parts;
  } context{f, n, parts};
  detail::run_parallel(
      parts,
      [](void* p, int i) {
        auto& c = *static_cast<Context*>(p);
        c.f(c.n * i / c.parts, c.n * (i + 1) / c.parts);
      },
      &context);
}

}  // namespace laconic
