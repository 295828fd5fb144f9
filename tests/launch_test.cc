#include "apps/launch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace laconic {
namespace {

std::string line(const LaunchCommand& command) {
  std::string text;
  for (const auto& word : command.words) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Launch, WhatFollowsTheAppBelongsToTheApp) {
  const LaunchOptions o =
      parse_launch({"-n", "4", "--hosts", "a,b", "--mca", "btl", "tcp,self", "mnist", "-n", "x", "--hosts"});
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.mca.at(0).second, "tcp,self");
  EXPECT_EQ(o.app, "mnist");
  EXPECT_EQ(o.app_arguments, (std::vector<std::string>{"-n", "x", "--hosts"}));
}

TEST(Launch, WhatIsWrongIsAUsageError) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"mnist"},
                                                       {"-n"},
                                                       {"-n", "0", "mnist"},
                                                       {"-n", "4x", "mnist"},
                                                       {"-n", "4"},
                                                       {"--host", "a", "-n", "2", "mnist"},
                                                       {"-n", "2", "--hosts", "a,,b", "mnist"},
                                                       {"-n", "2", "--mca", "btl"}};
  for (const auto& arguments : wrong) EXPECT_THROW(parse_launch(arguments), UsageError) << arguments.size();
}

TEST(Launch, CoresAreSharedAmongTheRanksOfAHost) {
  const auto with = [](std::vector<std::string> arguments, int cores) {
    return launch_command(parse_launch(arguments), "/bin/mnist", cores, 0, false, {});
  };
  LaunchCommand c = with({"-n", "2", "mnist"}, 8);
  EXPECT_EQ(line(c), "mpirun -n 2 --bind-to none /bin/mnist");
  EXPECT_EQ(c.set.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(c.set.count("OMPI_MCA_mpi_yield_when_idle"), 0u);

  c = with({"-n", "4", "mnist", "--epochs", "1"}, 2);
  EXPECT_EQ(line(c), "mpirun -n 4 --bind-to none --oversubscribe /bin/mnist --epochs 1");
  EXPECT_EQ(c.set.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(c.set.at("OMPI_MCA_mpi_yield_when_idle"), "1");

  c = with({"-n", "4", "--hosts", "a,b", "mnist"}, 4);
  EXPECT_EQ(line(c),
            "mpirun -n 4 --bind-to none --oversubscribe --host a,b --map-by node -x OMP_NUM_THREADS -x "
            "LACONIC_COLUMNS /bin/mnist");
  EXPECT_EQ(c.set.at("OMP_NUM_THREADS"), "2");
}

TEST(Launch, SettingsOfTheCallerForOtherProgramsAreDropped) {
  const LaunchCommand c = launch_command(parse_launch({"-n", "1", "mnist"}), "mnist", 1, 77, true,
                                         {"OMP_NUM_THREADS=7", "OPENBLAS_CORETYPE=Haswell", "OMPI_COMM_WORLD_RANK=1",
                                          "PATH=/bin", "COMPILER=x", "PMIX_RANK=0"});
  EXPECT_EQ(c.unset,
            (std::vector<std::string>{"OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}));
  EXPECT_EQ(c.set.at("LACONIC_COLUMNS"), "77");
  EXPECT_EQ(c.set.at("OMPI_ALLOW_RUN_AS_ROOT"), "1");
  EXPECT_EQ(c.set.at("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
}

}  // namespace
}  // namespace laconic
