#include "apps/launch/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "apps/common/machine.h"
#include "apps/common/terminal.h"
#include "apps/common/text.h"
#include "apps/launch/child_process.h"
#include "apps/launch/mpirun.h"
#include "apps/programs.h"
#include "apps/training/options.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/base/processor.h"
#include "dist/trainer/checkpoint.h"

namespace laconic {
namespace {

constexpr const char* kLaunchUsage = "as laconic launch -n 4 mnist --epochs 1";

/// The words of a command line, so that it goes on from the newest checkpoint where it saves.
std::vector<std::string> resuming(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool weights = word == "--init";
    if (weights || word == "--resume") {
      const bool more = i + 1 < words.size() && !words[i + 1].starts_with("-");
      i += weights || more ? 1 : 0;
    } else if (!word.starts_with("--init=") && !word.starts_with("--resume=") && word != "--new-head") {
      all.push_back(word);
    }
  }
  all.emplace_back("--resume");
  return all;
}

/// NAME or NAME:SLOTS.   what : the option, for errors
Host host_from(const std::string& text, const char* what) {
  const auto colon = text.find(':');
  Host host{text.substr(0, colon), 0};
  require<UsageError>(!host.name.empty(), "a host has no name (", what,
                      "): give names with commas between, as --hosts a,b");
  if (colon == std::string::npos) return host;
  host.slots = number_from<int>(text.substr(colon + 1)).value_or(0);
  require<UsageError>(host.slots >= 1, "'", text, "' does not say how many ranks the host takes (", what,
                      "): give a whole number of at least 1, as --hosts a:4,b:2");
  return host;
}

/// Lines `NAME [slots=K]`, as Open MPI's own; # begins a comment.
std::vector<Host> read_hostfile(const std::string& path) {
  std::ifstream in(path);
  require<DataError>(in.good(), "cannot read ", path, " (--hostfile): check the path");
  std::vector<Host> hosts;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, setting;
    if (!(words >> name)) continue;
    if (words >> setting) {
      std::string more;
      require<DataError>(setting.starts_with("slots=") && !(words >> more), path, ": '", line,
                         "' is more than a host's name and slots=K (--hostfile)");
      name += ":" + setting.substr(6);
    }
    hosts.push_back(host_from(name, "--hostfile"));
  }
  require<DataError>(!hosts.empty(), path, " names no host (--hostfile): write one in each line, as `east slots=4`");
  return hosts;
}

/// Where a scheduler says on which machines mpirun is to start ranks without --hosts.
constexpr const char* kHostsOfAScheduler[] = {"SLURM_JOB_NODELIST=", "PBS_NODEFILE=", "LSB_HOSTS=", "PE_HOSTFILE="};

/// How many of the ranks mpirun starts on one machine, without --hosts: in a Slurm job it fills each with as many as
/// the job has tasks there.
int ranks_on_a_machine(int ranks, const std::vector<std::string>& environment) {
  const auto told = [&](const char* name) { return number_in(environment, name).value_or(0); };
  const int nodes = std::max({1, told("SLURM_JOB_NUM_NODES"), told("SLURM_NNODES")});
  const int tasks = std::max(ranks, told("SLURM_NTASKS"));
  return std::min(ranks, (tasks + nodes - 1) / nodes);
}

}  // namespace

bool is_program(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::string in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const auto& directory : split(path ? path : "/usr/bin:/bin", ':'))
    if (!directory.empty() && is_program(directory + "/" + name)) return directory + "/" + name;
  return "";
}

/// "`ninja -C build apps/cifar10`": what makes a program where laconic was built, as typed here.
static std::string build_line(const std::filesystem::path& program) {
  std::error_code error;
  const auto build = program.parent_path().parent_path(), near = std::filesystem::relative(build, error);
  const bool below = !error && *near.begin() != "..";
  return concat("`ninja -C ", shell_word(below ? near : build), " ", program.lexically_relative(build).string(), "`");
}

std::string find_app(const std::string& app, const std::string& tool) {
  if (app.find('/') != std::string::npos) {
    require<UsageError>(is_program(app), "there is no program ", app, " (", tool, "): check the path");
    return app;
  }
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  if (!error && is_program(beside / app)) return beside / app;
  if (const std::string found = in_path(app); !found.empty()) return found;
  std::vector<std::string> names;
  for (const Program& program : programs()) {
    if (app == program.name && std::filesystem::exists(beside.parent_path() / "build.ninja", error))
      refuse("there is no program '" + app + "'", tool, "build it with " + build_line(beside / app));
    if (is_program(beside / program.name)) names.push_back(program.name);
  }
  const std::string close = nearest(app, names);
  throw UsageError(
      concat("there is no program '", app, "' (", tool, "): ",
             close.empty() ? "give a path, or the name of a program beside laconic" : "did you mean " + close + "?"));
}

namespace {

/// Whether ranks could be started there: mpirun would use ssh too.
bool host_answers(const std::string& name) {
  return name == "localhost" || name == host_name() || succeeds(over_ssh(name, "true"));
}

}  // namespace

