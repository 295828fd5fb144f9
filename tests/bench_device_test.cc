// `laconic bench` on a CUDA device: a tiny run of each part that knows one, and what it prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cuda_devices.h"
#include "tests/program.h"

namespace laconic {
namespace {

using nlohmann::json;
using BenchOnDevice = CudaTest;

constexpr const char* kSelect = "select --elements 5000 --data normal --rounds 2";

json json_of(const std::string& bench, const std::string& before = "") {
  const Result r = run("laconic bench " + bench + " --device cuda --json", before);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return r.exit_code == 0 ? json::parse(r.out) : json::object();
}

std::vector<std::string> names_of(const json& results) {
  std::vector<std::string> names;
  for (const json& r : results) names.push_back(r.at("name"));
  return names;
}

/// A program that passes for a Python with PyTorch: it answers `commands`, the cases of a shell's case statement.
std::string peer(const TempFolder& dir, const std::string& ready, const std::string& commands) {
  const std::string script = "#!/bin/sh\ncase \"$2\" in import*) exit 0;; esac\necho '" + ready +
                             "'\nwhile read -r line; do case \"$line\" in " + commands + " esac; done\n";
  dir.write("python", {script.begin(), script.end()});
  std::filesystem::permissions(dir / "python", std::filesystem::perms::owner_all);
  return "LACONIC_PYTHON=" + (dir / "python");
}

TEST_F(BenchOnDevice, StepTellsTheRateInEachPrecision) {
  const json all = json_of("step --model lenet --batch 2 --precision fp32,bf16 --blocks 2 --block-seconds 0.001");
  const json& results = all.at("results");
  ASSERT_EQ(results.size(), 2u);
  for (const json& r : results) {
    EXPECT_EQ(r.at("device"), "cuda");
    EXPECT_GT(r.at("rate"), 0);
#if !defined(__SANITIZE_ADDRESS__)  // under which nothing is kept
    EXPECT_GT(r.at("device_bytes"), r.at("activation_bytes"));
#endif
  }
  EXPECT_EQ(results[0].at("precision"), "fp32");
  EXPECT_EQ(results[1].at("precision"), "bf16");
}

TEST_F(BenchOnDevice, LayersTellsTheTimeOfEach) {
  const json times = json_of("layers --model lenet --batch 2 --steps 2");
  EXPECT_EQ(names_of(times.at("layers")),
            (std::vector<std::string>{"conv1", "pool1", "conv2", "pool2", "flatten", "fc1", "fc2", "fc3", "loss"}));
  for (const json& l : times["layers"]) {
    EXPECT_GT(l.at("forward_ms"), 0) << l;
    EXPECT_LT(l.at("forward_ms"), times.at("step_ms")) << l;
    for (const json& p : l.at("parameters")) EXPECT_GT(p.at("update_ms"), 0) << p;
  }
}

TEST_F(BenchOnDevice, SelectHasTheWaysThatDifferOnADevice) {
  const json all = json_of(kSelect);
  ASSERT_EQ(all.at("results").size(), 2u);  // selection, residual
  const json& selection = all["results"][0];
  EXPECT_FALSE(selection.contains("dense_ring_ms"));
  EXPECT_EQ(names_of(selection.at("results")),
            (std::vector<std::string>{"copy", "exact, candidates from the residual pass", "exact, nothing known",
                                      "Algorithm 3, candidates from the residual pass", "Algorithm 3, nothing known",
                                      "sampled, threshold reused", "radix select, scan and scatter"}));
  for (const json& r : selection["results"]) {
    EXPECT_GT(r.at("ms"), 0) << r;
    if (!r.contains("chosen")) continue;
    const bool exact = r["name"].get<std::string>().find_first_of("er") == 0;  // exact, radix
    EXPECT_GE(r["chosen"], 5) << r;
    EXPECT_LE(r["chosen"], exact ? 5 : 10) << r;
  }
  EXPECT_EQ(names_of(all["results"][1].at("results")),
            (std::vector<std::string>{"copy", "dense update, SGD with momentum", "residual pass with statistics",
                                      "the same, candidates emitted"}));
}

TEST_F(BenchOnDevice, SelectTakesPyTorchsTimesByItsOwnClock) {
  const TempFolder dir;
  const std::string python =
      peer(dir, R"({"ready": true})", "load*) echo '{\"elements\": 5000}';; run*) echo '{\"seconds\": 0.125}';;");
  const json all = json_of(std::string(kSelect) + " --part selection --against torch", python);
  const json& torch = all.at("results").at(0).at("results").back();
  EXPECT_EQ(torch.at("name"), "torch.topk");
  EXPECT_EQ(torch.at("ms"), 125);
}

TEST_F(BenchOnDevice, SelectSaysInOneSentenceWhatItCannotDo) {
  const TempFolder dir;
  const Result r = run(concat("laconic bench ", kSelect, " --device cuda --part selection --against torch"),
                       peer(dir, R"({"error": "this PyTorch finds no GPU"})", ""));
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.err, "laconic: error: bench: this PyTorch finds no GPU.\n");
  for (const char* option : {"--link 1gbit,50us", "--workers 3"})
    EXPECT_EQ(run(concat("laconic bench ", kSelect, " --device cuda ", option)).exit_code, 2) << option;
}

TEST_F(BenchOnDevice, CodecTellsSpeedsAndRatios) {
  const json all = json_of("codec --mib 0.02 --rounds 1");
  const json& codecs = all.at("results").at(0).at("results");
  ASSERT_GT(codecs.size(), 10u);
  EXPECT_EQ(codecs[0].at("codec"), "inceptionn:2^-10");
  EXPECT_GT(codecs[0].at("ratio"), 2);
  for (const json& c : codecs) {
    EXPECT_GT(c.at("encode_gb_s"), 0) << c;
    EXPECT_GT(c.at("decode_gb_s"), 0) << c;
  }
}

TEST_F(BenchOnDevice, TablesHaveAllTheirCells) {
  for (const std::string bench : {kSelect, "codec --mib 0.02 --rounds 1"}) {
    const Result r = run("laconic bench " + bench + " --device cuda --markdown");
    ASSERT_EQ(r.exit_code, 0) << r.err;
    std::istringstream lines(r.out);
    std::int64_t cells = 0, rows = 0;
    for (std::string line; std::getline(lines, line); ++rows) {
      if (line.empty() || line[0] != '|') {
        cells = 0;
        continue;
      }
      const auto bars = std::count(line.begin(), line.end(), '|');
      EXPECT_EQ(bars, cells == 0 ? bars : cells) << line;
      cells = bars;
    }
    EXPECT_GT(rows, 10) << r.out;
  }
}

}  // namespace
}  // namespace laconic
