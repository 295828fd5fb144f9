#include "apps/main.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "core/settings.h"

namespace laconic {
namespace {

int report(const std::string& text, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "laconic: error: %s\n", text.c_str());
  return exit_code;
}

/// All ranks of an MPI run read the same command line, and rank 0 says what is wrong with it: the first to leave ends
/// them all. A rank that outlives its wait was told something else than rank 0, and says so itself.
std::string whose_error() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || std::strcmp(rank, "0") == 0) return "";
  std::signal(SIGTERM, SIG_DFL);  // by which a launcher ends the others
  std::this_thread::sleep_for(std::chrono::seconds(3));
  return concat("rank ", rank, ": ");
}

/// The kernel's own `struct sigaction`, which begins with the handler: 0 is SIG_DFL, 1 is SIG_IGN.
std::uintptr_t hangup_at_start[8];

/// Runs before any library's constructor: UCX, which Open MPI 6 links, installs a handler for SIGHUP in its own and so
/// takes away what nohup had set. No sanitizer and no C library has started here: a system call alone is safe.
__attribute__((no_sanitize("address", "thread", "undefined"))) void look_at_hangup(int, char**, char**) {
  syscall(SYS_rt_sigaction, SIGHUP, nullptr, hangup_at_start, std::size_t{8});
}
__attribute__((section(".preinit_array"), used)) void (*const kLookAtHangup)(int, char**, char**) = look_at_hangup;

}  // namespace

int run_main(const std::function<int()>& body) {
  if (ignores_hangup()) std::signal(SIGHUP, SIG_IGN);  // a library may have set a handler since
  try {
    return body();
  } catch (const UsageError& e) {
    return report(whose_error() + Settings::as_options(e.what()), exit_code_of(e));
  } catch (const std::bad_alloc&) {
    return report("out of memory: use a smaller --batch, or fewer --workers", 1);
  } catch (const Error& e) {
    return report(Settings::as_options(e.what()), exit_code_of(e));
  } catch (const std::exception& e) {
    return report(e.what(), exit_code_of(e));
  }
}

bool ignores_hangup() { return hangup_at_start[0] == 1; }

}  // namespace laconic
