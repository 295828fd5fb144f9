#include "apps/look/json_log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/common/machine.h"
#include "apps/common/version.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parse.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

/// Six significant digits say all that a clock can; sums of them stay readable.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) ? std::round(value * scale) / scale : value;
}

/// A float written with the digits it has, not those of its double.
double shortest(double value) {
  const float single = static_cast<float>(value);
  if (!std::isfinite(single) || static_cast<double>(single) != value) return value;
  return std::stod(number_text(single));
}

constexpr const char* kKinds[] = {"run", "step", "eval", "test", "ledger", "memory", "plan", "ranks"};

bool is_line_of_log(const nlohmann::json& line) {
  return line.is_object() &&
         std::any_of(std::begin(kKinds), std::end(kKinds), [&](auto k) { return line.contains(k); });
}

/// Whether it may be a line that was cut off while it was written.
bool begins_line_of_log(const std::string& text) {
  return std::any_of(std::begin(kKinds), std::end(kKinds), [&](const char* kind) {
    const std::string beginning = concat("{\"", kind, "\":");
    return text.starts_with(beginning) || beginning.starts_with(text);
  });
}

Json counted(std::int64_t bytes, bool they_are) { return they_are ? Json(bytes) : Json(); }

Json object(const EvalReport& r) {
  Json eval = {{"epoch", r.epoch}, {"samples", r.samples}, {"loss", shortest(r.loss)}};
  if (r.perplexity)
    eval["perplexity"] = rounded(*r.perplexity);
  else if (!r.metrics.empty())
    for (const auto& [name, value] : r.metrics) eval["metrics"][name] = rounded(value);
  else
    eval["top1_error"] = shortest(rounded(r.top1_error));
  if (r.top5_error) eval["top5_error"] = shortest(rounded(*r.top5_error));
  if (r.drift) eval["drift"] = rounded(*r.drift);
  eval["seconds"] = rounded(r.seconds);
  eval["bytes_sent_total"] = counted(r.bytes_sent_total, r.bytes_counted);
  return eval;
}

/// Zeros, and the counts of the exponents from the first (`lowest`) to the last that occur.
Json object(const GradientCounts& g) {
  std::size_t first = 1, end = g.by_exponent.size();
  while (end > first && g.by_exponent[end - 1] == 0) --end;
  while (first < end && g.by_exponent[first] == 0) ++first;
  return {{"parameter", g.parameter},
          {"zeros", g.by_exponent[0]},
          {"lowest", static_cast<int>(first) - 127},
          {"counts", std::vector(g.by_exponent.begin() + static_cast<std::ptrdiff_t>(first),
                                 g.by_exponent.begin() + static_cast<std::ptrdiff_t>(end))}};
}

