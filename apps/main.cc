#include "apps/main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "core/settings.h"

extern "C" int omp_get_max_threads() __attribute__((weak));  // null in a program without OpenMP

namespace laconic {
namespace {

/// Returns the text as a terminal may show it: other control characters than line breaks and tabs as \xNN, and of a
/// very long one, as a file of options can make it, its beginning and its end.
std::string fit_to_print(const std::string& text) {
  constexpr std::size_t kMost = 6000, kEnd = 1000;
  std::string fit;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.size() > kMost && i == kMost - kEnd) fit += " ... ", i = text.size() - kEnd;
    const auto c = static_cast<unsigned char>(text[i]);
    const bool shows = (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t';
    fit += shows ? std::string(1, text[i]) : concat("\\x", "0123456789abcdef"[c / 16], "0123456789abcdef"[c % 16]);
  }
  return fit;
}

int report(const std::string& text, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "laconic: error: %s\n", fit_to_print(text).c_str());
  return exit_code;
}

/// The exit code of a program whose work ended with `exit_code`: another one if what it printed is lost.
int after_output(int exit_code) {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost || exit_code != 0) return exit_code;
  return report(concat("what was printed could not be written", errno != 0 ? concat(": ", std::strerror(errno)) : "",
                       ". Free some space, or send it elsewhere."),
                1);
}

/// Leaves rank 0 the time to say what is wrong, and to end all.
void wait_for_rank_0() {
  std::signal(SIGTERM, SIG_DFL);  // by which a launcher ends the others
  std::this_thread::sleep_for(std::chrono::seconds(3));
}

/// All ranks of an MPI run read the same command line, and rank 0 says what is wrong with it: the first to leave ends
/// them all. A rank that outlives its wait was told something else than rank 0, and says so itself.
std::string whose_error() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || std::strcmp(rank, "0") == 0) return "";
  wait_for_rank_0();
  return concat("rank ", rank, ": ");
}

/// The kernel's own `struct sigaction`, which begins with the handler: 0 is SIG_DFL, 1 is SIG_IGN.
std::uintptr_t hangup_at_start[8];

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
  syscall(SYS_rt_sigaction, SIGHUP, nullptr, hangup_at_start, std::size_t{8});
}
__attribute__((section(".preinit_array"), used)) void (*const kBeforeAll)(int, char**, char**) = before_all;

}  // namespace

int run_main(const std::function<int()>& body) {
  if (ignores_hangup()) std::signal(SIGHUP, SIG_IGN);  // a library may have set a handler since
  std::signal(SIGXFSZ, SIG_IGN);                       // a file may grow no more: whoever writes it says so
  try {
    return after_output(body());
  } catch (const UsageError& e) {
    return report(whose_error() + Settings::as_options(e.what()), exit_code_of(e));
  } catch (const std::bad_alloc&) {
    return report("out of memory: ask for less at a time; a training with a smaller --batch, or fewer --workers", 1);
  } catch (const Error& e) {
    return report(Settings::as_options(e.what()), exit_code_of(e));
  } catch (const std::exception& e) {
    return report(e.what(), exit_code_of(e));
  }
}

void end_behind_rank_0(int exit_code) {
  wait_for_rank_0();
  std::exit(exit_code);
}

bool ignores_hangup() { return hangup_at_start[0] == 1; }

}  // namespace laconic
