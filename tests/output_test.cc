// What the programs write: tried before they train, never over what is somebody else's, and checked afterwards.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dist/transport/mpi.h"
#include "tests/patterns.h"
#include "tests/program.h"
#include "tests/training_log.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
const std::string kTraining = "mnist --model lenet --data synthetic:64,16 --batch 4 --threads 1 --quiet --steps 2 ";

TEST(Output, APlaceThatCannotBeWrittenToIsSaidBeforeTraining) {
  const TempFolder dir;
  std::ofstream(dir / "file") << "mine";
  for (const std::string& option :
       {"--trace " + (dir / "no/trace.json"), "--log " + (dir / "no/log.jsonl"), "--save " + (dir / "file"),
        "--trace " + dir.path(), "--dump-gradients " + (dir / "file")})
    for (const char* mode : {"", "--dry-run "}) {
      const Result r = run(kTraining + mode + option);
      EXPECT_EQ(r.exit_code, 1) << option;
      EXPECT_TRUE(has(r.err, "laconic: error: ")) << r.err;
      EXPECT_EQ(r.out, "") << "nothing was done";
    }
  EXPECT_EQ(file_text(dir / "file"), "mine");
}

TEST(Output, ADryRunLeavesNothing) {
  const TempFolder dir;
  const Result r = run(kTraining + "--dry-run --workers 2 --save " + (dir / "a/b") + " --log " + (dir / "log") +
                       " --trace " + (dir / "trace") + " --dump-gradients " + (dir / "dump/here"));
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Output, ADryRunWithServersLeavesFlightRecordsAlone) {
  const TempFolder dir;
  fs::create_directories(dir / "run/flight");
  const std::string files[] = {dir / "run/flight/rank-0", dir / "run/flight/rank-1", dir / "run/flight/rank-2"};
  for (const std::string& file : files) std::ofstream(file) << "of before";
  const Result r = run(kTraining + "--dry-run --workers 2 --sync ps --save " + (dir / "run"));
  EXPECT_EQ(r.exit_code, 0) << r.err;
  for (const std::string& file : files) EXPECT_EQ(file_text(file), "of before") << file;
}

TEST(Output, TwoOutputsHaveTwoFiles) {
  const TempFolder dir;
  const Result r = run(kTraining + "--log " + (dir / "a") + " --trace " + (dir / "b/../a"));
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_TRUE(has(r.err, "two outputs would be written to ")) << r.err;
  EXPECT_TRUE(has(r.err, " (--log and --trace): give each its own file")) << r.err;
  EXPECT_TRUE(fs::is_empty(dir.path()));
  ASSERT_EQ(run(kTraining + "--log " + (dir / "log")).exit_code, 0);
  const std::string log = file_text(dir / "log");
  EXPECT_EQ(run("laconic report " + (dir / "log") + " -o " + (dir / "log")).exit_code, 2);
  EXPECT_EQ(file_text(dir / "log"), log);
}

TEST(Output, WhatCannotBePrintedIsAnError) {
  const Result r = run("laconic models > /dev/full");
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, "laconic: error: what was printed could not be written: No space left on device.")) << r.err;
}

TEST(Output, WithoutAnywhereToPrintNothingLandsInAFile) {
  const TempFolder dir;
  std::string training = kTraining;
  training.replace(training.find("--quiet "), 8, "");
  ASSERT_EQ(run(training + "--log " + (dir / "log") + " >&- 2>&- <&-").exit_code, 0);
  std::ifstream log(dir / "log");
  std::string line;
  int lines = 0;
  for (; std::getline(log, line); ++lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_GE(lines, 3);
}

TEST(Output, QuietSaysTheResultAlone) {
  const std::string model = "mnist --data synthetic:64,16 --batch 4 --threads 1 --steps 2 --quiet ";
  const auto said = [&](const std::string& options) {
    const Result r = run(model + options);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.err, "") << options;
    EXPECT_EQ(std::ranges::count(r.out, '\n'), 1) << options << ": " << r.out;
    return r.out;
  };
  const TempFolder dir;
  const std::string result = "test accuracy [0-9.]+ % ";
  EXPECT_TRUE(
      fits(said("--workers 2 --log " + (dir / "log") + " --trace " + (dir / "trace") + " --save " + (dir / "run")),
           result + "after 2 steps in .* images/s\n"));
  EXPECT_TRUE(fits(said("--eval-only --init " + (dir / "run/weights.safetensors")),
                   "test accuracy [0-9.]+ %, loss [0-9.]+\n"));
  EXPECT_TRUE(fits(said("--repeat 2"), result.substr(0, 14) + "over 2 seeds: .* %.*\n"));
  EXPECT_TRUE(nlohmann::json::accept(said("--json")));
}

