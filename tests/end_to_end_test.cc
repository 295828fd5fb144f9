// Whole training runs of the programs: what they compute, write and say, alone, as threads, and under mpirun.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "core/base/cores.h"
#include "core/base/error.h"
#include "core/state.h"
#include "core/stream.h"
#include "tests/cuda_devices.h"
#include "tests/fake_mpirun.h"
#include "tests/patterns.h"
#include "tests/program.h"
#include "tests/training_log.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool mpirun_is_there() { return std::system("command -v mpirun >/dev/null") == 0; }
#define NEEDS_MPIRUN() \
  if (!mpirun_is_there()) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)"

/// A figure of every step that has it.
std::vector<double> values_in(const std::string& path, const std::string& field) {
  std::vector<double> values;
  for (const auto& line : log_of(path))
    if (line.contains("step") && line.contains(field)) values.push_back(line[field]);
  return values;
}

/// One line on stderr that begins with our words, and the exit code.
void expect_sentence(const Result& r, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(r.exit_code, exit_code) << r.err;
  const auto lines = lines_of(r.err);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].rfind("laconic: error: ", 0), 0u) << r.err;
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const auto& l) { return has(l, "laconic: error"); }), 1)
      << r.err;
  for (const auto& part : parts) EXPECT_TRUE(has(lines[0], part)) << part << " in: " << r.err;
}

TEST(EndToEnd, RanksThatCannotReadOneAnothersMemoryTrainWithoutAWord) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  const std::string training = " --data synthetic:80,20 --batch 4 --steps 3 --threads 1 --quiet --timeout 20 --json",
                    filtered = "python3 " LACONIC_SOURCE "/tests/no_single_copy.py env", contained = dir / "contained";
  std::ofstream(contained) << "#!/bin/sh\nexec unshare --user --map-root-user " LACONIC_APPS "/mnist \"$@\"\n";
  fs::permissions(contained, fs::perms::owner_all);
  for (const auto& [tried, before, app] :
       {std::tuple{filtered + " true", filtered, std::string("mnist")},
        {std::string("unshare --user --map-root-user true"), std::string(), contained}}) {
    if (std::system((tried + " 2>/dev/null").c_str()) != 0) continue;  // there is no Python, or no right to do so
    const Result r = run("laconic launch -n 2 " + app + training, before);
    ASSERT_EQ(r.exit_code, 0) << app << r.err;
    EXPECT_EQ(last_line(r.out)["workers"], 2);
    EXPECT_EQ(r.err, "") << app;
  }
}

TEST(EndToEnd, AnEmulatedLinkChangesNoBit) {
  TempFolder dir;
  const std::string common =
      "mnist --model lenet --data synthetic:101,20 --batch 2 --steps 20 --threads 1 --workers 3 ";
  const Result plain = run(common + "--quiet --save " + dir.path() + "/a");
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const Result linked = run(
      common +
      "--link 1gbit,100us,200us --link-of 2=500mbit,1ms --ranks-per-host 2 --link-between 300mbit,1ms --json --save " +
      dir.path() + "/b");
  ASSERT_EQ(linked.exit_code, 0) << linked.err;
  const std::string weights = file_text(dir.path() + "/a/weights.safetensors");
  EXPECT_GT(weights.size(), 4u * 61706);
  EXPECT_TRUE(weights == file_text(dir.path() + "/b/weights.safetensors"));
  EXPECT_TRUE(has(linked.out, "link: 1 Gbit/s, 100 us + 0 to 200 us; between hosts 300 Mbit/s, 1 ms (emulated), "))
      << linked.out;
  const double late = nlohmann::json::parse(lines_of(linked.out).back()).at("link_late_share").get<double>();
  EXPECT_TRUE(late >= 0 && late <= 1) << linked.out;
}

TEST(EndToEnd, ASlowLinkIsNamedAtTheEnd) {
  const TempFolder dir;
  const Result r =
      run("mnist --model lenet --data synthetic:480,8 --batch 2 --steps 13 --eval-every 0 --threads 1 --workers 4 "
          "--link 2gbit,10us --link-of 2=20mbit,10us --log " +
          dir.path() + "/log");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "\nWorker 2 sends at ")) << r.out;
  EXPECT_TRUE(has(r.out, ": its link holds all up\n")) << r.out;
  const Result explained = run("laconic explain " + dir.path() + "/log");
  EXPECT_TRUE(has(explained.out, "\nWorker 2 sends at ")) << explained.out << explained.err;
}

TEST(EndToEnd, ComputesWithTheProcessorsThatItMayUse) {
  const Cores cores = cores_of_process();
  if (cores.allowed.size() < 2 || cores.usable() < 2) GTEST_SKIP() << "one processor";
  const std::string one = concat("taskset -c ", cores.allowed.back(), " env "),
                    said = concat("1 thread each (of ", cores.online, " processors this process may use 1)");
  const Result alone = run("mnist --data synthetic:16,8 --batch 4 --steps 1 --eval-every 0", one);
  EXPECT_TRUE(has(alone.out, said)) << alone.out << alone.err;
  NEEDS_MPIRUN();
  const Result launched =
      run("laconic launch -n 2 mnist --data synthetic:16,8 --batch 4 --steps 1 --eval-every 0", one);
  EXPECT_TRUE(has(launched.out, said)) << launched.out << launched.err;
  const Result dry = run("laconic launch --dry-run -n 1 mnist", one);
  EXPECT_TRUE(has(dry.out, " OMP_NUM_THREADS=1 ")) << dry.out << dry.err;
}

TEST(EndToEnd, ALinkUnderMpiIsRefused) {
  NEEDS_MPIRUN();
  expect_sentence(
      run("laconic launch -n 2 mnist --data synthetic:10,10 --steps 1 --link 1gbit,1ms"), 2,
      {"a link is emulated between threads only, and these are MPI processes (--link): use --workers without mpirun"});
}

