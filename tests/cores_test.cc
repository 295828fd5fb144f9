#include "core/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "core/base/error.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

using Numbers = std::vector<int>;

/// A machine of 16 processors that is a folder.
class CoresOfAMachine : public ::testing::Test {
 protected:
  CoresOfAMachine() {
    tell("sys/devices/system/cpu/online", "0-15\n");
    allow("0-15");
  }
  void tell(const std::string& path, const std::string& text) { root_.write(path, {text.begin(), text.end()}); }
  void allow(const std::string& list) {
    tell("proc/self/status", "Name:\tx\nCpus_allowed:\tffff\nCpus_allowed_list:\t" + list + "\n");
  }
  Cores cores() const { return cores_of_process(root_.path()); }
  const TempFolder root_;
};

TEST_F(CoresOfAMachine, WithoutALimitAllAreUsed) {
  EXPECT_EQ(cores().online, 16);
  EXPECT_EQ(cores().usable(), 16);
  EXPECT_EQ(cores().quota, 0);
  EXPECT_EQ(cores().limits(), "");
}

TEST_F(CoresOfAMachine, AffinityLimits) {
  allow("3,8-9");
  EXPECT_EQ(cores().allowed, (Numbers{3, 8, 9}));
  EXPECT_EQ(cores().usable(), 3);
  EXPECT_EQ(cores().limits(), "of 16 processors this process may use 3");
  allow("0-1023");  // the kernel keeps what is not there in the list
  EXPECT_EQ(cores().usable(), 16);
}

TEST_F(CoresOfAMachine, TheLeastQuotaOfAGroupAndThoseAroundItLimits) {
  tell("proc/self/cgroup", "0::/a/b\n");
  tell("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cores().quota, 0);
  EXPECT_EQ(cores().usable(), 16);
  tell("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores().quota, 3);
  tell("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cores().quota, 1.5);
  EXPECT_EQ(cores().usable(), 1) << "two threads would be stopped for a quarter of the time";
  EXPECT_EQ(cores().limits(), "a control group leaves the time of 1.5 of 16 processors");
  tell("sys/fs/cgroup/a/b/cpu.max", "20000 100000\n");
  EXPECT_EQ(cores().usable(), 1) << "at least";
  allow("1");
  tell("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(cores().limits(), "of 16 processors this process may use 1") << "the narrower of two limits";
}

TEST_F(CoresOfAMachine, AContainerSeesItsOwnGroupAtTheTop) {
  tell("proc/self/cgroup", "0::/../../docker/0123\n");
  tell("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cores().usable(), 2);
}

TEST_F(CoresOfAMachine, ReadsGroupsOfVersionOne) {
  tell("proc/self/cgroup", "a line without colons\n5:memory:/m\n4:cpu,cpuacct:/c\n3:cpuset:/c\n");
  tell("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  tell("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores().quota, 0);
  tell("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(cores().usable(), 2);
}

TEST(Cores, AMachineThatSaysNothingHasOne) {
  const TempFolder root;
  EXPECT_EQ(cores_of_process(root.path()).usable(), 1);
  EXPECT_EQ(cores_of_process(root.path()).limits(), "");
}

TEST(Cores, AreThoseOfTheAffinityOfThisProcess) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) GTEST_SKIP() << "more processors than a set has room for";
  const Cores cores = cores_of_process();
  EXPECT_EQ(static_cast<int>(cores.allowed.size()), CPU_COUNT(&set));
  EXPECT_LE(cores.usable(), CPU_COUNT(&set));
}

TEST(Cores, RanksShareWhatSeveralMayUse) {
  const Cores all{.online = 16, .allowed = {0, 1, 2, 3}}, low{.online = 16, .allowed = {0, 1}},
      high{.online = 16, .allowed = {2, 3}};
  EXPECT_EQ(fair_share(low, {low, high}), 2) << "each is bound to processors of its own";
  EXPECT_EQ(fair_share(all, {all, all}), 2) << "none is bound";
  EXPECT_EQ(fair_share(low, {low, low, high, high}), 1) << "bound to sockets";
  EXPECT_EQ(fair_share(all, {all, low}), 3) << "2 of its own, and two halves";
  EXPECT_EQ(fair_share(low, {low, low, low}), 1) << "at least";
}

TEST(Cores, RanksShareTheTimeOfTheirGroup) {
  const Numbers all{0, 1, 2, 3, 4, 5, 6, 7};
  const Cores a{.online = 16, .allowed = all, .quota = 4, .quota_of = "1:7"},
      b{.online = 16, .allowed = all, .quota = 4, .quota_of = "1:8"};
  EXPECT_EQ(fair_share(a, {a, a}), 2);
  EXPECT_EQ(fair_share(a, {a, b}), 4) << "a group of its own";
}

TEST(Cores, RanksTellEachOther) {
  const Cores cores{.online = 128, .allowed = {0, 1, 2, 5, 64, 65}, .quota = 1.5, .quota_of = "31:4096"};
  EXPECT_EQ(to_text(cores), "128 0-2,5,64-65 1.5 31:4096");
  const Cores back = cores_from(to_text(cores));
  EXPECT_EQ(back.online, 128);
  EXPECT_EQ(back.allowed, cores.allowed);
  EXPECT_EQ(back.quota, 1.5);
  EXPECT_EQ(back.quota_of, "31:4096");
  EXPECT_EQ(cores_from(to_text({.online = 2, .allowed = {1}})).quota_of, "");
  EXPECT_THROW(cores_from("2 threads"), CommError);
}

}  // namespace
}  // namespace laconic
