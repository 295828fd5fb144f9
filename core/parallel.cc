#include "core/parallel.h"

#include <omp.h>

#include <exception>

namespace laconic {

// oneDNN runs on OpenMP; using the same thread pool avoids two pools fighting for the cores.
namespace {
thread_local int threads = 0;
}

int kernel_threads() {
  if (threads == 0) set_kernel_threads(1);
  return threads;
}

void set_kernel_threads(int t) {
  threads = t < 1 ? 1 : t;
  omp_set_num_threads(threads);
}

namespace detail {
void run_parallel(int parts, void (*body)(void*, int), void* context) {
  std::exception_ptr error;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int i = 0; i < parts; ++i) {
    try {
      body(context, i);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}
}  // namespace detail

}  // namespace laconic