TEST(EndToEnd, ThreadsAndProcessesGiveTheSameBits) {
  NEEDS_MPIRUN();
  TempFolder dir;
  constexpr int steps = 30;  // two whole epochs or more, three audits
  const std::string common =
      concat(" --data synthetic:101,20 --batch 2 --steps ", steps, " --threads 1 --audit ", steps / 3, " --quiet");
  const Result threads =
      run("cifar10 --workers 4 --save " + dir.path() + "/a --log " + dir.path() + "/a.jsonl" + common);
  ASSERT_EQ(threads.exit_code, 0) << threads.err;
  const Result processes =
      run("laconic launch -n 4 cifar10 --save " + dir.path() + "/b --log " + dir.path() + "/b.jsonl" + common);
  ASSERT_EQ(processes.exit_code, 0) << processes.err;

  const std::string weights = file_text(dir.path() + "/a/weights.safetensors");
  EXPECT_GT(weights.size(), 4u * 269722);
  EXPECT_TRUE(weights == file_text(dir.path() + "/b/weights.safetensors"));
  const auto losses = losses_in(dir.path() + "/a.jsonl");
  EXPECT_EQ(losses.size(), static_cast<std::size_t>(steps));
  EXPECT_EQ(losses, losses_in(dir.path() + "/b.jsonl"));
  for (int rank = 0; rank < 4; ++rank) {  // optimiser and running statistics of every rank, too
    const auto state = [&](const std::string& run) {
      const std::string number = std::to_string(1'000'000'000'000 + steps).substr(1);  // with zeros before it
      return load_safetensors(concat(dir.path(), "/", run, "/checkpoint-", number, "/rank-", rank, ".safetensors"));
    };
    const StateDict a = state("a"), b = state("b");
    for (const auto& [name, tensor] : a)
      if (name != "run/bytes") {
        EXPECT_EQ(tensor.to_vector(), b.at(name).to_vector()) << name;
      }
  }
}

TEST(EndToEnd, ADryRunOnACudaDeviceExpectsTheMemoryOfTheCpu) {
  NEEDS_CUDA();
  for (const char* model :
       {"cifar10 --model resnet20 --data synthetic:300,10", "ptb --model lstm-small --data synthetic:9000,100"}) {
    const std::string common = std::string(model) + " --workers 2 --sync redsync --dry-run --device ";
    const Result cuda = run(common + "cuda"), cpu = run(common + "cpu");
    EXPECT_EQ(cuda.exit_code, 0) << cuda.err;
    EXPECT_EQ(cuda.out, cpu.out);
  }
}

TEST(EndToEnd, OnACudaDeviceThreadsAndProcessesTrainToTheSameBits) {
  NEEDS_CUDA();
  TempFolder dir;
  const std::string on_any = " --data synthetic:96,20 --batch 8 --steps 4 --threads 1 --audit --quiet --json";
  const std::string common = on_any + " --device cuda:0 --save ";
  const Result threads = run("mnist --workers 2" + common + dir.path() + "/a");
  ASSERT_EQ(threads.exit_code, 0) << threads.err;
  const auto summary = nlohmann::json::parse(threads.out);
  EXPECT_EQ(summary.at("device"), cuda_device_name(0));
  const Result cpu = run("mnist --workers 2" + on_any);
  ASSERT_EQ(cpu.exit_code, 0) << cpu.err;
  const auto loss = [](const nlohmann::json& of) { return of.at("eval").at("loss").get<double>(); };
  const double expected = loss(nlohmann::json::parse(cpu.out));
  EXPECT_NEAR(loss(summary), expected, 1e-3 * expected);
  if (!mpirun_is_there()) return;
  const Result processes = run("laconic launch -n 2 mnist" + common + dir.path() + "/b");
  ASSERT_EQ(processes.exit_code, 0) << processes.err;
  EXPECT_TRUE(file_text(dir / "a/weights.safetensors") == file_text(dir / "b/weights.safetensors"));
}

TEST(EndToEnd, EveryLogLineHasTheFieldsPromised) {
  TempFolder dir;
  const std::string log = dir.path() + "/log.jsonl";
  ASSERT_EQ(run("mnist --data synthetic:100,20 --workers 2 --batch 10 --epochs 2 --quiet --log " + log).exit_code, 0);
  int steps = 0, evals = 0;
  for (const Json& line : log_of(log)) {
    if (line.contains("eval")) {
      ++evals;
      for (const char* name : {"epoch", "samples", "loss", "top1_error", "top5_error", "seconds", "bytes_sent_total"})
        EXPECT_TRUE(line["eval"].contains(name)) << name;
      EXPECT_EQ(line["eval"]["epoch"], evals);
      continue;
    }
    if (line.contains("run")) {
      EXPECT_EQ(steps + evals, 0);
      continue;
    }
    if (line.contains("ranks")) {
      for (const char* name : {"compute_ms", "data_ms", "exposed_ms", "sending_ms", "bytes_sent"})
        EXPECT_EQ(line["ranks"].at(name).size(), 2u) << name;
      EXPECT_EQ(line["ranks"]["last_step"], steps);
      continue;
    }
    if (line.contains("memory")) {  // the last one, where the allocator is not a sanitizer's
      EXPECT_GT(line["memory"]["activation_bytes_peak"], 0);
      EXPECT_EQ(evals, 2);
      continue;
    }
    ++steps;
    for (const char* name :
         {"step", "epoch", "loss", "lr", "samples_per_s", "bytes_sent", "bytes_sent_sum", "bytes_dense", "forward_ms",
          "backward_ms", "select_ms", "comm_ms", "exposed_ms", "update_ms"})
      EXPECT_TRUE(line.contains(name)) << name;
    EXPECT_EQ(line["step"], steps);
    EXPECT_EQ(line["epoch"], (steps + 4) / 5);
  }
  EXPECT_EQ(steps, 10);
  EXPECT_EQ(evals, 2);
}

TEST(HowTrainingsEnd, AnInterruptEndsInOrderAndCanBeResumed) {
  TempFolder dir;
  const std::string common =
      "mnist --data synthetic:200,20 --workers 2 --batch 8 --schedule const --epochs 100000 --threads 1";
  const std::string log = dir.path() + "/log.jsonl", save = " --save " + dir.path() + "/s";
  Background training(common + save + " --log " + log);
  ASSERT_TRUE(eventually([&] { return !file_text(log).empty(); }));
  training.signal(SIGINT);
  training.signal(SIGINT);  // as a launcher does that passes on what the terminal has sent already
  const Result interrupted = training.wait();
  EXPECT_EQ(interrupted.exit_code, 128 + SIGINT) << interrupted.err;
  EXPECT_TRUE(has(interrupted.out, "stopped: interrupted")) << interrupted.out;

  const std::int64_t done = losses_in(log).rbegin()->first;
  const std::string until = " --quiet --steps " + std::to_string(done + 30);
  const Result resumed = run(common + save + until + " --resume --log " + log);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Result undisturbed = run(common + until + " --save " + dir.path() + "/u --log " + dir.path() + "/u.jsonl");
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  EXPECT_TRUE(file_text(dir.path() + "/s/weights.safetensors") == file_text(dir.path() + "/u/weights.safetensors"));
  EXPECT_EQ(losses_in(log), losses_in(dir.path() + "/u.jsonl"));
}

