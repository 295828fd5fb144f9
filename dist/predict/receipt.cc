#include "dist/predict/receipt.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace laconic::dist {

std::string Receipt::text() const {
  std::string text = fmt::format("plan: {}\n{:<44} {:>8} {:>9} {:>9} {:>8}  {:<10} {}\n", group, "bucket", "MB",
                      "ready ms", "needed ms", "waits ms", "travels by", "else");
  for (const Line& l : lines)
    text += fmt::format("{:<44} {:>8.3f} {:>9.1f} {:>9.1f} {:>8.1f}  {:<10} {}\n", l.bucket, 1e-6 * l.bytes, l.ready_ms,
                        l.needed_ms, l.waits_ms, l.choice,
                        l.runner_up.empty()  ? ""
                        : l.behind_ms < 0.05 ? l.runner_up + ": as fast"
                                             : fmt::format("{}: {:+.1f} ms a step", l.runner_up, l.behind_ms));
  text += fmt::format("predicted: {:.1f} ms a step, {:.1f} of it computing\n", step_ms, compute_ms);
  for (const Candidate& c : candidates)
    text += fmt::format("  {:>8.1f} ms  {}{}\n", c.step_ms, c.plan, &c == &candidates[0] ? "  (taken)" : "");
  return text + fmt::format("{} plans compared in {:.1f} ms\n", predictions, search_ms);
}

std::string Receipt::json() const {
  nlohmann::ordered_json j{{"group", group},           {"step_ms", step_ms},
                           {"compute_ms", compute_ms}, {"search_ms", search_ms}, {"predictions", predictions},
                           {"sync", sync}};
  for (const auto& [name, text] : settings) j["settings"][name] = text;
  for (const Candidate& c : candidates) j["candidates"].push_back({{"plan", c.plan}, {"step_ms", c.step_ms}});
  for (const Line& l : lines)
    j["buckets"].push_back({{"bucket", l.bucket},
                            {"bytes", l.bytes},
                            {"ready_ms", l.ready_ms},
                            {"needed_ms", l.needed_ms},
                            {"waits_ms", l.waits_ms},
                            {"choice", l.choice},
                            {"runner_up", l.runner_up},
                            {"behind_ms", l.behind_ms}});
  j["plan"] = ordered_json_from(plan, "a plan"), j["codec_feedback"] = codec_feedback;
  j["measured"] = ordered_json_from(to_json(measured), "a calibration");
  j["layers"] = ordered_json_from(to_json(layers), "a calibration");
  return j.dump();
}

}  // namespace laconic::dist