LaunchOptions parse_launch(const std::vector<std::string>& arguments) {
  LaunchOptions o;
  std::size_t i = 0;
  const auto value = [&](const std::string& option) {
    require<UsageError>(i + 1 < arguments.size(), "a value is missing (", option, "): give one, ", kLaunchUsage);
    return arguments[++i];
  };
  for (; i < arguments.size() && arguments[i].starts_with("-"); ++i) {
    const std::string& option = arguments[i];
    if (option == "-n" || option == "-np" || option == "--workers") {
      const std::string text = value(option);
      o.ranks = number_from<int>(text).value_or(0);
      require<UsageError>(o.ranks >= 1, "'", text, "' is not a whole number of at least 1 (", option,
                          "): give the number of processes, ", kLaunchUsage);
    } else if (option == "--hosts") {
      for (const auto& host : split(value(option), ',')) o.hosts.push_back(host_from(host, "--hosts"));
    } else if (option == "--hostfile") {
      o.hosts = read_hostfile(value(option));
    } else if (option == "--mca") {
      const std::string name = value(option);
      o.mca.emplace_back(name, value(option));
    } else if (option == "--dry-run") {
      o.dry_run = true;
    } else if (option == "--restarts" || option == "--min-workers") {
      const std::string text = value(option);
      const bool restarts = option == "--restarts";
      const std::optional<int> number = number_from<int>(text);
      require<UsageError>(number && *number >= (restarts ? 0 : 1), "'", text, "' is not a whole number of at least ",
                          restarts ? 0 : 1, " (", option, "): give one, as --restarts 3 --min-workers 2");
      (restarts ? o.restarts : o.min_workers) = *number;
    } else {
      const std::vector<std::string> known = {"-n",        "--hosts",    "--hostfile",   "--mca",
                                              "--dry-run", "--restarts", "--min-workers"};
      throw UsageError(concat("unknown option '", option, "' (launch): ", did_you_mean(option, known),
                              "Options of the app come after its name, ", kLaunchUsage));
    }
  }
  require<UsageError>(o.ranks > 0, "the number of processes is missing (launch): give it, ", kLaunchUsage);
  require<UsageError>(i < arguments.size(), "the program is missing (launch): give it, ", kLaunchUsage);
  o.app = arguments[i];
  o.app_arguments.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
  require<UsageError>(o.min_workers == 0 || o.restarts > 0,
                      "nothing begins again with fewer processes (--min-workers): add --restarts R");
  require<UsageError>(o.min_workers <= o.ranks, o.min_workers, " processes at least, and there are ", o.ranks,
                      " (--min-workers): give at most as many as -n");
  const GivenOptions given(o.app_arguments);
  require<UsageError>(o.restarts == 0 || given.value("save"),
                      "there would be no checkpoint to begin again from (--restarts): add --save DIR behind ", o.app,
                      ", and --save-every K");
  require<UsageError>(o.restarts == 0 || !given.value("repeat"),
                      "a training with several seeds (--repeat) would begin at its first seed again (--restarts): start "
                      "each seed by itself, with --seed");
  const GivenOptions later(resuming(o.app_arguments));
  for (const char* weights : {"init", "new-head"})
    require<UsageError>(o.restarts == 0 || !later.value(weights), "what begins again goes on from a checkpoint, not ",
                        "from weights ('", weights, "' in --config): give --", weights,
                        " on the command line, where it can be left out");
  return o;
}

LaunchOptions begun_again(const LaunchOptions& options, const std::function<bool(const std::string& host)>& answers) {
  LaunchOptions next = options;
  next.hosts = placed(options.hosts, options.ranks);
  std::vector<std::string> gone;
  std::erase_if(next.hosts, [&](const Host& host) {
    if (answers(host.name)) return false;
    gone.push_back(host.name);
    next.ranks -= host.slots;
    return true;
  });
  const int least = options.min_workers > 0 ? options.min_workers : options.ranks;
  require<LostRank>(next.ranks >= least, join(gone, ", "), gone.size() == 1 ? " does" : " do", " not answer, and ",
                    next.ranks, " of ", options.ranks,
                    " processes have a host (--min-workers): mend it, or let fewer go on");
  const auto save = GivenOptions(options.app_arguments).value("save");
  auto& words = next.app_arguments;
  // Without a checkpoint it begins as it did, over what a first save has left that was cut off.
  if (!save || CheckpointStore::all_in(*save).empty()) {
    if (save && std::ranges::find(words, "--overwrite") == words.end()) words.emplace_back("--overwrite");
    return next;
  }
  words = resuming(words);
  return next;
}

std::vector<Host> placed(std::vector<Host> hosts, int ranks) {
  if (hosts.empty()) return hosts;
  const int count = static_cast<int>(hosts.size());
  const bool said = std::any_of(hosts.begin(), hosts.end(), [](const Host& h) { return h.slots > 0; });
  int left = ranks;
  for (int i = 0; i < count; ++i) {
    int& slots = hosts[static_cast<std::size_t>(i)].slots;
    slots = said ? std::min(left, std::max(slots, 1)) : ranks / count + (i < ranks % count ? 1 : 0);
    left -= slots;
  }
  require<UsageError>(left == 0, ranks, " processes, and the hosts take ", ranks - left, " (launch): give them as -n ",
                      ranks - left, ", or let a host take more, as --hosts a:4,b:4");
  std::erase_if(hosts, [](const Host& h) { return h.slots == 0; });
  return hosts;
}

