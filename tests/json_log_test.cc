#include "apps/look/json_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/look/log_file.h"
#include "apps/training/progress.h"
#include "core/base/error.h"
#include "dist/method/method.h"
#include "dist/trainer/report.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

StepReport step(std::int64_t n) {
  StepReport r;
  r.step = n, r.epoch = 2, r.loss = 0.1f, r.lr = 0.05f, r.step_ms = 81, r.samples_per_s = 12345.678, r.bytes_sent = 10,
  r.bytes_sent_sum = 40, r.bytes_dense = 20, r.data_ms = 0.75, r.forward_ms = 1.23456789, r.backward_ms = 2,
  r.select_ms = 0, r.comm_ms = 0.5, r.exposed_ms = 0.25, r.update_ms = 0.125;
  return r;
}

TEST(JsonLog, AStepIsExactlyThisLine) {
  EXPECT_EQ(to_json(step(7)),
            R"({"step":7,"epoch":2,"loss":0.1,"lr":0.05,"step_ms":81.0,"samples_per_s":12345.7,"bytes_sent":10,)"
            R"("bytes_sent_sum":40,"bytes_dense":20,"data_ms":0.75,"forward_ms":1.23457,"backward_ms":2.0,)"
            R"("select_ms":0.0,"comm_ms":0.5,"exposed_ms":0.25,"update_ms":0.125})");
}

TEST(JsonLog, ServersAndProcessesAddFields) {
  StepReport r = step(7);
  r.bytes_up_sum = 30, r.bytes_down_sum = 10, r.cpu_ms = 12.5, r.server_cpu_ms = 1.25;
  EXPECT_EQ(to_json(r), to_json(step(7)).substr(0, to_json(step(7)).size() - 1) +
                            R"(,"bytes_up_sum":30,"bytes_down_sum":10,"cpu_ms":12.5,"server_cpu_ms":1.25})");
}

TEST(JsonLog, CountsOfGradientsBeginWithTheFirstPowerOfTwoThatOccurs) {
  StepReport r = step(7);
  r.gradients = {{.parameter = "b"}, {.parameter = "a"}};
  auto& counts = r.gradients[0].by_exponent;
  counts[0] = 5, counts[127 - 3] = 2, counts[127 - 1] = 4;
  EXPECT_EQ(to_json(r), to_json(step(7)).substr(0, to_json(step(7)).size() - 1) +
                            R"(,"gradients":[{"parameter":"b","zeros":5,"lowest":-3,"counts":[2,0,4]},)"
                            R"({"parameter":"a","zeros":0,"lowest":-126,"counts":[]}]})");
}

TEST(JsonLog, AnEvaluationIsExactlyThisLine) {
  const EvalReport r{.epoch = 3,
                     .samples = 60,
                     .loss = 0.5,
                     .top1_error = 9.87,
                     .top5_error = 0.2,
                     .seconds = 12.5,
                     .bytes_sent_total = 99};
  EXPECT_EQ(
      to_json(r),
      R"({"eval":{"epoch":3,"samples":60,"loss":0.5,"top1_error":9.87,"top5_error":0.2,"seconds":12.5,"bytes_sent_total":99}})");
}

TEST(JsonLog, PerplexityStandsInThePlaceOfErrors) {
  EvalReport r{
      .epoch = 3, .samples = 60, .loss = 5, .top1_error = 0, .top5_error = {}, .seconds = 12.5, .bytes_sent_total = 99};
  r.perplexity = 148.4131591;
  EXPECT_EQ(
      to_json(r),
      R"({"eval":{"epoch":3,"samples":60,"loss":5.0,"perplexity":148.413,"seconds":12.5,"bytes_sent_total":99}})");
  EXPECT_EQ(
      to_json(r, "test"),
      R"({"test":{"epoch":3,"samples":60,"loss":5.0,"perplexity":148.413,"seconds":12.5,"bytes_sent_total":99}})");
  RunSummary summary;
  summary.test = r;
  EXPECT_EQ(nlohmann::json::parse(to_json(RunInfo(), summary))["test"]["perplexity"], 148.413);
}

TEST(JsonLog, MeasuresOfOnesOwnStandInThePlaceOfErrors) {
  EvalReport r{
      .epoch = 3, .samples = 60, .loss = 5, .top1_error = 0, .top5_error = {}, .seconds = 12.5, .bytes_sent_total = 99};
  r.metrics = {{"mean error", 0.0625}, {"largest", 1}};
  EXPECT_EQ(
      to_json(r),
      R"({"eval":{"epoch":3,"samples":60,"loss":5.0,"metrics":{"mean error":0.0625,"largest":1.0},"seconds":12.5,)"
      R"("bytes_sent_total":99}})");
}

