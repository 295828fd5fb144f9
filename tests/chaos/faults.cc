// One fault: started, struck, and trained on to the end.
#include "tests/chaos/faults.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "apps/launch/child_process.h"
#include "core/base/atomic_file.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "dist/trainer/checkpoint.h"
#include "tests/patterns.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr FaultKind kFaults[] = {
    {Fault::kill, "kill", "SIGKILL to the process, or to one of several"},
    {Fault::kill_saving, "kill-saving", "the same while a checkpoint is written"},
    {Fault::stop, "stop", "SIGSTOP, and SIGCONT half a second later"},
    {Fault::freeze, "freeze", "SIGSTOP for good once the ranks have met, with --launch; they give it up after 8 s",
     true},
    {Fault::end, "end", "SIGTERM"},
    {Fault::full_disk, "full-disk", "no file can grow beyond 16 KiB any more"},
    {Fault::cut_file, "cut-file", "killed, and a file of the newest checkpoint ends early"},
    {Fault::flip_bit, "flip-bit", "killed, and a bit of the newest checkpoint is another one"},
};
constexpr rlim_t kFullDisk = 16 << 10;
constexpr double kFrozenSeconds = 8;

/// Reads a file. A process may end while its file in /proc is read: then this is what came before.
std::string text_of(const fs::path& path) { return text_of_file(path).value_or(""); }

/// A training that runs, its words in files of the folder.
class Running {
 public:
  Running(const Victim& victim, const std::string& folder, bool resume, double notices_after = 0)
      : alone_(victim.ranks == 0),
        program_(fs::canonical(victim.program)),
        errors_(folder + (resume ? "/again.err" : "/first.err")),
        process_(victim.command(folder, resume, notices_after), folder + "/out", errors_) {}

  std::optional<int> ended() { return process_.ended(); }
  std::string said() const {
    const std::string text = last_words(errors_).text;
    return text.empty() ? "nothing was said" : text;
  }
  std::string said_so_far() const { return text_of(errors_); }
  double seconds() const { return seconds_since(began_); }
  bool wait_until(double seconds) {
    while (!ended() && this->seconds() < seconds) std::this_thread::sleep_for(1ms);
    return !ended();
  }

  /// The processes that train: this one, or those below it.
  std::vector<pid_t> ranks() const {
    if (alone_) return {process_.pid()};
    std::map<pid_t, pid_t> parent;
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      pid_t pid = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
      std::string stat = text_of(entry.path() / "stat");
      stat.erase(0, stat.rfind(')') + 1);  // the name before may hold anything
      std::istringstream words(stat);
      char state = 0;
      pid_t above = 0;
      if (words >> state >> above && state != 'Z') parent[pid] = above;
    }
    for (const auto& [pid, above] : parent) {
      std::error_code gone;
      if (fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone) != program_) continue;
      pid_t of = pid;
      while (of > 1 && of != process_.pid()) of = parent.contains(of) ? parent[of] : 0;
      if (of == process_.pid()) found.push_back(pid);
    }
    return found;
  }

  void signal(int number) const { ::kill(process_.pid(), number); }
  void kill_all() {
    const std::vector<pid_t> all = ranks();
    signal(SIGKILL);
    for (const pid_t pid : all) ::kill(pid, SIGKILL);
    while (!ended()) std::this_thread::sleep_for(1ms);
    for (const pid_t pid : all)
      while (::kill(pid, 0) == 0 && text_of("/proc/" + std::to_string(pid) + "/stat").find(") Z") == std::string::npos)
        std::this_thread::sleep_for(1ms);
  }

 private:
  const bool alone_;
  const fs::path program_;
  const std::string errors_;
  const Clock::time_point began_ = Clock::now();
  BackgroundProgram process_;
};

/// Whether a checkpoint has been begun and is not complete.
bool is_saving(const std::string& folder) {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder, gone))
    if (entry.path().filename().string().starts_with("checkpoint-") &&
        !fs::exists(entry.path() / "manifest.json", gone))
      return true;
  return false;
}

/// One file of the newest checkpoint, if there is another one to go back to.
std::optional<fs::path> file_to_damage(const std::string& folder, Random& random) {
  const std::vector<std::string> checkpoints = CheckpointStore::all_in(folder);
  if (checkpoints.size() < 2) return std::nullopt;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(checkpoints[0]))
    if (entry.file_size() > 0) files.push_back(entry.path());
  if (files.empty()) return std::nullopt;
  std::sort(files.begin(), files.end());
  return files[random.below(static_cast<std::uint32_t>(files.size()))];
}

