#pragma once
#include <functional>
#include <string>

namespace laconic {

/// Visits the control groups (cgroups) that this process is in for one controller: the innermost first, then those
/// around it. A folder need not be there: inside a container the kernel names groups that cannot be seen.
///   root        stands in front of /proc and /sys: a test's folder
///   controller  "cpu" or "memory"
///   visit       folder: a group's; unified: it is of version 2, whose files have other names
void for_control_groups(const std::string& root, const std::string& controller,
                        const std::function<void(const std::string& folder, bool unified)>& visit);

}  // namespace laconic
