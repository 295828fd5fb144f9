// laconic inspect, codec, and benchmarks of compression as a user runs them.
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
  fails("everything", 2, "There are select, codec, checkpoint, flight, trace");
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
  EXPECT_EQ(run("laconic bench link --link 1gbit,0s --size 1 --workers 2").exit_code, 2);
}

// ------------------------------------------------------------------------------------------------------ inspect trace

/// A rank: three steps of 10, 20 and 30 `unit`s; an update inside of each forward; an evaluation behind the second;
/// messages that overlap one another and the computing.
void add_rank(nlohmann::json& events, int rank, double unit_ms) {
  const auto line = [&](int tid, const char* name) {
    events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", rank}, {"tid", tid}, {"args", {{"name", name}}}});
  };
  const auto span = [&](int tid, const char* name, const char* category, double begin, double end) {
    events.push_back({{"ph", "X"},
                      {"name", name},
                      {"cat", category},
                      {"pid", rank},
                      {"tid", tid},
                      {"ts", 1e3 * unit_ms * begin},
                      {"dur", 1e3 * unit_ms * (end - begin)}});
  };
  line(1, "compute"), line(2, "messages"), line(3, "messages");
  double at = 100;
  for (const double length : {10.0, 20.0, 30.0}) {
    span(1, "fc1.weight", "update", at + 1, at + 2);
    span(1, "fc1", "forward", at, at + 4);
    span(1, "fc1", "backward", at + 4, at + 7);
    span(2, "fc1.weight", "message", at + 5, at + 7);
    span(3, "fc1.bias", "message", at + 6, at + 8.5);
    if (length == 20) {
      span(1, "evaluation", "evaluation", at + 20, at + 70);
      span(1, "fc1", "forward", at + 30, at + 40);
      at += 50;
    }
    at += length;
  }
  span(1, "flush", "wait", at - 1, at);
}

std::string small_trace(int ranks = 1, double unit_ms = 1) {
  auto events = nlohmann::json::array();
  for (int rank = 0; rank < ranks; ++rank) add_rank(events, rank, unit_ms);
  return nlohmann::json{{"traceEvents", events}}.dump();
}

TEST(InspectTrace, CountsWhatRunsInsideOnceAndLeavesEvaluationOut) {
  const auto ranks = summarize_trace(parse_trace(small_trace()));
  ASSERT_EQ(ranks.size(), 1u);
  const TraceSummary& r = ranks[0];
  EXPECT_EQ(r.steps, 3u);
  EXPECT_NEAR(r.step_ms, 20, 1e-6);
  EXPECT_NEAR(r.ms.at("forward"), 3, 1e-6);
  EXPECT_NEAR(r.ms.at("update"), 1, 1e-6);
  EXPECT_NEAR(r.ms.at("backward"), 3, 1e-6);
  EXPECT_NEAR(r.ms.at("wait"), 0, 1e-6);  // in one step of three
  EXPECT_NEAR(r.ms.at("other"), 13, 1e-6);
  EXPECT_NEAR(r.messages_ms, 3.5, 1e-6);
  EXPECT_FALSE(r.ms.contains("evaluation"));
}

TEST(InspectTrace, FitsAHundredColumns) {
  const TempFolder dir;
  const std::string folder = dir / ("a-long-name-" + std::string(120, 'x')), file = folder + "/ä.json";
  std::filesystem::create_directory(folder);
  for (const int ranks : {1, 6, 7}) {
    std::ofstream(file) << small_trace(ranks, 12345);
    const Result r = run("laconic inspect trace " + file);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_TRUE(has(r.out, "x/ä.json: ms a step, the median over 3 steps\n")) << r.out;
    std::istringstream lines(r.out);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }), 100) << line;
  }
}

TEST(InspectTrace, ReadsWhatATrainingWrote) {
  const TempFolder dir;
  const std::string file = dir.path() + "/trace.json";
  const Result training = run("mnist --model lenet --data synthetic:64,16 --batch 4 --steps 4 --workers 2 --sync redsync --quiet --trace " + file);
  ASSERT_EQ(training.exit_code, 0) << training.err;
  const Result r = run("laconic inspect trace --json " + file);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto ranks = nlohmann::json::parse(r.out)["ranks"];
  ASSERT_EQ(ranks.size(), 2u);
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank["steps"], 4);
    for (const char* category : {"forward", "backward", "gather", "select", "pack", "update"})
      EXPECT_GT(rank["ms"][category], 0) << category;
  }
  EXPECT_NE(run("laconic inspect trace --markdown " + file).out.find("| ms | rank 0 | rank 1 |"), std::string::npos);

  const std::string picture = dir.path() + "/trace.svg";
  const Result drawn = run("laconic plot trace --steps 1:3 two=" + file + " " + file + " -o " + picture);
  ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
  const std::string svg = file_text(picture);
  for (const char* part : {"<svg", "two: ", "rank 0 computes", "rank 1 sends", "waiting for", "#2e7d32", "</svg>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_TRUE(
      has(run("mnist --model lenet --data synthetic:64,16 --batch 4 --steps 6 --workers 2 --trace-steps 3:4 --trace " +
              file)
              .out,
          "trace: " + file + " ("));
  EXPECT_EQ(nlohmann::json::parse(run("laconic inspect trace --json " + file).out)["ranks"][1]["steps"], 3);
  EXPECT_EQ(run("mnist --trace-steps 3:4").exit_code, 2);
  EXPECT_EQ(run("mnist --trace-steps 4:3 --trace " + file).exit_code, 2);
  EXPECT_EQ(run("laconic plot trace --steps 4:5 -o " + picture + " " + file).exit_code, 2);
  EXPECT_EQ(run("laconic plot trace --ranks 0,2 -o " + picture + " " + file).exit_code, 2);
}