// A handler on such a thread could overwrite values of the heap (listen_to_signals of apps/training/train.cc).
TEST(HowTrainingsEnd, AnInterruptReachesNoThreadThatComputes) {
  TempFolder dir;
  Background training("mnist --data synthetic:200,20 --workers 2 --batch 8 --epochs 100000 --threads 1 --quiet --log " +
                      dir.path() + "/log");
  ASSERT_TRUE(eventually([&] { return !file_text(dir.path() + "/log").empty(); }));
  int threads = 0, handled = 0, reached = 0;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(training.pid()) + "/task")) {
    const std::string status = file_text(task.path() / "status");
    if (status.empty()) continue;  // it ended since the folder was listed
    const auto mask = [&](const std::string& key) {
      return std::stoull(status.substr(status.find(key) + key.size()), nullptr, 16);
    };
    const std::uint64_t blocked = mask("SigBlk:\t"), caught = mask("SigCgt:\t");
    ++threads;
    int here = 0;  // none for a thread that ends
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
      const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
      here += (caught & bit) != 0;
      reached += (caught & ~blocked & bit) != 0;
    }
    handled = std::max(handled, here);
  }
  EXPECT_GE(threads, 3);        // two workers and the one that waits
  EXPECT_GE(handled, 3);        // SIGHUP is not where it was ignored before, as by nohup
  EXPECT_EQ(reached, handled);  // each by one thread
  training.signal(SIGINT);
  EXPECT_EQ(training.wait().exit_code, 128 + SIGINT);
}

TEST(HowTrainingsEnd, AnInterruptEndsAtOnceWhatHasNothingToSave) {
  const TempFolder dir;
  const std::string pipe = dir / "text";  // whoever reads it waits
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Background training("ptb --steps 1 --data " + pipe + " --log " + (dir / "log"));
  const std::string status = "/proc/" + std::to_string(training.pid()) + "/status";
  const std::uint64_t bit = std::uint64_t{1} << (SIGINT - 1);
  ASSERT_TRUE(eventually([&] {
    const std::string text = file_text(status), key = "SigCgt:\t";
    const auto at = text.find(key);
    return at != std::string::npos && (std::stoull(text.substr(at + key.size()), nullptr, 16) & bit) != 0;
  }));
  training.signal(SIGINT);
  EXPECT_EQ(training.wait().exit_code, -1) << "by the signal itself";
}