TEST(Output, LinksStayLinks) {
  const TempFolder dir;
  fs::create_symlink("behind.json", dir / "link.json");
  EXPECT_EQ(run(kTraining + "--trace " + (dir / "link.json")).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(dir / "link.json"));
  EXPECT_TRUE(has(file_text(dir / "behind.json"), "traceEvents"));
}

TEST(Output, DevicesStayDevices) {
  const TempFolder dir;
  const std::string full = dir / "full";
  if (::mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0) GTEST_SKIP() << "only root makes devices";
  const Result r = run(kTraining + "--trace " + full);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.err, full + ": could not be written: No space left on device")) << r.err;
  EXPECT_TRUE(fs::is_character_file(full));
}

/// Files have a limit here where a disk would be full.
TEST(Output, NothingHalfWrittenStaysWhereADiskIsFull) {
  for (const std::string option : {"--save ", "--dump-gradients ", "--trace "}) {
    const TempFolder dir;
    const Result r = run(kTraining + option + (dir / "out"), "trap '' XFSZ; ulimit -f 16;");  // 8 KiB
    EXPECT_EQ(r.exit_code, 1) << option;
    EXPECT_TRUE(has(r.err, "laconic: error: ") && has(r.err, dir / "out")) << r.err;
    EXPECT_TRUE(has(r.err, "File too large")) << r.err;
    for (const auto& file : fs::recursive_directory_iterator(dir.path()))
      EXPECT_TRUE(!file.is_regular_file() || file.file_size() < 8192) << file.path();
  }
}

TEST(Output, AFileThatIsNoLogIsNotShortened) {
  const TempFolder dir;
  const std::string save = "--save " + (dir / "run") + " ", notes = dir / "notes.txt";
  ASSERT_EQ(run(kTraining + save).exit_code, 0);
  for (const char* text : {"my notes\nof a week\n", "{\"key\": 1}\n", "{\"key\": 1}", "my notes"}) {
    std::ofstream(notes) << text;
    const Result r = run(kTraining + save + "--resume --steps 3 --log " + notes);
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_TRUE(has(r.err, notes + " is no log of a training, and would be shortened (--log)")) << r.err;
    EXPECT_EQ(file_text(notes), text);
  }
  std::ofstream(notes) << "{\"st";  // a log that was cut off in its first line
  EXPECT_EQ(run(kTraining + save + "--resume --steps 3 --log " + notes).exit_code, 0);
}

TEST(Output, ALogIsKeptWhereTheTrainingCannotBegin) {
  const TempFolder dir;
  const std::string log = " --log " + (dir / "log.jsonl"), save = "--save " + (dir / "run") + " ";
  ASSERT_EQ(run(kTraining + save + log).exit_code, 0);
  const std::string before = file_text(dir / "log.jsonl");
  EXPECT_EQ(run(kTraining + save + log + " --lr 0.7").exit_code, 2);  // another training's folder
  const Result again = run(kTraining + save + log);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(has(again.err, "run holds checkpoint-000000000002 (--save): add --resume to go on from there, or "
                             "--overwrite to begin anew\n"))
      << again.err;
  EXPECT_EQ(file_text(dir / "log.jsonl"), before);
}

