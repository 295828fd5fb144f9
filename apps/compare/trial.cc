#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/launch/child_process.h"
#include "apps/compare/table.h"
#include "apps/look/log_file.h"
#include "core/base/json.h"

namespace laconic {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

double number(const nlohmann::json& object, const char* key) { return number_field(object, key).value_or(0); }

/// A number that counts something; 0 where there is none, or none that can be counted.
template <class T>
T count(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  try {
    return found != object.end() ? whole_in<T>(*found) : 0;
  } catch (const nlohmann::json::exception&) {
    return 0;
  }
}

/// What went wrong in one line: our sentence if there is one, else the last words.
std::string error_in(const std::string& err, int exit_code) {
  const LastWords last = last_words(err);
  if (last.is_error) return last.text;
  if (!last.text.empty()) return fmt::format("exit code {}: {}", exit_code, last.text);
  return fmt::format("it ended with exit code {} and said nothing", exit_code);
}

}  // namespace

Trial read_trial(const std::string& log, const std::string& out, const std::string& err, int exit_code) {
  Trial t;
  const bool interrupted = exit_code == 128 + SIGINT || exit_code == 128 + SIGTERM || exit_code == 128 + SIGHUP;
  if (interrupted) t.error = "interrupted";  // its own words are better, if it came to them
  if (exit_code != 0 && !interrupted) {
    t.error = error_in(err, exit_code);
    return t;
  }
  for (const auto& line : lines_of(out)) {
    const auto summary = json_or_discarded(line);
    if (!summary.is_object() || !summary.contains("model")) continue;
    t.model = text_field(summary, "model");
    t.workers = count<int>(summary, "workers"), t.threads = count<int>(summary, "threads"),
    t.batch = count<int>(summary, "batch"), t.classes = count<int>(summary, "classes");
    t.exchange_every = std::max<std::int64_t>(1, count<std::int64_t>(summary, "exchange_every"));
    if (summary.contains("steps")) t.steps_made = count<std::int64_t>(summary, "steps");
    if (summary.contains("stopped")) t.error = "stopped early: " + text_field(summary, "stopped");
  }
  for (const auto& line : lines_of(log)) {
    const auto entry = json_or_discarded(line);
    if (!entry.is_object()) continue;
    if (entry.contains("run")) {
      t.build = text_field(entry["run"], "version") + " " + text_field(entry["run"], "commit");
    } else if (entry.contains("eval")) {
      const auto& eval = entry["eval"];
      t.evaluations.push_back({number(eval, "seconds"), std::nullopt, number_field(eval, "loss"),
                               number_field(eval, "perplexity"), count<std::int64_t>(eval, "epoch"),
                               count<std::int64_t>(eval, "samples")});
      if (const auto error = number_field(eval, "top1_error")) t.evaluations.back().accuracy = 100 - *error;
    } else if (entry.contains("step")) {
      t.steps.push_back(step_from(entry));
    }
  }
  if (t.error.empty() && t.model.empty())
    t.error = "its output has no line of JSON at the end: is it a training program of laconic?";
  if (t.error.empty() && t.steps.empty()) t.error = "it made no step: give it --steps or --epochs";
  return t;
}

std::optional<LastStep> last_step(const std::string& log) {
  constexpr std::streamoff kTail = 4096;
  std::ifstream in(log, std::ios::binary | std::ios::ate);
  in.seekg(std::max<std::streamoff>(0, in.tellg() - kTail));
  std::optional<LastStep> last;
  for (std::string line; std::getline(in, line) && !in.eof();)  // the last line is still written
    if (const auto entry = json_or_discarded(line); entry.is_object() && entry.contains("step"))
      last = {count<long long>(entry, "step"), number(entry, "step_ms")};
  return last;
}

}  // namespace laconic
