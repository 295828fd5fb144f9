#include "apps/bench/torch.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace laconic {

std::string python_with(const std::string& module, const std::string& also) {
  std::vector<std::string> candidates{"python3", "/usr/bin/python3"};
  if (const char* own = std::getenv("LACONIC_PYTHON")) candidates = {own};
  std::vector<std::string> wanted{module};
  if (!also.empty()) wanted.insert(wanted.begin(), module + ", " + also);
  for (const auto& modules : wanted)
    for (const auto& python : candidates)
      if (succeeds({python, "-c", "import " + modules})) return python;
  throw DataError(
      concat("bench: no Python that can import ", module, " was found (--against ", module,
             "): install it, or name one in LACONIC_PYTHON"));
}

void wait_until_ready(ChildProcess& process) {
  const auto ready = nlohmann::json::parse(process.receive());
  require<DataError>(!ready.contains("error"), "bench: ", ready.value("error", ""), ".");
}

ChildProcess::Environment thread_environment(int threads) {
  ChildProcess::Environment e{{"OMP_NUM_THREADS", std::to_string(threads)}};
  if (threads > 1) e.insert(e.end(), {{"OMP_PROC_BIND", "close"}, {"OMP_PLACES", "cores"}});
  return e;
}

ChildProcess::Environment torch_environment(int threads) {
  auto e = thread_environment(threads);
  e.insert(e.end(), {{"MALLOC_MMAP_THRESHOLD_", "1073741824"}, {"MALLOC_TRIM_THRESHOLD_", "8589934592"}});
  const std::string openblas = "/usr/lib/x86_64-linux-gnu/openblas-openmp";
  std::error_code ignored;
  if (std::filesystem::exists(openblas, ignored)) {
    const char* own = std::getenv("LD_LIBRARY_PATH");  // a GPU's libraries may lie there
    e.emplace_back("LD_LIBRARY_PATH", own && *own ? openblas + ":" + own : openblas);
  }
  return e;
}

}  // namespace laconic
