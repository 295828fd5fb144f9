// The programs as a user meets them: exit codes, and what stands on stdout and stderr.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "apps/common/text.h"
#include "dist/collective/allreduce.h"
#include "dist/method/method.h"
#include "tests/fake_mpirun.h"
#include "tests/patterns.h"
#include "tests/program.h"
#include "tests/training_log.h"

namespace laconic {
namespace {

TEST(CommandLine, WhatPyTorchLacksIsSaidInItsPeersWords) {
  const TempFolder dir;
  const std::string python = dir / "python";  // one that imports anything, and lacks the model
  const std::string script =
      "#!/bin/sh\ncase \"$2\" in import*) exit 0;; esac\necho '{\"error\": \"resnet18 is elsewhere: install it\"}'\n";
  dir.write("python", {script.begin(), script.end()});
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const Result r = run("laconic bench step --model resnet18 --batch 1 --against torch", "LACONIC_PYTHON=" + python);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.err, "laconic: error: bench: resnet18 is elsewhere: install it.\n");
}

TEST(CommandLine, BenchmarksRunBesidePyTorch) {
  // Asked without the programs, whose refusal would else pass as a skip.
  if (std::system("for p in ${LACONIC_PYTHON:-python3 /usr/bin/python3}; do\n"
                  "$p -c 'import torch' 2>/dev/null && exit 0; done; exit 1") != 0)
    GTEST_SKIP() << "no Python here imports torch";
  const Result step =
      run("laconic bench step --model lenet,lstm-small --batch 2 --blocks 2 --block-seconds 0.001 --against torch");
  EXPECT_EQ(step.exit_code, 0) << step.err;
  EXPECT_NE(step.out.find("PyTorch contiguous"), std::string::npos) << step.out;
  const Result select =
      run("laconic bench select --elements 2^12 --part selection --data normal --rounds 1 --against torch");
  EXPECT_EQ(select.exit_code, 0) << select.err;
  EXPECT_NE(select.out.find("torch.topk"), std::string::npos) << select.out;
}

TEST(CommandLine, ModelsPrintsTheZooAndTheLayersOfOne) {
  const Result zoo = run("laconic models --json");
  EXPECT_EQ(zoo.exit_code, 0) << zoo.err;
  const auto all = nlohmann::json::parse(zoo.out);
  bool found = false;
  for (const auto& m : all["models"])
    if (m["model"] == "vgg16") {
      found = true;
      EXPECT_EQ(m["parameters"], 138357544);
      EXPECT_EQ(m["bytes"], 4 * std::int64_t{138357544});
      EXPECT_EQ(m["input"], nlohmann::json({3, 224, 224}));
      EXPECT_EQ(m["flop"], 30940528640.0);
    }
  EXPECT_TRUE(found);
  EXPECT_NE(run("laconic models").out.find("61,100,840"), std::string::npos);
  EXPECT_NE(run("laconic models --markdown").out.find("| resnet50 | 3x224x224 | 1,000 | 25,557,032 | 102.2 | 8.178 |"),
            std::string::npos);

  const Result layers = run("laconic models --layers googlenet --auxiliary-heads --json");
  EXPECT_EQ(layers.exit_code, 0) << layers.err;
  const auto model = nlohmann::json::parse(layers.out);
  EXPECT_EQ(model["parameters"], 13378280);
  EXPECT_EQ(model["layers"][0]["name"], "conv1.conv");
  EXPECT_EQ(model["layers"][0]["output"], nlohmann::json({64, 112, 112}));
  EXPECT_NE(run("laconic models --layers lenet").out.find("conv1"), std::string::npos);

  const Result unknown = run("laconic models --layers googlenett");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("did you mean googlenet?"), std::string::npos) << unknown.err;
  EXPECT_EQ(run("laconic models --resnet-v1").exit_code, 2);
  EXPECT_EQ(run("laconic models --layers vgg16 --resnet-v1").exit_code, 2);
}

void expect_lines_fit(const std::string& help, std::size_t columns = 100) {
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(letters(line), columns) << line;
}

