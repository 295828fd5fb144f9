#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/compare/table.h"
#include "dist/transport/link.h"

namespace laconic {

/// `laconic compare APP COMMON OPTIONS --vs "SET 1" --vs "SET 2" ...`: trains with each option set on the same data and
/// seeds, the sets in turns within each seed so that a drift of the machine hits all alike, and prints one table. For
/// sets whose link is known the schedule's bound stands beside the measured step. Every run is a process of its own,
/// with OPENBLAS_*, OMP_*, OMPI_* of the caller taken out of its environment. Returns 1 if a set failed (the others are
/// shown), else 0. Throws UsageError.
int compare(const std::vector<std::string>& arguments);

/// One of the things compared: options that come after the common ones.
struct OptionSet {
  std::string label;               ///< as given ("ring: --allreduce ring"), else the options
  std::vector<std::string> words;  ///< of the app's command line
  std::vector<std::string> peer{};  ///< the command of another program that trains in its stead; empty: the app
  int ranks = 1;                    ///< workers and dedicated servers, for {ranks} of --through
};

/// `laconic compare APP COMMON OPTIONS --vs "..." --vs "..."`
struct CompareOptions {
  std::string app;
  std::vector<std::string> common;  ///< the app's
  std::vector<std::string> typed;   ///< the same with presets by name: for the app they are defaults
  std::vector<OptionSet> sets;
  int repeat = 1;  ///< runs of every set, with seeds seed, seed + 1, ...
  std::uint64_t seed = 0;
  int launch = 0;                         ///< ranks under `laconic launch`; 0: the app alone
  int learn = 0;                          ///< steps of an epoch that is timed for the time to accuracy; 0: not asked
  std::vector<std::string> through;       ///< words that stand in front of the command; {ranks}: workers and servers
  std::optional<double> target_accuracy;  ///< per cent
  std::optional<int> warm_up;             ///< steps of each run that are not counted
  std::optional<dist::LinkSpec> rate;     ///< of the link that the workers have, where no --link tells it
  std::string keep;                       ///< a directory for the logs; empty: thrown away
  std::string report;                     ///< a page about the sets; empty: none
  bool bound = true, markdown = false, json = false, quiet = false, dry_run = false, help = false;
};

/// Reads what follows "compare": its own options may stand anywhere, everything else after APP is the app's. Throws
/// UsageError. Each of --preset NAME,.. that says how gradients travel is a set of its own; one of hyper-parameters
/// stands before the options for all.
CompareOptions parse_compare(const std::vector<std::string>& arguments);
/// The text of --help.
std::string compare_help();

/// All values of an option in a command line of an app: "--name value" or "--name=value".
std::vector<std::string> values_of(const std::vector<std::string>& words, const std::string& option);

/// A run is a training on the network, a training without it, or steps that are timed on it.
enum class RunKind { whole, learning, timing };

/// The options of a set: those for all, then its own.
std::vector<std::string> words_of(const CompareOptions& options, const OptionSet& set);

/// Asks the app what a set's options come to, where words do not tell it: its ranks, where {ranks} stands in --through
/// or a file has options, and the seed. A set that the app refuses stays as it is, and fails with the app's own
/// sentence.   goes_on : once it says no, nothing more is asked.   throws UsageError: --learn has other ranks
void ask_app(CompareOptions& options, const std::string& app, const std::function<bool()>& goes_on);

/// The words of both, one after the other.
std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b);

/// The command that runs a set with a seed, its log in that file. A learning run goes without the network; a timing run
/// has short epochs and evaluates nothing. `self`: the path of laconic
std::vector<std::string> command_of(const CompareOptions& options, const OptionSet& set, const std::string& app_path,
                                    const std::string& self, std::uint64_t seed, const std::string& log,
                                    RunKind run = RunKind::whole);

}  // namespace laconic