void flip_bit(const fs::path& path, Random& random) {
  std::string text = text_of(path);
  const auto at = random.below(static_cast<std::uint32_t>(text.size()));
  text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
  std::ofstream(path, std::ios::binary) << text;
}

/// Does it. Returns whether there was something to do it to.
bool inflict(Fault fault, Running& run, const std::vector<pid_t>& ranks, pid_t one, const std::string& folder,
             Random& random) {
  switch (fault) {
    case Fault::kill:
    case Fault::kill_saving:
      return ::kill(one, SIGKILL) == 0;
    case Fault::freeze:
      return ::kill(one, SIGSTOP) == 0;
    case Fault::stop:
      if (::kill(one, SIGSTOP) != 0) return false;
      std::this_thread::sleep_for(500ms);
      return ::kill(one, SIGCONT) == 0;
    case Fault::end:
      run.signal(SIGTERM);
      return true;
    case Fault::full_disk: {
      const rlimit limit{kFullDisk, kFullDisk};
      return std::all_of(ranks.begin(), ranks.end(),
                         [&](pid_t pid) { return prlimit(pid, RLIMIT_FSIZE, &limit, nullptr) == 0; });
    }
    case Fault::cut_file:
    case Fault::flip_bit:
      run.kill_all();
      const auto file = file_to_damage(folder, random);
      if (!file) return false;
      if (fault == Fault::flip_bit)
        flip_bit(*file, random);
      else
        fs::resize_file(*file, random.below(static_cast<std::uint32_t>(fs::file_size(*file))));
      return true;
  }
  return false;
}

/// Seconds until all ranks are processes that have begun since; less than 0 if the run ends first.
double until_again(Running& run, const std::vector<pid_t>& before, const Victim& victim, double most) {
  const double began = run.seconds();
  while (!run.ended() && run.seconds() - began < most) {
    const std::vector<pid_t> now = run.ranks();
    if (static_cast<int>(now.size()) == victim.ranks && std::none_of(now.begin(), now.end(), [&](pid_t pid) {
          return std::find(before.begin(), before.end(), pid) != before.end();
        }))
      return run.seconds() - began;
    std::this_thread::sleep_for(20ms);  // all processes of the machine are looked at
  }
  return -1;
}

/// The rank of one of several processes, as mpirun has told it; nothing if it has not.
std::optional<std::string> rank_of(pid_t pid) {
  std::istringstream variables(text_of("/proc/" + std::to_string(pid) + "/environ"));
  for (std::string variable; std::getline(variables, variable, '\0');)
    if (const std::string name = "OMPI_COMM_WORLD_RANK="; variable.starts_with(name))
      return variable.substr(name.size());
  return std::nullopt;
}

/// The rank that a sentence names as lost; nothing where none does.
std::optional<std::string> named_rank(const std::string& said) {
  const auto found = found_in(said, "no sign of life from rank ([0-9]+)|rank ([0-9]+) was ended by signal 9");
  if (found.empty()) return std::nullopt;
  return found[0][1] + found[0][2];
}

/// Says what is wrong with the way in which the struck run ended, or "".
std::string wrong_end(Fault fault, int code, bool alone, const std::string& words) {
  const auto expected = [&](std::initializer_list<int> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  bool right = true;
  switch (fault) {
    case Fault::kill:
    case Fault::kill_saving:
    case Fault::freeze:
      right = expected({alone ? 128 + SIGKILL : 0});
      break;
    case Fault::stop:
      right = expected({0});
      break;
    case Fault::end:
      right = expected({0, 128 + SIGTERM});
      break;
    case Fault::full_disk:
      right = expected({0, 1});
      break;
    case Fault::cut_file:
    case Fault::flip_bit:
      break;  // killed here
  }
  return right ? "" : fmt::format("exit code {}: {}", code, words);
}

}  // namespace

std::span<const FaultKind> fault_kinds() { return kFaults; }

