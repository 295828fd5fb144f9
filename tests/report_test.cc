#include "apps/look/report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/program.h"

namespace laconic {
namespace {

/// The data that a page draws.
nlohmann::json runs_on(const std::string& page) {
  const std::string before = "const runs = ", after = ";\nconst colours";
  const auto begin = page.find(before), end = page.find(after);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return nlohmann::json::parse(page.substr(begin + before.size(), end - begin - before.size()));
}

std::string write(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

constexpr const char* kRun = R"({"run":{"model":"lenet","command":"mnist </script>","version":"0.1.0"}})"
                             "\n";

/// Step n took n ms, sent n bytes from rank 0 and 2 n from all ranks, and had the loss n and the rate 1 / n.
std::string steps(int first, int last) {
  std::string text;
  for (int n = first; n <= last; ++n)
    text +=
        nlohmann::json{{"step", n},
                       {"loss", n},
                       {"lr", 1.0 / n},
                       {"step_ms", n},
                       {"forward_ms", 0.5 * n},
                       {"exposed_ms", 0.125 * n},
                       {"bytes_sent", n},
                       {"bytes_sent_sum", 2 * n}}
            .dump() +
        "\n";
  return text;
}

TEST(Report, HasEachFigureWhereTheLogHasIt) {
  const TempFolder folder;
  const std::string log = write(folder, "log",
                                kRun + steps(1, 3) + R"({"eval":{"epoch":1,"loss":3,"top1_error":12.5}})" + "\n" +
                                    steps(4, 5) + R"({"eval":{"epoch":2,"loss":1,"top1_error":10}})" + "\n");
  const auto runs = runs_on(report_page({{.title = "a < b", .log = log}}));
  ASSERT_EQ(runs.size(), 1u);
  const auto& run = runs[0];
  EXPECT_EQ(run["title"], "a < b");
  EXPECT_EQ(run["command"], "mnist </script>");
  EXPECT_EQ(run["steps"]["step"], nlohmann::json({1, 2, 3, 4, 5}));
  EXPECT_EQ(run["steps"]["bytes"], nlohmann::json({2, 6, 12, 20, 30}));
  EXPECT_EQ(run["steps"]["loss"], nlohmann::json({1, 2, 3, 4, 5}));
  EXPECT_EQ(run["steps"]["lr"][3], 0.25);
  EXPECT_NEAR(run["steps"]["seconds"][4].get<double>(), 0.015, 1e-12);
  EXPECT_EQ(run["step_ms"][0], 3);
  EXPECT_EQ(run["exposed"], 0.125);
  EXPECT_EQ(run["bytes_a_step"], 3) << "what rank 0 sends, as compare's table has it";
  EXPECT_EQ(run["evals"]["step"], nlohmann::json({3, 5}));
  EXPECT_EQ(run["evals"]["bytes"], nlohmann::json({12, 30}));
  EXPECT_EQ(run["evals"]["loss"], nlohmann::json({3, 1}));
  EXPECT_EQ(run["evals"]["value"], nlohmann::json({87.5, 90}));
  EXPECT_EQ(run["measure"], "accuracy");
  ASSERT_EQ(run["parts"].size(), 3u);
  EXPECT_EQ(run["parts"][0]["what"], "forward");
  EXPECT_EQ(run["parts"][1]["ms"], 0.375);
  EXPECT_EQ(run["parts"][2]["what"], "all else");
  EXPECT_EQ(run["parts"][2]["ms"], 3 - 1.5 - 0.375) << "the parts add up to the step";
}

TEST(Report, NothingInALogEndsTheScript) {
  const TempFolder folder;
  const std::string page = report_page({{.title = "</script>", .log = write(folder, "log", kRun + steps(1, 2))}});
  EXPECT_EQ(page.find("</script>"), page.rfind("</script>"));
  EXPECT_EQ(page.find("src="), std::string::npos) << "something is loaded";
  EXPECT_EQ(page.find("href"), std::string::npos);
}

TEST(Report, ManyStepsArePointsOfNeighbours) {
  const TempFolder folder;
  const auto runs = runs_on(report_page({{.title = "long", .log = write(folder, "log", kRun + steps(1, 1201))}}));
  const auto& points = runs[0]["steps"];
  ASSERT_EQ(points["step"].size(), 401u);  // of three each
  EXPECT_EQ(points["loss"][0], 2);
  EXPECT_EQ(points["ms"][1], 5);
  EXPECT_EQ(points["step"][400], 1201);
  EXPECT_EQ(points["bytes"][400], 1201 * 1202);
}

TEST(Report, WhatWasNotCountedOrIsNoNumberIsLeftOut) {
  const TempFolder folder;
  const std::string log =
      write(folder, "log",
            std::string(kRun) + R"({"step":1,"loss":null,"step_ms":2,"bytes_sent_sum":null})" + "\n" +
                R"({"step":2,"loss":"much","step_ms":[],"bytes_sent_sum":3})" + "\n" + R"({"eval":{"metrics":{}}})" +
                "\n" + R"({"plan":{"buckets":[{}]}})" + "\n" + R"({"step":3,"gradients":{"a":1}})" + "\n" +
                R"({"step":4,"gradients":[3,{"counts":3},{"counts":["x"],"lowest":"y"}]})" + "\n" +
                R"({"ledger":{"parameters":[{"parameter":"w","sent":null},3]}})" + "\n");
  const auto run = runs_on(report_page({{.title = "odd", .log = log}}))[0];
  EXPECT_EQ(run["steps"]["loss"], nlohmann::json({nullptr, nullptr, nullptr, nullptr}));
  EXPECT_EQ(run["steps"]["bytes"], nlohmann::json({nullptr, nullptr, nullptr, nullptr}));
  EXPECT_EQ(run["gradients"].dump(), R"([{"parameters":[["",0.0,0.0,[0.0]]],"step":4.0}])");
  EXPECT_EQ(run["buckets"].size(), 1u);
  EXPECT_EQ(run["ledger"]["rows"], nlohmann::json({{"w", nullptr, nullptr, nullptr}}));
}

/// One step in four waits, and each of the others hardly: a step takes their mean.
TEST(Report, AStepIsTheMeanOfItsRound) {
  const TempFolder folder;
  std::string text = R"({"run":{"model":"lenet","exchange_every":4}})"
                     "\n";
  for (int i = 1; i <= 30; ++i)
    text += concat(R"({"step":)", i, R"(,"loss":1,"step_ms":)", i % 4 == 0 ? 41 : 1, R"(,"exposed_ms":)",
                   i % 4 == 0 ? 40 : 0, "}\n");
  const std::string log = write(folder, "log", text);
  const auto run_there = runs_on(report_page({{.title = "rounds", .log = log}}))[0];
  EXPECT_EQ(run_there["step_ms"][0], 11);
  EXPECT_EQ(run_there["parts"][0]["ms"], 10);
  EXPECT_NEAR(run_there["parts"][1]["ms"].get<double>(), 1, 1e-12) << "the parts add up, though most steps do not wait";
  const Result explained = run("laconic explain " + log);
  EXPECT_TRUE(has(explained.out, "A step takes 11 ms (11 … 11), the mean of 4 from exchange to exchange."))
      << explained.out;
  EXPECT_TRUE(has(explained.out, "10.00")) << explained.out;
}

TEST(Report, NamesTheWorkerThatHoldsAllUp) {
  const TempFolder folder;
  const std::string ranks =
      R"({"ranks":{"last_step":4,"steps":99,"compute_ms":[41,412,40],"data_ms":[0,0,0],"exposed_ms":[370,1,371],)"
      R"("sending_ms":[9,9,9],"bytes_sent":[1000,1000,1000]}})"
      "\n";
  const std::string log = write(folder, "log", kRun + steps(1, 4) + ranks),
                    even = write(folder, "even", kRun + steps(1, 4));
  const std::string sentence = "Worker 1 computes 412 ms a step where the others take 40.0: it holds all up.";
  EXPECT_EQ(runs_on(report_page({{.title = "a", .log = log}}))[0]["straggler"], sentence);
  EXPECT_EQ(runs_on(report_page({{.title = "a", .log = even}}))[0]["straggler"], "");
  const Result explained = run("laconic explain " + log);
  EXPECT_TRUE(has(explained.out, "\n" + sentence + "\n")) << explained.out << explained.err;
}

/// The exchange of the first of the two steps that are shown begins late, and the next one not before they end.
TEST(Report, ATimelineHasTwoWholeStepsWhereThereAreTwo) {
  const TempFolder folder;
  const std::string log = write(folder, "log", kRun + steps(1, 4));
  const auto timeline_of = [&](int whole, int exchange) {
    const auto named = [](int thread, const char* name) {
      return nlohmann::json{
          {"ph", "M"}, {"name", "thread_name"}, {"pid", 0}, {"tid", thread}, {"args", {{"name", name}}}};
    };
    const auto span = [](int thread, const char* name, const char* category, int begin, int length) {
      return nlohmann::json{{"ph", "X"},     {"name", name}, {"cat", category}, {"pid", 0},
                            {"tid", thread}, {"ts", begin},  {"dur", length}};
    };
    nlohmann::json events = {named(1, "compute"), named(2, "communication"),
                             span(2, "w", "communication", exchange, 10)};
    for (int step = 0; step <= whole; ++step) events.push_back(span(1, "conv1", "forward", 1000 * step, 500));
    const std::string trace = write(folder, "trace", nlohmann::json{{"traceEvents", events}}.dump());
    return runs_on(report_page({{.title = "late", .log = log, .trace = trace}}))[0]["timeline"];
  };
  for (const auto& [whole, first] : {std::pair{1, 0}, {2, 0}, {3, 1}, {4, 2}, {6, 2}}) {
    const auto timeline = timeline_of(whole, 1000 * first + 600);
    EXPECT_EQ(timeline["end"], whole == 1 ? 1 : 2) << whole;
    EXPECT_EQ(timeline["rows"].size(), 2u) << whole;
  }
}

TEST(Report, AProgramAndTheToolMakeTheSamePage) {
  const TempFolder folder;
  const std::string at = folder.path() + "/";
  const Result trained =
      run("mnist --data synthetic:400,100 --workers 2 --batch 10 --epochs 1 --quiet --seed 3 --log " + at +
          "lenet.jsonl --trace " + at + "trace --trace-steps 3:5 --report " + at + "one.html");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Result made = run("laconic report lenet=" + at + "lenet.jsonl --trace " + at + "trace -o " + at + "two.html");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "report: " + at + "two.html\n");
  EXPECT_EQ(file_text(at + "one.html"), file_text(at + "two.html"));
  const auto run_there = runs_on(file_text(at + "one.html"))[0];
  EXPECT_EQ(run_there["last_step"], 20);
  const auto& timeline = run_there["timeline"];
  ASSERT_GE(timeline["rows"].size(), 4u) << "two threads of two ranks";
  EXPECT_GT(timeline["end"], 0);
  ASSERT_FALSE(timeline["arrows"].empty());
  for (const auto& arrow : timeline["arrows"])
    for (const auto& point : arrow) EXPECT_LT(point[0], timeline["rows"].size());
}

TEST(Report, WithoutALogAProgramKeepsNoneButThePage) {
  const TempFolder folder;
  const Result r =
      run("mnist --data synthetic:100,20 --batch 10 --steps 3 --report page.html", "cd " + folder.path() + ";");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "report: page.html\n")) << r.out;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(runs_on(file_text(folder / "page.html"))[0]["last_step"], 3);
}

