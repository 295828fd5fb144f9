#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/random.h"

namespace laconic {

/// Names the things that can happen to a training.
enum class Fault : std::uint8_t { kill, kill_saving, stop, freeze, end, full_disk, cut_file, flip_bit };
struct FaultKind {
  Fault fault;
  const char* name;
  const char* what;
  bool of_ranks = false;  ///< there have to be other processes that notice
};
std::span<const FaultKind> fault_kinds();

/// A training as it is started again and again.
struct Victim {
  std::string laconic, program;    ///< their paths
  std::vector<std::string> words;  ///< the program's command line, without --save and --resume
  int ranks = 0;                   ///< processes, under `laconic launch --restarts`; 0: one process, as threads
  double timeout = 0;              ///< seconds; 0: twenty and ten times what the undisturbed training took

  /// notices_after : seconds after which the ranks give up one that is silent, unless the words say; 0: not said
  std::vector<std::string> command(const std::string& folder, bool resume, double notices_after = 0) const;
};

/// How an undisturbed training went.
struct Undisturbed {
  double seconds = 0;
  std::string weights;  ///< path of the file that it has left
};
/// Trains in a new folder. Once `goes_on` says no, the training is killed, and what is returned means nothing.
/// throws UsageError with the program's own sentence if it takes other options; Error if it fails, or has saved nothing
Undisturbed train_undisturbed(const Victim& victim, const std::string& folder, const std::function<bool()>& goes_on);

/// How a training went that a fault was done to.
struct Outcome {
  bool struck = false;       ///< it still ran, and there was what the fault needs
  double after_seconds = 0;  ///< since the training began; if it ended before it was struck, until then
  std::string problem{};     ///< "": it went on to the same bits
  bool hung = false, differs = false;
  std::optional<bool> named{};  ///< under `launch`: whether what was said names the rank that was killed or stopped
  double again_seconds = -1;    ///< from the fault until `launch` had begun again; less than 0: it did not have to
};
/// Trains in a new folder, does this to it at a random moment, and trains on until the end.
///   hung     longer than the timeout, before or after it is resumed
///   throws   Error if a program cannot be started
Outcome strike(const Victim& victim, Fault fault, const Undisturbed& undisturbed, const std::string& folder,
               Random& random);

}  // namespace laconic
