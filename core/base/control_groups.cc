#include "core/base/control_groups.h"

#include <algorithm>
#include <fstream>

namespace laconic {

void for_control_groups(const std::string& root, const std::string& controller,
                        const std::function<void(const std::string& folder, bool unified)>& visit) {
  std::string line;
  for (std::ifstream in(root + "/proc/self/cgroup");
       std::getline(in, line);) {  // number:controllers:path; none: version 2
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string top = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller);
    std::string path = line.substr(second + 1);
    for (std::size_t slash = 0; slash != std::string::npos;) {
      visit(top + path, unified);
      slash = path.rfind('/');
      path.resize(std::min(slash, path.size()));
    }
  }
}

}  // namespace laconic