TEST(HowTrainingsEnd, AnInterruptDoesNotWaitForAnEvaluation) {
  TempFolder dir;
  const std::string log = dir / "log.jsonl";
  // An epoch has four steps, and its evaluation takes hundreds of times as long.
  Background training(
      "mnist --data synthetic:64,100000 --workers 2 --batch 8 --threads 1 --epochs 100 --save-every 1it "
      "--save " +
      (dir / "s") + " --log " + log);
  ASSERT_TRUE(eventually([&] { return fs::exists(dir / "s/checkpoint-000000000003/manifest.json"); }));
  ::usleep(200'000);
  training.signal(SIGTERM);
  const Result r = training.wait();
  EXPECT_EQ(r.exit_code, 128 + SIGTERM) << r.err;
  EXPECT_TRUE(has(r.out, "stopped: interrupted")) << r.out;
  EXPECT_FALSE(has(file_text(log), "{\"eval\":"));
  EXPECT_EQ(losses_in(log).rbegin()->first, 4);
  EXPECT_TRUE(fs::exists(dir / "s/checkpoint-000000000004"));
}

TEST(EndToEnd, StepsZeroWritesTheInitialWeights) {
  TempFolder dir;
  const auto write = [&](const std::string& name, const std::string& more) {
    const Result r = run("cifar10 --data synthetic:10,10 --steps 0 --quiet --save " + dir.path() + "/" + name + more);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return load_safetensors(dir.path() + "/" + name + "/weights.safetensors");
  };
  const StateDict a = write("a", ""), b = write("b", " --workers 2"), c = write("c", " --seed 5");
  std::int64_t trained = 0;
  for (const auto& [name, tensor] : a)
    if (!has(name, "running_") && !has(name, "num_batches")) trained += tensor.elements();
  EXPECT_EQ(trained, 269722);
  EXPECT_EQ(a.at("layer1.0.conv1.weight").to_vector(), b.at("layer1.0.conv1.weight").to_vector());
  EXPECT_NE(a.at("layer1.0.conv1.weight").to_vector(), c.at("layer1.0.conv1.weight").to_vector());
}

TEST(EndToEnd, InitTakesWeightsAndEvalOnlyMeasuresThem) {
  TempFolder dir;
  const std::string common = "mnist --data synthetic:200,50 --quiet --json ";
  const Result trained = run(common + "--epochs 1 --batch 20 --workers 2 --save " + dir.path());
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json before = Json::parse(lines_of(trained.out).back());
  for (const std::string& from :
       {"--init " + dir.path() + "/weights.safetensors", "--resume " + dir.path() + " --workers 2 --batch 20"}) {
    const Result measured = run(common + "--eval-only " + from);
    ASSERT_EQ(measured.exit_code, 0) << measured.err;
    const Json after = Json::parse(lines_of(measured.out).back());
    EXPECT_NEAR(after["eval"]["loss"], before["eval"]["loss"], 1e-6);
    EXPECT_EQ(after["eval"]["top1_error"], before["eval"]["top1_error"]);
  }
}

TEST(EndToEnd, WeightsOfAnotherModelNameTheFirstMismatch) {
  TempFolder dir;
  ASSERT_EQ(run("mnist --model hdc --data synthetic:10,10 --steps 0 --quiet --save " + dir.path()).exit_code, 0);
  const std::string init = " --data synthetic:10,10 --quiet --init " + dir.path() + "/weights.safetensors";
  expect_sentence(run("mnist --model hdc-2.5mb" + init), 1,
                  {"hdc-2.5mb", "fc3.weight", "[10, 500]", "[500, 500]", "weights.safetensors"});
  expect_sentence(run("mnist --model lenet --workers 3" + init), 1, {"lenet", "conv1.weight"});
  std::ofstream(dir.path() + "/weights.safetensors") << "damaged";
  expect_sentence(run("mnist --model hdc" + init), 1, {"weights.safetensors"});
  expect_sentence(run("mnist --init /nowhere/w.safetensors --data synthetic:10,10 --quiet"), 1,
                  {"/nowhere/w.safetensors"});
}

TEST(EndToEnd, DryRunSaysThePlanAndWritesNothing) {
  TempFolder dir;
  const Result r = run("cifar10 --model alexnet --data synthetic:100,10 --workers 2 --batch 10 --dry-run --save " +
                       dir.path() + "/s --log " + dir.path() + "/l --trace " + dir.path() + "/t");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  for (const char* part :
       {"23272266 parameters", "2 workers", "5 steps per epoch", "classifier.1.weight", "memory", "bytes sent", "ring"})
    EXPECT_TRUE(has(r.out, part)) << part << " in\n" << r.out;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(EndToEnd, RecomputedActivationsTakeLessMemoryAndTrainToTheSameBits) {
  TempFolder dir;
  const std::string command = "cifar10 --model resnet20 --data synthetic:20,10 --batch 4 --workers 2 --threads 1 ";
  const auto activations = [&](const std::string& more) {
    const std::string out = run(command + "--dry-run " + more).out;
    // "activations 36.1 MiB", "activations (recomputed in backward) 12.0 MiB"
    const auto found = found_in(out, R"(activations [^0-9]*([0-9.]+) MiB)");
    return found.empty() ? 0.0 : std::stod(found[0][1]);
  };
  EXPECT_GT(activations("--checkpoint-activations"), 0);
  EXPECT_LT(activations("--checkpoint-activations"), 0.6 * activations(""));
  for (const std::string more : {"", "--checkpoint-activations"})
    ASSERT_EQ(run(command + more + " --epochs 1 --quiet --save " + dir.path() + "/s" + more).exit_code, 0);
  const std::string weights = file_text(dir.path() + "/s/weights.safetensors");
  EXPECT_FALSE(weights.empty());
  EXPECT_TRUE(weights == file_text(dir.path() + "/s--checkpoint-activations/weights.safetensors"));
}

void expect_trace_of_two_ranks(const std::string& path) {
  const Json trace = Json::parse(file_text(path));
  std::map<std::pair<int, int>, std::string> threads;  // (process, thread) -> name
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "M" && event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  std::map<std::string, std::set<std::string>> spans;  // "0 compute forward" -> names
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" && event["ph"] != "b") continue;  // a span, or one of several at the same time
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
    spans[std::to_string(event["pid"].get<int>()) + " " + event.value("cat", "")].insert(event["name"]);
  }
  for (const char* number : {"0", "1"}) {
    const std::string rank = number;
    int rows = 0;
    for (const auto& [id, name] : threads)
      rows += std::to_string(id.first) == rank && (name == "compute" || name == "communication");
    EXPECT_GE(rows, 2) << "rank " << rank;
    for (const char* layer : {"conv1", "conv2", "fc1", "fc2", "fc3"}) {
      EXPECT_TRUE(spans[rank + " forward"].count(layer)) << layer;
      EXPECT_TRUE(spans[rank + " backward"].count(layer)) << layer;
    }
    EXPECT_FALSE(spans[rank + " message"].empty());
  }
}

TEST(EndToEnd, APlanThatADryRunWroteIsUsed) {
  TempFolder dir;
  const std::string common = "mnist --data synthetic:40,10 --batch 4 --steps 2 --workers 3 --quiet";
  const Result dry = run(common + " --allreduce butterfly --fusion copy:20KiB --chunk 32KiB --dry-run --json");
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  const std::string plan = dry.out.substr(dry.out.rfind("\n", dry.out.size() - 2) + 1);
  ASSERT_TRUE(has(plan, "\"plan\"") && has(plan, "butterfly") && has(plan, "\"copied\":true")) << dry.out;
  std::ofstream(dir.path() + "/plan.json") << plan;
  const auto weights = [&](const std::string& options, const std::string& to) {
    const Result r = run(common + " " + options + " --save " + dir.path() + to);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return file_text(dir.path() + to + "/weights.safetensors");
  };
  const std::string by_file = weights("--plan " + dir.path() + "/plan.json --overlap none", "/a");
  EXPECT_EQ(by_file, weights("--allreduce butterfly --fusion copy:20KiB --chunk 32KiB", "/b"));
  EXPECT_NE(by_file, weights("", "/c"));
  std::ofstream(dir.path() + "/plan.json") << plan.substr(0, plan.size() / 2);
  expect_sentence(run(common + " --plan " + dir.path() + "/plan.json"), 1, {"plan.json", "not readable"});
}

TEST(EndToEnd, ParameterServersGiveTheSameBitsOverThreadsAndProcesses) {
  TempFolder dir;
  const std::string common = " --data synthetic:60,20 --batch 5 --steps 8 --threads 1 --audit --quiet --momentum 0.9";
  int turn = 0;
  for (const std::string sync :
       {"ps", "layerdrop --drop-ratio 0.5 --threshold-every 3 --ledger", "slimdp --core-every 3",
        "ps --codec qsgd:8:512", "ps --codec onebit", "ps --local-aggregate 2 --clip norm:1",
        "layerdrop --drop-ratio 0.5 --threshold-every 3 --codec terngrad --codec-feedback"}) {
    const std::string number = std::to_string(turn++);
    const auto trained = [&](const std::string& command, const std::string& name) {
      const std::string to = dir.path() + "/" + name + number;
      const Result r = run(command + common + " --sync " + sync + " --save " + to + " --log " + to + ".jsonl");
      EXPECT_EQ(r.exit_code, 0) << command << sync << ": " << r.err;
      return std::pair(file_text(to + "/weights.safetensors"), losses_in(to + ".jsonl"));
    };
    const auto threads = trained("mnist --workers 3 --servers 1", "threads");
    EXPECT_EQ(threads.second.size(), 8u);
    // In turns: a link and colocated servers over threads, dedicated and colocated ones over processes.
    if (turn % 2 == 1) {
      EXPECT_EQ(trained("mnist --workers 3 --servers colocated", "colocated"), threads) << sync;
    } else {
      EXPECT_EQ(trained("mnist --workers 3 --servers 1 --link 1gbit,100us --trace " + dir.path() + "/t.json", "link"),
                threads)
          << sync;
    }
    if (!mpirun_is_there()) continue;
    if (turn % 2 == 1) {
      EXPECT_EQ(trained("laconic launch -n 3 mnist --servers colocated", "mpi-colocated"), threads) << sync;
      continue;
    }
    EXPECT_FALSE(has(file_text(dir.path() + "/threads" + number + ".jsonl"), "cpu_ms")) << "threads share one process";
    EXPECT_EQ(trained("laconic launch -n 5 mnist --servers 2", "mpi"), threads) << sync;
    for (const char* field : {"cpu_ms", "server_cpu_ms"}) {
      const std::vector<double> ms = values_in(dir.path() + "/mpi" + number + ".jsonl", field);
      EXPECT_EQ(ms.size(), 8u) << field;
      for (const double value : ms) EXPECT_GT(value, 0) << field;
    }
  }
  const std::string servers = " --data synthetic:60,20 --batch 5 --workers 2 --sync ps --servers 2";
  EXPECT_TRUE(has(run("mnist --dry-run" + servers).out, "bytes sent per worker and step"));
  EXPECT_EQ(run("mnist --eval-only --quiet --init " + dir.path() + "/threads0/weights.safetensors" + servers).exit_code,
            0);
  if (mpirun_is_there())
    expect_sentence(run("laconic launch -n 2 mnist --sync ps --servers 2 --data synthetic:60,20"), 2, {"--servers"});
}

TEST(EndToEnd, RoundsGiveTheSameBitsOverThreadsAndProcesses) {
  TempFolder dir;
  for (const std::string outer : {"nesterov", "momentum --pairs"}) {
    const auto weights = [&](const std::string& command, const std::string& name) {
      const std::string to = dir.path() + "/" + outer.substr(0, 8) + name;
      const Result r = run(command + " --data synthetic:60,20 --batch 5 --steps 9 --threads 1 --audit --quiet" +
                           " --sync rounds --every 4 --outer " + outer + " --fragments 2 --delay 2" + " --save " + to +
                           " --log " + to + ".jsonl");
      EXPECT_EQ(r.exit_code, 0) << r.err;
      EXPECT_TRUE(has(file_text(to + ".jsonl"), "\"drift\""));
      return file_text(to + "/weights.safetensors");
    };
    const std::string threads = weights("mnist --workers 3", "threads");
    EXPECT_EQ(weights("mnist --workers 3 --overlap none --link 1gbit,100us", "link"), threads) << outer;
    if (mpirun_is_there()) {
      EXPECT_EQ(weights("laconic launch -n 3 mnist", "mpi"), threads) << outer;
    }
  }
}

TEST(EndToEnd, TheTraceHasARowForEachRankAndThread) {
  TempFolder dir;
  const std::string common = "mnist --data synthetic:100,20 --batch 4 --steps 4 --quiet --trace " + dir.path();
  ASSERT_EQ(run(common + "/threads.json --workers 2").exit_code, 0);
  expect_trace_of_two_ranks(dir.path() + "/threads.json");
  if (!mpirun_is_there()) return;
  ASSERT_EQ(run("laconic launch -n 2 " + common + "/mpi.json").exit_code, 0);
  expect_trace_of_two_ranks(dir.path() + "/mpi.json");
}

TEST(EndToEnd, TheLastLineOfJsonIsTheResult) {
  std::vector<std::string> commands = {"mnist --workers 2", "mnist --quiet --workers 2"};
  if (mpirun_is_there()) commands.push_back("laconic launch -n 2 mnist");
  for (const auto& command : commands) {
    const Result r = run(command + " --data synthetic:50,20 --batch 10 --epochs 1 --json");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const Json result = Json::parse(lines_of(r.out).back());
    EXPECT_EQ(result["model"], "lenet");
    EXPECT_EQ(result["workers"], 2);
    EXPECT_EQ(result["batch"], 10);
    EXPECT_EQ(result["steps"], 3);
    EXPECT_GE(result["bytes_sent_total"], result["bytes_dense_total"]);
    EXPECT_TRUE(result["eval"].contains("top1_error"));
    EXPECT_EQ(has(command, "--quiet") ? 1u : 0u, lines_of(r.out).size() == 1 ? 1u : 0u) << r.out;
  }
}

TEST(EndToEnd, RepeatRunsWithSeveralSeeds) {
  TempFolder dir;
  const Result r = run("mnist --data synthetic:50,20 --batch 10 --epochs 1 --threads 1 --seed 7 --repeat 2 --log " +
                       dir.path() + "/log.jsonl --save " + dir.path() + "/s");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "over 2 seeds")) << r.out;
  EXPECT_NE(losses_in(dir.path() + "/log-seed7.jsonl"), losses_in(dir.path() + "/log-seed8.jsonl"));
  EXPECT_TRUE(fs::exists(dir.path() + "/s-seed7/weights.safetensors"));
  EXPECT_TRUE(fs::exists(dir.path() + "/s-seed8/weights.safetensors"));
}

