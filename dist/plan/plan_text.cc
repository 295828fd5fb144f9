// A plan as a table for people, and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compress/codecs.h"
#include "core/base/json.h"
#include "dist/plan/plan.h"

namespace laconic::dist {
namespace {

using Parameters = std::vector<std::shared_ptr<Parameter>>;
using Json = nlohmann::ordered_json;

/// Reads buckets, each of which begins where the one before has ended.
class PlanReader {
 public:
  PlanReader(const Parameters& parameters, const std::string& where) : parameters_(parameters), where_(where) {}

  template <class... What>
  void check(bool ok, const What&... what) const {
    require<DataError>(ok, "plan: ", where_, ": ", what..., ".");
  }

  Bucket bucket(const Json& entry) {
    constexpr int kMaxPieces = 1 << 16;
    Bucket b = named(entry);
    const ParameterInfo& info = info_of(b.first);
    if (entry.contains("rows"))
      take_rows(b, entry.at("rows"));
    else
      check(next_row_ == 0, "rows ", next_row_, " and on of ", info.name, " are missing"), next_ += b.count;
    b.allreduce = entry.at("algorithm").get<std::string>();
    check(find_allreduce(b.allreduce).has_value(), "there is no algorithm ", entry.at("algorithm").dump());
    b.pieces = entry.contains("pieces") ? whole_in<int>(entry.at("pieces")) : 1;
    check(b.pieces >= 1 && b.pieces <= kMaxPieces, "a bucket has ", b.pieces, " pieces, 1 to ", kMaxPieces,
          " are possible");
    b.copied = entry.value("copied", false);
    check(!b.copied || !b.chunk(), "rows cannot be copied; leave 'copied' out");
    take_choice(b, entry);
    return b;
  }
  void end() const {
    check(next_ == static_cast<int>(parameters_.size()) && next_row_ == 0, "it ends before ",
          next_ < static_cast<int>(parameters_.size()) ? info_of(next_).name : "its end");
  }

 private:
  const ParameterInfo& info_of(int place) const { return parameters_[static_cast<std::size_t>(place)]->info; }
  Bucket named(const Json& entry) const {
    check(next_ < static_cast<int>(parameters_.size()), "there are more buckets than parameters");
    const auto names = entry.at("parameters").get<std::vector<std::string>>();
    const std::size_t left = parameters_.size() - static_cast<std::size_t>(next_);
    check(!names.empty() && names.size() <= left, "a bucket holds ", names.size(), " parameters where ", left,
          " are left");
    for (int i = next_; const std::string& name : names) {
      const std::string& here = info_of(i).name;
      check(name == here, "parameter ", i, " is '", name, "', this model has '", here,
            "' there. Make the plan for this model, in the order that `dry-run` shows");
      ++i;
    }
    return {.first = next_, .count = static_cast<int>(names.size())};
  }
  void take_rows(Bucket& b, const Json& numbers) {
    const ParameterInfo& info = info_of(b.first);
    std::vector<std::int64_t> rows;
    for (const Json& number : numbers) rows.push_back(whole_in<std::int64_t>(number));
    const std::int64_t all = info.shape.rank() > 0 ? info.shape[0] : 1;
    check(b.count == 1 && rows.size() == 2, "rows belong to one parameter, as [first, count]");
    check(rows[0] == next_row_ && rows[1] >= 1 && rows[1] <= all - next_row_, "the rows of ", info.name,
          " go on with [", rows[0], ", ", rows[1], "] where row ", next_row_, " of ", all, " comes next");
    if (rows[1] < all) b.rows = {rows[0], rows[1]};
    next_row_ = rows[0] + rows[1] == all ? 0 : rows[0] + rows[1];
    if (next_row_ == 0) ++next_;
  }
  void take_choice(Bucket& b, const Json& entry) const {
    if (entry.contains("choice"))
      b.choice = {.selector = compress::selector_kind(entry.at("choice").get<std::string>(), where_).name,
                  .quantised = entry.value("quantised", false)};
    if (entry.contains("rank")) {
      const ParameterInfo& info = info_of(b.first);
      const auto rank = whole_in<std::int64_t>(entry.at("rank"));
      const auto [n, m] = matrix_size(info.shape);
      check(b.choice.all() && rank >= 1 && rank <= std::min(n, m), info.name, " is ", n, " x ", m,
            ", and can have no rank of ", rank);
      b.choice.rank = static_cast<int>(rank);
    }
    check(!b.sparse() || (b.count == 1 && !b.copied), "a choice is made of one parameter, and not copied");
  }