TEST(CommandLine, HelpListsItsGroupsInOrder) {
  for (const char* program : {"mnist", "cifar10"}) {
    const Result r = run(std::string(program) + " --help");
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_EQ(r.err, "");
    std::size_t at = 0;
    for (const char* group : {"Usage: ", "\nModel and data:\n", "\nTraining:\n", "\nWorkers and network:\n",
                              "\nSaving:\n", "\nOutput:\n", "\nExamples:\n"}) {
      const auto found = r.out.find(group, at);
      ASSERT_NE(found, std::string::npos) << program << " " << group;
      at = found;
    }
    expect_lines_fit(r.out);
  }
}

TEST(CommandLine, HelpOfToolsSaysWhatOptionsTakeAndNoMore) {
  std::vector<std::string> tools{"",
                                 "launch",
                                 "compare",
                                 "models",
                                 "pack",
                                 "inspect select",
                                 "inspect codec",
                                 "inspect checkpoint",
                                 "simulate",
                                 "calibrate",
                                 "doctor",
                                 "explain"};
  std::istringstream benches(run("laconic bench --help").out);
  for (std::string line; std::getline(benches, line);)
    if (line.rfind("  ", 0) == 0) tools.push_back("bench " + line.substr(2, line.find(' ', 2) - 2));
  EXPECT_EQ(tools.size(), 18u);
  for (const std::string& tool : tools) {
    const Result r = run("laconic " + tool + " --help");
    EXPECT_EQ(r.exit_code, 0) << tool;
    EXPECT_TRUE(has(r.out, "  -h,--help")) << tool;
    for (const char* check : {",.. ...", "REQUIRED", "Needs:", "Excludes:", " INT", "POSITIVE", "Print this help"})
      EXPECT_FALSE(has(r.out, check)) << tool << ": " << r.out;
    expect_lines_fit(r.out);
  }
}

TEST(CommandLine, HelpFollowsTheWidthOfTheTerminal) {
  const std::string wide = shown_in_terminal("cifar10 --help", 200);
  if (wide.empty()) GTEST_SKIP() << "no terminal can be made here";
  EXPECT_EQ(wide, run("cifar10 --help").out);
  for (const char* tool : {"mnist", "cifar10", "gpt", "laconic", "laconic compare", "laconic launch", "laconic explain",
                           "laconic bench allreduce", "laconic inspect codec"}) {
    const std::string help = shown_in_terminal(tool + std::string(" --help"), 80);
    EXPECT_TRUE(has(help, "-h,--help")) << help;
    expect_lines_fit(help, 80);
  }
  expect_lines_fit(shown_in_terminal("laconic models", 60), 60);
}

TEST(CommandLine, OneProgramHasAllTools) {
  const TempFolder dir;
  std::filesystem::create_directories(dir / "build/apps");
  std::filesystem::copy(LACONIC_APPS "/laconic", dir / "build/apps/laconic");
  const auto alone = [&](const std::string& words) {  // the program before it is there for its environment alone
    return run("laconic --version >/dev/null; cd " + dir.path() + "; build/apps/laconic " + words);
  };
  std::istringstream lines(alone("--help").out);
  int tools = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("launch:");) {
    if (!line.starts_with("  ") || line[2] == ' ') continue;
    const std::string tool = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_EQ(alone(tool + " --help").exit_code, 0) << tool;
    ++tools;
  }
  EXPECT_EQ(tools, 11);

  const std::string missing = "laconic: error: there is no program 'cifar10' (launch): ";
  EXPECT_EQ(alone("launch -n 2 cifar10").err, missing + "give a path, or the name of a program beside laconic\n");
  dir.write("build/build.ninja", {});
  EXPECT_EQ(alone("launch -n 2 cifar10").err, missing + "build it with `ninja -C build apps/cifar10`\n");
  EXPECT_TRUE(has(alone("compare cifar10 --vs '--lr 1'").err, "build it with `ninja -C build apps/cifar10`"));
  EXPECT_TRUE(
      has(run("laconic --version >/dev/null; cd /usr; " + (dir / "build/apps/laconic") + " launch -n 2 gpt").err,
          "`ninja -C " + (dir / "build") + " apps/gpt`"));
}