Json array(const dist::LedgerForm& form, const std::vector<dist::LedgerRow>& rows) {
  Json list = Json::array();
  for (const dist::LedgerRow& r : rows) {
    Json row = {{"parameter", r.parameter}, {"choice", r.choice}, {"elements", r.elements}};
    for (const dist::LedgerColumn& column : form.columns)
      if (const double value = column.value(r); column.unit == dist::LedgerColumn::Unit::count && !std::isnan(value))
        row[column.key] = std::llround(value);
      else if (!std::isnan(value))
        row[column.key] = rounded(value);
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace

std::string to_json(const StepReport& r) {
  Json step{{"step", r.step},
            {"epoch", r.epoch},
            {"loss", shortest(r.loss)},
            {"lr", shortest(r.lr)},
            {"step_ms", rounded(r.step_ms)},
            {"samples_per_s", rounded(r.samples_per_s)},
            {"bytes_sent", counted(r.bytes_sent, r.bytes_counted)},
            {"bytes_sent_sum", counted(r.bytes_sent_sum, r.bytes_counted)},
            {"bytes_dense", r.bytes_dense},
            {"data_ms", rounded(r.data_ms)},
            {"forward_ms", rounded(r.forward_ms)},
            {"backward_ms", rounded(r.backward_ms)},
            {"select_ms", rounded(r.select_ms)},
            {"comm_ms", rounded(r.comm_ms)},
            {"exposed_ms", rounded(r.exposed_ms)},
            {"update_ms", rounded(r.update_ms)}};
  if (r.bytes_up_sum) step["bytes_up_sum"] = *r.bytes_up_sum;
  if (r.bytes_down_sum) step["bytes_down_sum"] = *r.bytes_down_sum;
  if (r.cpu_ms) step["cpu_ms"] = rounded(*r.cpu_ms);
  if (r.server_cpu_ms) step["server_cpu_ms"] = rounded(*r.server_cpu_ms);
  for (const GradientCounts& g : r.gradients) step["gradients"].push_back(object(g));
  return step.dump();
}

std::string to_json(const EvalReport& r, const char* kind) { return Json{{kind, object(r)}}.dump(); }

std::string to_json(const LedgerReport& r) {
  return Json{{"ledger", {{"step", r.step}, {"parameters", array(r.form, r.rows)}}}}.dump();
}

std::string to_json(const RanksReport& r) {
  Json ranks = {{"last_step", r.step}, {"steps", r.steps}};
  for (const RanksFigure& figure : kRanksFigures)
    for (const double value : r.*figure.values) ranks[figure.name].push_back(rounded(value));
  return Json{{"ranks", std::move(ranks)}}.dump();
}

std::string to_json(const RunInfo& info, const RunSummary& s) {
  Json all = {{"model", info.model},
              {"data", info.data},
              {"parameters", info.parameters},
              {"classes", info.classes},
              {"strategy", info.strategy},
              {"transport", info.transport},
              {"device", info.device},
              {"workers", info.workers},
              {"threads", info.threads},
              {"batch", info.batch},
              {"steps", s.steps},
              {"exchange_every", info.exchange_every},
              {"seconds", rounded(s.seconds)},
              {"samples_per_s", rounded(s.samples_per_s)},
              {"exposed_share", rounded(s.exposed_share)},
              {"data_share", rounded(s.data_share)},
              {"bytes_sent_total", counted(s.bytes_sent_total, info.bytes_counted)},
              {"bytes_dense_total", s.bytes_dense_total},
              {"bytes_network_total", counted(s.bytes_network_total, info.bytes_counted)},
              {"buffer_bytes_peak", s.buffer_bytes_peak}};
  if (s.memory_bytes_peak) all["memory_bytes_peak"] = *s.memory_bytes_peak;
  if (s.activation_bytes_peak) all["activation_bytes_peak"] = *s.activation_bytes_peak;
  if (s.bytes_up_total) all["bytes_up_total"] = *s.bytes_up_total;
  if (s.bytes_down_total) all["bytes_down_total"] = *s.bytes_down_total;
  if (s.link_late_share) all["link_late_share"] = rounded(*s.link_late_share);
  if (s.last_eval) all["eval"] = object(*s.last_eval);
  if (s.test) all["test"] = object(*s.test);
  if (!s.ledger.empty()) all["ledger"] = array(s.ledger_form, s.ledger);
  if (!s.straggler.empty()) all["straggler"] = s.straggler;
  if (!s.stopped.empty()) all["stopped"] = s.stopped;
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const Described& t, const RunInfo& info) {
  Json all = {{"travels", t.travels},         {"computing", t.computing},
              {"workers", info.workers},      {"servers", t.servers},
              {"seed", t.seed},               {"total_steps", info.total_steps},
              {"overlap", info.overlap},      {"accumulate", info.accumulate},
              {"device", t.device},           {"precision", t.precision}};
  if (t.link)
    all["link"] = {{"bits_per_second", t.link->bits_per_second}, {"latency_ns", t.link->latency.count()}};
  const std::string others = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  return concat("{\"plan\": ", t.plan, ", ", others.substr(1));
}

std::string run_to_json(const std::string& model, std::uint64_t seed, const std::string& command) {
  const Json run = {{"version", version()}, {"commit", commit()}, {"machine", machine()},
                    {"model", model},       {"seed", seed},       {"command", command}};
  return run.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string run_to_json(const std::string& run, const RunInfo& info) {
  Json all = ordered_json_from(run, "a run");
  all["accumulate"] = info.accumulate, all["exchange_every"] = info.exchange_every, all["overlap"] = info.overlap;
  all["total_steps"] = info.total_steps;
  return all.dump();
}

JsonLog::JsonLog(std::string path, bool append, std::string run, bool trains)
    : path_(std::move(path)),
      append_(append),
      trains_(trains),
      run_(std::move(run)),
      file_(std::fopen(path_.c_str(), "ae")) {
  require<DataError>(file_ != nullptr, path_, ": the log could not be opened: ", std::strerror(errno),
                     ". Check the path of --log.");
}

void JsonLog::on_start(const RunInfo& info) {
  shorten(info);
  if (!run_.empty()) run_ = run_to_json(run_, info);
  if (!info.receipt) return;
  Json plan = ordered_json_from(info.receipt->json(), "a plan");
  plan["batch"] = info.batch, plan["classes"] = info.classes;
  line(Json{{"plan", std::move(plan)}}.dump());
}

/// Takes away the lines of steps that will be made again, and a last line that was cut off.
void JsonLog::shorten(const RunInfo& info) {
  std::error_code error;
  if (!append_ || !std::filesystem::is_regular_file(path_, error)) return;
  std::ifstream in(path_);
  std::uint64_t keep = 0;
  for (std::string text; std::getline(in, text); keep += text.size() + 1) {
    const nlohmann::json object = json_or_discarded(text);
    require<UsageError>(keep > 0 || is_line_of_log(object) || (in.eof() && begins_line_of_log(text)), path_,
                        " is no log of a training, and would be shortened (--log): name another file");
    if (object.is_discarded() || in.eof()) break;  // cut off in the middle of a line
    const bool is_step = trains_ && object.contains("step") && object["step"].is_number_integer();
    if (is_step && object["step"] > info.first_step) break;
  }
  in.close();
  std::filesystem::resize_file(path_, keep, error);
  require<DataError>(!error, path_, ": the log could not be shortened: ", error.message(),
                     ". Check the path of --log.");
}

void JsonLog::line(std::string text) {
  if (!std::exchange(append_, true)) {  // now that there is something to write
    std::error_code no_matter;          // a device or a pipe has no end
    if (std::filesystem::is_regular_file(path_, no_matter)) std::filesystem::resize_file(path_, 0, no_matter);
  }
  if (!run_.empty()) text = concat("{\"run\":", std::exchange(run_, ""), "}\n", text);
  text += '\n';
  const bool ok = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0;
  require<DataError>(ok, path_, ": the log could not be written: ", std::strerror(errno),
                     ". Free some space, or leave --log out.");
}

void JsonLog::on_step(const StepReport& report) { line(to_json(report)); }
void JsonLog::on_eval(const EvalReport& report) { line(to_json(report)); }
void JsonLog::on_test(const EvalReport& report) { line(to_json(report, "test")); }
void JsonLog::on_ranks(const RanksReport& report) { line(to_json(report)); }
void JsonLog::on_ledger(const LedgerReport& report) { line(to_json(report)); }
void JsonLog::on_end(const RunSummary& s) {
  if (s.memory_bytes_peak && s.activation_bytes_peak)
    line(Json{
        {"memory", {{"memory_bytes_peak", *s.memory_bytes_peak}, {"activation_bytes_peak", *s.activation_bytes_peak}}}}
             .dump());
}

}  // namespace laconic