TEST(Output, ASeedThatIsSavedAlreadyIsRefusedBeforeTheFirstTrains) {
  const TempFolder dir;
  ASSERT_EQ(run(kTraining + "--seed 2 --save " + (dir / "run-seed2")).exit_code, 0);
  const std::string seeds = kTraining + "--repeat 3 --save " + (dir / "run");
  const Result r = run(seeds);
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_TRUE(has(r.err, "run-seed2 holds checkpoint-000000000002 (--save): add --resume")) << r.err;
  EXPECT_FALSE(fs::exists(dir / "run-seed0"));
  EXPECT_EQ(run(seeds + " --resume").exit_code, 0);
  EXPECT_TRUE(fs::exists(dir / "run-seed1/weights.safetensors"));
}

TEST(Output, InspectCheckpointReadsEveryByte) {
  const TempFolder dir;
  const std::string save = dir / "run";
  ASSERT_EQ(run(kTraining + "--workers 2 --save-every 1it --save " + save).exit_code, 0);
  Result r = run("laconic inspect checkpoint " + save);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, save + "/checkpoint-000000000002: step 2, 2 workers, whole; run ")) << r.out;
  EXPECT_TRUE(has(r.out, "checkpoint-000000000001: step 1")) << r.out;
  const std::string file = save + "/checkpoint-000000000002/rank-1.safetensors";
  const std::string weights = file_text(save + "/weights.safetensors");
  std::ofstream(save + "/weights.safetensors", std::ios::binary) << weights << "x";
  r = run("laconic inspect checkpoint " + save);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.out, save + "/weights.safetensors: not what the newest checkpoint lists: damaged, or")) << r.out;
  std::ofstream(save + "/weights.safetensors", std::ios::binary) << weights;
  std::string bytes = file_text(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(file, std::ios::binary) << bytes;
  r = run("laconic inspect checkpoint " + save);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_TRUE(has(r.out, "  rank 1: resume: " + file + " is damaged (")) << r.out;
  r = run("laconic inspect checkpoint --json " + save);
  const auto json = nlohmann::json::parse(r.out)["checkpoints"];
  EXPECT_EQ(json[0]["whole"], false);
  EXPECT_EQ(json[1]["whole"], true);
  EXPECT_EQ(run("laconic inspect checkpoint " + dir.path()).exit_code, 1);
}

TEST(Output, ALogBeginsWithWhatItIsOf) {
  const TempFolder dir;
  const std::string log = dir / "log.jsonl";
  ASSERT_EQ(run(kTraining + "--workers 2 --seed 7 --log " + log).exit_code, 0);
  const auto lines = log_of(log);
  const auto& first = lines.at(0).at("run");
  EXPECT_EQ(first.at("version"), LACONIC_VERSION);
  EXPECT_TRUE(has(run("laconic --version").out, "(commit " + first.at("commit").get<std::string>() + ")")) << first;
  EXPECT_EQ(first.at("seed"), 7);
  EXPECT_FALSE(first.at("model").get<std::string>().empty());
  EXPECT_TRUE(has(first.at("command"), "--workers 2 --seed 7 --log " + log)) << first;
  EXPECT_TRUE(lines.at(1).contains("step"));
}

TEST(Output, ProcessesOfAnotherLauncherTrainOnlyWhereAloneIsMeant) {
  const std::string srun = "SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4";
  for (const auto& [environment, begin] :
       {std::pair{std::string("PMI_SIZE=2 PMI_RANK=0"), "started 2 times by another launcher (PMI_SIZE=2), and "},
        {srun, "started 4 times by another launcher (SLURM_STEP_NUM_TASKS=4), and "}})
    for (const char* more : {"", "--workers 2", "--workers 1"}) {
      const Result r = run(kTraining + more, environment);
      EXPECT_EQ(r.exit_code, 2) << environment << r.out;
      EXPECT_EQ(r.err.rfind(concat("laconic: error: this process was ", begin), 0), 0u) << r.err;
      EXPECT_TRUE(has(r.err, concat(": start it by `laconic launch -n ", begin[8], " mnist ...`, or give --alone")))
          << r.err;
    }
  const Result second = run(kTraining, "RANK=1 WORLD_SIZE=4");
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_EQ(second.err, "") << "one of them says it";
  for (const std::string& environment : {srun, std::string("OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=1")}) {
    const Result alone = run(kTraining + "--alone --workers 2 --json", environment);
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    EXPECT_EQ(last_line(alone.out)["transport"], "threads");
    EXPECT_EQ(alone.err, "");
  }
  EXPECT_EQ(run(kTraining, "SLURM_NTASKS=4 SLURM_PROCID=0").exit_code, 0) << "the shell of a batch job";
}

