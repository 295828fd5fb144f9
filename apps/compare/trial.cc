#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/launch/child_process.h"
#include "apps/compare/table.h"
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

std::optional<double> if_number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

double number(const nlohmann::json& object, const char* key) { return if_number(object, key).value_or(0); }

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

std::string text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
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
    t.model = text(summary, "model");
    t.workers = count<int>(summary, "workers"), t.threads = count<int>(summary, "threads"),
    t.batch = count<int>(summary, "batch"), t.classes = count<int>(summary, "classes");
    t.exchange_every = std::max<std::int64_t>(1, count<std::int64_t>(summary, "exchange_every"));
    if (summary.contains("steps")) t.steps_made = count<std::int64_t>(summary, "steps");
    if (summary.contains("stopped")) t.error = "stopped early: " + text(summary, "stopped");
  }
  for (const auto& line : lines_of(log)) {
    const auto entry = json_or_discarded(line);
    if (!entry.is_object()) continue;
    if (entry.contains("run")) {
      t.build = text(entry["run"], "version") + " " + text(entry["run"], "commit");
    } else if (entry.contains("eval")) {
      const auto& eval = entry["eval"];
      t.evaluations.push_back({number(eval, "seconds"), std::nullopt, if_number(eval, "loss"),
                               if_number(eval, "perplexity"), count<std::int64_t>(eval, "epoch"),
                               count<std::int64_t>(eval, "samples")});
      if (const auto error = if_number(eval, "top1_error")) t.evaluations.back().accuracy = 100 - *error;
    } else if (entry.contains("step")) {
      t.steps.push_back({number(entry, "step_ms"), if_number(entry, "exposed_ms"),
                         entry.contains("bytes_sent") && entry["bytes_sent"].is_null()
                             ? std::nullopt
                             : std::optional(number(entry, "bytes_sent")),
                         number(entry, "bytes_dense"), count<std::int64_t>(entry, "epoch")});
    }
  }
  if (t.error.empty() && t.model.empty())
    t.error = "its output has no line of JSON at the end: is it a training program of laconic?";
  if (t.error.empty() && t.steps.empty()) t.error = "it made no step: give it --steps or --epochs";
  return t;
}

std::vector<Trial::Step> in_rounds(std::vector<Trial::Step> steps, std::int64_t every) {
  if (every == 1) return steps;
  std::vector<Trial::Step> rounds;
  each_round(steps.size(), static_cast<std::size_t>(every), [&](std::size_t begin, std::size_t n) {
    const double share = 1 / static_cast<double>(n);
    Trial::Step& mean =
        rounds.emplace_back(Trial::Step{.exposed_ms = 0.0, .bytes_sent = 0.0, .epoch = steps[begin].epoch});
    const auto add = [share](std::optional<double>& to, const std::optional<double>& value) {
      to = to && value ? std::optional(*to + share * *value) : std::nullopt;
    };
    for (std::size_t i = begin; i < begin + n; ++i) {
      mean.ms += share * steps[i].ms, mean.bytes_dense += share * steps[i].bytes_dense;
      add(mean.exposed_ms, steps[i].exposed_ms), add(mean.bytes_sent, steps[i].bytes_sent);
    }
  });
  return rounds;
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