LaunchCommand launch_command(const LaunchOptions& o, const std::string& app_path, int cores, int columns, bool root,
                             const std::vector<std::string>& environment) {
  LaunchCommand command;
  bool& here = command.here;
  here = o.hosts.empty();
  for (const auto& entry : environment) {
    if (is_for_others(entry)) command.unset.push_back(entry.substr(0, entry.find('=')));
    for (const char* name : kHostsOfAScheduler) here &= !entry.starts_with(name);
  }

  const std::vector<Host> hosts = placed(o.hosts, o.ranks);
  int on_a_host = hosts.empty() ? ranks_on_a_machine(o.ranks, environment) : 0;
  std::vector<std::string> places;
  for (const Host& host : hosts) {
    on_a_host = std::max(on_a_host, host.slots);
    places.push_back(concat(host.name, ":", host.slots));
  }
  auto& set = command.set;
  set["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / on_a_host));
  set["LACONIC_COLUMNS"] = std::to_string(columns);
  if (here) {  // ranks open no port, and mpirun's for them is the loopback's
    set["OMPI_MCA_pml"] = "ob1";
    set["OMPI_MCA_btl"] = "^tcp,ofi,openib,uct,usnic";
    set["PMIX_MCA_ptl_base_if_include"] = "lo";
  }
  if (root) set["OMPI_ALLOW_RUN_AS_ROOT"] = set["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  if (on_a_host > cores) set["OMPI_MCA_mpi_yield_when_idle"] = "1";

  auto& words = command.words;
  words = {"mpirun", "-n", std::to_string(o.ranks), "--bind-to", "none"};
  if (on_a_host > cores) words.push_back("--oversubscribe");  // Open MPI counts cores
  if (!hosts.empty())
    words.insert(words.end(),
                 {"--host", join(places, ","), "--map-by", "slot", "-x", "OMP_NUM_THREADS", "-x", "LACONIC_COLUMNS"});
  for (const auto& [name, value] : o.mca) words.insert(words.end(), {"--mca", name, value});
  words.push_back(app_path);
  words.insert(words.end(), o.app_arguments.begin(), o.app_arguments.end());
  return command;
}

int launch(const std::vector<std::string>& arguments) {
  LaunchOptions options = parse_launch(arguments);
  const std::string app = find_app(options.app, "launch");
  const std::vector<std::string> environment = own_environment();
  const Mpirun mpirun = own_mpirun();
  const auto command_of = [&](const LaunchOptions& o) {
    LaunchCommand c = launch_command(o, app, cpu::available_cores(), terminal_columns(), ::geteuid() == 0, environment);
    if (!mpirun.path.empty()) c.words[0] = mpirun.path;
    return c;
  };
  const LaunchCommand command = command_of(options);

  if (options.dry_run) {
    std::string line = "env";
    for (const auto& name : command.unset) line += " -u " + shell_word(name);
    for (const auto& [name, value] : command.set) line += " " + name + "=" + shell_word(value);
    for (const auto& word : command.words) line += " " + shell_word(word);
    fmt::print("{}\n", line);
    return 0;
  }
  require<Error>(
      !mpirun.path.empty(),
      "launch: mpirun is not installed. Install Open MPI (Debian: apt-get install openmpi-bin), or train with "
      "threads of one process: ",
      options.app, " --workers ", options.ranks, ".");
  require<UsageError>(mpirun.why.empty(), mpirun.why, " (launch): put the mpirun of that first in PATH, or install it ",
                      "(Debian: apt-get install openmpi-bin)");
  if (const GivenOptions given(options.app_arguments); options.restarts > 0 && !given.value("resume")) {
    const std::string save = *given.value("save");
    require<UsageError>(CheckpointStore::all_in(save).empty(), save,
                        " holds a checkpoint already, and what begins again would go on ",
                        "from that (--restarts): give --resume to go on from it now, or another --save");
  }
  Ending ending = supervise(command);
  std::vector<std::string> reasons;
  while (options.restarts > 0 && ending.failed()) {
    reasons.push_back(ending.why.empty() ? concat("a rank ended with exit code ", ending.code) : ending.why);
    const int run = static_cast<int>(reasons.size());
    if (run > options.restarts) {
      fmt::print(stderr, "laconic: error: {} runs have failed (--restarts {}):\n", run, options.restarts);
      for (int i = 0; i < run; ++i) fmt::print(stderr, "  run {}: {}\n", i + 1, reasons[static_cast<std::size_t>(i)]);
      break;
    }
    const LaunchOptions next = begun_again(options, host_answers);
    fmt::print(stderr, "laconic: note: begins again with {} processes, restart {} of {}\n", next.ranks, run,
               options.restarts);
    ending = supervise(command_of(next));
  }
  return ending.code;
}

}  // namespace laconic