TEST(JsonLog, BytesThatAreNotCountedAreNull) {
  StepReport r = step(1);
  r.bytes_counted = false;
  const auto line = nlohmann::json::parse(to_json(r));
  EXPECT_TRUE(line.at("bytes_sent").is_null() && line.at("bytes_sent_sum").is_null());
  EXPECT_EQ(line.at("bytes_dense"), 20);
  RunInfo info;
  info.bytes_counted = false;
  RunSummary summary;
  summary.last_eval = EvalReport{};
  summary.last_eval->bytes_counted = false;
  const auto end = nlohmann::json::parse(to_json(info, summary));
  EXPECT_TRUE(end.at("bytes_sent_total").is_null() && end.at("bytes_network_total").is_null());
  EXPECT_TRUE(end.at("eval").at("bytes_sent_total").is_null());
}

TEST(JsonLog, WhatRanksTakeIsReadBackAsAMeanOverAllSteps) {
  TempFolder dir;
  RanksReport ranks{.step = 101, .steps = 100, .compute_ms = {40, 400}, .data_ms = {0, 0}, .exposed_ms = {370, 1}};
  ranks.sending_ms = ranks.bytes_sent = {0, 0};
  {
    JsonLog log(dir.path() + "/log", false, "{}");
    log.on_step(step(101)), log.on_ranks(ranks);
    ranks.step = 201, ranks.compute_ms[1] = 424;
    log.on_step(step(201)), log.on_ranks(ranks);
  }
  const std::string text = file_text(dir.path() + "/log");
  EXPECT_NE(text.find(R"({"ranks":{"last_step":101,"steps":100,"compute_ms":[40.0,400.0],"data_ms":[0.0,0.0],)"
                      R"("exposed_ms":[370.0,1.0],"sending_ms":[0.0,0.0],"bytes_sent":[0.0,0.0]}})"),
            std::string::npos)
      << text;
  EXPECT_EQ(straggler_in(LogFile::read(dir.path() + "/log").ranks),
            "Worker 1 computes 412 ms a step where the others take 40.0: it holds all up.");
  for (const char* wrong : {"3", "{}", R"({"last_step":1,"steps":0,"compute_ms":[]})",
                            R"({"last_step":1,"steps":9,"compute_ms":[1],"data_ms":[1],"exposed_ms":[1],"sending_ms":[],)"
                            R"("bytes_sent":[1]})"}) {
    const std::string log = text + R"({"ranks":)" + wrong + "}\n";
    dir.write("wrong", {log.begin(), log.end()});
    EXPECT_THROW(LogFile::read(dir / "wrong"), DataError) << wrong;
  }
}

TEST(JsonLog, MemoryStandsAtTheEndWhereItIsKnown) {
  RunSummary summary;
  EXPECT_FALSE(nlohmann::json::parse(to_json(RunInfo(), summary)).contains("activation_bytes_peak"));
  summary.memory_bytes_peak = 1000;
  summary.activation_bytes_peak = 300;
  const auto end = nlohmann::json::parse(to_json(RunInfo(), summary));
  EXPECT_EQ(end.at("memory_bytes_peak"), 1000);
  EXPECT_EQ(end.at("activation_bytes_peak"), 300);
  TempFolder dir;
  JsonLog(dir.path() + "/log").on_end(summary);
  std::ifstream in(dir.path() + "/log");
  std::string text;
  std::getline(in, text);
  EXPECT_EQ(text, R"({"memory":{"memory_bytes_peak":1000,"activation_bytes_peak":300}})");
}

TEST(JsonLog, ALossKeepsEveryBitOfItsFloat) {
  for (float loss : {2.302585f, 1e-30f, 0.33333334f, 3.4028235e38f, 1.17549435e-38f}) {
    StepReport r = step(1);
    r.loss = loss;
    EXPECT_EQ(static_cast<float>(nlohmann::json::parse(to_json(r))["loss"].get<double>()), loss);
  }
}

TEST(JsonLog, WhatIsNotANumberIsNull) {
  StepReport r = step(1);
  r.loss = NAN;
  EXPECT_TRUE(nlohmann::json::parse(to_json(r))["loss"].is_null());
}

