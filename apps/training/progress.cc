#include "apps/training/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "apps/common/result_table.h"
#include "apps/common/terminal.h"
#include "apps/common/text.h"
#include "core/base/clock.h"
#include "core/base/cores.h"

namespace laconic {
namespace {

constexpr double kRedrawSeconds = 0.1, kPlainSeconds = 10;

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value && *value)
      return std::strstr(value, "UTF-8") || std::strstr(value, "utf8") || std::strstr(value, "utf-8");
  return false;
}

std::string bar(double done, int columns, bool utf8) {
  const int full = std::clamp(static_cast<int>(std::lround(done * columns)), 0, columns);
  std::string text;
  for (int i = 0; i < columns; ++i) text += i < full ? (utf8 ? "━" : "=") : (utf8 ? "─" : "-");
  return text;
}

Quality quality_on(const EvalReport& eval, const std::string& set) {
  if (!eval.metrics.empty()) return {set + " " + eval.metrics[0].first, "", eval.metrics[0].second};
  if (eval.perplexity) return {set + " perplexity", "", *eval.perplexity};
  return {"test accuracy", " %", 100 - eval.top1_error};
}

std::string quality(const EvalReport& eval, const char* set) {
  const Quality q = quality_on(eval, set);
  return q.what + (eval.metrics.empty() ? fmt::format(" {:.2f}{}", q.value, q.unit) : fmt::format(" {:.4g}", q.value));
}

const char* samples_of(const RunInfo& info) { return info.words_per_step > 0 ? "tokens" : info.unit.c_str(); }

}  // namespace

std::string render(const ProgressLine& line, int width, bool with_bar, bool utf8) {
  const int digits = static_cast<int>(fmt::formatted_size("{}", line.epochs));
  const std::string head = fmt::format("epoch {:>{}}/{}", line.epoch, digits, line.epochs);
  std::vector<std::string> figures = {
      fmt::format("{:3.0f} %", std::floor(100 * line.done)), fmt::format("loss {:.3f}", line.loss),
      fmt::format("{}{}{}/s", human_count(line.samples_per_s), line.unit.empty() ? "" : " ", line.unit)};
  if (line.seconds_left > 0) figures.push_back(human_seconds(line.seconds_left) + " left");
  if (line.communicates) {
    if (line.bytes_per_step >= 0) figures.push_back(human_bytes(line.bytes_per_step) + "/step");
    figures.push_back(fmt::format("exposed {:.0f} %", 100 * line.exposed));
  }
  std::string text = head.substr(0, static_cast<std::size_t>(std::max(width, 0)));
  std::string tail;
  int used = static_cast<int>(head.size());
  for (const auto& figure : figures) {
    if (used + 2 + static_cast<int>(figure.size()) > width) break;
    tail += "  " + figure;
    used += 2 + static_cast<int>(figure.size());
  }
  const int columns = std::min(width - used - 1, 32);
  if (with_bar && columns >= 6) text += " " + bar(line.done, columns, utf8);
  return text + tail;
}

Progress::Options Progress::for_stdout() {
  return {.terminal = terminal_columns() > 0,
          .utf8 = utf8_locale(),
          .width = [] { return std::max(terminal_columns(), 1); },
          .seconds = {},
          .limits = cores_of_process().limits()};
}

Progress::Progress(std::ostream& out, Options options) : out_(out), options_(std::move(options)) {
  if (!options_.width) options_.width = [] { return 80; };
  if (!options_.seconds)
    options_.seconds = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
}

Progress::~Progress() {
  if (line_open_) out_ << "\n" << std::flush;
}

