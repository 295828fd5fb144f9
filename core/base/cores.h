#pragma once
#include <functional>
#include <string>
#include <vector>

namespace laconic {

/// The processors that a process may use. No other code asks the system for them.
struct Cores {
  int online = 1;                 ///< processors of the machine
  std::vector<int> allowed = {};  ///< their numbers: affinity, as taskset, a cpuset or a launcher's binding has set it
  double quota = 0;               ///< how many processors' time control groups leave, as 1.5; 0: they do not limit it
  std::string quota_of = {};      ///< names the group whose limit that is, alike in all processes of the machine

  /// How many threads can compute at a time; at least 1.
  int usable() const;
  /// "of 16 processors this process may use 2", "a control group leaves the time of 1.5 of 16 processors"; "" where it
  /// may use all.
  std::string limits() const;
};

/// The processors of this process. Without /proc or control groups the affinity alone counts, then one processor.
///   root  stands in front of /proc and /sys: a test's folder
Cores cores_of_process(const std::string& root = "");

/// How many threads one of several processes on a machine should have: each processor is shared among those that may
/// use it, and a group's time among those that are in it. At least 1.
///   here  all of them; `mine` is one
int fair_share(const Cores& mine, const std::vector<Cores>& here);

/// A line of text without a line break, and back; for ranks that tell each other. Throws CommError where it is none.
std::string to_text(const Cores& cores);
Cores cores_from(const std::string& text);

/// Visits the control groups (cgroups) that this process is in for one controller: the innermost first, then those
/// around it. A folder need not be there: inside a container the kernel names groups that cannot be seen.
///   root        stands in front of /proc and /sys: a test's folder
///   controller  "cpu" or "memory"
///   visit       folder: a group's; unified: it is of version 2, whose files have other names
void for_control_groups(const std::string& root, const std::string& controller,
                        const std::function<void(const std::string& folder, bool unified)>& visit);

}  // namespace laconic
