#include "apps/launch/mpirun.h"

#include <csignal>
#include <cstring>  // sigabbrev_np
#include <filesystem>
#include <regex>
#include <utility>

#include "apps/launch/launch.h"
#include "apps/main.h"
#include "core/base/error.h"
#include "core/base/parse.h"
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

namespace {

/// How the notes begin that may tell how a rank ended.
constexpr const char* kAboutRanks[] = {" noticed that process rank ", "terminated normally, but ",
                                       "detected that one or more processes exited with non-zero status",
                                       "MPI_ABORT was invoked on rank ", " has exited due to process rank "};

/// A longer text is none of mpirun's. std::regex goes as deep on the stack as its text is long.
constexpr std::size_t kLongestNote = 2000;

bool is_dashes(const std::string& line) { return line.size() > 60 && line.find_first_not_of('-') == line.npos; }

bool is_about_ranks(const std::string& line) {
  for (const char* beginning : kAboutRanks)
    if (line.find(beginning) != line.npos) return true;
  return false;
}

/// "SIGKILL (out of memory?)"
std::string named(int signal) {
  const char* name = sigabbrev_np(signal);
  std::string text = name ? concat("SIG", name) : "which has no name";
  switch (signal) {
    case SIGKILL: return text + " (out of memory?)";
    case SIGBUS: return text + " (is /dev/shm full?)";
    case SIGSEGV:
    case SIGILL:
    case SIGFPE:
    case SIGABRT: return text + " (a defect: report it with what stands above)";
    default: return text;
  }
}

}  // namespace

std::string MpirunNotes::take(const std::string& line) {
  silent_ = false;
  const bool ours = line.starts_with("laconic: "), error = line.starts_with("laconic: error: ");
  // Ranks that wait for the same lost one may say so at the same time.
  repeats_ = (said_ && line.starts_with("laconic: error: engine: ")) || (repeats_ && line.starts_with("  rank "));
  if (repeats_ || (verdict() && line.find("ORTE_ERROR_LOG") != line.npos)) return "";
  said_ |= error;
  if (!note_.empty() && !ours) {
    if (is_dashes(line)) return close(line);
    note_ += line + "\n";
    return note_.size() > kLongestNote ? std::exchange(note_, "") : "";
  }
  if (is_dashes(line)) return std::exchange(dashes_, line + "\n");
  if (line.find("run: Forwarding signal ") != line.npos) return "";  // asked for from here
  if (!dashes_.empty() && line.empty()) return dashes_ += "\n", "";  // Open MPI 6 begins its notes so
  if (!dashes_.empty() && is_about_ranks(line) && line.size() < kLongestNote) {
    note_ = std::exchange(dashes_, "") + line + "\n";
    return "";
  }
  return std::exchange(dashes_, "") + line + "\n";
}

std::string MpirunNotes::end(int exit_code) {
  std::string text = std::exchange(note_, "") + std::exchange(dashes_, "");
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) expect(s);  // as an exit code: a training that they stopped in order
  if (exit_code != 0 && silent_) failed_ = true;            // Open MPI 5 does not always note it
  if (exit_code == 0 || verdict() || as_asked_ || expected_.contains(exit_code - 128)) return text;
  if (!failed_)
    return concat(text, "laconic: error: mpirun ended with exit code ", exit_code,
                  " (launch): see what it wrote before this.\n");
  const std::string rank = failed_rank_.empty() ? "a rank" : "rank " + failed_rank_;
  if (failed_rank_.empty() && exit_code > 128) return text + lose(rank, exit_code - 128);
  return concat(text, "laconic: error: ", rank, " ended with exit code ", exit_code,
                " (launch): see what it wrote before this.\n");
}

std::string MpirunNotes::lose(const std::string& rank, int signal) {
  lost_ = true;
  return concat("laconic: error: ", rank, " was ended by signal ", signal, ", ", named(signal), ".\n");
}

/// The end of a note: what to print in its place.
std::string MpirunNotes::close(const std::string& end) {
  static const std::regex signal(
      R"(process rank (\d+) with PID \d+\s+on\s+node\s+(\S+)\s+exited\s+on\s+signal\s+(\d+))"),
      failure(R"(Process name: \S*,(\d+)\]\s+Exit code:|MPI_ABORT was invoked on rank (\d+))"),
      some_failure("terminated normally, but"), told(R"(calling\s+"abort")");
  const std::string note = std::exchange(note_, "");
  std::smatch parts;
  if (std::regex_search(note, parts, signal)) {
    const int number = number_from<int>(parts[3].str()).value_or(0);
    if (expected_.contains(number)) return as_asked_ = true, "";
    return lose(concat("rank ", parts[1].str(), several_hosts_ ? " on " + parts[2].str() : ""), number);
  }
  if (std::regex_search(note, parts, failure)) {
    failed_ = true;
    failed_rank_ = parts[1].str() + parts[2].str();
    return "";
  }
  if (std::regex_search(note, some_failure)) {
    failed_ = true;
    return "";
  }
  return std::regex_search(note, told) ? "" : note + end + "\n";
}

}  // namespace laconic