TEST(CommandLine, TheShellCompletesWhatHelpTells) {
  const TempFolder dir;
  dir.write("plan.json", {});
  const auto completed = [&](const std::string& words) {
    const std::string script =
        "source " LACONIC_SOURCE "/apps/install/completion.bash; COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _laconic ${COMP_WORDS[0]}; echo ${COMPREPLY[*]}";
    // The program before it is there for its environment alone.
    const Result r = run("laconic --version >/dev/null; cd " + dir.path() + "; PATH=" LACONIC_APPS ":$PATH bash -c '" +
                         script + "'");
    EXPECT_EQ(r.err, "") << words;
    return r.out;
  };
  EXPECT_EQ(completed("laconic ben"), "bench\n");
  EXPECT_EQ(completed("laconic bench st"), "step\n");
  EXPECT_EQ(completed("laconic bench step --mod"), "--model\n");
  EXPECT_EQ(completed("laconic launch -n 4 mnist --epo"), "--epoch-steps --epochs\n");
  EXPECT_EQ(completed("laconic launch -n 4 mnist --opt"), "--optimizer\n");
  EXPECT_EQ(completed("mnist --plan \"\""), "auto plan.json\n");
  EXPECT_EQ(completed("mnist --plan = pl"), "plan.json\n");
  EXPECT_EQ(completed("laconic simulate --model hd"), "hdc hdc-2.5mb\n");
  EXPECT_EQ(completed("laconic models --layers len"), "lenet\n");
  EXPECT_EQ(completed("mnist --model \"\""), "hdc hdc-2.5mb lenet\n");
  EXPECT_EQ(completed("cifar10 --sync lay"), "layerdrop\n");
  EXPECT_EQ(completed("cifar10 --codec ince"), "inceptionn-published:2^ inceptionn:2^ inceptionn:rel:2^\n");
  EXPECT_EQ(completed("ptb --overlap \"\""), "backward forward none\n");
  EXPECT_EQ(completed("ptb --log \"\""), "\n");
  EXPECT_EQ(completed("mnist --overlap = b"), "backward\n");
  EXPECT_EQ(completed("laconic launch -n 4 --hosts a " LACONIC_APPS "/ptb --bpt"), "--bptt\n");
  EXPECT_EQ(completed("laconic pack data/imagenet --max"), "--max-bad\n");
  std::set<std::string> ways;
  for (const std::string& name : dist::methods().names()) ways.insert(name);
  const auto in_a_line = [](const std::set<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
    return line + "\n";
  };
  EXPECT_EQ(completed("ptb --sync \"\""), in_a_line(ways));
  ways = {"hybrid", "hybrid-printed"};
  for (const dist::AllreduceKind& kind : dist::allreduces()) {
    const std::string form = kind.form();
    ways.insert(form.substr(0, form.find(':') + (form.find(':') == std::string::npos ? 0 : 1)));
  }
  EXPECT_EQ(completed("cifar10 --allreduce \"\""), in_a_line(ways));
}

TEST(CommandLine, VersionTellsWhatWasBuilt) {
  for (const char* program : {"mnist", "cifar10", "laconic"}) {
    const Result r = run(std::string(program) + " --version");
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_TRUE(fits(r.out, "laconic " LACONIC_VERSION " \\(commit ([0-9a-f]{10,}\\+?|unknown)\\)\n"
                            "built by [^,]*, (with|without) [^\n]*\n"))
        << r.out;
  }
}

TEST(CommandLine, AWrongOptionIsOneSentenceAndExitCode2) {
  const Result r = run("cifar10 --modl resnet20");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, "laconic: error: unknown option '--modl' (command line): did you mean --model? See --help\n");
}

TEST(CommandLine, AWrongOptionOfAToolNamesTheNearest) {
  for (const char* file : {"", " folder"}) {
    const Result r = run(std::string("laconic inspect checkpoint --jso") + file);
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_EQ(r.err,
              "laconic: error: unknown option '--jso' (laconic inspect checkpoint): did you mean --json? See --help\n");
  }
  EXPECT_EQ(run("laconic models resnet20").err,
            "laconic: error: 'resnet20' is one word too many (laconic models): see --help\n");
}

