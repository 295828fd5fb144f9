#include "dist/predict/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace laconic::dist {

// They are sent as JSON.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CodecSpeed, encode, decode)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkCosts, per_added_byte, per_encoded_element, per_decoded_element, per_message,
                                   per_byte, taken_from_computing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResidualSpeed, gather, select, scatter)
void to_json(nlohmann::json& j, const SpeedAtSize& s) {
  j = {{"elements", s.elements}, {"residual", s.residual}, {"codecs", s.codecs}};
}
void from_json(const nlohmann::json& j, SpeedAtSize& s) {
  s.elements = whole_in<std::int64_t>(j.at("elements"));
  j.at("residual").get_to(s.residual), j.at("codecs").get_to(s.codecs);
}

void to_json(nlohmann::json& j, const Calibration& c) {
  j = {{"workers", c.workers},
       {"bytes_per_second", c.bytes_per_second},
       {"latency_seconds", c.latency_seconds},
       {"work", c.work},
       {"codecs", c.codecs},
       {"threads_per_core", c.threads_per_core}};
  if (const WorkCosts& w = c.work; w.per_gathered_element > 0)
    j["choosing"] = ResidualSpeed{w.per_gathered_element, w.per_selected_element, w.per_scattered_element};
  if (c.one_way_bytes_per_second > 0) j["one_way_bytes_per_second"] = c.one_way_bytes_per_second;
  if (!c.sizes.empty()) j["sizes"] = c.sizes;
}

void from_json(const nlohmann::json& j, Calibration& c) {
  c.workers = whole_in<int>(j.at("workers")), j.at("bytes_per_second").get_to(c.bytes_per_second);
  j.at("latency_seconds").get_to(c.latency_seconds), j.at("work").get_to(c.work), j.at("codecs").get_to(c.codecs);
  c.one_way_bytes_per_second = j.value("one_way_bytes_per_second", 0.0);
  c.threads_per_core = j.value("threads_per_core", 1.0);
  if (j.contains("choosing")) {
    const auto choosing = j.at("choosing").get<ResidualSpeed>();
    c.work.per_gathered_element = choosing.gather, c.work.per_selected_element = choosing.select;
    c.work.per_scattered_element = choosing.scatter;
  }
  if (j.contains("sizes")) j.at("sizes").get_to(c.sizes);
}

VirtualNetwork Calibration::network(const std::string& codec) const {
  VirtualNetwork n{.ranks = workers, .work = work};
  n.links.all.bits_per_second = std::max<std::int64_t>(1000, std::llround(8 * bytes_per_second));
  n.links.all.latency = LinkDuration(std::llround(1e9 * std::max(0.0, latency_seconds - 2 * work.per_message)));
  if (const auto found = codecs.find(codec); found != codecs.end())
    n.work.per_encoded_element = found->second.encode, n.work.per_decoded_element = found->second.decode;
  n.work.stretch(threads_per_core);
  return n;
}

std::string Calibration::to_string() const {
  if (workers == 1) return "1 worker";
  return fmt::format("{} workers, {:.4g} Mbit/s, a latency of {:.4g} us, adding {:.1f} GB/s", workers,
                     8e-6 * bytes_per_second, 1e6 * latency_seconds, 1e-9 / work.per_added_byte);
}

std::string to_json(const Calibration& figures) { return nlohmann::json(figures).dump(); }

Calibration calibration_from(const std::string& json, const std::string& source) {
  Calibration c;
  try {
    c = json_from(json, source).get<Calibration>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat(source, " has no figures of a group of ranks (", e.what(), ")"));
  }
  const auto require_figure = [&](const char* name, double value, double least, double most) {
    require<DataError>(value >= least && value <= most, source, " says that ", name, " is ", value,
                       ", and it lies between ", least, " and ", most, ". Measure again.");
  };
  constexpr double kMostSeconds = 1e6;
  require_figure("workers", c.workers, 1, 1 << 20);
  require_figure("bytes_per_second", c.bytes_per_second, c.workers > 1 ? 1 : 0, 1e15);
  require_figure("one_way_bytes_per_second", c.one_way_bytes_per_second, 0, 1e15);
  require_figure("latency_seconds", c.latency_seconds, 0, kMostSeconds);
  require_figure("threads_per_core", c.threads_per_core, 1, 1e6);
  require_figure("taken_from_computing", c.work.taken_from_computing, 0, 1);
  for (double WorkCosts::*cost : WorkCosts::all()) require_figure("a cost of work", c.work.*cost, 0, kMostSeconds);
  const auto require_codecs = [&](const std::map<std::string, CodecSpeed>& codecs) {
    for (const auto& [name, speed] : codecs)
      for (const double seconds : {speed.encode, speed.decode}) require_figure(name.c_str(), seconds, 0, kMostSeconds);
  };
  require_codecs(c.codecs);
  for (const SpeedAtSize& size : c.sizes) {
    require_figure("elements", static_cast<double>(size.elements), 1, 1e12);
    for (const double seconds : {size.residual.gather, size.residual.select, size.residual.scatter})
      require_figure("a cost of selection", seconds, 0, kMostSeconds);
    require_codecs(size.codecs);
  }
  return c;
}

namespace {

void slow_down(std::map<std::string, CodecSpeed>& worst, const std::map<std::string, CodecSpeed>& codecs) {
  for (const auto& [name, speed] : codecs) {
    CodecSpeed& w = worst[name];
    w = {std::max(w.encode, speed.encode), std::max(w.decode, speed.decode)};
  }
}

}  // namespace

Calibration slowest(const std::vector<Calibration>& ranks) {
  Calibration worst = ranks.front();
  for (const Calibration& c : ranks) {
    worst.bytes_per_second = std::min(worst.bytes_per_second, c.bytes_per_second);
    worst.one_way_bytes_per_second = std::min(worst.one_way_bytes_per_second, c.one_way_bytes_per_second);
    worst.latency_seconds = std::max(worst.latency_seconds, c.latency_seconds);
    worst.threads_per_core = std::max(worst.threads_per_core, c.threads_per_core);
    for (double WorkCosts::*cost : WorkCosts::all()) worst.work.*cost = std::max(worst.work.*cost, c.work.*cost);
    worst.work.taken_from_computing = std::max(worst.work.taken_from_computing, c.work.taken_from_computing);
    slow_down(worst.codecs, c.codecs);
    for (std::size_t i = 0; i < std::min(worst.sizes.size(), c.sizes.size()); ++i) {
      for (double ResidualSpeed::*cost : {&ResidualSpeed::gather, &ResidualSpeed::select, &ResidualSpeed::scatter})
        worst.sizes[i].residual.*cost = std::max(worst.sizes[i].residual.*cost, c.sizes[i].residual.*cost);
      slow_down(worst.sizes[i].codecs, c.sizes[i].codecs);
    }
  }
  return worst;
}

}  // namespace laconic::dist
