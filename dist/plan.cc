#include "dist/plan.h"

#include <fmt/format.h>

#include <iterator>

namespace laconic::dist {
namespace {
constexpr const char* kNames[] = {"ring", "butterfly"};
}

const char* to_string(Algorithm algorithm) { return kNames[static_cast<int>(algorithm)]; }

Algorithm algorithm_named(const std::string& name) {
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i)
    if (name == kNames[i]) return static_cast<Algorithm>(i);
  const std::string near = nearest(name, kNames, std::size(kNames));
  throw UsageError(concat("--allreduce ", name, ": there is no such algorithm. ",
                          near.empty() ? "Use ring or butterfly." : concat("Did you mean ", near, "?")));
}

Plan make_plan(const std::vector<std::shared_ptr<Parameter>>& parameters, const PlanOptions& options) {
  const auto limit = static_cast<std::int64_t>(options.bucket_bytes / sizeof(float));
  Plan plan;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    const ParameterInfo& info = parameters[static_cast<std::size_t>(i)]->info;
    require<Error>(info.index == i && info.offset >= 0, "plan: parameter ", info.name,
                   " is not in the arena that the plan is made for. Make the arena first.");
    Bucket* last = plan.buckets.empty() ? nullptr : &plan.buckets.back();
    if (last != nullptr && info.offset + info.elements - last->offset <= limit) {
      last->elements = info.offset + info.elements - last->offset;
      ++last->count;
    } else {
      plan.buckets.push_back({.first = i, .count = 1, .offset = info.offset, .elements = info.elements, .name = {}});
    }
    plan.bucket_of.push_back(static_cast<int>(plan.buckets.size()) - 1);
  }
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    Bucket& bucket = plan.buckets[b];
    bucket.algorithm = options.algorithm;
    bucket.priority = static_cast<int>(b);  // the arena ends with what the next forward reads first
    bucket.name = parameters[static_cast<std::size_t>(bucket.first)]->info.name;
    if (bucket.count > 1)
      bucket.name += ".." + parameters[static_cast<std::size_t>(bucket.first + bucket.count - 1)]->info.name;
  }
  return plan;
}

std::string Plan::table() const {
  std::string text = fmt::format("{:<52} {:>10} {:>14} {:>10}\n", "bucket", "parameters", "bytes", "algorithm");
  for (const Bucket& b : buckets)
    text += fmt::format("{:<52} {:>10} {:>14} {:>10}\n", b.name, b.count, b.elements * 4, to_string(b.algorithm));
  return text;
}

}  // namespace laconic::dist