TEST(CommandLine, NumbersOfToolsAreNumbers) {
  for (const std::string tool : {"inspect select values.f32 --density nan", "bench step --block-seconds nan",
                                 "bench codec --mib inf"}) {
    const Result r = run("laconic " + tool);
    EXPECT_EQ(r.exit_code, 2) << tool;
    EXPECT_TRUE(has(r.err, "' is no number from ")) << r.err;
  }
}

TEST(CommandLine, AnErrorIsFitToPrint) {
  const Result bell = run("laconic models --layers \"$(printf 'a\\a\\033[2Jb')\""),
               large = run("mnist --model $(printf '%0100000d' 7)");
  EXPECT_TRUE(has(bell.err, "a\\x07\\x1b[2Jb")) << bell.err;
  EXPECT_LT(large.err.size(), 7000u);
  EXPECT_EQ(large.exit_code, 2);
}

TEST(CommandLine, AWrongModelNamesTheNearest) {
  const Result r = run("cifar10 --model resnet21");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.err.rfind("laconic: error: unknown model 'resnet21' (--model): did you mean resnet20? ", 0), 0u) << r.err;
}

TEST(CommandLine, AModelOfAnotherProgramNamesThatProgram) {
  const auto said = [](const std::string& words) { return run(words).err; };
  EXPECT_EQ(said("mnist --model resnet20"),
            "laconic: error: 'resnet20' is a model of cifar10 (--model): take that program, or one of lenet, hdc, "
            "hdc-2.5mb\n");
  EXPECT_TRUE(has(said("cifar10 --model resnet50"), "is a model of imagenet (--model)"));
  EXPECT_TRUE(has(said("gpt --model lstm-small"), "is a model of ptb (--model)"));
}

TEST(CommandLine, LaconicListsItsTools) {
  const Result r = run("laconic --help");
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_NE(r.out.find("launch -n N"), std::string::npos);
  EXPECT_EQ(run("laconic").out, r.out);
}

TEST(CommandLine, AnUnknownToolNamesTheNearest) {
  const Result bench = run("laconic bench stp");
  EXPECT_EQ(bench.exit_code, 2);
  EXPECT_TRUE(has(bench.err, "unknown name 'stp' (laconic bench): did you mean step? There are ")) << bench.err;
  const Result r = run("laconic lunch -n 4 mnist");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.err, "laconic: error: unknown tool 'lunch' (command line): did you mean launch?\n");
}

TEST(CommandLine, BenchAllreducePrintsARowPerSizeAndAlgorithmAndTheFittedModel) {
  const Result r =
      run("laconic bench allreduce --workers 3 --sizes 4KiB,400B --algorithms ring,doubling --blocks 2 "
          "--block-seconds 0.001 --json");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j.at("ranks"), 3);
  EXPECT_GE(j.at("alpha_seconds").get<double>(), 0);
  ASSERT_EQ(j.at("rows").size(), 4u);
  EXPECT_EQ(j["rows"][3].at("bytes"), 400);
  EXPECT_EQ(j["rows"][3].at("algorithm"), "doubling");
  EXPECT_GT(j["rows"][3].at("seconds").at("median").get<double>(), 0);
}

TEST(CommandLine, BenchAllreduceSaysWhatItCannotRun) {
  EXPECT_EQ(run("laconic bench allreduce --workers 2 --sizes 6B").exit_code, 2);
  EXPECT_EQ(run("laconic bench allreduce --workers 2 --algorithms star").exit_code, 2);
  EXPECT_EQ(run("laconic bench allreduce --workers 2 --algorithms hierarchical:0").exit_code, 2);
  const Result alone = run("laconic bench allreduce");
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_NE(alone.err.find("laconic launch -n 4"), std::string::npos) << alone.err;
  const Result mpi = run("laconic bench allreduce --workers 2 --algorithms mpi");
  EXPECT_EQ(mpi.exit_code, 2);
  EXPECT_NE(mpi.err.find("needs MPI"), std::string::npos) << mpi.err;
}

