#include "apps/launch/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

#include "apps/launch/mpirun.h"
#include "core/base/error.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"

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
  EXPECT_EQ(o.hosts, (std::vector<Host>{{"a"}, {"b"}}));
  EXPECT_EQ(o.mca.at(0).second, "tcp,self");
  EXPECT_EQ(o.app, "mnist");
  EXPECT_EQ(o.app_arguments, (std::vector<std::string>{"-n", "x", "--hosts"}));
}

TEST(Launch, WhatIsWrongIsAUsageError) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"mnist"},
      {"-n"},
      {"-n", "0", "mnist"},
      {"-n", "4x", "mnist"},
      {"-n", "4"},
      {"--host", "a", "-n", "2", "mnist"},
      {"-n", "2", "--hosts", "a,,b", "mnist"},
      {"-n", "2", "--hosts", "a:0,b", "mnist"},
      {"-n", "2", "--hosts", "a:x", "mnist"},
      {"-n", "2", "--mca", "btl"},
      {"-n", "2", "--restarts", "x", "mnist", "--save", "s"},
      {"-n", "2", "--restarts", "1", "mnist"},
      {"-n", "2", "--min-workers", "1", "mnist", "--save", "s"},
      {"-n", "2", "--restarts", "1", "--min-workers", "3", "mnist", "--save", "s"}};
  for (const auto& arguments : wrong) EXPECT_THROW(parse_launch(arguments), UsageError) << arguments.size();
}

TEST(Launch, TheMpirunIsThatOfTheLibrary) {
  const std::map<std::string, std::string> says = {
      {"mpirun", "HYDRA build details:\n    Version:                                 4.0.2\n"},
      {"intel", "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)\n"},
      {"same", "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"},
      {"mpirun.openmpi", "mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"},
      {"older", "mpirun (Open MPI) 4.0.5\n"},
      {"five", "mpirun (Open MPI) 5.0.7\n"}};
  const auto chosen = [&](const std::vector<std::string>& candidates, const std::string& library = "4.1.4") {
    return choose_mpirun(candidates, library, [&](const std::vector<std::string>& command) {
      const auto said = says.find(command[0]);
      return said == says.end() ? CommandResult{CommandResult::kNotStarted} : CommandResult{0, said->second};
    });
  };
  EXPECT_EQ(chosen({"mpirun", "same", "older"}).path, "same");
  EXPECT_EQ(chosen({"mpirun", "mpirun.openmpi"}).path, "mpirun.openmpi") << "Debian's own name";
  EXPECT_EQ(chosen({"older", "five", "same"}).path, "same") << "of its own version";
  EXPECT_EQ(chosen({"mpirun", "five", "older"}).path, "older") << "else of its major version";
  EXPECT_EQ(chosen({"gone", "same"}).name, "Open MPI 4.1.4");
  EXPECT_EQ(chosen({"same"}).why, "");
  EXPECT_EQ(chosen({"gone"}).path, "");
  EXPECT_EQ(chosen({"mpirun"}).why, "mpirun in PATH is MPICH's Hydra 4.0.2, and this build speaks Open MPI 4.1.4");
  EXPECT_EQ(chosen({"/opt/five", "five"}).why, "five is Open MPI 5.0.7, and this build speaks Open MPI 4.1.4");
  EXPECT_EQ(chosen({"intel"}).why.rfind("intel is Intel(R) MPI Library", 0), 0u) << chosen({"intel"}).why;
  EXPECT_EQ(chosen({"mpirun"}, "").path, "mpirun") << "a build without MPI has no better one";
}