TEST(EndToEnd, OptionsComeFromAFile) {
  TempFolder dir;
  const std::string file = dir.path() + "/o.toml";
  std::ofstream(file) << "data = \"synthetic:50,20\"\nbatch = 10\nlr = 0.25\nschedule = \"const\"\nworkers = 2\nquiet "
                         "= true\njson = true\nsteps = 2\n";
  const std::string log = dir.path() + "/log.jsonl";
  const Result r = run("mnist --config " + file + " --steps 1 --log " + log);  // the command line wins
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["workers"], 2);
  EXPECT_EQ(Json::parse(r.out)["steps"], 1);
  EXPECT_EQ(log_of(log)[1]["lr"], 0.25);
  std::ofstream(file) << "btach = 10\n";
  expect_sentence(run("mnist --config " + file), 2, {"--btach", "--batch"});
  expect_sentence(run("mnist --config /nowhere/o.toml"), 2, {"/nowhere/o.toml", "--config"});
}

TEST(EndToEnd, DataThatIsMissingOrCutIsOneSentence) {
  TempFolder dir;
  expect_sentence(run("mnist --data " + dir.path()), 1,
                  {dir.path(), "train-images-idx3-ubyte", "dataset-fashion-mnist"});
  expect_sentence(run("cifar10 --workers 3 --data " + dir.path()), 1, {dir.path(), "data_batch_1.bin"});
  std::ofstream(dir.path() + "/data_batch_1.bin") << std::string(3073 * 2 - 100, '\1');
  std::ofstream(dir.path() + "/test_batch.bin") << std::string(3073, '\1');
  expect_sentence(run("cifar10 --data " + dir.path()), 1, {"data_batch_1.bin", "6,046", "3,073"});
  std::ofstream(dir.path() + "/data_batch_1.bin") << std::string(3073, '\x0b');
  expect_sentence(run("cifar10 --data " + dir.path()), 1, {"data_batch_1.bin", "11"});
  expect_sentence(run("mnist --data synthetic:1"), 2, {"synthetic"});
  if (!mpirun_is_there()) return;
  expect_sentence(run("laconic launch -n 3 mnist --data /nowhere"), 1, {"/nowhere"});
}

TEST(EndToEnd, OptionsThatContradictAreUsageErrors) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"mnist --model lenett", {"lenett", "lenet"}},
      {"mnist --sync redsink", {"redsink"}},
      {"mnist --schedule cosin", {"cosin"}},
      {"mnist --clip norm:-1", {"norm:-1"}},
      {"mnist --resume", {"--resume"}},
      {"mnist --eval-only", {"--eval-only", "--init"}},
      {"mnist --nesterov --momentum 0 --data synthetic:20,10", {"nesterov", "momentum"}},
      {"mnist --workers 0", {"--workers"}},
      {"mnist --save-every 2", {"--save"}},
  };
  for (const auto& [command, parts] : wrong) {
    SCOPED_TRACE(command);
    expect_sentence(run(command + " --quiet"), 2, parts);
  }
  if (!mpirun_is_there()) return;
  expect_sentence(run("laconic launch -n 3 mnist --workers 2 --data synthetic:20,10 --quiet"), 2,
                  {"--workers 2", "3 ranks"});
  expect_sentence(run("laconic launch -n 3 mnist --modle lenet"), 2, {"--modle", "--model"});
}

