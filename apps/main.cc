#include "apps/main.h"

#include <signal.h>
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

#include "core/base/settings.h"

/// SIGHUP's action, as before_main.cc has seen it. A shared library cannot have that file, so in a program of one's own
/// it is null there.
#ifdef LACONIC_SHARED
extern "C" __attribute__((weak)) std::uintptr_t laconic_hangup_at_start[8];
#else
extern "C" std::uintptr_t laconic_hangup_at_start[8];
#endif

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

bool ignores_hangup() {
#ifdef LACONIC_SHARED
  if (!laconic_hangup_at_start) {
    static const bool ignored = [] {
      struct sigaction now;
      return sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    }();
    return ignored;
  }
#endif
  return laconic_hangup_at_start[0] == 1;
}

}  // namespace laconic