TEST(Output, RanksOfAnMpirunThatDoNotMeetAreRefused) {
  if (!dist::mpi_built_in()) GTEST_SKIP() << "this build has no MPI";
  const Result r = run(kTraining, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_COMM_WORLD_SIZE=2");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.err.rfind("laconic: error: mpirun started 2 ranks (OMPI_COMM_WORLD_SIZE), and they do not meet, for ", 0),
            0u)
      << r.err;
  EXPECT_TRUE(has(r.err, "`laconic launch -n 2 mnist ...`, or give --alone")) << r.err;
}

TEST(Output, OneRunAtATimeWritesToAnOutput) {
  const TempFolder dir;
  const std::vector<std::pair<std::string, std::string>> all = {{"--log", dir / "log.jsonl"},
                                                                {"--trace", dir / "trace.json"},
                                                                {"--report", dir / "page.html"},
                                                                {"--tensorboard", dir / "board"},
                                                                {"--dump-gradients", dir / "gradients"}};
  std::string outputs;
  for (const auto& [option, path] : all) outputs += option + " " + path + " ";
  {
    Background first("mnist --model lenet --data synthetic:64,16 --batch 4 --threads 1 --quiet --steps 1000000 " +
                     outputs);
    ASSERT_TRUE(eventually([&] { return !file_text(dir / "log.jsonl").empty(); }));
    for (const auto& [option, path] : all) {
      const Result second = run(kTraining + option + " " + path);
      EXPECT_EQ(second.exit_code, 2) << option;
      EXPECT_TRUE(second.err.starts_with(concat("laconic: error: another run writes to ", path, " now (", option, ")")))
          << second.err;
    }
    EXPECT_EQ(log_of(dir / "log.jsonl").at(0).count("run"), 1u) << "not written to by a second";
  }  // killed
  const Result again = run(kTraining + "--repeat 2 " + outputs);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(run(kTraining + outputs).exit_code, 0);
  for (const auto& entry : fs::directory_iterator(dir.path())) EXPECT_NE(entry.path().extension(), ".lock") << entry;
  // What another run cannot write to is no output that it holds.
  EXPECT_EQ(run(kTraining + "--log /dev/null --tensorboard " + (dir / "one") + " --dump-gradients " + (dir / "one"))
                .exit_code,
            0);
}

TEST(Output, RanksThatDoNotSeeOneFolderSaveNothing) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  for (const char* more : {"", " --sync ps --servers 1"}) {
    const TempFolder dir;
    std::filesystem::create_directory(dir / "a"), std::filesystem::create_directory(dir / "b");
    const std::string app = dir / "app";
    std::ofstream(app) << "#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] && cd " << dir / "a"
                       << " || cd " << dir / "b"
                       << "\nexec " LACONIC_APPS "/mnist \"$@\"\n";
    std::filesystem::permissions(app, std::filesystem::perms::owner_all);
    const std::string training = kTraining;
    const Result r = run("laconic launch -n 2 " + app + training.substr(training.find(' ')) + "--save run" + more);
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_TRUE(has(r.err, "rank 1 on ")) << r.err;
    EXPECT_TRUE(has(r.err, "does not see what rank 0 writes to run")) << r.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "a/run")) << "nothing stays behind";
    EXPECT_FALSE(std::filesystem::exists(dir / "b/run"));
  }
}

}  // namespace
}  // namespace laconic