TEST(HowTrainingsEnd, ARankThatWasToldOtherwiseIsNamedAtOnce) {
  NEEDS_MPIRUN();
  TempFolder dir;
  const std::string app = dir.path() + "/app";
  std::ofstream(app) << "#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && set -- \"$@\" $OF_RANK_1\nexec " LACONIC_APPS
                        "/mnist \"$@\"\n";
  fs::permissions(app, fs::perms::owner_all);
  const std::string command = "laconic launch -n 2 " + app + " --data synthetic:60,20 --steps 3 --quiet";
  for (const auto& [option, sentence] : {std::pair{"--steps 7", "rank 1 has 'steps=7' where rank 0 has 'steps=3'"},
                                         {"--audit", "rank 1 has 'audit=1' where rank 0 has 'audit=0'"},
                                         {"--dry-run", "rank 1 has 'dry-run=1' where rank 0 has 'dry-run=0'"}})
    expect_sentence(run(command, std::string("OF_RANK_1='") + option + "'"), 1, {sentence});
  expect_sentence(run(command, "OF_RANK_1='--modle lenet'"), 2, {"rank 1: unknown option '--modle'", "--model"});
}

TEST(EndToEnd, APlaceThatCannotBeWrittenIsOneSentence) {
  TempFolder dir;
  std::ofstream(dir.path() + "/file") << "x";
  const std::string small = " --data synthetic:20,10 --epochs 1 --batch 10 --quiet ";
  for (const char* option : {"--log", "--save", "--trace"})
    expect_sentence(run("mnist --workers 2" + small + option + " " + dir.path() + "/file/below"), 1,
                    {dir.path() + "/file/below"});
  if (!mpirun_is_there()) return;
  expect_sentence(run("laconic launch -n 2 mnist" + small + "--log " + dir.path() + "/file/below"), 1,
                  {dir.path() + "/file/below"});
  expect_sentence(run("laconic launch -n 2 mnist" + small + "--save " + dir.path() + "/file/below"), 1,
                  {dir.path() + "/file/below"});
}

TEST(EndToEnd, ALaunchWithoutRoomForOpenMpisFilesSaysSo) {
  NEEDS_MPIRUN();
  expect_sentence(run("laconic launch -n 2 mnist --data synthetic:20,10 --steps 1", "ulimit -f 1000;"), 1,
                  {"no room for Open MPI's files", "TMPDIR"});
}

// A file may not grow beyond 100 KiB: as a disk that is full.
TEST(EndToEnd, ADiskThatIsFullLeavesTheOldCheckpointAndNoHalfFile) {
  TempFolder dir;
  const std::string common = "mnist --data synthetic:40,10 --batch 10 --epochs 1 --quiet --save " + dir.path();
  ASSERT_EQ(run(common + " --steps 2").exit_code, 0);
  const std::string before = file_text(dir.path() + "/weights.safetensors");
  expect_sentence(run(common + " --resume --steps 4", "ulimit -f 200;"), 1, {dir.path(), "could not be written"});
  EXPECT_TRUE(file_text(dir.path() + "/weights.safetensors") == before);
  for (const auto& entry : fs::recursive_directory_iterator(dir.path()))
    EXPECT_FALSE(has(entry.path().string(), ".tmp")) << entry.path();
  EXPECT_EQ(run(common + " --resume --steps 4").exit_code, 0);
}

TEST(EndToEnd, ALossThatIsNoNumberNamesStepAndLayer) {
  const std::string common = " --data synthetic:100,20 --lr 1e20 --schedule const --batch 4 --quiet ";
  // Its loss is still finite in step 2, and what comes of it in backward is not.
  const std::vector<std::string> told{"the gradient of ", " is not finite on rank ", " in step 2", "--lr"};
  expect_sentence(run("mnist" + common), 1, told);
  expect_sentence(run("cifar10 --workers 3" + common), 1, {"step 2", "layer "});
  const Result skipping = run("mnist --on-nan skip --epochs 1 --workers 2" + common);
  EXPECT_EQ(skipping.exit_code, 0) << skipping.err;
  if (!mpirun_is_there()) return;
  expect_sentence(run("laconic launch -n 3 mnist" + common), 1, told);
}

/// Three ranks that train for ever under `laconic launch`, in a TMPDIR of their own.
class Launched {
 public:
  explicit Launched(const std::string& options = "") {
    const std::string app = dir_ / "app";  // says who it is, then becomes the program
    std::ofstream(app) << "#!/bin/sh\necho $$ >" << dir_.path()
                       << "/pid.$OMPI_COMM_WORLD_RANK\nexec " LACONIC_APPS "/mnist \"$@\"\n";
    fs::permissions(app, fs::perms::owner_all);
    fs::create_directory(tmp_);
    ::setenv("TMPDIR", tmp_.c_str(), 1);
    program_.emplace("laconic launch -n 3 " + app +
                     " --data synthetic:100,20 --batch 4 --epochs 1000000 --schedule const --log " + log_ + options);
    ::unsetenv("TMPDIR");
    EXPECT_TRUE(eventually([&] { return !file_text(log_).empty(); }));
    for (int rank = 0; rank < 3; ++rank) ranks_.push_back(std::stoi(file_text(dir_ / ("pid." + std::to_string(rank)))));
  }

  Background& program() { return *program_; }
  const std::vector<pid_t>& ranks() const { return ranks_; }
  std::string operator/(const std::string& name) const { return dir_ / name; }

  /// No rank lives, and no file of Open MPI is left.
  void expect_nothing_left() const {
    for (const pid_t pid : ranks_) EXPECT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; })) << pid;
    EXPECT_TRUE(eventually([&] {
      const fs::directory_iterator files(tmp_);
      return std::none_of(begin(files), end(files), [](const auto& f) { return has(f.path(), "/laconic-"); });
    }));
  }

 private:
  const TempFolder dir_;
  const std::string log_ = dir_ / "log.jsonl", tmp_ = dir_ / "tmp";
  std::optional<Background> program_;
  std::vector<pid_t> ranks_;
};

TEST(HowTrainingsEnd, AKilledProcessEndsTheOthers) {
  NEEDS_MPIRUN();
  Launched launched(" --quiet");
  ::kill(launched.ranks()[1], SIGKILL);
  const Result r = launched.program().wait();
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_TRUE(has(r.err, "laconic: error: rank 1 was ended by signal 9, SIGKILL (out of memory?).\n")) << r.err;
  EXPECT_FALSE(has(r.err, "----")) << r.err;  // a rank that was reading its memory may have said so in a line
  launched.expect_nothing_left();
}

/// A program for `laconic launch`: one rank is killed, each time or once there is a checkpoint.
std::string killed_app(const TempFolder& dir, const std::string& when) {
  std::string app = dir / "app";
  std::ofstream(app) << "#!/bin/sh\nif [ $OMPI_COMM_WORLD_RANK = 1 ]; then\n"
                     << when << "\nfi\nexec " LACONIC_APPS "/mnist \"$@\"\n";
  fs::permissions(app, fs::perms::owner_all);
  return app;
}

