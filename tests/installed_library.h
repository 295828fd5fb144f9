#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace laconic {

/// The names of a list such as LACONIC_CUBLAS.
#define LACONIC_NAMES_OF(list) \
  { list(LACONIC_NAME_OF) }
#define LACONIC_NAME_OF(name) #name,

/// Expects one of NVIDIA's libraries, where it is installed, to have all functions that are called of it: also where
/// those of the emulated device are called. Else skips the test.
inline void expect_functions_of(const std::string& library, std::initializer_list<int> versions,
                                const std::vector<std::string>& names) {
  void* handle = nullptr;
  for (const int version : versions)
    for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"})
      if (handle == nullptr)
        handle = dlopen((folder + library + ".so." + std::to_string(version)).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) GTEST_SKIP() << library << " is not installed here";
  for (const std::string& name : names) EXPECT_NE(dlsym(handle, name.c_str()), nullptr) << library << ": " << name;
}

}  // namespace laconic
