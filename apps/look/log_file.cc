#include "apps/look/log_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"

namespace laconic {
namespace {

/// Calls check(value) if the object has such a field.
template <class F>
void if_there(const nlohmann::json& object, const char* key, F check) {
  if (const auto found = object.find(key); found != object.end()) check(*found);
}

/// Throws nlohmann's exception if a field is there, and of another kind than tools take it for.
void check_fields(const LogFile& log) {
  const auto text = [](const nlohmann::json& value) { value.get_ref<const std::string&>(); };
  const auto number = [](const nlohmann::json& value) { value.get<double>(); };
  const auto whole = [](const nlohmann::json& value) {
    if (whole_in<int>(value) < 0)
      throw nlohmann::json::type_error::create(302, concat("there is ", value.dump()), &value);
  };
  const auto of_step = [](const nlohmann::json& value) { whole_in<std::int64_t>(value); };
  if_there(log.run, "model", text), if_there(log.run, "overlap", text);
  if_there(log.run, "accumulate", whole), if_there(log.run, "exchange_every", of_step);
  if (!log.plan.is_object()) return;
  for (const char* key : {"classes", "batch"}) if_there(log.plan, key, whole);
  if_there(log.plan, "sync", text), if_there(log.plan, "step_ms", number);
  if_there(log.plan, "codec_feedback", [](const nlohmann::json& value) { value.get<bool>(); });
  if_there(log.plan, "settings", [&](const nlohmann::json& settings) {
    for (const auto& [name, setting] : settings.items()) text(setting);
  });
  if_there(log.plan, "buckets", [&](const nlohmann::json& buckets) {
    for (const nlohmann::json& bucket : buckets) {
      bucket.get_ref<const nlohmann::json::object_t&>();
      if_there(bucket, "bucket", text), if_there(bucket, "waits_ms", number);
    }
  });
}

}  // namespace

std::optional<double> number_field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string text_field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

LoggedStep step_from(const nlohmann::json& line) {
  const auto figure = [&](const char* name, double otherwise = std::numeric_limits<double>::quiet_NaN()) {
    return number_field(line, name).value_or(otherwise);
  };
  LoggedStep s{.step = figure("step"),
               .epoch = figure("epoch", 0),
               .loss = figure("loss"),
               .lr = figure("lr"),
               .step_ms = figure("step_ms"),
               .bytes_sent = figure("bytes_sent"),
               .bytes_sent_sum = figure("bytes_sent_sum"),
               .bytes_dense = figure("bytes_dense"),
               .parts = {}};
  for (std::size_t i = 0; i < std::size(kStepParts); ++i) s.parts[i] = figure(kStepParts[i].figure);
  return s;
}

RanksReport ranks_from(const nlohmann::json& line) {
  RanksReport ranks{.step = whole_in<std::int64_t>(line.at("last_step")),
                    .steps = whole_in<std::int64_t>(line.at("steps"))};
  constexpr std::int64_t kMost = 1'000'000'000'000;
  for (const auto& [name, values] : kRanksFigures) {
    line.at(name).get_to(ranks.*values);
    if (ranks.steps < 1 || ranks.steps > kMost || (ranks.*values).size() != ranks.compute_ms.size())
      throw nlohmann::json::other_error::create(501, "its figures by rank do not fit together", &line);
  }
  return ranks;
}

LogFile LogFile::read(const std::string& path) try {
  std::ifstream in(path);
  require<DataError>(in.good(), path, " could not be read: check the path, and name a file that --log has written.");
  LogFile log;
  std::vector<nlohmann::json> ranks;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    nlohmann::json j = json_or_discarded(line);
    if (j.is_discarded() && in.eof()) break;  // cut off while it was written
    require<DataError>(j.is_object(), path, ":", number, " is no line of a log: name a file that --log has written.");
    if (j.contains("run")) log.run = std::move(j["run"]);
    if (j.contains("plan")) log.plan = std::move(j["plan"]);
    if (j.contains("ledger")) log.ledger = std::move(j["ledger"]);
    if (j.contains("ranks")) ranks.push_back(std::move(j["ranks"]));
    if (j.contains("eval") && j["eval"].is_object()) log.evals.emplace_back(log.steps.size(), std::move(j["eval"]));
    if (!j.contains("step")) continue;
    whole_in<std::int64_t>(j["step"]);  // or it is no log
    log.steps.push_back(step_from(j));
    if (j.contains("gradients")) log.gradients.emplace_back(log.steps.back().step, std::move(j["gradients"]));
  }
  require<DataError>(log.run.is_object(), path, " says of no run: name a file that --log has written.");
  check_fields(log);
  for (const nlohmann::json& line : ranks) log.ranks = joined(log.ranks, ranks_from(line));
  return log;
} catch (const nlohmann::json::exception& e) {
  throw DataError(concat(path, " is no log as --log writes it (", e.what(), "): name another, or mend it."));
}

std::span<const LoggedStep> without_warm_up(std::span<const LoggedStep> steps) {
  return steps.subspan(steps.size() > 2 * kWarmUpSteps ? kWarmUpSteps : 0);
}

std::size_t exchange_every(const nlohmann::json& run) {
  const std::int64_t every = run.is_object() ? run.value("exchange_every", std::int64_t{1}) : 1;
  return static_cast<std::size_t>(std::max<std::int64_t>(1, every));
}

std::vector<LoggedStep> rounds_of(std::span<const LoggedStep> steps, std::size_t every) {
  std::vector<LoggedStep> rounds;
  each_round(steps.size(), every, [&](std::size_t begin, std::size_t n) {
    const auto mean = [&](auto figure) { return mean_over(steps.subspan(begin, n), figure); };
    LoggedStep& round = rounds.emplace_back(steps[begin]);
    for (double LoggedStep::*figure : {&LoggedStep::step_ms, &LoggedStep::bytes_sent, &LoggedStep::bytes_dense})
      round.*figure = mean([figure](const LoggedStep& s) { return s.*figure; });
    for (std::size_t i = 0; i < round.parts.size(); ++i)
      round.parts[i] = mean([i](const LoggedStep& s) { return s.parts[i]; });
  });
  return rounds;
}

}  // namespace laconic