TEST(HowTrainingsEnd, WhatBeginsAgainAfterAKilledProcessEndsWithTheSameBits) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  const std::string app =
      killed_app(dir, "[ -e " + dir.path() + "/killed ] || (until ls " + dir.path() +
                          "/s/checkpoint-*/manifest.json >/dev/null 2>&1; do sleep 0.02; done; touch " + dir.path() +
                          "/killed; kill -9 $$) &");
  const std::string options = " --data synthetic:200,20 --batch 8 --schedule const --eval-every 0 --quiet --steps 4000";
  const Result r =
      run("laconic launch -n 2 --restarts 1 " + app + options + " --save " + dir.path() + "/s --save-every 20it");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.err, "laconic: error: rank 1 was ended by signal 9")) << r.err;
  EXPECT_TRUE(has(r.err, "laconic: note: begins again with 2 processes, restart 1 of 1")) << r.err;
  const Result undisturbed = run("laconic launch -n 2 mnist" + options + " --save " + dir.path() + "/u");
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  EXPECT_TRUE(file_text(dir / "s/weights.safetensors") == file_text(dir / "u/weights.safetensors"));
}

TEST(HowTrainingsEnd, AfterTheLastRestartItIsSaidWhyEachRunFailed) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  // Killed when it has saved: of a process that has not met the others yet mpirun may not tell which one it was.
  const std::string newest = "$(ls -d " + dir.path() + "/s/checkpoint-*/manifest.json 2>/dev/null | tail -n 1)";
  const std::string app = killed_app(
      dir, "old=" + newest + "\n(until [ \"" + newest + "\" != \"$old\" ]; do sleep 0.02; done; kill -9 $$) &");
  const Result r =
      run("laconic launch -n 2 --restarts 1 " + app + " --data synthetic:200,20 --steps 1000000 --eval-every 0" +
          " --save-every 20it --quiet --save " + dir.path() + "/s");
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_TRUE(has(r.err, "laconic: error: 2 runs have failed (--restarts 1):\n  run 1: rank 1 was ended by signal 9"))
      << r.err;
  EXPECT_TRUE(has(r.err, "  run 2: rank 1 was ended by signal 9")) << r.err;
}

TEST(HowTrainingsEnd, NothingBeginsAgainFromACheckpointOfBefore) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  const std::string common = "mnist --data synthetic:60,20 --quiet --save " + dir.path();
  ASSERT_EQ(run(common + " --steps 2").exit_code, 0);
  expect_sentence(run("laconic launch -n 2 --restarts 1 " + common + " --steps 3"), 2,
                  {dir.path() + " holds a checkpoint already", "--restarts", "--resume"});
  EXPECT_EQ(run("laconic launch -n 2 --restarts 1 " + common + " --steps 3 --resume").exit_code, 0);
}

TEST(HowTrainingsEnd, AProcessThatStopsAfterItsLastStepIsLost) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  const std::string log = dir / "log", app = dir / "app";
  std::ofstream(app) << "#!/bin/sh\nif [ $OMPI_COMM_WORLD_RANK = 1 ]; then\n(until grep -q memory_bytes_peak " << log
                     << " 2>/dev/null; do sleep 0.02; done; kill -STOP $$) &\nfi\nexec " LACONIC_APPS "/ptb \"$@\"\n";
  fs::permissions(app, fs::perms::owner_all);
  expect_sentence(
      run("laconic launch -n 2 " + app + " --data synthetic:2000,30 --batch 4 --bptt 10 --steps 2 --generate 5000 " +
          "--timeout 4 --log " + log + " > /dev/null"),
      3, {"meeting at the end", "no sign of life from rank 1"});
}

TEST(HowTrainingsEnd, OneThatWasStoppedForLongerThanTheTimeoutGoesOn) {
  const TempFolder dir;
  const std::string log = dir.path() + "/log.jsonl";
  Background training("mnist --data synthetic:100,20 --workers 3 --batch 4 --epochs 1000000 --schedule const --quiet" +
                      std::string(" --timeout 4 --log ") + log);
  const auto steps_on = [&] {
    return eventually([&, from = file_text(log).size()] { return file_text(log).size() > from; });
  };
  ASSERT_TRUE(steps_on());
  training.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  training.signal(SIGCONT);
  EXPECT_TRUE(steps_on());
  training.signal(SIGINT);
  const Result r = training.wait();
  EXPECT_EQ(r.exit_code, 128 + SIGINT) << r.err;
}

TEST(HowTrainingsEnd, AStoppedProcessIsLost) {
  NEEDS_MPIRUN();
  const TempFolder saved;
  Launched launched(" --quiet --timeout 8 --save " + saved.path());
  ::kill(launched.ranks()[2], SIGSTOP);
  const Result r = launched.program().wait();
  expect_sentence(r, 3, {"saw nothing move for 8 s", "no sign of life from rank 2"});
  launched.expect_nothing_left();
  const Result told = run("laconic inspect flight --events 5 " + saved.path());
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_TRUE(has(told.out, "\nRank 2 keeps the others waiting: step ")) << told.out;
}

TEST(HowTrainingsEnd, AProcessThatStopsBeforeItIsConnectedIsNamedOnce) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  const Result r =
      run("laconic launch -n 3 " + killed_app(dir, "kill -STOP $$") + " --data synthetic:200,20 --quiet --timeout 1");
  expect_sentence(r, 3, {"not all ranks are connected after 20 s: rank 1 is stopped"});
}

TEST(HowTrainingsEnd, ARankThatEvaluatesForLongerThanTheTimeoutIsWaitedFor) {
  NEEDS_MPIRUN();
  const TempFolder dir;
  const std::string log = dir / "log";  // from its first line on rank 1 has a fifteenth of its processor
  const std::string slow = "(until [ -s " + log + " ]; do sleep 0.02; done\nwhile kill -STOP $$; do sleep 0.28; " +
                           "kill -CONT $$; sleep 0.02; done) 2>/dev/null &";
  const Result r = run("laconic launch -n 2 " + killed_app(dir, slow) +
                       " --data synthetic:80,30000 --batch 8 --epochs 1 --threads 1 --timeout 2 --log " + log);
  EXPECT_EQ(r.exit_code, 0) << r.err;
}

TEST(EndToEnd, ThreadsWaitForABoundedTimeUnlessTheEnvironmentSaysHow) {
#ifdef __clang__
  const char* const setting = "KMP_BLOCKTIME";
#else
  const char* const setting = "GOMP_SPINCOUNT";
#endif
  const auto environment_with = [setting](const char* policy) {
    const TempFolder dir;
    ::unsetenv(setting), ::unsetenv("OMP_WAIT_POLICY");
    if (policy) ::setenv("OMP_WAIT_POLICY", policy, 1);
    const Background training("mnist --data synthetic:200,20 --batch 8 --epochs 100000 --quiet --log " + dir.path() +
                              "/log.jsonl");
    ::unsetenv("OMP_WAIT_POLICY");
    EXPECT_TRUE(eventually([&] { return !file_text(dir.path() + "/log.jsonl").empty(); }));
    return file_text("/proc/" + std::to_string(training.pid()) + "/environ");
  };
  EXPECT_TRUE(has(environment_with(nullptr), setting));
  EXPECT_FALSE(has(environment_with("active"), setting));
}

