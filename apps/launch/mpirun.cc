#include "apps/launch/mpirun.h"

#include <filesystem>
#include <regex>

#include "apps/launch/launch.h"
#include "apps/main.h"
#include "core/base/error.h"
#include "dist/transport/mpi.h"
#include "dist/world.h"

namespace laconic {
namespace {

/// How launchers tell a process which one of how many it is.
constexpr struct {
  const char *count, *rank;
} kTold[] = {
    {"PMI_SIZE", "PMI_RANK"},  // MPICH, Intel MPI, MVAPICH, Cray; srun --mpi=pmi2
    // A task of srun. Slurm tells SLURM_NTASKS and SLURM_PROCID to the shell of a batch job too, which is the only one
    // of its kind, and to what that starts; of a step, SLURM_STEP_*, only tasks hear. The shell that salloc opens is a
    // step of one task in a job of many.
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"WORLD_SIZE", "RANK"},  // torchrun
};

/// "Open MPI 4.1.4", "MPICH's Hydra 4.0.2", "Intel(R) MPI Library for Linux* OS, Version 2021.11 …": by the beginning
/// of what it prints.
std::string name_in(const std::string& text) {
  std::smatch version;
  const std::string head = text.substr(0, 500);
  // Debian's mpirun.openmpi calls itself (OpenRTE), the same program as mpirun (Open MPI).
  if (std::regex_search(head, version, std::regex(R"(\((?:Open MPI|OpenRTE)\) (\S+))")))
    return "Open MPI " + version[1].str();
  if (std::regex_search(head, version, std::regex(R"(HYDRA build details:\s+Version:\s+(\S+))")))
    return "MPICH's Hydra " + version[1].str();
  const std::string line = head.substr(0, head.find('\n'));
  return line.empty() ? "a program that does not say what it is" : line;
}

}  // namespace

std::vector<std::string> mpirun_candidates() {
  std::vector<std::string> all;
  if (!in_path("mpirun").empty()) all.emplace_back("mpirun");
  std::error_code error;
  std::filesystem::path at = std::filesystem::weakly_canonical(dist::mpi_library().path, error);
  while (!error && at.has_relative_path()) {  // PREFIX/lib/libmpi.so, /usr/lib/x86_64-linux-gnu/libmpi.so
    at = at.parent_path();
    for (const char* name : {"bin/mpirun.openmpi", "bin/mpirun"})
      if (is_program(at / name)) all.push_back(at / name);
  }
  return all;
}

Mpirun choose_mpirun(const std::vector<std::string>& candidates, const std::string& library,
                     const std::function<CommandResult(const std::vector<std::string>& command)>& run) {
  const std::string wanted = "Open MPI " + library, major = wanted.substr(0, wanted.find('.') + 1);
  Mpirun first, same_major;
  for (const std::string& path : candidates) {
    const CommandResult asked = run({path, "--version"});
    if (asked.code != 0) continue;
    const Mpirun found{path, name_in(asked.out)};
    if (library.empty() || found.name == wanted) return found;
    if (first.path.empty()) first = found;
    if (same_major.path.empty() && found.name.starts_with(major)) same_major = found;
  }
  if (!same_major.path.empty() || first.path.empty()) return same_major;
  first.why = concat(first.path, first.path == "mpirun" ? " in PATH" : "", " is ", first.name,
                     ", and this build speaks Open MPI ", library);
  return first;
}

Mpirun own_mpirun() {
  return choose_mpirun(mpirun_candidates(), dist::mpi_library().version,
                       [](const std::vector<std::string>& command) { return result_of(command, 10); });
}

std::optional<ForeignLauncher> foreign_launcher(const std::vector<std::string>& environment) {
  const auto told = [&](const char* name) { return number_in(environment, name); };
  if (told("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  for (const auto& [count, rank] : kTold)
    if (const int processes = told(count).value_or(0); processes > 1 && told(rank))
      return ForeignLauncher{processes, concat(count, "=", processes), *told(rank) == 0};
  // PMIx alone tells no number. Whoever starts ranks ends all of them when one has failed.
  if (const int rank = told("PMIX_RANK").value_or(0); rank > 0)
    return ForeignLauncher{rank + 1, concat("PMIX_RANK=", rank), rank == 1};
  return std::nullopt;
}

void refuse_foreign_launcher() {
  const std::optional<ForeignLauncher> by = foreign_launcher(own_environment());
  if (!by) return;
  // One sentence is enough, and rank 0's output is what every launcher shows. The others come after it: many launchers
  // end all processes when the first has left.
  if (!by->first) end_behind_rank_0(exit_code_of(UsageError("")));
  throw UsageError(concat("this process was started ", by->processes, " times by another launcher (", by->why,
                          "), and ", dist::how_to_meet(by->processes)));
}

}  // namespace laconic