  const Parameters& parameters_;
  const std::string& where_;
  int next_ = 0;               // the first parameter that no bucket holds yet
  std::int64_t next_row_ = 0;  // of it
};

}  // namespace

std::string Plan::table() const {
  std::string text =
      fmt::format("{:<52} {:>10} {:>14} {:>15} {:>6}\n", "bucket", "parameters", "bytes", "algorithm", "pieces");
  for (std::size_t at = 0; at < buckets.size();) {
    const Bucket& b = buckets[at];
    const auto is_like_it = [&](const Bucket& c) {
      return c.chunk() && c.first == b.first && c.elements == b.elements && c.allreduce == b.allreduce &&
             c.pieces == b.pieces && c.choice == b.choice;
    };
    std::size_t end = at + 1;
    while (end < buckets.size() && is_like_it(buckets[end])) ++end;
    const Rows last = buckets[end - 1].rows;
    const std::string name =
        end - at == 1 ? b.name
                      : fmt::format("{}[{}:{}], {} at a time", parameter_names[static_cast<std::size_t>(b.first)],
                                    b.rows.first, last.first + last.count, last.count);
    text += fmt::format("{:<52} {:>10} {:>14} {:>15} {:>6}{}{}\n", name, b.count, b.elements * 4,
                        b.sparse() ? to_string(b.choice) : b.allreduce, b.pieces, b.copied ? "  copied" : "",
                        end - at == 1 ? "" : fmt::format("  {} times", end - at));
    at = end;
  }
  if (codec != "none") text += fmt::format("every hop through {}\n", codec);
  return text;
}

std::string Plan::json() const {
  Json list = Json::array();
  for (const Bucket& b : buckets) {
    Json j;
    j["parameters"] =
        std::vector<std::string>(parameter_names.begin() + b.first, parameter_names.begin() + b.first + b.count);
    if (b.chunk()) j["rows"] = {b.rows.first, b.rows.count};
    j["algorithm"] = b.allreduce;
    j["pieces"] = b.pieces;
    if (b.copied) j["copied"] = true;
    if (!b.choice.selector.empty()) j["choice"] = b.choice.selector;
    if (b.choice.quantised) j["quantised"] = true;
    if (b.choice.rank > 0) j["rank"] = b.choice.rank;
    list.push_back(std::move(j));
  }
  Json j{{"format", 1}};
  if (codec != "none") j["codec"] = codec;
  if (!sync.empty()) j["sync"] = sync;
  j["buckets"] = std::move(list);
  return j.dump();
}

Plan Plan::from_json(const std::string& text, const Parameters& parameters, const std::string& where) {
  PlanReader reader(parameters, where);
  Plan plan;
  try {
    Json j = ordered_json_from(text, "plan: " + where);
    if (j.is_object() && j.contains("plan")) j = Json(j["plan"]);  // of --dry-run --json, or of a checkpoint's manifest
    reader.check(j.is_object() && j.contains("format") && j.contains("buckets"),
                 "this is no plan. Let `dry-run` `json` write one");
    reader.check(j.at("format") == 1, "the format is ", j.at("format").dump(), ", this version reads 1");
    reader.check(j.at("buckets").is_array() && j.at("buckets").size() <= 1000000, "'buckets' is no list");
    plan.codec = j.value("codec", "none");
    compress::make_codec(plan.codec, where);
    plan.sync = j.value("sync", "");
    for (const Json& entry : j.at("buckets")) {
      Bucket bucket = reader.bucket(entry);
      reader.check(bucket.rows.first == 0 || plan.buckets.back().choice == bucket.choice, "the rows of ",
                   parameters[static_cast<std::size_t>(bucket.first)]->info.name, " differ in their choice");
      plan.buckets.push_back(std::move(bucket));
    }
    reader.end();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat("plan: ", where, ": not readable (", e.what(), "). Let `dry-run` `json` write one."));
  }
  plan.complete(parameters);
  return plan;
}

}  // namespace laconic::dist