TEST(Report, APageIsLeftOutOrHasNoTimelineWhereThereIsNothingToShow) {
  const TempFolder dir;
  const std::string train = "mnist --data synthetic:64,16 --batch 16 --threads 1 --report " + (dir / "r.html");
  const Result none = run(train + " --epochs 0");
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_TRUE(has(none.out, "report: none, for no step was made")) << none.out;
  EXPECT_FALSE(std::filesystem::exists(dir / "r.html"));
  const Result short_trace = run(train + " --steps 1 --trace " + (dir / "t.json"));
  EXPECT_EQ(short_trace.exit_code, 0) << short_trace.err;
  EXPECT_TRUE(has(short_trace.out, "r.html, without a timeline, for the trace has no whole step")) << short_trace.out;
  EXPECT_TRUE(std::filesystem::exists(dir / "r.html"));
}

TEST(Report, CompareShowsTheFirstRunOfEachSet) {
  const TempFolder folder;
  const Result r = run(
      "laconic compare mnist --data synthetic:100,20 --workers 2 --batch 10 --steps 4 --repeat 2 --no-bound --quiet "
      "--vs \"dense: \" --vs \"16 bits: --codec bf16\" --report " +
      (folder / "page.html"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto runs = runs_on(file_text(folder / "page.html"));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["title"], "dense");
  EXPECT_EQ(runs[1]["title"], "16 bits");
  EXPECT_EQ(runs[1]["seeds"], 2);
  EXPECT_EQ(runs[1]["ratio"].size(), 3u) << "the table's";
  EXPECT_TRUE(has(runs[1]["command"].get<std::string>(), "--seed 0"));
}

TEST(Report, SeedsAreAMeanBetweenTheLowestAndTheHighest) {
  const TempFolder folder;
  const auto log = [&](const std::string& name, double error, int last) {
    return write(folder, name,
                 kRun + steps(1, last) +
                     concat(R"({"eval":{"epoch":1,"loss":)", error / 5, R"(,"top1_error":)", error, "}}\n"));
  };
  const auto run = runs_on(report_page({{.title = "three",
                                         .log = log("a", 10, 4),
                                         .seeds = {log("b", 40, 4), log("c", 25, 4)},
                                         .step_ms = Median{7, 6, 8},
                                         .ratio = Median{0.5, 0.25, 1}}}))[0];
  EXPECT_EQ(run["evals"]["value"], nlohmann::json({75}));
  EXPECT_EQ(run["evals"]["low"], nlohmann::json({60}));
  EXPECT_EQ(run["evals"]["high"], nlohmann::json({90}));
  EXPECT_EQ(run["evals"]["loss"], nlohmann::json({5}));
  EXPECT_EQ(run["evals"]["loss_low"], nlohmann::json({2}));
  EXPECT_EQ(run["evals"]["loss_high"], nlohmann::json({8}));
  EXPECT_EQ(run["seeds"], 3);
  EXPECT_EQ(run["step_ms"], nlohmann::json({7, 6, 8}));
  EXPECT_EQ(run["ratio"], nlohmann::json({0.5, 0.25, 1}));
}

TEST(Report, TimesOfStepsThatWereTimedApartTakeThePlaceOfTheirEpochs) {
  const TempFolder folder;
  const auto log = [&](const std::string& name, const std::vector<std::pair<int, double>>& epoch_and_ms) {
    std::string text = kRun;
    int step = 0;
    for (const auto& [epoch, ms] : epoch_and_ms)
      text += nlohmann::json{{"step", ++step}, {"epoch", epoch},       {"loss", step},
                             {"step_ms", ms},  {"exposed_ms", ms / 2}, {"bytes_sent_sum", 1}}
                  .dump() +
              "\n";
    return write(folder, name, text + R"({"eval":{"epoch":2,"loss":1,"top1_error":10}})" + "\n");
  };
  // The first step of an epoch does not count.
  const std::string learned = log("learned", {{1, 1}, {1, 1}, {1, 1}, {2, 1}, {2, 1}}),
                    once = log("once", {{1, 999}, {1, 100}, {1, 300}, {2, 999}, {2, 10}}),
                    again = log("again", {{1, 999}, {1, 200}, {2, 999}, {2, 30}});
  const auto run = runs_on(report_page({{.title = "dense",
                                         .log = learned,
                                         .timed = {once, again},
                                         .further = {{"s to the target", "0.6"}},
                                         .target = 80}}))[0];
  EXPECT_EQ(run["steps"]["ms"], nlohmann::json({200, 200, 200, 20, 20}));
  EXPECT_NEAR(run["evals"]["seconds"][0].get<double>(), 0.64, 1e-12);
  EXPECT_EQ(run["step_ms"][0], 100);
  EXPECT_EQ(run["parts"][0]["ms"], 50);
  EXPECT_EQ(run["timed_apart"], true);
  EXPECT_EQ(run["target"], 80);
  EXPECT_EQ(run["further"]["s to the target"], "0.6");
}

TEST(Report, CompareShowsWhatWasLearnedByTheTimesOfTheNetwork) {
  const TempFolder folder;
  const Result r =
      run("laconic compare mnist --data synthetic:100,20 --workers 2 --batch 10 --epochs 2 --link 10mbit,1ms --learn 3 "
          "--repeat 2 --quiet --json --vs \"dense: \" --vs \"RedSync: --sync redsync --density 0.01\" --report " +
          (folder / "page.html"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto table = nlohmann::json::parse(r.out), runs = runs_on(file_text(folder / "page.html"));
  ASSERT_EQ(runs.size(), 2u);
  for (const auto& run : runs) {
    EXPECT_EQ(run["timed_apart"], true);
    EXPECT_EQ(run["seeds"], 2);
    EXPECT_EQ(run["last_step"], 10) << "of learning";
    EXPECT_EQ(run["target"], table["target"]);
    EXPECT_TRUE(has(run["command"].get<std::string>(), "--link none")) << "it learns without the network";
    ASSERT_EQ(run["evals"]["low"].size(), 2u);
  }
  EXPECT_GT(runs[0]["step_ms"][0], 150) << "a dense step sends 247 kB through 10 Mb/s";
  EXPECT_GT(runs[0]["seconds"], 1.5);
  EXPECT_TRUE(runs[0]["further"].contains("s to the target"));
}

TEST(Report, GradientsAreCountedWhereTheyAreShown) {
  const TempFolder folder;
  const std::string at = folder.path() + "/",
                    train = "mnist --data synthetic:200,20 --workers 2 --batch 10 --steps 10 --quiet --log " + at;
  ASSERT_EQ(run(train + "plain.jsonl").exit_code, 0);
  EXPECT_FALSE(has(file_text(at + "plain.jsonl"), "gradients")) << "nobody has asked for a page";
  ASSERT_EQ(run(train + "log.jsonl --report " + at + "page.html").exit_code, 0);
  const auto gradients = runs_on(file_text(at + "page.html"))[0]["gradients"];
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients[0]["step"], 1);
  EXPECT_EQ(gradients[1]["step"], 10);
  double all = 0;
  for (const auto& parameter : gradients[1]["parameters"]) {
    all += parameter[1].get<double>();
    for (const auto& count : parameter[3]) all += count.get<double>();
  }
  EXPECT_EQ(all, 61'706) << "parameters of LeNet-5";
}

TEST(Report, APageIsThereWhileAProgramTrains) {
  const TempFolder folder;
  const std::string path = folder / "page.html";
  const auto goes_on = [&] { return has(file_text(path), "const live = 0.05;"); };
  {
    Background training("mnist --data synthetic:400,20 --batch 10 --threads 1 --workers 2 --epochs 100000 --quiet --report " +
                        path + " --live 0.05");
    ASSERT_TRUE(eventually([&] { return goes_on() && !runs_on(file_text(path)).empty(); }));
    const auto first = runs_on(file_text(path))[0];
    EXPECT_EQ(first["model"], "lenet");
    EXPECT_TRUE(eventually([&] {
      const auto now = runs_on(file_text(path));
      return !now.empty() && now[0]["last_step"] > first["last_step"];
    }));
    training.signal(SIGTERM);
    EXPECT_EQ(training.wait().exit_code, 143);
  }
  EXPECT_FALSE(goes_on());
  EXPECT_TRUE(has(file_text(path), "const live = 0;"));
  EXPECT_EQ(runs_on(file_text(path)).size(), 1u);
  for (const auto& [options, sentence] :
       {std::pair{"--live", "there is no page to write while it trains (--live): add --report FILE.html"},
        {"--report x --live never", "(--live)"},
        {"--eval-only --init x --report x --live", "--eval-only makes no step"}}) {
    const Result r = run(std::string("mnist ") + options);
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_TRUE(has(r.err, sentence)) << r.err;
  }
}

TEST(Report, WhatMakesNoPageIsOneSentence) {
  const TempFolder folder;
  const std::string log = write(folder, "log", kRun + steps(1, 2)), page = folder / "page.html";
  const auto refused = [&](const std::string& arguments, int code, const std::string& sentence) {
    const Result r = run("laconic report " + arguments + " -o " + page);
    EXPECT_EQ(r.exit_code, code) << arguments;
    EXPECT_TRUE(has(r.err, sentence)) << r.err;
    EXPECT_FALSE(std::filesystem::exists(page)) << arguments;
  };
  refused(folder / "nowhere", 1, "could not be read");
  refused(write(folder, "empty", kRun), 1, "has no steps");
  refused(log + " --trace other=" + log, 2, "there is no log with the title 'other'");
  refused(log + " --trace " + log, 1, "log");
  EXPECT_EQ(run("laconic report " + log + " -o " + (folder / "no/where")).exit_code, 1);
  const Result both = run("mnist --eval-only --init x --report " + page);
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_TRUE(has(both.err, "--eval-only makes no step")) << both.err;
}

}  // namespace
}  // namespace laconic
