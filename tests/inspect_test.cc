// laconic inspect, and benchmarks of compression as a user runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/look/trace_file.h"
#include "core/state.h"
#include "tests/inceptionn_steps.h"
#include "tests/program.h"

namespace laconic {
namespace {

std::string raw_file(const TempFolder& dir, const std::vector<float>& values) {
  const std::string path = dir.path() + "/x.f32";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
  return path;
}

std::vector<float> descending(int n) {
  std::vector<float> x;
  for (int i = 0; i < n; ++i) x.push_back((i % 2 ? -1.0f : 1.0f) * static_cast<float>(n - i));
  return x;
}

TEST(InspectSelect, TellsWhatEveryMethodChooses) {
  const TempFolder dir;
  const std::string file = raw_file(dir, descending(1000));
  double all = 0, three = 0;
  for (int i = 1; i <= 1000; ++i) all += static_cast<double>(i) * i, three += i > 997 ? static_cast<double>(i) * i : 0;
  for (const char* method : {"exact", "radix", "radix-histogram", "nth-element", "trimmed", "trimmed-steps"}) {
    const Result r = run("laconic inspect select --json --k 3 --method " + std::string(method) + " " + file);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const auto j = nlohmann::json::parse(r.out);
    EXPECT_EQ(j["elements"], 1000);
    EXPECT_EQ(j["k"], 3);
    EXPECT_EQ(j["nnz"], 3) << method;
    EXPECT_NEAR(j["captured_l2"], std::sqrt(three / all), 1e-6);
    EXPECT_GT(j["passes"], 0);
    EXPECT_GT(j["ms"], 0);
  }
  const Result search = run("laconic inspect select --json --k 3 --method search " + file);
  const auto nnz = nlohmann::json::parse(search.out)["nnz"].get<int>();
  EXPECT_GE(nnz, 3);
  EXPECT_LE(nnz, 6);
  const Result text = run("laconic inspect select --density 0.5 --sign negative --method exact " + file);
  EXPECT_EQ(text.exit_code, 0);
  for (const char* part : {"exact of 1000 values", "k          500", "nnz        500", "threshold  1 ", "captured"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
}

TEST(InspectSelect, ReadsATensorOfASafetensorsFile) {
  const TempFolder dir;
  StateDict state;
  state.set("a", Tensor::of({4}, {1, 2, 3, 4}));
  state.set("b", Tensor::of({2, 2}, {0, 0, -5, 0}));
  state.set("empty", Tensor::empty({0}));
  const std::string path = dir.path() + "/x.safetensors";
  save_safetensors(state, path);
  const Result r = run("laconic inspect select --json --k 1 --method exact --tensor b " + path);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["threshold"], 5);
  EXPECT_EQ(nlohmann::json::parse(r.out)["captured_l2"], 1);
  const Result which = run("laconic inspect select " + path);
  EXPECT_EQ(which.exit_code, 1);
  EXPECT_NE(which.err.find("name one of a, b, empty"), std::string::npos) << which.err;
  EXPECT_EQ(run("laconic inspect select --tensor c " + path).exit_code, 1);
  for (const char* what : {"select", "codec"}) {
    const Result none = run(concat("laconic inspect ", what, " --tensor empty ", path));
    EXPECT_EQ(none.exit_code, 1);
    EXPECT_NE(none.err.find("has no values"), std::string::npos) << none.err;
  }
}

TEST(InspectSelect, SaysWhatIsWrongInOneSentence) {
  const TempFolder dir;
  const std::string file = raw_file(dir, descending(10)), nan = dir.path() + "/nan.f32", odd = dir.path() + "/odd.f32";
  const float not_a_number = std::nanf("");
  std::ofstream(nan, std::ios::binary).write(reinterpret_cast<const char*>(&not_a_number), 4);
  std::ofstream(odd) << "12345";
  const auto fails = [](const std::string& arguments, int code, const std::string& part) {
    const Result r = run("laconic inspect " + arguments);
    EXPECT_EQ(r.exit_code, code) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(r.err.rfind("laconic: error: ", 0), 0u) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  fails("everything", 2, "There are select, codec, checkpoint, flight");
  fails("select", 2, "file is required");
  fails("select --method serch " + file, 2, "did you mean search?");
  fails("select --method adacomp " + file, 2, "last gradient");
  fails("select --k 11 " + file, 2, "there are 10 values");
  fails("select --method random --sign positive " + file, 2, "does not choose by sign");
  fails("select --tensor x " + file, 1, "no safetensors file");
  fails("select " + dir.path() + "/none.f32", 1, "Check the path");
  fails("select " + odd, 1, "4 bytes each");
  fails("select --k 1 " + nan, 1, "not a number");
}

TEST(BenchSelect, MeasuresEveryPart) {
  const TempFolder dir;
  const std::string file = raw_file(dir, descending(5000));
  const Result r =
      run("laconic bench select --elements 2^12,5000 --data normal," + file + " --rounds 2 --threads 1,2 --json");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto results = nlohmann::json::parse(r.out)["results"];
  EXPECT_EQ(results.size(), 2u * 2 * (2 + 3));  // threads, sizes; two selections and three other parts
  for (const auto& part : results)
    for (const auto& line : part["results"]) {
      if (line.contains("ms")) {
        EXPECT_GT(line["ms"], 0) << line;
      }
      if (line.contains("chosen")) {
        EXPECT_GE(line["chosen"], part["k"]) << line;
        EXPECT_LE(line["chosen"], 2 * part["k"].get<int>()) << line;
      }
    }
  const Result table = run("laconic bench select --elements 2^12 --data heavy --rounds 1 --part selection --markdown");
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.out.find("| Algorithm 3, nothing known |"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("| dense ring, 4 ranks, 1 Gbit/s, 50 us (computed) |"), std::string::npos) << table.out;
}

TEST(BenchSelect, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(run("laconic bench select --elements 2^40").exit_code, 2);
  EXPECT_EQ(run("laconic bench select --elements many").exit_code, 2);
  EXPECT_EQ(run("laconic bench select --data gauss").exit_code, 2);
  EXPECT_EQ(run("laconic bench select --part all").exit_code, 2);
  for (const char* option : {"--data normal", "--no-baselines", "--link 1gbit,0s", "--workers 2"})
    EXPECT_EQ(run(std::string("laconic bench select --part coding ") + option).exit_code, 2) << option;
}

// ------------------------------------------------------------------------------------------------------------- traces

TEST(TraceFile, HasWhatATrainingRan) {
  const TempFolder dir;
  const std::string file = dir.path() + "/trace.json", train = "mnist --model lenet --data synthetic:64,16 --batch 4 --workers 2";
  const Result training = run(train + " --steps 4 --sync redsync --quiet --trace " + file);
  ASSERT_EQ(training.exit_code, 0) << training.err;
  const TraceFile trace = read_trace(file);
  ASSERT_EQ(trace.ranks.size(), 2u);
  for (const int rank : {0, 1}) {
    const TraceFile::Line* const computing = trace.computing(rank);
    ASSERT_NE(computing, nullptr);
    EXPECT_EQ(step_starts(*computing).size(), 4u);
    for (const char* category : {"forward", "backward", "gather", "select", "pack", "update"})
      EXPECT_TRUE(std::ranges::any_of(computing->spans, [&](const auto& s) { return s.category == category; }))
          << category;
  }
  EXPECT_TRUE(has(run(train + " --steps 6 --trace-steps 3:4 --trace " + file).out, "trace: " + file + " ("));
  EXPECT_EQ(step_starts(*read_trace(file).computing(1)).size(), 3u);
  EXPECT_EQ(run("mnist --trace-steps 3:4").exit_code, 2);
  EXPECT_EQ(run("mnist --trace-steps 4:3 --trace " + file).exit_code, 2);
}

TEST(TraceFile, SaysWhatIsNoTrace) {
  const TempFolder dir;
  for (const char* text : {"", R"({"traceEvents": [{"ph": "X", "pid")", R"({"traceEvents": [{"ph": "X", "pid": "a"}]})"}) {
    const std::string file = dir.path() + "/trace.json";
    std::ofstream(file) << text;
    try {
      read_trace(file);
      ADD_FAILURE() << text;
    } catch (const DataError& e) {
      EXPECT_TRUE(has(e.what(), file + ": this is no trace")) << e.what();
    }
  }
}

// ----------------------------------------------------------------------------------------------------- inspect codec

TEST(InspectCodec, TellsRatioErrorsAndClasses) {
  const TempFolder dir;
  // 40 values of each class at 2^-10: nothing, up to 127.5 / 512, up to 1, above.
  std::vector<float> x;
  for (int i = 0; i < 40; ++i) x.insert(x.end(), {0.0009f, -0.01f, 0.5f + 0x1p-17f, 3.0f});
  const Result r = run("laconic inspect codec --json --bound-exp -10 " + raw_file(dir, x));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["elements"], 160);
  ASSERT_EQ(j["results"].size(), 2u);
  const auto bounded = j["results"][0], published = j["results"][1];
  EXPECT_EQ(bounded["mode"], "bounded");
  EXPECT_EQ(bounded["shares"], nlohmann::json({0.25, 0.25, 0.25, 0.25}));
  EXPECT_DOUBLE_EQ(bounded["ratio"], 640.0 / (20 * (2 + 2 * 7)));
  EXPECT_FLOAT_EQ(bounded["max_error"].get<float>(), 0.0009f);
  EXPECT_NEAR(bounded["max_error_of_bound"], 0.9216, 1e-4);
  EXPECT_NEAR(bounded["mean_error"], (0.0009 + std::abs(0.01 - 5.0 / 512) + 0x1p-17) / 4, 1e-7);
  EXPECT_NEAR(published["max_error"], 0.01 - 1.0 / 128, 1e-7);
  const Result text = run("laconic inspect codec " + raw_file(dir, x));
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 11) << text.out;  // a blank, title, heads, 8 lines
}

TEST(InspectCodec, ReadsAFolderAsOneGradientAndCountsMagnitudes) {
  const TempFolder dir;
  const std::string folder = dir / "step-000001";
  std::filesystem::create_directories(folder);
  const std::vector<float> a{0.0f, -0.0001f, 0.5f}, b{-2.0f};
  for (const auto& [name, x] : {std::pair{"a.weight.f32", a}, {"b.bias.f32", b}}) {
    std::ofstream out(folder + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(float)));
  }
  const Result r = run("laconic inspect codec --histogram --json " + folder);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_EQ(j["elements"], 4);
  EXPECT_EQ(j["magnitude_shares"], nlohmann::json({0.25, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.25}));
  EXPECT_EQ(j["negative"], 0.5);
  const Result two = run("laconic inspect codec --bound-exp -10 --histogram " + folder + " " + folder);
  EXPECT_NE(two.out.find("2^-14 to 2^-12"), std::string::npos) << two.out;
  EXPECT_NE(run("laconic inspect codec " + (dir / "")).err.find("has no files NAME.f32"), std::string::npos);
}

TEST(BenchCodec, MeasuresEveryCodecOfThisBuild) {
  const TempFolder dir;
  const std::string file = raw_file(dir, descending(5000));
  const Result r = run("laconic bench codec --mib 0.05 --rounds 1 --json --data alexnet," + file);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  ASSERT_EQ(j["results"].size(), 2u);
  for (const auto& data : j["results"]) {
    EXPECT_GE(data["results"].size(), 13u);
    for (const auto& line : data["results"]) {
      EXPECT_GT(line["encode_gb_s"], 0) << line;
      EXPECT_GT(line["decode_gb_s"], 0) << line;
      const std::string codec = line["codec"];
      const bool one_pass = codec.starts_with("inceptionn") || codec.starts_with("groupq");
      EXPECT_EQ(line.contains("decode_add_encode_gb_s"), one_pass) << codec;
    }
  }
  const double ratio = j["results"][0]["results"][1]["ratio"];  // published: by the shares of Table III
  EXPECT_NEAR(ratio, 32 / (2 + 0.039 * 8 + 0.211 * 16 + 0.001 * 32), 0.2);
  const Result zeros =
      run("laconic bench codec --rounds 1 --codecs bf16 --data " + raw_file(dir, std::vector<float>(64)));
  EXPECT_EQ(zeros.exit_code, 0) << zeros.err;
  EXPECT_EQ(zeros.out.find("nan"), std::string::npos) << zeros.out;
  EXPECT_NE(run("laconic bench codec --data nothing").err.find("there are alexnet, hdc, whole"), std::string::npos);
}

}  // namespace
}  // namespace laconic