TEST(JsonLog, TheFileHasOneLineEach) {
  TempFolder dir;
  const std::string path = dir.path() + "/log.jsonl";
  const auto lines = [&] {
    std::ifstream in(path);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  };
  {
    JsonLog log(path);
    log.on_step(step(1));
    log.on_eval({});
    EXPECT_EQ(lines().size(), 2u);  // there after an evaluation, with the log still open
    log.on_step(step(2));
    log.on_end({});
    EXPECT_EQ(lines().size(), 3u);
  }
  { JsonLog(path, true).on_step(step(3)); }
  ASSERT_EQ(lines().size(), 4u);
  EXPECT_EQ(lines()[3], to_json(step(3)));
  {
    std::ofstream(path, std::ios::app) << "{\"step\":5,\"lo";  // cut off while being written
    JsonLog resumed(path, true);
    RunInfo info;
    info.first_step = 2;
    resumed.on_start(info);
    EXPECT_EQ(lines().size(), 3u);  // two steps and the evaluation between them; step 3 is done again
    resumed.on_step(step(3));
  }
  ASSERT_EQ(lines().size(), 4u);
  EXPECT_EQ(lines()[3], to_json(step(3)));
  {
    JsonLog evaluation(path, true, "", false);
    RunInfo info;
    info.first_step = 1;
    evaluation.on_start(info);
    evaluation.on_eval({});
  }
  ASSERT_EQ(lines().size(), 5u) << "an evaluation of an older checkpoint makes no step again";
  EXPECT_EQ(lines()[3], to_json(step(3)));
  { JsonLog(path).on_step(step(1)); }
  EXPECT_EQ(lines().size(), 1u);
}

TEST(JsonLog, APathThatCannotBeWrittenIsSaid) {
  EXPECT_THROW(JsonLog("/no/such/place/log.jsonl"), DataError);
  JsonLog full("/dev/full");
  EXPECT_THROW(full.on_eval({}), DataError);
}

TEST(JsonLog, TheSummaryIsOneObject) {
  RunInfo info;
  info.model = "lenet", info.workers = 4;
  RunSummary summary;
  summary.steps = 5, summary.last_eval = EvalReport{.epoch = 1, .loss = 1, .top1_error = 10, .top5_error = {}};
  const auto object = nlohmann::json::parse(to_json(info, summary));
  EXPECT_EQ(object["model"], "lenet");
  EXPECT_EQ(object["workers"], 4);
  EXPECT_EQ(object["steps"], 5);
  EXPECT_EQ(object["eval"]["top1_error"], 10);
  EXPECT_FALSE(object.contains("stopped"));
  EXPECT_FALSE(object.contains("link_late_share"));
  summary.link_late_share = 0.0125;
  EXPECT_EQ(nlohmann::json::parse(to_json(info, summary))["link_late_share"], 0.0125);
}

TEST(JsonLog, ALedgerIsALineAndPartOfTheSummary) {
  const dist::LedgerRow row{.parameter = "fc1.weight",
                            .choice = "trimmed",
                            .elements = 1000,
                            .exchanges = 7,
                            .measured = 2,
                            .sent = 1,
                            .bytes = 336,
                            .energy_sent = 0.25,
                            .energy_held = 0.75,
                            .union_density = 0.004,
                            .oldest = 6};
  const dist::LedgerForm form = dist::method("redsync")->ledger();
  const auto line = nlohmann::json::parse(to_json(LedgerReport{.step = 7, .form = form, .rows = {row}}));
  EXPECT_FALSE(line.contains("step"));  // it is no step
  EXPECT_EQ(line["ledger"]["step"], 7);
  EXPECT_EQ(line["ledger"]["parameters"][0]["parameter"], "fc1.weight");
  EXPECT_EQ(line["ledger"]["parameters"][0]["union_density"], 0.004);
  RunSummary summary;
  EXPECT_FALSE(nlohmann::json::parse(to_json(RunInfo{}, summary)).contains("ledger"));
  summary.ledger = {row}, summary.ledger_form = form;
  EXPECT_EQ(nlohmann::json::parse(to_json(RunInfo{}, summary))["ledger"][0]["oldest"], 6);
  EXPECT_NE(ledger_table(form, summary.ledger).find("fc1.weight"), std::string::npos);
  EXPECT_NE(ledger_table(form, summary.ledger).find("336 B"), std::string::npos) << ledger_table(form, summary.ledger);
}

}  // namespace
}  // namespace laconic