TEST(Launch, ProcessesThatOtherLaunchersStartAreKnown) {
  using Environment = std::vector<std::string>;
  const auto told = [](const Environment& environment) -> std::string {
    const auto by = foreign_launcher(environment);
    return by ? concat(by->processes, " ", by->why, by->first ? " first" : "") : "none";
  };
  EXPECT_EQ(told({"PMI_RANK=0", "PMI_SIZE=2"}), "2 PMI_SIZE=2 first");
  EXPECT_EQ(told({"PMI_RANK=1", "PMI_SIZE=2"}), "2 PMI_SIZE=2");
  EXPECT_EQ(told({"RANK=3", "WORLD_SIZE=4"}), "4 WORLD_SIZE=4");
  EXPECT_EQ(told({"PMIX_RANK=1"}), "2 PMIX_RANK=1 first") << "nobody tells rank 0 how many there are";
  EXPECT_EQ(told({"PMIX_RANK=2"}), "3 PMIX_RANK=2");
  // As Slurm 22.05 sets them in a task of srun, in a batch job, and in the step that is the shell of salloc.
  EXPECT_EQ(told({"SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4"}),
            "4 SLURM_STEP_NUM_TASKS=4 first");
  EXPECT_EQ(told({"SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0"}), "none");
  EXPECT_EQ(told({"SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290", "SLURM_STEP_NUM_TASKS=1"}), "none");
  for (const Environment& one : {Environment{},
                                 {"PMI_RANK=0", "PMI_SIZE=1"},
                                 {"RANK=0", "WORLD_SIZE=1"},
                                 {"PMIX_RANK=0"},
                                 {"WORLD_SIZE=4"},
                                 {"PMI_SIZE=x", "PMI_RANK=0"}})
    EXPECT_EQ(told(one), "none");
  for (const char* other : {"PMI_SIZE=2", "SLURM_STEP_NUM_TASKS=2", "PMIX_RANK=1"})
    EXPECT_EQ(told({other, "PMI_RANK=1", "SLURM_PROCID=1", "OMPI_COMM_WORLD_SIZE=2"}), "none")
        << "a rank of Open MPI's";
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
            "mpirun -n 4 --bind-to none --host a:2,b:2 --map-by slot -x OMP_NUM_THREADS -x LACONIC_COLUMNS "
            "/bin/mnist");
  EXPECT_EQ(c.set.at("OMP_NUM_THREADS"), "2");
}

