// libFuzzer's end: `fuzz --target=NAME [its own options] CORPUS...` feeds one target, `fuzz --list` names all. run.sh
// does the rest.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/parallel.h"
#include "tests/fuzz/targets.h"

namespace {

const laconic::FuzzTarget* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  // What GoogleTest finds wrong ends the program, as libFuzzer wants it.
  testing::GTEST_FLAG(throw_on_failure) = true;
  int none = 1;
  testing::InitGoogleTest(&none, *argv);
  laconic::set_kernel_threads(1);
  for (const laconic::FuzzTarget& t : laconic::fuzz_targets())
    for (int i = 1; i < *argc; ++i) {
      // Two dashes: libFuzzer leaves them alone, and gives them to the processes that it starts.
      if (std::strcmp((*argv)[i], "--list") == 0) std::puts(t.name);
      if (std::strncmp((*argv)[i], "--target=", 9) == 0 && std::strcmp((*argv)[i] + 9, t.name) == 0) target = &t;
    }
  if (target == nullptr) {
    const bool lists = *argc == 2 && std::strcmp((*argv)[1], "--list") == 0;
    if (!lists) std::fputs("give --target=NAME, a name of --list\n", stderr);
    std::exit(lists ? 0 : 2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target->read({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