void Progress::on_start(const RunInfo& info) {
  info_ = info;
  std::string text = fmt::format("{}: {} parameters, on {} ({} training, ", info.model, info.parameters, info.data,
                                 info.train_samples);
  if (info.validation_samples > 0) text += fmt::format("{} validation, ", info.validation_samples);
  text += fmt::format("{} test {})\n", info.test_samples, samples_of(info_));
  if (!info.data_note.empty()) text += info.data_note + "\n";
  if (info.unseen_words > 0)
    text += fmt::format("{} of validation and test {} not in the training text, and read as <unk>\n",
                        plural(info.unseen_words, "word"), info.unseen_words == 1 ? "is" : "are");
  const int batches = info.words_per_step > 0 ? 1 : info.accumulate;  // a text's streams go on in each
  text += fmt::format("{} ({}), {} each a step{}, {}, {}\n", plural(info.workers, "worker"), info.transport,
                      info.words_per_step > 0 ? fmt::format("{} streams of {} tokens", info.batch, info.words_per_step)
                                              : fmt::format("{} {}", info.batch * batches, info.unit),
                      info.workers > 1 ? fmt::format(" ({} in all)", info.workers * info.batch * batches) : "",
                      info.device != "cpu"      ? "on " + info.device
                      : options_.limits.empty() ? plural(info.threads, "thread") + " each"
                                                : plural(info.threads, "thread") + " each (" + options_.limits + ")",
                      info.strategy);
  if (info.receipt) text += info.receipt->text();
  if (info.first_step > 0) text += fmt::format("going on after step {}\n", info.first_step);
  out_ << (options_.terminal ? broken(text, static_cast<std::size_t>(std::max(options_.width(), 1))) : text)
       << std::flush;
  shown_ = options_.seconds();
}

void Progress::on_step(const StepReport& step) {
  sum_.loss += step.loss, sum_.samples_per_s += step.samples_per_s, sum_.bytes += step.bytes_sent, ++sum_.steps;
  sum_.exposed_ms += step.exposed_ms;
  all_ms_ += step.step_ms, ++all_steps_;
  sum_.busy_ms += step.forward_ms + step.backward_ms + step.select_ms + step.update_ms;
  if (options_.seconds() - shown_ >= (options_.terminal ? kRedrawSeconds : kPlainSeconds)) show(step);
}

void Progress::show(const StepReport& last) {
  const auto n = static_cast<double>(sum_.steps);
  const std::int64_t per_epoch = std::max<std::int64_t>(info_.steps_per_epoch, 1);
  const std::int64_t in_epoch = last.step + info_.steps_ahead - (last.epoch - 1) * per_epoch;
  const double total_ms = sum_.busy_ms + sum_.exposed_ms;
  const ProgressLine line{
      .epoch = last.epoch,
      .epochs = std::max((info_.total_steps + info_.steps_ahead + per_epoch - 1) / per_epoch, last.epoch),
      .done = std::clamp(static_cast<double>(in_epoch) / static_cast<double>(per_epoch), 0.0, 1.0),
      .loss = sum_.loss / n,
      .samples_per_s = sum_.samples_per_s / n,
      .bytes_per_step = info_.bytes_counted ? static_cast<double>(sum_.bytes) / n : -1,
      .exposed = total_ms > 0 ? sum_.exposed_ms / total_ms : 0,
      .unit = info_.words_per_step > 0 ? samples_of(info_) : "",
      .communicates = info_.workers > 1,
      .seconds_left = all_ms_ / static_cast<double>(all_steps_) / 1e3 *
                      static_cast<double>(std::max<std::int64_t>(info_.total_steps - last.step, 0))};
  if (options_.terminal) {
    // One column stays free: a full line would wrap on some terminals.
    out_ << "\r" << render(line, options_.width() - 1, true, options_.utf8) << "\x1b[K" << std::flush;
    line_open_ = true;
  } else {
    out_ << render(line, 200, false, options_.utf8) << "\n" << std::flush;
  }
  shown_ = options_.seconds();
  sum_ = {};
}

void Progress::clear() {
  if (line_open_) out_ << "\r\x1b[K";
  line_open_ = false;
}

void Progress::on_eval(const EvalReport& eval) {
  clear();
  out_ << fmt::format("epoch {:>2}  {}, loss {:.4f}, after {}", eval.epoch, quality(eval, "validation"), eval.loss,
                      human_seconds(eval.seconds));
  if (info_.workers > 1 && info_.bytes_counted)
    out_ << ", " << human_bytes(static_cast<double>(eval.bytes_sent_total)) << " sent";
  out_ << "\n" << std::flush;
}

