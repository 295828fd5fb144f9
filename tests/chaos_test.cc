// chaos: what it does to trainings, and that it notices one that does not go on as if nothing had happened.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace laconic {
namespace {

using nlohmann::json;

json rows_of(const Result& r) { return json::parse(r.out, nullptr, false); }

TEST(Chaos, AStruckTrainingGoesOnToTheSameWeights) {
  const Result r =
      run("../tests/chaos --faults 7 --json mnist --data synthetic:400,50 --workers 2 --threads 1 --batch 4 --steps 100 "
          "--save-every 10it --eval-every 0");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const json rows = rows_of(r);
  ASSERT_TRUE(rows.is_array()) << r.out;
  int same = 0;
  for (const json& row : rows) {
    EXPECT_EQ(row["same"], row["faults"]) << r.err;
    same += row["same"].get<int>();
  }
  EXPECT_GE(same, 5) << r.err;  // a fault that came too late five times is none
}

TEST(Chaos, ARankThatIsKilledOrStoppedBeginsAgainUnderLaunch) {
  const Result r =
      run("../tests/chaos --faults 2 --kinds kill,freeze --launch 2 --json mnist --data synthetic:400,50 --threads 1 "
          "--batch 4 --save-every 10it --eval-every 0 --steps 600");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const json rows = rows_of(r);
  ASSERT_EQ(rows.size(), 2u) << r.err;
  for (const json& row : rows) EXPECT_EQ(row["same"], 1) << r.err;
  EXPECT_EQ(rows[1]["fault"], "freeze");
  EXPECT_EQ(rows[1]["named"], 1) << r.err;
}

/// A program that saves weights after a third of a second; `resumed` is what it does when it goes on.
Result chaos_of(const std::string& resumed, const std::string& options = "") {
  const TempFolder folder;
  const std::string script = folder / "trains";
  std::ofstream(script) << "#!/bin/sh\n"
                           "while [ $# -gt 0 ]; do\n"
                           "  [ \"$1\" = --save ] && folder=$2\n"
                           "  [ \"$1\" = --resume ] && { "
                        << resumed << "; }\n  shift\ndone\nsleep 0.3\necho weights > $folder/weights.safetensors\n";
  ::chmod(script.c_str(), 0700);
  return run("../tests/chaos --faults 1 --kinds kill --json " + options + " " + script);
}

TEST(Chaos, OtherWeightsAreNoticed) {
  EXPECT_EQ(chaos_of(":").exit_code, 0);
  const Result other = chaos_of("echo others > $folder/weights.safetensors; exit 0");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(rows_of(other)[0]["differ"], 1) << other.out;
  EXPECT_TRUE(has(other.err, "other weights than without a fault")) << other.err;
}

TEST(Chaos, WhatHangsOrDoesNotGoOnIsNoticed) {
  const Result hangs = chaos_of("exec sleep 100", "--timeout 1");
  EXPECT_EQ(hangs.exit_code, 1);
  EXPECT_EQ(rows_of(hangs)[0]["hung"], 1) << hangs.out;
  const Result fails = chaos_of("echo 'laconic: error: it is gone' >&2; exit 1");
  EXPECT_EQ(fails.exit_code, 1);
  EXPECT_EQ(rows_of(fails)[0]["failed"], 1) << fails.out;
  EXPECT_TRUE(has(fails.err, "resumed, and exit code 1: it is gone")) << fails.err;
}

TEST(Chaos, SaysInOneSentenceWhatItCannotDo) {
  const auto sentence = [](const std::string& words) {
    const Result r = run("../tests/chaos " + words);
    EXPECT_EQ(r.exit_code, 2) << r.err;
    return r.err;
  };
  EXPECT_TRUE(has(sentence("--faults 3"), "program is required (chaos)"));
  EXPECT_TRUE(has(sentence("--kinds kil mnist"), "there is no fault 'kil' (--kinds): did you mean kill?"));
  EXPECT_TRUE(
      has(sentence("--kinds freeze mnist"), "freeze needs other processes that notice it (--kinds): add --launch"));
  EXPECT_TRUE(has(sentence("mnist --save x"), "chaos has --save of its own (--save): leave it out"));
  EXPECT_TRUE(has(sentence("--methods redsnc mnist"), "redsync"));
  EXPECT_TRUE(has(sentence("--faults 1 --methods strom mnist --data synthetic:20,10 --steps 3"), "(--threshold)"));
  const Result bad = run("../tests/chaos --faults 1 mnist --data nowhere --steps 3");
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_TRUE(has(bad.err, "chaos: without a fault the training ends with exit code 1: ")) << bad.err;
}

}  // namespace
}  // namespace laconic
