// Runs before main(), and before any library's constructor, in laconic's programs and in those that are linked
// with the static library. The linker refuses .preinit_array in a shared library.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

extern "C" {
int omp_get_max_threads() __attribute__((weak));  // null in a program without OpenMP

/// The kernel's own `struct sigaction` of SIGHUP, which begins with the handler: 0 is SIG_DFL, 1 is SIG_IGN.
std::uintptr_t laconic_hangup_at_start[8];
}

namespace {

/// The setting of OpenMP that bounds how long threads wait for one another by spinning: 3,000 rounds of GNU's are
/// about a tenth of a millisecond. Its default spins for milliseconds, in which a thread that waits takes a core from
/// one that another program has pushed aside: on two busy cores training with two threads was 11 to 30 times slower
/// than with one. LLVM's, which clang takes, counts milliseconds, and its default is 200.
#ifdef __clang__
constexpr char kSetting[] = "KMP_BLOCKTIME=", kSpin[] = "KMP_BLOCKTIME=1";
#else
constexpr char kSetting[] = "GOMP_SPINCOUNT=", kSpin[] = "GOMP_SPINCOUNT=3000";
#endif

#define LACONIC_BEFORE_ALL __attribute__((no_sanitize("address", "thread", "undefined")))

LACONIC_BEFORE_ALL bool begins_with(const char* text, const char* beginning) {
  while (*beginning && *text == *beginning) ++text, ++beginning;
  return *beginning == 0;
}

/// Starts this program anew with kSpin, which OpenMP reads when it is loaded. Not where the environment says how to
/// wait, nor where there is no OpenMP. Where that fails all goes on as it was.
LACONIC_BEFORE_ALL void bound_waits(char** argv, char** envp) {
  if (!omp_get_max_threads) return;
  std::size_t count = 0;
  for (; envp[count]; ++count)
    if (begins_with(envp[count], kSetting) || begins_with(envp[count], "OMP_WAIT_POLICY=")) return;
  char path[4096];
  const long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  const char** const environment = static_cast<const char**>(__builtin_alloca((count + 2) * sizeof(char*)));
  for (std::size_t i = 0; i < count; ++i) environment[i] = envp[i];
  environment[count] = kSpin;
  environment[count + 1] = nullptr;
  syscall(SYS_execve, path, argv, environment);
}

/// Gives the places of input, output and errors to /dev/null where they are closed: a file that the program opens
/// would take them, and what is printed would stand in it.
LACONIC_BEFORE_ALL void fill_closed_places() {
  for (int fd = 0; fd <= 2; ++fd)
    if (syscall(SYS_fcntl, fd, F_GETFD) < 0) syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
}

/// Runs before any library's constructor, since UCX, which Open MPI 6 links, installs a handler for SIGHUP in its own
/// and so takes away what nohup had set. No sanitizer and no C library has started here: system calls alone are safe.
LACONIC_BEFORE_ALL void before_all(int, char** argv, char** envp) {
  fill_closed_places();
  bound_waits(argv, envp);
  syscall(SYS_rt_sigaction, SIGHUP, nullptr, laconic_hangup_at_start, std::size_t{8});
}
__attribute__((section(".preinit_array"), used)) void (*const kBeforeAll)(int, char**, char**) = before_all;

}  // namespace