TEST(InspectTrace, SaysWhatIsNoTrace) {
  const TempFolder dir;
  const auto fails = [&](const std::string& text, const std::string& part) {
    const std::string file = dir.path() + "/trace.json";
    std::ofstream(file) << text;
    const Result r = run("laconic inspect trace " + file);
    EXPECT_EQ(r.exit_code, 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  fails("", "this is no trace");
  fails(small_trace().substr(0, 200), "this is no trace");
  fails(R"({"traceEvents": [{"ph": "X", "pid": "a"}]})", "this is no trace");
  fails(R"({"traceEvents": []})", "no rank has computed");
  EXPECT_EQ(run("laconic inspect trace " + dir.path() + "/none").exit_code, 1);
  EXPECT_EQ(run("laconic inspect trace").exit_code, 2);
}

// -------------------------------------------------------------------------------------------- codec and inspect codec

TEST(CodecTool, WritesWhatItReadsBackWithinTheBound) {
  const TempFolder dir;
  std::vector<float> x;
  for (int i = 0; i < 1003; ++i)
    x.push_back(std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(-(i % 15))));
  const std::string file = raw_file(dir, x), lacc = dir.path() + "/x.lacc", back = dir.path() + "/y.f32";
  for (const bool bounded : {true, false}) {
    const std::string mode = bounded ? "bounded" : "published";
    const Result encoded = run("laconic codec encode --mode " + mode + " --bound-exp -8 " + file + " " + lacc);
    ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
    const std::string bytes = file_text(lacc);
    EXPECT_EQ(bytes.substr(0, 16), std::string("LACC\x01") + (bounded ? '\x01' : '\0') +
                                       std::string("\xF8\xFF\xEB\x03\0\0\0\0\0\0", 10));
    const Result decoded = run("laconic codec decode " + lacc + " " + back);
    ASSERT_EQ(decoded.exit_code, 0) << decoded.err;
    EXPECT_NE(decoded.out.find("1003 values, " + mode + " with a bound of 2^-8"), std::string::npos) << decoded.out;
    const std::string y = file_text(back);
    ASSERT_EQ(y.size(), 4 * x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      float v;
      std::memcpy(&v, y.data() + 4 * i, sizeof v);
      const auto m = bounded ? compress::InceptionnMode::bounded : compress::InceptionnMode::published;
      ASSERT_EQ(v, compress::decompress_value(m, -8, compress::compress_value(m, -8, x[i])));
    }
  }
}

TEST(CodecTool, SaysWhetherTheFileBecameSmallerOrLarger) {
  const TempFolder dir;
  const auto said = [&](float value, std::size_t count) {
    return run("laconic codec encode " + raw_file(dir, std::vector<float>(count, value)) + " " + dir.path() + "/x").out;
  };
  EXPECT_NE(said(0, 1600).find(" times smaller\n"), std::string::npos);
  EXPECT_NE(said(2, 8).find("8 values in 50 bytes, 1.56 times larger\n"), std::string::npos) << said(2, 8);
}

TEST(CodecTool, SaysWhatIsWrongWithAFileOrAnOption) {
  const TempFolder dir;
  const std::string file = raw_file(dir, descending(100)), lacc = dir.path() + "/x.lacc", out = dir.path() + "/y";
  ASSERT_EQ(run("laconic codec encode " + file + " " + lacc).exit_code, 0);
  const auto fails = [&](const std::string& arguments, int code, const std::string& part) {
    const Result r = run("laconic codec " + arguments);
    EXPECT_EQ(r.exit_code, code) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_EQ(r.err.rfind("laconic: error: ", 0), 0u) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_FALSE(std::ifstream(out).good()) << "a file was left behind";
  };
  const auto damaged = [&](std::size_t at, const std::string& bytes, bool cut = false) {
    std::string text = file_text(lacc);
    text.replace(at, bytes.size(), bytes);
    if (cut) text.resize(at);
    const std::string path = dir.path() + "/damaged.lacc";
    std::ofstream(path, std::ios::binary) << text;
    return "decode " + path + " " + out;
  };
  fails("fold", 2, "There are encode, decode");
  fails("encode " + file, 2, "out is required");
  fails("encode --bound-exp -200 " + file + " " + out, 2, "the bound 2^-200");
  fails("encode --mode exact " + file + " " + out, 2, "exact");
  fails("encode " + dir.path() + "/none " + out, 1, "Check the path");
  fails("decode " + dir.path() + "/none " + out, 1, "Check the path");
  fails("decode " + file + " " + out, 1, "no file of laconic codec");
  fails(damaged(0, "LACX"), 1, "no file of laconic codec");
  fails(damaged(10, "", true), 1, "no file of laconic codec");
  fails(damaged(4, "\x02"), 1, "its version is 2");
  fails(damaged(5, "\x02"), 1, "its mode is 2");
  fails(damaged(6, "\xFF\x7F"), 1, "its bound is 2^32767");
  fails(damaged(8, std::string(8, '\xFF')), 1, "18446744073709551615 values cannot lie in");
  fails(damaged(8, "\x63"), 1, "99 values");
  fails(damaged(100, "", true), 1, "100 values");
}

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
