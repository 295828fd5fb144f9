#include "core/base/cores.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "core/base/error.h"

namespace laconic {
namespace {

/// The numbers of a list of the kernel's, as "0-3,8".
std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (read < 1 || first < 0) continue;
    for (int i = first; i <= std::min(read == 2 ? last : first, first + 65535); ++i) numbers.push_back(i);
  }
  return numbers;
}

std::string list_of(const std::vector<int>& numbers) {
  std::string list;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    list += fmt::format("{}{}", list.empty() ? "" : ",", numbers[i]);
    if (last > i) list += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return list;
}

/// The kernel writes lists of any length, where sched_getaffinity's set has room for 1,024 processors.
std::vector<int> allowed_in(const std::string& root) {
  std::ifstream in(root + "/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Cpus_allowed_list:")) return numbers_of(line.substr(line.find(':') + 1));
  std::vector<int> numbers;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (root.empty() && sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) numbers.push_back(i);
  return numbers;
}

int whole(double threads) { return std::max(1, static_cast<int>(threads + 1e-6)); }

}  // namespace

int Cores::usable() const { return fair_share(*this, {*this}); }

std::string Cores::limits() const {
  if (quota > 0 && quota < static_cast<double>(allowed.size()))
    return fmt::format("a control group leaves the time of {:.3g} of {} processors", quota, online);
  const auto many = static_cast<int>(allowed.size());
  return many < online ? fmt::format("of {} processors this process may use {}", online, many) : "";
}

Cores cores_of_process(const std::string& root) {
  Cores cores;
  std::string online;
  std::getline(std::ifstream(root + "/sys/devices/system/cpu/online"), online);
  std::vector<int> there = numbers_of(online);
  if (there.empty() && root.empty())
    for (int i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN); ++i) there.push_back(i);
  cores.allowed = allowed_in(root);
  // The kernel keeps processors that are off in a process's list.
  if (!there.empty()) std::erase_if(cores.allowed, [&](int i) { return std::ranges::find(there, i) == there.end(); });
  if (cores.allowed.empty()) cores.allowed = there.empty() ? std::vector<int>{0} : there;
  cores.online = static_cast<int>(std::max(there.size(), cores.allowed.size()));
  for_control_groups(root, "cpu", [&](const std::string& group, bool unified) {
    double most = 0, period = 0;  // us of all processors together; without a limit the first is the word max, or -1
    if (unified)
      std::ifstream(group + "/cpu.max") >> most >> period;
    else
      std::ifstream(group + "/cpu.cfs_quota_us") >> most, std::ifstream(group + "/cpu.cfs_period_us") >> period;
    if (most <= 0 || period <= 0 || (cores.quota > 0 && cores.quota <= most / period)) return;
    cores.quota = most / period;
    struct stat folder {};
    if (::stat(group.c_str(), &folder) == 0) cores.quota_of = fmt::format("{}:{}", folder.st_dev, folder.st_ino);
  });
  return cores;
}

int fair_share(const Cores& mine, const std::vector<Cores>& here) {
  double share = 0;
  for (const int processor : mine.allowed) {
    const auto users = std::ranges::count_if(
        here, [&](const Cores& c) { return std::ranges::find(c.allowed, processor) != c.allowed.end(); });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(1, users));
  }
  if (mine.quota <= 0) return whole(share);
  const auto in_group = std::ranges::count_if(here, [&](const Cores& c) { return c.quota_of == mine.quota_of; });
  return whole(std::min(share, mine.quota / static_cast<double>(std::max<std::ptrdiff_t>(1, in_group))));
}

std::string to_text(const Cores& cores) {
  return fmt::format("{} {} {} {}", cores.online, list_of(cores.allowed), cores.quota,
                     cores.quota_of.empty() ? "-" : cores.quota_of);
}

Cores cores_from(const std::string& text) {
  Cores cores;
  std::string list;
  std::istringstream in(text);
  require<CommError>(static_cast<bool>(in >> cores.online >> list >> cores.quota >> cores.quota_of), "cores: '", text,
                     "' is not what a rank tells of its processors. Start one build on all machines.");
  cores.allowed = numbers_of(list);
  if (cores.quota_of == "-") cores.quota_of.clear();
  return cores;
}

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
