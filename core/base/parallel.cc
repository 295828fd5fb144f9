#include "core/base/parallel.h"

#include <omp.h>

#include <exception>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace laconic {

// oneDNN runs on OpenMP; using the same thread pool avoids two pools fighting for the cores.
namespace {
thread_local int threads = 0;

/// What the thread sanitizer must be told, since it does not see how GNU OpenMP starts and joins its team: all before
/// begin() comes before what follows begun() in a part, and all before ended() in a part before what follows end().
struct Team {
#ifdef __SANITIZE_THREAD__
  void begin() { __tsan_release(&started); }
  void begun() { __tsan_acquire(&started); }
  void ended() { __tsan_release(&joined); }
  void end() { __tsan_acquire(&joined); }
  char started, joined;
#else
  void begin() {}
  void begun() {}
  void ended() {}
  void end() {}
#endif
};
}  // namespace

int kernel_threads() {
  if (threads == 0) set_kernel_threads(1);
  return threads;
}

void set_kernel_threads(int t) {
  threads = t < 1 ? 1 : t;
  omp_set_num_threads(threads);
}

namespace detail {
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread")))  // parts read their arguments before begun()
#endif
void run_parallel(int parts, void (*body)(void*, int), void* context) {
  std::exception_ptr error;
  Team team;
  team.begin();
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int i = 0; i < parts; ++i) {
    team.begun();
    try {
      body(context, i);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
    team.ended();
  }
  team.end();
  if (error) std::rethrow_exception(error);
}
}  // namespace detail

}  // namespace laconic