void Progress::on_test(const EvalReport& eval) {
  clear();
  out_ << fmt::format("{}, loss {:.4f}\n", quality(eval, "test"), eval.loss) << std::flush;
}

Quality quality(const RunSummary& s) {
  return s.test ? quality_on(*s.test, "test") : quality_on(*s.last_eval, "validation");
}

std::string result_line(const RunInfo& info, const RunSummary& summary) {
  std::string text;
  if (summary.seconds == 0 && summary.last_eval) {
    const EvalReport& eval = summary.test ? *summary.test : *summary.last_eval;
    return fmt::format("{}, loss {:.4f}", quality(eval, summary.test ? "test" : "validation"), eval.loss);
  }
  if (summary.test)
    text = quality(*summary.test, "test") + " after ";
  else if (summary.last_eval && summary.stopped.empty())
    text = quality(*summary.last_eval, "validation") + " after ";
  else if (summary.last_eval)  // what came after it was not evaluated
    text = fmt::format("{} after epoch {}; ", quality(*summary.last_eval, "validation"), summary.last_eval->epoch);
  return text + fmt::format("{} steps in {}, {} {}/s", summary.steps, human_seconds(summary.seconds),
                            human_count(summary.samples_per_s), samples_of(info));
}

void Progress::on_end(const RunSummary& summary) {
  clear();
  if (!summary.stopped.empty()) out_ << "stopped: " << summary.stopped << "\n";
  out_ << result_line(info_, summary);
  if (info_.workers > 1)
    out_ << "\n"
         << (info_.bytes_counted ? human_bytes(static_cast<double>(summary.bytes_sent_total)) + " sent by "
                                 : "bytes not counted (NCCL moved them), ")
         << fmt::format("{} workers, {:.0f} % of the time spent waiting for one another", info_.workers,
                        100 * summary.exposed_share);
  if (summary.data_share > 0.1)
    out_ << fmt::format("\n{:.0f} % of the time spent waiting for data: more --data-threads may help",
                        100 * summary.data_share);
  if (!summary.straggler.empty())
    out_ << "\n" << summary.straggler.substr(0, summary.straggler.size() - 1);  // no line here has a full stop
  if (summary.memory_bytes_peak && summary.activation_bytes_peak)
    out_ << fmt::format("\nat most {} of memory in a step{}, {} of it activations{}",
                        human_bytes(static_cast<double>(*summary.memory_bytes_peak)),
                        info_.transport == "mpi" ? " of a process" : "",
                        human_bytes(static_cast<double>(*summary.activation_bytes_peak)),
                        info_.workers > 1 && info_.transport == "threads" ? " of each worker" : "");
  out_ << "\n" << std::flush;
}

namespace {

std::string cell(dist::LedgerColumn::Unit unit, double value) {
  using Unit = dist::LedgerColumn::Unit;
  if (std::isnan(value)) return "";
  switch (unit) {
    case Unit::count:
      return fmt::format("{:.0f}", value);
    case Unit::number:
      return fmt::format("{:.1f}", value);
    case Unit::bytes:
      return human_bytes(value);
    case Unit::share:
      return fmt::format("{:.3f}", 100 * value);
  }
  return "";
}

}  // namespace

std::string ledger_table(const dist::LedgerForm& form, const std::vector<dist::LedgerRow>& rows) {
  ResultTable table(false, "");
  for (const auto& r : rows) {
    Cells row{{"parameter", "", r.parameter}, {"choice", "", r.choice}, {"elements", "", r.elements}};
    for (const auto& column : form.columns)
      if (column.head != nullptr)
        row.emplace_back(column.head, "", column.value(r), cell(column.unit, column.value(r)));
    table.add(std::move(row));
  }
  return table.text() + form.note + "\n";
}

}  // namespace laconic
