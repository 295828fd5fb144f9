// laconic inspect select and laconic bench select as a user runs them.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/state.h"
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
  const std::string path = dir.path() + "/x.safetensors";
  save_safetensors(state, path);
  const Result r = run("laconic inspect select --json --k 1 --method exact --tensor b " + path);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out)["threshold"], 5);
  EXPECT_EQ(nlohmann::json::parse(r.out)["captured_l2"], 1);
  const Result which = run("laconic inspect select " + path);
  EXPECT_EQ(which.exit_code, 1);
  EXPECT_NE(which.err.find("name one of a, b"), std::string::npos) << which.err;
  EXPECT_EQ(run("laconic inspect select --tensor c " + path).exit_code, 1);
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
  fails("everything", 2, "there is select");
  fails("select", 2, "file is required");
  fails("select --method serch " + file, 2, "did you mean search?");
  fails("select --method adacomp " + file, 2, "last gradient");
  fails("select --k 11 " + file, 2, "there are 10 values");
  fails("select --method random --sign positive " + file, 2, "does not choose by sign");
  fails("select --tensor x " + file, 1, "no safetensors file");
  fails("select " + dir.path() + "/none.f32", 1, "check the path");
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
}

}  // namespace
}  // namespace laconic