TEST(CommandLine, LaunchFindsTheAppBesideItself) {
  const Result r = run("laconic launch --dry-run -n 3 mnist --data 'a b'");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.out.find("mpirun"), std::string::npos);
  EXPECT_NE(r.out.find("/mnist --data 'a b'\n"), std::string::npos) << r.out;
}

TEST(CommandLine, LaunchSaysWhenThereIsNoSuchApp) {
  const Result r = run("laconic launch -n 3 mnits");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.err, "laconic: error: there is no program 'mnits' (launch): did you mean mnist?\n");
  EXPECT_TRUE(has(run("laconic launch -n 3 imagenett").err, "did you mean imagenet?"));
}

TEST(CommandLine, LaunchTakesTheMpirunOfItsMpiThoughPathHasAnotherOne) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const TempFolder dir;
  std::ofstream(dir / "mpirun") << "#!/bin/sh\necho 'HYDRA build details:'\necho '    Version:  4.0.2'\n";
  std::filesystem::permissions(dir / "mpirun", std::filesystem::perms::owner_all);
  const std::string training = "mnist --data synthetic:80,20 --batch 4 --steps 2 --threads 1 --quiet --json";
  const Result r = run("laconic launch -n 2 " + training, "export PATH=" + dir.path() + ":$PATH;");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(last_line(r.out)["workers"], 2) << r.out;
}

TEST(CommandLine, LaunchPassesOnTheExitCodeAndTheCleanEnvironment) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  TempFolder dir;
  const std::string script = dir.path() + "/app";
  std::ofstream(script)  // Open MPI 6.0.0rc2 sometimes takes a program that ends at once for one that did not start
      << "#!/bin/sh\necho \"rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, $OPENBLAS_CORETYPE, $1\"\n"
         "sleep 0.1; exit $2\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Result r = run("laconic launch -n 3 " + script + " 'x y' 0");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  for (const char* rank : {"0", "1", "2"})
    EXPECT_NE(r.out.find(std::string("rank ") + rank + " of 3, , x y\n"), std::string::npos) << r.out;
  const Result failed = run("laconic launch -n 1 " + script + " x 7");
  EXPECT_EQ(failed.exit_code, 7);
  // Open MPI 4 does not always come to telling which rank it was.
  EXPECT_TRUE(has(failed.err, "ended with exit code 7 (launch): see what it wrote before this.\n")) << failed.err;
  EXPECT_EQ(std::count(failed.err.begin(), failed.err.end(), '\n'), 1) << failed.err;
}

/// An mpirun that a shell script stands in for; what to put before `laconic launch`.
std::string with_mpirun(const TempFolder& dir, const std::string& script) {
  fake_mpirun(dir, script);
  return "export PATH=" + dir.path() + ":$PATH TMPDIR=" + dir.path() + ";";
}

bool is_alive(const std::string& pid_file) { return ::kill(std::stoi(file_text(pid_file)), 0) == 0; }

TEST(CommandLine, AnMpirunThatDoesNotEndAfterAVerdictIsEnded) {
  TempFolder dir;
  const std::string stuck = with_mpirun(dir, "trap 'echo last words >&2' TERM\nsleep 300 & echo $! >" +
                                                 (dir / "child") + "\nsetsid sleep 300 & echo $! >" + (dir / "orphan") +
                                                 "\necho 'laconic: error: no (way): go' >&2\nwait\nwait\n");
  const Result r = run("laconic launch -n 2 mnist", stuck);
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_EQ(r.err, "laconic: error: no (way): go\n");
  for (const char* file : {"child", "orphan"}) EXPECT_FALSE(is_alive(dir / file)) << file;
}

/// A launch by such an mpirun, once that has written its process's number into `pid`.
std::unique_ptr<Background> launched_by(const TempFolder& dir, const std::string& script) {
  with_mpirun(dir, script);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (dir.path() + ":" + path).c_str(), 1);
  auto launched = std::make_unique<Background>("laconic launch -n 2 mnist");
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(eventually([&] { return !file_text(dir / "pid").empty(); }));
  return launched;
}