std::vector<std::string> Victim::command(const std::string& folder, bool resume, double notices_after) const {
  std::vector<std::string> all;
  if (ranks > 0) all = {laconic, "launch", "-n", std::to_string(ranks), "--restarts", "5"};
  all.push_back(program);
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--save", folder, "--quiet"});
  if (resume) all.emplace_back("--resume");
  const bool own =
      std::any_of(words.begin(), words.end(), [](const auto& word) { return word.starts_with("--timeout"); });
  if (notices_after > 0 && !own) all.insert(all.end(), {"--timeout", fmt::format("{}", notices_after)});
  return all;
}

Undisturbed train_undisturbed(const Victim& victim, const std::string& folder, const std::function<bool()>& goes_on) {
  fs::create_directories(folder);
  Running run(victim, folder, false);
  while (!run.ended() && goes_on()) std::this_thread::sleep_for(1ms);
  if (!goes_on()) {  // Ctrl-C has come to the training, too
    if (!run.ended()) run.kill_all();
    return {};
  }
  const int code = *run.ended();
  require<UsageError>(code != exit_code_of(UsageError("")), run.said());
  require<Error>(code == 0, "chaos: without a fault the training ends with exit code ", code, ": ", run.said());
  const Undisturbed done{run.seconds(), CheckpointStore(folder).weights_path()};
  require<Error>(fs::exists(done.weights), "chaos: the training has left no ", done.weights,
                 ": is it a training program of laconic?");
  return done;
}

Outcome strike(const Victim& victim, Fault fault, const Undisturbed& undisturbed, const std::string& folder,
               Random& random) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  const double longest = victim.timeout > 0 ? victim.timeout : 20 + 10 * undisturbed.seconds;
  Outcome outcome;
  const auto ends_in_time = [&](Running& run) {
    if (!run.wait_until(run.seconds() + longest)) return true;
    run.kill_all();
    outcome.hung = true, outcome.problem = fmt::format("hung for {:.3g} s", longest);
    return false;
  };
  const auto compare = [&] {
    outcome.differs = text_of(CheckpointStore(folder).weights_path()) != text_of(undisturbed.weights);
    if (outcome.differs) outcome.problem = "other weights than without a fault";
  };

  const auto too_late = [&](const Running& run) {
    outcome.after_seconds = run.seconds();
    return outcome;
  };

  {
    Running run(victim, folder, false, fault == Fault::freeze ? kFrozenSeconds : 0);
    if (!run.wait_until(undisturbed.seconds * (0.02 + 0.95 * static_cast<double>(random.uniform()))))
      return too_late(run);
    // Ranks that have not met yet wait for one another in MPI, without a time-out.
    const auto is_there = [&] {
      return fault == Fault::kill_saving ? is_saving(folder)
             : fault == Fault::freeze    ? fs::exists(CheckpointStore(folder).flight_folder())
                                         : true;
    };
    while (!is_there()) {
      if (run.ended()) return too_late(run);
      std::this_thread::sleep_for(200us);  // a save takes longer
    }
    const std::vector<pid_t> before = run.ranks();
    if (run.ended()) return too_late(run);
    if (before.empty()) return run.kill_all(), outcome;  // too early
    const pid_t one = before[random.below(static_cast<std::uint32_t>(before.size()))];
    const std::optional<std::string> rank = rank_of(one);
    const double struck_at = run.seconds();
    if (!inflict(fault, run, before, one, folder, random)) return run.kill_all(), outcome;
    outcome.struck = true;
    outcome.after_seconds = struck_at;
    const bool is_lost = fault == Fault::kill || fault == Fault::kill_saving || fault == Fault::freeze;
    if (victim.ranks > 0 && is_lost) outcome.again_seconds = until_again(run, before, victim, longest);
    if (!ends_in_time(run)) return outcome;
    outcome.problem = wrong_end(fault, *run.ended(), victim.ranks == 0, run.said());
    if (victim.ranks > 0 && is_lost && rank) {
      const std::optional<std::string> named = named_rank(run.said_so_far());
      outcome.named = named == rank;
      if (named && named != rank)
        outcome.problem = fmt::format("rank {} was lost, and rank {} is named", *rank, *named);
    }
    if (!outcome.problem.empty()) return outcome;
    if (*run.ended() == 0) return compare(), outcome;
  }
  Running again(victim, folder, true);
  if (!ends_in_time(again)) return outcome;
  if (*again.ended() != 0)
    outcome.problem = fmt::format("resumed, and exit code {}: {}", *again.ended(), again.said());
  else
    compare();
  return outcome;
}

}  // namespace laconic