TEST(Launch, MachinesOfASlurmJobShareItsRanks) {
  const auto with = [](const char* ranks, std::vector<std::string> environment) {
    environment.push_back("SLURM_JOB_NODELIST=a,b");
    return launch_command(parse_launch({"-n", ranks, "mnist"}), "/bin/mnist", 4, 0, false, environment);
  };
  LaunchCommand c = with("8", {"SLURM_JOB_NUM_NODES=2", "SLURM_NTASKS=8"});
  EXPECT_EQ(line(c), "mpirun -n 8 --bind-to none /bin/mnist");
  EXPECT_EQ(c.set.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(with("2", {"SLURM_NNODES=2"}).set.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(with("2", {"SLURM_NNODES=2", "SLURM_NTASKS=4"}).set.at("OMP_NUM_THREADS"), "2") << "both on the first";
  c = with("8", {});
  EXPECT_EQ(line(c), "mpirun -n 8 --bind-to none --oversubscribe /bin/mnist");
}

TEST(Launch, RanksFillOneHostAfterAnother) {
  using Hosts = std::vector<Host>;
  EXPECT_EQ(placed({{"a"}, {"b"}}, 4), (Hosts{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(placed({{"a"}, {"b"}, {"c"}}, 8), (Hosts{{"a", 3}, {"b", 3}, {"c", 2}}));
  EXPECT_EQ(placed({{"a"}, {"b"}}, 1), (Hosts{{"a", 1}})) << "no host without a rank";
  EXPECT_EQ(placed({{"a", 4}, {"b", 2}}, 6), (Hosts{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(placed({{"a", 4}, {"b", 2}}, 5), (Hosts{{"a", 4}, {"b", 1}}));
  EXPECT_EQ(placed({{"a", 3}, {"b"}}, 4), (Hosts{{"a", 3}, {"b", 1}}));
  EXPECT_EQ(placed({}, 3), Hosts{});
  EXPECT_THROW(placed({{"a", 4}, {"b", 2}}, 7), UsageError);
}

TEST(Launch, AHostfileNamesAHostInEachLine) {
  const TempFolder dir;
  const auto hosts = [&](const std::string& text) {
    dir.write("hosts", {text.begin(), text.end()});
    return parse_launch({"-n", "2", "--hostfile", dir / "hosts", "mnist"}).hosts;
  };
  EXPECT_EQ(hosts("# two machines\neast slots=4  # four GPUs\n\n  west\n"), (std::vector<Host>{{"east", 4}, {"west"}}));
  for (const char* wrong : {"", "# none\n", "east slots=0\n", "east cores=4\n", "east slots=4 west\n"})
    EXPECT_THROW(hosts(wrong), Error) << wrong;
  EXPECT_THROW(parse_launch({"-n", "2", "--hostfile", dir / "none", "mnist"}), DataError);
}

TEST(Launch, RanksOfOneMachineOpenNoPort) {
  const auto with = [](std::vector<std::string> arguments, std::vector<std::string> environment) {
    return launch_command(parse_launch(arguments), "/bin/mnist", 4, 0, false, environment);
  };
  const LaunchCommand c = with({"-n", "2", "mnist"}, {"PATH=/bin"});
  EXPECT_TRUE(c.here);
  EXPECT_EQ(c.set.at("OMPI_MCA_btl").rfind("^tcp,", 0), 0u);
  EXPECT_EQ(c.set.at("PMIX_MCA_ptl_base_if_include"), "lo");
  for (const LaunchCommand& far :
       {with({"-n", "2", "--hosts", "a,b", "mnist"}, {}), with({"-n", "2", "mnist"}, {"SLURM_JOB_NODELIST=a,b"})}) {
    EXPECT_FALSE(far.here);
    EXPECT_EQ(far.set.count("OMPI_MCA_btl") + far.set.count("PMIX_MCA_ptl_base_if_include"), 0u);
  }
}

TEST(Launch, WhatBeginsAgainGoesOnFromTheLastCheckpoint) {
  const TempFolder dir;
  const auto again = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"-n", "2", "--restarts", "1", "mnist", "--save", dir.path()};
    words.insert(words.end(), more.begin(), more.end());
    const LaunchOptions next = begun_again(parse_launch(words), [](const std::string&) { return true; });
    EXPECT_EQ(next.ranks, 2);
    return std::vector<std::string>(next.app_arguments.begin() + 2, next.app_arguments.end());
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(again({"--init", "f", "--new-head"}), (Words{"--init", "f", "--new-head", "--overwrite"})) << "there is none yet";
  EXPECT_EQ(again({"--overwrite"}), Words{"--overwrite"});
  EXPECT_EQ(again({"--resume", "old"}), (Words{"--resume", "old", "--overwrite"}));
  std::filesystem::create_directory(dir / "checkpoint-000000000007");
  dir.write("checkpoint-000000000007/manifest.json", {});
  EXPECT_EQ(again({}), Words{"--resume"});
  EXPECT_EQ(again({"--resume", "--quiet"}), (Words{"--quiet", "--resume"}));
  EXPECT_EQ(again({"--resume", "other", "--lr", "1"}), (Words{"--lr", "1", "--resume"}));
  EXPECT_EQ(again({"--resume=other", "--init", "f", "--init=g", "--new-head"}), Words{"--resume"});
}

TEST(Launch, SeveralSeedsDoNotBeginAgain) {
  expect_error<UsageError>(
      [] {
        parse_launch({"-n", "2", "--restarts", "1", "mnist", "--save", "s", "--repeat", "3"});
      },
      {"with several seeds (--repeat)", "start each seed by itself"});
  EXPECT_NO_THROW(parse_launch({"-n", "2", "mnist", "--save", "s", "--repeat", "3"}));
}

TEST(Launch, WhatBeginsAgainSavesWhereItsConfigSays) {
  const TempFolder dir;
  const auto parsed = [&](const std::string& config) {
    dir.write("config.toml", {config.begin(), config.end()});
    return parse_launch({"-n", "2", "--restarts", "1", "mnist", "--config", dir / "config.toml", "--init", "f"});
  };
  using Words = std::vector<std::string>;
  const LaunchOptions options = parsed("save = \"" + dir.path() + "\"\n");
  const auto again = [&] {
    const Words words = begun_again(options, [](const std::string&) { return true; }).app_arguments;
    return Words(words.begin() + 2, words.end());
  };
  EXPECT_EQ(again(), (Words{"--init", "f", "--overwrite"})) << "there is none yet";
  std::filesystem::create_directory(dir / "checkpoint-000000000007");
  dir.write("checkpoint-000000000007/manifest.json", {});
  EXPECT_EQ(again(), Words{"--resume"});
  expect_error<UsageError>([&] { parsed("lr = 1\n"); }, {"no checkpoint to begin again from"});
  expect_error<UsageError>([&] { parsed("save = \"s\"\ninit = \"f\"\n"); }, {"'init' in --config"});
  EXPECT_THROW(parse_launch({"-n", "2", "--restarts", "1", "mnist", "--config", dir / "none"}), UsageError);
}

TEST(Launch, HostsThatAreGoneTakeTheirProcessesWithThem) {
  const TempFolder dir;
  const auto left = [&](std::vector<std::string> options, const std::string& gone) {
    options.insert(options.end(), {"--restarts", "1", "mnist", "--save", dir.path()});
    return begun_again(parse_launch(options), [&](const std::string& host) { return host != gone; });
  };
  const LaunchOptions next = left({"-n", "5", "--hosts", "a:4,b", "--min-workers", "4"}, "b");
  EXPECT_EQ(next.ranks, 4);
  EXPECT_EQ(next.hosts, (std::vector<Host>{{"a", 4}}));
  EXPECT_EQ(left({"-n", "4", "--hosts", "a,b"}, "none").ranks, 4);
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"-n", "4", "--hosts", "a,b"}, {"-n", "4", "--hosts", "a,b", "--min-workers", "3"}})
    expect_error<LostRank>([&] { left(options, "a"); }, {"a does not answer", "2 of 4 processes have a host"});
}

TEST(Launch, SettingsOfTheCallerForOtherProgramsAreDropped) {
  const LaunchCommand c =
      launch_command(parse_launch({"-n", "1", "mnist"}), "mnist", 1, 77, true,
                     {"OMP_NUM_THREADS=7", "OPENBLAS_CORETYPE=Haswell", "OMPI_COMM_WORLD_RANK=1", "PATH=/bin",
                      "COMPILER=x", "PMIX_RANK=0", "GOMP_SPINCOUNT=3000", "KMP_BLOCKTIME=1"});
  EXPECT_EQ(c.unset, (std::vector<std::string>{"OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OMPI_COMM_WORLD_RANK",
                                               "PMIX_RANK", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}));
  EXPECT_EQ(c.set.at("LACONIC_COLUMNS"), "77");
  EXPECT_EQ(c.set.at("OMPI_ALLOW_RUN_AS_ROOT"), "1");
  EXPECT_EQ(c.set.at("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
}

const std::string kDashes = std::string(74, '-') + "\n";

/// What is printed of a text, and when mpirun ends after it.
std::string told(MpirunNotes& notes, const std::string& text, int exit_code = 1) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t end; (end = text.find('\n', from)) != text.npos; from = end + 1)
    out += notes.take(text.substr(from, end - from));
  return out + notes.end(exit_code);
}

TEST(MpirunNotes, ARankThatASignalEndedIsOneSentence) {
  const std::string sentence = "laconic: error: rank 2 was ended by signal 9, SIGKILL (out of memory?).\n";
  MpirunNotes four(false), five(false), six(false), far(true);
  EXPECT_EQ(told(four, kDashes +
                           "Primary job  terminated normally, but 1 process returned\n"
                           "a non-zero exit code. Per user-direction, the job has been aborted.\n" +
                           kDashes + kDashes +
                           "mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n" +
                           kDashes),
            sentence);
  const std::string note = kDashes +
                           "prterun noticed that process rank 2 with PID 29983 on node vm exited on\n"
                           "signal 9 (Killed).\n" +
                           kDashes;
  EXPECT_EQ(told(five, note), sentence);
  EXPECT_EQ(told(six, kDashes + "\n" + note.substr(kDashes.size())), sentence);
  EXPECT_EQ(told(far, note), "laconic: error: rank 2 on vm was ended by signal 9, SIGKILL (out of memory?).\n");
  for (const MpirunNotes* notes : {&four, &five, &six, &far}) EXPECT_TRUE(notes->lost() && notes->verdict());

  MpirunNotes asked(false);
  asked.expect(SIGKILL);
  EXPECT_EQ(told(asked, note), "");
  EXPECT_FALSE(asked.lost());
}

TEST(MpirunNotes, ARanksOwnSentenceIsEnough) {
  MpirunNotes four(false), five(false);
  EXPECT_EQ(told(four, "laconic: error: no (way): go\n" + kDashes +
                           "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 3.\n\n"
                           "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n" +
                           kDashes),
            "laconic: error: no (way): go\n");
  EXPECT_TRUE(four.verdict());
  EXPECT_FALSE(four.lost());
  const std::string notes = kDashes +
                            "prterun detected that one or more processes exited with non-zero status,\n"
                            "thus causing the job to be terminated. The first process to do so was:\n\n"
                            "   Process name: [prterun-vm-30022@1,2]\n   Exit code:    7\n" +
                            kDashes + kDashes +
                            "prterun has exited due to process rank 1 with PID 0 on node vm calling\n\"abort\". This "
                            "may have caused other processes\n" +
                            kDashes;
  EXPECT_EQ(told(five, notes, 7),
            "laconic: error: rank 2 ended with exit code 7 (launch): see what it wrote before this.\n");
  EXPECT_FALSE(five.verdict());
}

TEST(MpirunNotes, ARankThatFailsInSilenceIsToldEvenIfMpirunSaysNothing) {
  MpirunNotes nothing(false), words(false), well(false);
  EXPECT_EQ(told(nothing, "", 7),
            "laconic: error: a rank ended with exit code 7 (launch): see what it wrote before this.\n");
  EXPECT_EQ(told(words, "mpirun could not start\n", 213),
            "mpirun could not start\n"
            "laconic: error: mpirun ended with exit code 213 (launch): see what it wrote before this.\n");
  EXPECT_EQ(told(well, "", 0), "");
}

TEST(MpirunNotes, WhatIsMuchLongerThanANotePassesAsItIs) {
  for (const std::size_t blanks : {3'000, 300'000}) {
    MpirunNotes one(false), two(false);
    const std::string head = "mpirun noticed that process rank 2 with PID 0", tail = "on node vm exited on signal 9.\n",
                      gap(blanks, ' ');
    EXPECT_EQ(told(one, kDashes + head + gap + tail + kDashes, 0), kDashes + head + gap + tail + kDashes);
    EXPECT_EQ(told(two, kDashes + head + "\n" + gap + tail + kDashes, 0), kDashes + head + "\n" + gap + tail + kDashes);
  }
}

TEST(MpirunNotes, OfRanksThatWaitForTheSameOneTheFirstIsEnough) {
  MpirunNotes notes(false);
  const std::string first =
      "laconic: error: engine: rank 0 of 3 saw nothing move.\n  rank 0: waits\n  rank 2: says nothing\n";
  EXPECT_EQ(told(notes, first + "[vm:19798] [[8616,0],0] ORTE_ERROR_LOG: Data unpack\n" +
                            "laconic: error: engine: rank 1 of 3 saw nothing move.\n  rank 1: waits\nanything else\n"),
            first + "anything else\n");
}

TEST(MpirunNotes, ATrainingThatASignalStoppedInOrderIsNoError) {
  for (const int code : {129, 130, 143}) {
    MpirunNotes notes(false);
    EXPECT_EQ(told(notes, kDashes + "Primary job  terminated normally, but 1 process returned\n" + kDashes, code), "");
    EXPECT_FALSE(notes.lost() || notes.verdict());
  }
}

TEST(MpirunNotes, ARankThatMpirunDoesNotNameHasFailedAllTheSame) {
  const std::string note = kDashes + "Primary job  terminated normally, but 1 process returned\n" + kDashes;
  MpirunNotes by_code(false), by_signal(false), asked(false);
  EXPECT_EQ(told(by_code, note, 7),
            "laconic: error: a rank ended with exit code 7 (launch): see what it wrote before this.\n");
  EXPECT_EQ(told(by_signal, note, 128 + SIGKILL),
            "laconic: error: a rank was ended by signal 9, SIGKILL (out of memory?).\n");
  EXPECT_TRUE(by_signal.lost());
  asked.expect(SIGUSR1);
  EXPECT_EQ(told(asked, note, 128 + SIGUSR1), "");
}

TEST(MpirunNotes, EverythingElsePassesAsItIs) {
  const std::string text = "a line\n" + kDashes + "There are not enough slots available in the system\n" + kDashes +
                           "another\n" + kDashes + kDashes +
                           "mpirun has exited due to process rank 1 with PID 7 on\nnode vm exiting improperly.\n" +
                           kDashes + "the last, before a line of dashes\n" + kDashes;
  MpirunNotes notes(false);
  EXPECT_EQ(told(notes, text, 0), text);
  EXPECT_FALSE(notes.verdict());
}

TEST(MpirunNotes, ASentenceInsideANoteIsNotLost) {
  MpirunNotes notes(false);
  EXPECT_EQ(told(notes,
                 kDashes + "mpirun noticed that process rank 0 with PID 0 on node\nlaconic: warning: late\n" +
                     "vm exited on signal 8\n",
                 0),
            "laconic: warning: late\n" + kDashes + "mpirun noticed that process rank 0 with PID 0 on node\n" +
                "vm exited on signal 8\n");
}

}  // namespace
}  // namespace laconic
