#include "apps/main.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "core/error.h"

namespace laconic {
namespace {

int report(const char* text, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "laconic: error: %s\n", text);
  return exit_code;
}

/// All ranks of an MPI run read the same command line, and one of them says what is wrong with it. The others leave
/// later: the first to leave ends them all.
bool another_rank_reports() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || std::strcmp(rank, "0") == 0) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  return true;
}

}  // namespace

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const UsageError& e) {
    return another_rank_reports() ? 2 : report(e.what(), 2);
  } catch (const std::bad_alloc&) {
    return report("out of memory: use a smaller --batch, or fewer --workers", 1);
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}

}  // namespace laconic
