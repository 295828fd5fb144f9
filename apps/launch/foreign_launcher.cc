#include "apps/launch/foreign_launcher.h"

#include <algorithm>

#include "apps/launch/child_process.h"
#include "apps/main.h"
#include "core/base/error.h"
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

}  // namespace

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