TEST(CommandLine, AnInterruptEndsAnMpirunThatHasStartedNothing) {
  const TempFolder dir;
  const auto launched = launched_by(dir, "echo $$ >" + (dir / "pid") + "\nexec sleep 300\n");
  launched->signal(SIGINT);
  const Result r = launched->wait();
  EXPECT_EQ(r.exit_code, 128 + SIGINT);
  EXPECT_EQ(r.err, "");
  EXPECT_FALSE(is_alive(dir / "pid"));
}

TEST(CommandLine, HowAnMpirunEndsThatWasEndedSaysNothingOfARank) {
  const TempFolder dir;
  const auto launched = launched_by(dir,
                                    "ulimit -c 0\ntrap '' USR1\ntrap 'kill -SEGV $$' TERM\nsleep 300 &\n"
                                    "echo $$ >" +
                                        (dir / "pid") + "\nwait\nwait\n");
  // The first one asks, and one that comes much later ends it.
  EXPECT_TRUE(eventually([&] {
    launched->signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return !is_alive(dir / "pid");
  }));
  const Result r = launched->wait();
  EXPECT_EQ(r.exit_code, 128 + SIGINT);
  EXPECT_EQ(r.err, "");
}

TEST(CommandLine, WhatMpirunLeavesBehindGoesWithTheLaunch) {
  TempFolder dir;
  const std::string leaves =
      with_mpirun(dir,
                  "mkdir -p \"$OMPI_MCA_orte_tmpdir_base/a/b\"\necho \"$TMPDIR $OMPI_MCA_orte_tmpdir_base\"\n"
                  "sleep 300 & echo $! >" +
                      (dir / "orphan") + "\nprintf '\\000half a line' >&2\nexit 5\n");
  const Result r = run("laconic launch -n 2 mnist", leaves);
  EXPECT_EQ(r.exit_code, 5);
  EXPECT_EQ(r.err,
            "half a line\n"
            "laconic: error: mpirun ended with exit code 5 (launch): see what it wrote before this.\n");
  EXPECT_EQ(r.out.rfind(dir.path() + " " + dir.path() + "/laconic-", 0), 0u) << r.out;
  EXPECT_FALSE(is_alive(dir / "orphan"));
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    EXPECT_FALSE(has(entry.path().string(), "/laconic-")) << entry.path();
}

/// Scripts that build or wait say so, by apps/patience.sh: here at once, and not each 20 s.
TEST(CommandLine, ScriptsSayThatTheyStillWork) {
  const TempFolder dir;
  const std::string said = dir / "said";
  const auto until_said = [&](const std::string& words) {
    return "until grep -q " + words + " " + said + "; do sleep 0.05; done";
  };
  std::ofstream(dir / "ninja") << "#!/bin/sh\necho '[1/3] first'\n" + until_said("Building") +
                                      "\necho '[3/3] last'\nexit 5\n";
  std::filesystem::permissions(dir / "ninja", std::filesystem::perms::owner_all);
  const std::string script = "PATH=" + dir.path() + ":$PATH; exec > " + said +
                             "; . " LACONIC_SOURCE "/apps/patience.sh; period=0; beside waits sh -c \"" +
                             until_said("waits") + "; exit 3\" > " + (dir / "out") + "; echo $?; build here " +
                             (dir / "log") + " all; echo $?";
  const Result r = run("laconic --version >/dev/null; bash -c '" + script + "'");
  EXPECT_EQ(r.err, "");
  EXPECT_TRUE(fits(file_text(said), "(waits, [0-9]+ s so far\n)+3\n"
                                    "(Building(: [13] of 3 files)?, [0-9]+ s so far\n)+5\n"))
      << file_text(said);
  EXPECT_EQ(file_text(dir / "out"), "");
  EXPECT_EQ(file_text(dir / "log"), "[1/3] first\n[3/3] last\n");
}

TEST(CommandLine, AWrongOptionUnderLaunchIsSaidOnce) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  const Result r = run("laconic launch -n 3 mnist --epochs x");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_EQ(r.err, "laconic: error: 'x' is not a whole number of at least 0 (--epochs): give one, as --epochs 4\n");
}

}  // namespace
}  // namespace laconic
