#include "apps/main.h"

#include <cstdio>
#include <new>

#include "core/error.h"

namespace laconic {
namespace {

int report(const char* text, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "laconic: error: %s\n", text);
  return exit_code;
}

}  // namespace

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const UsageError& e) {
    return report(e.what(), 2);
  } catch (const std::bad_alloc&) {
    return report("out of memory: use a smaller --batch, or fewer --workers", 1);
  } catch (const std::exception& e) {
    return report(e.what(), 1);
  }
}

}  // namespace laconic
