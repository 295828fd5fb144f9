// laconic doctor: what a machine has, and what is slow or missing for training.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common/machine.h"
#include "apps/doctor/findings.h"
#include "apps/launch/launch.h"
#include "apps/launch/mpirun.h"
#include "apps/common/tools.h"
#include "apps/common/text.h"
#include "apps/common/version.h"
#include "core/dispatch.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/stream.h"
#include "dist/transport/mpi.h"
#include "dist/transport/single_copy.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

/// "2.18.3" of the NCCL that would be opened; empty: there is none.
std::string nccl_version() {
  void* const library = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return "";
  using Ask = int (*)(int*);
  const auto ask = reinterpret_cast<Ask>(::dlsym(library, "ncclGetVersion"));
  int number = 0;  // 21803, and 2708 before 2.9
  if (!ask || ask(&number) != 0) return "";
  const int major = number < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", number / major, number % major / 100, number % 100);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

Surroundings this_machine() {
  Surroundings here;
  here.environment = variable;
  here.run = [](const auto& command) { return result_of(command, 60); };
  here.free_bytes = [](const std::string& folder) {
    std::error_code not_there;
    const auto space = std::filesystem::space(folder, not_there);
    return not_there ? 0 : static_cast<std::uint64_t>(space.available);
  };
  here.root_user = ::geteuid() == 0;
  try {
    here.laconic = find_app("laconic", "laconic doctor");
  } catch (const UsageError&) {
  }
  here.network = [laconic = here.laconic](const auto& hosts) { return measured_network(hosts, laconic); };
  here.version = version_text() + "\n";
#ifndef NDEBUG
  here.optimised = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  here.sanitized = true;
#endif
  here.without = built_without();
  const OnednnVersion onednn = onednn_version();
  here.onednn = onednn.number, here.onednn_openmp = onednn.openmp;
  here.cuda_built = kCudaBuilt;
  for (int i = 0; i < cuda_devices(); ++i) here.gpus.push_back(cuda_device_name(i));
  if (here.gpus.empty())
    here.why_no_gpu = why_no_cuda_device();
  else
    here.nccl = nccl_version();
  here.mpi = dist::mpi_library().version;
  here.mpiruns = mpirun_candidates();
  here.single_copy = !dist::refuses_single_copy();
  return here;
}

}  // namespace

int doctor(const std::vector<std::string>& arguments) {
  std::string hosts;
  bool json = false, peer = false;
  CLI::App app(
      "What this machine has, and what is slow or missing for training, with the mend of each.\n"
      "Two processes train together for two steps. Exit code 1: something is broken.\n"
      "laconic launch -n 2 --hosts A,B laconic doctor tells it of both machines, with exit code 0.",
      "laconic doctor");
  app.add_option("--hosts", hosts,
                 "also what is between these machines, and whether ranks could be started and train together there")
      ->type_name("A,B");
  app.add_flag("--json", json, "an object, as the only line");
  app.add_flag("--peer", peer)->group("");  // what measured_network() starts on each host
  if (const auto done = parse_tool(app, arguments)) return *done;
  if (peer) answer_peers();

  std::vector<std::string> names;
  if (!hosts.empty()) names = split(hosts, ',');
  for (const std::string& name : names)
    require<UsageError>(!name.empty() && name[0] != '-', "'", name,
                        "' is no name of a host (--hosts): give names with commas between, as --hosts a,b");
  const std::string local_rank = variable("OMPI_COMM_WORLD_LOCAL_RANK");
  if (!local_rank.empty() && local_rank != "0") return 0;  // one rank speaks for a machine
  const Surroundings here = this_machine();
  const std::vector<Finding> all = findings(here, names, !local_rank.empty());
  const auto count = [&](Finding::Verdict verdict) { return std::ranges::count(all, verdict, &Finding::verdict); };
  const auto broken = count(Finding::Verdict::broken), missing = count(Finding::Verdict::missing),
             slow = count(Finding::Verdict::slow);

  std::string text;  // in one piece, for other machines may write too
  if (json) {
    Json object{
        {"host", host_name()}, {"broken", broken}, {"missing", missing}, {"slow", slow}, {"findings", Json::array()}};
    for (const Finding& f : all) {
      Json line{{"verdict", name_of(f.verdict)}, {"topic", f.topic}, {"found", f.found}};
      if (!f.mend.empty()) line["mend"] = f.mend;
      object["findings"].push_back(std::move(line));
    }
    text = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  } else {
    if (!local_rank.empty()) text = host_name() + ":\n";
    for (const Finding& f : all)
      text += fmt::format("{:<8} {:<10} {}{}\n", name_of(f.verdict), f.topic, f.found,
                          f.mend.empty() ? "" : ". Mend: " + f.mend);
    text += broken + missing + slow == 0 ? "Nothing is broken, missing or slow.\n"
                                         : fmt::format("{} broken, {} missing, {} slow.\n", broken, missing, slow);
  }
  fmt::print("{}", text);
  return broken > 0 && local_rank.empty() ? 1 : 0;
}

}  // namespace laconic