TEST(HowTrainingsEnd, ALaunchThatIsKilledLeavesNothing) {
  NEEDS_MPIRUN();
  Launched launched;
  launched.program().signal(SIGKILL);
  launched.expect_nothing_left();
}

TEST(HowTrainingsEnd, TheLaunchersSignalCountsThoughRank0HeardOfAnotherRanksFirst) {
  const TempFolder dir;
  fake_mpirun(dir, "trap 'exit 130' USR1\nsleep 300 &\n: > '" + dir.path() +
                       "/ready'\nwhile :; do sleep 0.05; done\n");  // ends as where rank 0 does not know the signal
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (dir.path() + ":" + path).c_str(), 1);
  Background launched("laconic launch -n 2 mnist");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(eventually([&] { return fs::exists(dir / "ready"); }));
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().exit_code, 128 + SIGTERM);
}

TEST(HowTrainingsEnd, TheExitCodeTellsTheSignalThatStoppedATraining) {
  std::signal(SIGHUP, SIG_DFL);  // nohup may have started these tests
  for (const int signal : {SIGTERM, SIGHUP}) {
    TempFolder dir;
    Background alone("mnist --data synthetic:200,20 --batch 8 --epochs 100000 --quiet --repeat 2 --save " + dir.path() +
                     "/s --log " + dir.path() + "/log.jsonl");
    ASSERT_TRUE(eventually([&] { return !file_text(dir.path() + "/log-seed0.jsonl").empty(); }));
    alone.signal(signal);
    EXPECT_EQ(alone.wait().exit_code, 128 + signal);
    EXPECT_TRUE(fs::exists(dir.path() + "/s-seed0/weights.safetensors"));
    EXPECT_FALSE(fs::exists(dir.path() + "/s-seed1"));
  }
  if (!mpirun_is_there()) return;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Launched launched;
    launched.program().signal(signal);
    launched.program().signal(SIGTERM);  // as compare does, which has got it from the terminal too
    const Result r = launched.program().wait();
    EXPECT_EQ(r.exit_code, 128 + signal) << r.err;
    EXPECT_EQ(r.err, "");
    EXPECT_TRUE(has(r.out, "stopped: interrupted")) << r.out;
    launched.expect_nothing_left();
  }
}

/// As a service manager and a batch system do.
TEST(HowTrainingsEnd, ASignalToAllProcessesAtOnceIsNoError) {
  NEEDS_MPIRUN();
  Launched launched(" --quiet");
  const std::string stat = file_text("/proc/" + std::to_string(launched.ranks()[0]) + "/stat");
  const pid_t mpirun = std::stoi(stat.substr(stat.find(") ") + 4));  // behind its state
  launched.program().signal(SIGTERM);
  ::kill(mpirun, SIGTERM);
  for (const pid_t rank : launched.ranks()) ::kill(rank, SIGTERM);
  const Result r = launched.program().wait();
  EXPECT_EQ(r.exit_code, 128 + SIGTERM);
  EXPECT_EQ(r.err, "");
  launched.expect_nothing_left();
}

TEST(HowTrainingsEnd, AHangUpIsNothingToWhatNohupStarted) {
  for (const std::string start : {"", "laconic launch -n 2 "}) {
    if (!start.empty() && !mpirun_is_there()) continue;
    const TempFolder dir;
    std::signal(SIGHUP, SIG_IGN);  // as nohup does: programs inherit it
    Background training(start + "mnist --data synthetic:200,20 --batch 8 --epochs 100000 --quiet --log " + dir.path() +
                        "/log");
    std::signal(SIGHUP, SIG_DFL);
    ASSERT_TRUE(eventually([&] { return !file_text(dir.path() + "/log").empty(); }));
    training.signal(SIGHUP);
    const std::size_t steps = file_text(dir.path() + "/log").size();
    EXPECT_TRUE(eventually([&] { return file_text(dir.path() + "/log").size() > steps + 10'000; }));
    training.signal(SIGTERM);
    EXPECT_EQ(training.wait().exit_code, 128 + SIGTERM) << start;
  }
}

TEST(EndToEnd, SeveralSeedsUnderLaunchAreThoseOfThreads) {
  NEEDS_MPIRUN();
  TempFolder dir;
  const std::string common =
      " --data synthetic:60,20 --batch 5 --epochs 1 --quiet --threads 1 --repeat 3 --save " + dir.path();
  const Result threads = run("mnist --workers 2" + common + "/a");
  ASSERT_EQ(threads.exit_code, 0) << threads.err;
  const Result ranks = run("laconic launch -n 2 mnist" + common + "/b");
  ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
  for (const std::string seed : {"0", "1", "2"}) {
    const std::string weights = file_text(dir.path() + "/a-seed" + seed + "/weights.safetensors");
    EXPECT_FALSE(weights.empty());
    EXPECT_TRUE(weights == file_text(dir.path() + "/b-seed" + seed + "/weights.safetensors")) << seed;
  }
}

/// Sockets of a process that listen beyond the loopback, of one file of /proc/net.
int open_ports(pid_t pid, const std::string& file, const std::string& loopback) {
  std::set<std::string> own;  // "socket:[INODE]"
  for (const auto& fd : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    own.insert(fs::read_symlink(fd.path(), gone).string());
  }
  int count = 0;
  for (const std::string& line : lines_of(file_text("/proc/net/" + file))) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.size() > 9 && words[3] == "0A" && words[1].rfind(loopback, 0) != 0)
      count += own.count("socket:[" + words[9] + "]");
  }
  return count;
}

TEST(EndToEnd, ALaunchOnOneMachineListensToItAlone) {
  NEEDS_MPIRUN();
  Launched launched;
  std::vector<pid_t> processes = launched.ranks();
  const std::string status = file_text("/proc/" + std::to_string(processes[0]) + "/status");
  const pid_t mpirun = std::stoi(status.substr(status.find("\nPPid:") + 6));
  for (const auto& [file, loopback] : {std::pair{"tcp", "0100007F:"}, {"tcp6", "00000000000000000000000001000000:"}}) {
    for (const pid_t pid : processes) EXPECT_EQ(open_ports(pid, file, loopback), 0) << file;
    EXPECT_LE(open_ports(mpirun, file, loopback), 1) << "the port for daemons on other machines cannot be left out";
  }
}

}  // namespace
}  // namespace laconic
