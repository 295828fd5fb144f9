// Each folder includes only those below it: the arrows of docs/architecture.md, checked against the source.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "tests/patterns.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

/// A folder, and all that its files may include from.
const std::map<std::string, std::set<std::string>> kMayUse = {
    {"core", {"core"}},
    {"layers", {"layers", "core"}},
    {"optim", {"optim", "core"}},
    {"data", {"data", "core"}},
    {"compress", {"compress", "core"}},
    {"dist", {"dist", "compress", "core"}},
    {"dist/predict", {"dist/predict", "dist", "compress", "core"}},
    {"dist/trainer", {"dist/trainer", "dist/predict", "dist", "compress", "data", "optim", "layers", "core"}},
    {"apps", {"apps", "dist/trainer", "dist/predict", "dist", "compress", "data", "optim", "layers", "core"}},
};

/// "core" for "core/cpu/conv.cc", "dist/trainer" for "dist/trainer/report.h", "" for anything that is not ours.
std::string folder_of(const std::string& path) {
  for (const char* above : {"dist/predict", "dist/trainer"})  // above the rest of dist
    if (path.starts_with(std::string(above) + "/")) return above;
  const std::string first = path.substr(0, path.find('/'));
  return path.find('/') != std::string::npos && (kMayUse.count(first) || first == "tests") ? first : "";
}

bool is_source(const fs::path& file) {
  const auto extension = file.extension();
  return extension == ".h" || extension == ".cc" || extension == ".cuh" || extension == ".cu";
}

TEST(Layering, NoFolderIncludesOneAboveIt) {
  const std::string include = R"re(^\s*#\s*include\s*["<]([^">]+)[">])re";
  const fs::path root = LACONIC_SOURCE;
  int includes = 0;
  for (const char* top : {"core", "layers", "optim", "data", "compress", "dist", "apps"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!is_source(entry.path())) continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      const std::set<std::string>& allowed = kMayUse.at(folder_of(file));
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        if (line.find("include") == line.npos) continue;
        const auto match = found_in(line, include);
        if (match.empty()) continue;
        const std::string path = match[0][1], used = folder_of(path);
        if (used.empty()) continue;
        ++includes;
        EXPECT_TRUE(allowed.count(used)) << file << ":" << number << " includes " << path << ", but " << folder_of(file)
                                         << " may not use " << used;
      }
    }
  }
  EXPECT_GT(includes, 50) << "nothing was read: is " << root << " the source?";
}

/// Outside of core nobody includes a device's own headers: the door for another device stays open. (core/cpu/simd.h is
/// no kernel: it says how a loop is compiled. What is in a folder's own cuda/ is made with core's tools to
/// launch and time kernels.)
TEST(Layering, OnlyCoreIncludesKernels) {
  const std::string include =
      R"re(^\s*#\s*include\s*["<](core/cpu/(?!simd\.h)|core/cuda/|core/kernels/|dnnl|oneapi/))re";
  const std::string tools = R"re(^\s*#\s*include\s*"core/cuda/(launch\.cuh|runtime\.h|device\.h|libraries\.h)")re";
  const fs::path root = LACONIC_SOURCE;
  for (const char* top : {"layers", "optim", "data", "compress", "dist", "apps"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!is_source(entry.path())) continue;
      const bool of_cuda = entry.path().parent_path().filename() == "cuda";
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        EXPECT_TRUE(line.find("include") == line.npos || found_in(line, include).empty() ||
                    (of_cuda && !found_in(line, tools).empty()))
            << entry.path() << ": " << line;
    }
  }
}

}  // namespace
}  // namespace laconic
