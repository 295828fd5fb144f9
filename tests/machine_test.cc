#include "apps/common/machine.h"

#include <gtest/gtest.h>

#include "tests/temp_folder.h"

namespace laconic {
namespace {

/// Writes a file of a machine that is a folder.
void tell_machine(const TempFolder& root, const std::string& path, const std::string& text) {
  root.write(path, {text.begin(), text.end()});
}

TEST(Machine, SaysNothingWhereTheSystemDoesNot) {
  const TempFolder root;
  EXPECT_EQ(memory_available(root.path()), 0u);
}

TEST(Machine, TheLeastLimitOfAGroupAndThoseAroundItCounts) {
  const TempFolder root;
  tell_machine(root, "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n");
  EXPECT_EQ(memory_available(root.path()), 8000u << 10);
  tell_machine(root, "proc/self/cgroup", "0::/a/b\n");
  tell_machine(root, "sys/fs/cgroup/a/memory.max", "1000000\n");
  tell_machine(root, "sys/fs/cgroup/a/b/memory.max", "2000000\n");
  EXPECT_EQ(memory_available(root.path()), 1000000u);
}

TEST(Machine, ReadsGroupsOfVersionOne) {
  const TempFolder root;
  tell_machine(root, "proc/meminfo", "MemAvailable: 8000 kB\n");
  tell_machine(root, "proc/self/cgroup", "a line without colons\n5:memory:/m\n3:cpuset:/c\n");
  tell_machine(root, "sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096\n");
  EXPECT_EQ(memory_available(root.path()), 4096u);
}

}  // namespace
}  // namespace laconic
