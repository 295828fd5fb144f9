#include "apps/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/temp_folder.h"

namespace laconic {
namespace {

/// Writes a file of a machine that is a folder.
void tell_machine(const TempFolder& root, const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
  std::ofstream(root / path) << text;
}

TEST(Machine, SaysNothingWhereTheSystemDoesNot) {
  const TempFolder root;
  EXPECT_EQ(memory_available(root.path()), 0u);
  EXPECT_EQ(cores_of_groups(root.path()), 0);
}

TEST(Machine, TheLeastLimitOfAGroupAndThoseAroundItCounts) {
  const TempFolder root;
  tell_machine(root, "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n");
  EXPECT_EQ(memory_available(root.path()), 8000u << 10);
  tell_machine(root, "proc/self/cgroup", "0::/a/b\n");
  tell_machine(root, "sys/fs/cgroup/a/memory.max", "1000000\n");
  tell_machine(root, "sys/fs/cgroup/a/b/memory.max", "2000000\n");
  tell_machine(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(memory_available(root.path()), 1000000u);
  EXPECT_EQ(cores_of_groups(root.path()), 0);
  tell_machine(root, "sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores_of_groups(root.path()), 3);
  tell_machine(root, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cores_of_groups(root.path()), 1.5);
}

TEST(Machine, ReadsGroupsOfVersionOne) {
  const TempFolder root;
  tell_machine(root, "proc/meminfo", "MemAvailable: 8000 kB\n");
  tell_machine(root, "proc/self/cgroup", "a line without colons\n5:memory:/m\n4:cpu,cpuacct:/c\n3:cpuset:/c\n");
  tell_machine(root, "sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096\n");
  tell_machine(root, "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  tell_machine(root, "sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(memory_available(root.path()), 4096u);
  EXPECT_EQ(cores_of_groups(root.path()), 0);
  tell_machine(root, "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(cores_of_groups(root.path()), 0.5);
}

}  // namespace
}  // namespace laconic
