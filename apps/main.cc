#include "apps/main.h"

#include <signal.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "core/error.h"

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

}  // namespace

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const UsageError& e) {
    return report(whose_error() + e.what(), exit_code_of(e));
  } catch (const std::bad_alloc&) {
    return report("out of memory: use a smaller --batch, or fewer --workers", 1);
  } catch (const std::exception& e) {
    return report(e.what(), exit_code_of(e));
  }
}

bool ignores_hangup() {
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  return hangup.sa_handler == SIG_IGN;
}

}  // namespace laconic
