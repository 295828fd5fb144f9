#include "dist/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "compress/codecs.h"
#include "core/base/parse.h"
#include "core/raw.h"
#include "dist/collective/pieces.h"

namespace laconic::dist {
namespace {

using Parameters = std::vector<std::shared_ptr<Parameter>>;

constexpr const char *kHybrid = "hybrid", *kHybridPrinted = "hybrid-printed";
constexpr std::int64_t kSmallBytes = 64 << 10;  // up to here butterfly's fewer messages win whatever the layer
constexpr std::int64_t kLargeBytes = 4 << 20;   // from here two ranks exchanging large messages lose bandwidth
constexpr std::int64_t kRowMultiple = 16;
constexpr std::int64_t kCrumbs = 16;  // a bucket that is this many times smaller than allowed joins what comes next

template <class T>
auto& at(T& all, int place) {
  return all[static_cast<std::size_t>(place)];
}
const ParameterInfo& info_of(const Parameters& parameters, int place) { return at(parameters, place)->info; }

[[noreturn]] void unknown_value(const std::string& text, const char* option, const std::string& advice) {
  throw UsageError(concat("unknown value '", text, "' (", option, "): ", advice));
}

/// Whether HybridAR would send this bucket by butterfly: small, or a convolution's. A fused bucket is what its largest
/// parameter is.
bool short_window(const Bucket& bucket, const Parameters& parameters) {
  const std::int64_t bytes = bucket.elements * 4;
  if (bytes <= kSmallBytes) return true;
  if (bytes >= kLargeBytes || bucket.chunk()) return false;
  const ParameterInfo* largest = &info_of(parameters, bucket.first);
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
    if (info_of(parameters, i).elements > largest->elements) largest = &info_of(parameters, i);
  return largest->role == Role::conv || largest->role == Role::norm || largest->role == Role::bias;
}

/// "layer1.0.conv1.weight" and "layer1.0.conv1.bias": named alike up to the last point.
bool same_module(const std::string& a, const std::string& b) {
  const auto module = [](const std::string& name) { return name.substr(0, name.rfind('.') + 1); };
  return module(a) == module(b);
}

std::string choose(const Bucket& bucket, const Parameters& parameters, const PlanOptions& options) {
  const bool printed = options.allreduce == kHybridPrinted;
  if (!printed && options.allreduce != kHybrid) return options.allreduce;
  return short_window(bucket, parameters) != printed ? "butterfly" : "ring";
}

std::int64_t wire_elements(const Bucket& bucket, const Parameters& parameters) {
  if (!bucket.copied) return bucket.elements;
  std::int64_t n = 0;
  for (int i = bucket.first; i < bucket.first + bucket.count; ++i) n += info_of(parameters, i).elements;
  return n;
}

/// The place in the arena of what a bucket covers: a chunk's rows, else from its first parameter to its last.
void locate(Bucket& bucket, const Parameters& parameters) {
  const ParameterInfo& first = info_of(parameters, bucket.first);
  const ParameterInfo& last = info_of(parameters, bucket.first + bucket.count - 1);
  bucket.offset = first.offset;
  bucket.elements = last.offset + last.elements - first.offset;
  bucket.name = first.name;
  if (bucket.count > 1) bucket.name += ".." + last.name;
  if (bucket.chunk()) {
    const std::int64_t row = first.elements / first.shape[0];
    bucket.offset += bucket.rows.first * row;
    bucket.elements = bucket.rows.count * row;
    bucket.name += fmt::format("[{}:{}]", bucket.rows.first, bucket.rows.first + bucket.rows.count);
  }
}

}  // namespace

bool comes_in_rows(const ParameterInfo& info) {
  return info.shape.rank() == 2 &&
         (info.role == Role::linear || info.role == Role::recurrent || info.role == Role::embedding);
}

void set_allreduce(PlanOptions& options, const std::string& text) {
  options.allreduce = text;
  if (text == kHybrid || text == kHybridPrinted || find_allreduce(text)) return;
  std::vector<std::string> forms;
  for (const AllreduceKind& kind : allreduces()) {
    if (kind.least_group > 0 && text.substr(0, text.find(':')) == kind.name)
      unknown_value(text, "`allreduce`", concat("give the size of a group, as ", kind.name, ":2"));
    forms.push_back(kind.form());
  }
  forms.insert(forms.end(), {kHybrid, kHybridPrinted});
  refuse_unknown("value", text, "`allreduce`", forms);
}

void set_fusion(PlanOptions& options, const std::string& text) {
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  options.fusion = kind == "copy" ? PlanOptions::Fusion::copy : PlanOptions::Fusion::lazy;
  options.fusion_asked = true;
  if (text == "none") {
    options.bucket_bytes = 0;
    return;
  }
  const std::size_t size = colon == std::string::npos ? 0 : size_from(text.substr(colon + 1));
  if ((kind != "copy" && kind != "lazy") || size == 0)
    unknown_value(text, "`fusion`", "give none, lazy:SIZE or copy:SIZE, as lazy:1MiB or copy:25MB");
  options.bucket_bytes = size;
}

void set_chunk(PlanOptions& options, const std::string& text) {
  const std::size_t size = text == "none" ? 0 : size_from(text);
  if (size == 0 && text != "none") unknown_value(text, "`chunk`", "give none or a size, as 4MiB");
  options.chunk_bytes = size;
  options.chunk_sparse = true;
}

void set_codec(PlanOptions& options, const std::string& text) {
  compress::make_codec(text, "`codec`");
  options.codec = text;
}

std::string to_string(const PlanOptions& o) {
  std::string text = o.allreduce;
  if (o.fusion == PlanOptions::Fusion::module)
    text += ", by modules";
  else if (o.bucket_bytes == 0)
    text += ", no fusion";
  else
    text += concat(", ", o.fusion == PlanOptions::Fusion::copy ? "copy:" : "lazy:", size_text(o.bucket_bytes));
  text += o.chunk_bytes == 0 ? ", no chunks" : concat(", chunks of ", size_text(o.chunk_bytes));
  return o.codec == "none" ? text : concat(text, ", codec ", o.codec);
}

Plan make_plan(const Parameters& parameters, const PlanOptions& options, int workers) {
  const auto limit = static_cast<std::int64_t>(options.bucket_bytes / sizeof(float));
  const auto chunk_limit = static_cast<std::int64_t>(options.chunk_bytes / sizeof(float));
  const bool recurrent =
      std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return p->info.role == Role::recurrent; });
  Plan plan;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    const ParameterInfo& info = info_of(parameters, i);
    const Choice choice = choice_of(info, recurrent, options.sparse, workers);
    require<Error>(info.index == i && info.offset >= 0, "plan: parameter ", info.name,
                   " is not in the arena that the plan is made for. Make the arena first.");
    const bool whole = !choice.all() && !options.chunk_sparse;
    const bool has_rows = comes_in_rows(info) || (options.chunk_convolutions && info.role == Role::conv);
    if (!whole && chunk_limit > 0 && has_rows && info.elements > chunk_limit) {
      const std::int64_t all = info.shape[0], row = info.elements / all;
      const std::int64_t rows = std::max(kRowMultiple, chunk_limit / row / kRowMultiple * kRowMultiple);
      if (rows < all) {
        for (std::int64_t first = 0; first < all; first += rows)
          plan.buckets.push_back(
              {.first = i, .count = 1, .rows = {first, std::min(rows, all - first)}, .choice = choice});
        continue;
      }
    }
    if (!choice.all()) {
      plan.buckets.push_back({.first = i, .count = 1, .choice = choice});
      continue;
    }
    const bool alone = plan.buckets.empty() || plan.buckets.back().chunk() || plan.buckets.back().sparse();
    Bucket* last = alone ? nullptr : &plan.buckets.back();
    const std::int64_t from = last == nullptr ? 0 : info_of(parameters, last->first).offset;
    const bool fits = options.fusion == PlanOptions::Fusion::module
                          ? last != nullptr && same_module(info_of(parameters, last->first).name, info.name)
                          : info.offset + info.elements - from <= limit;
    // A few bytes before a large parameter, as its bias, are not worth messages of their own.
    const bool crumbs = options.fusion == PlanOptions::Fusion::lazy && info.offset - from <= limit / kCrumbs;
    if (last != nullptr && (fits || crumbs))
      ++last->count;
    else
      plan.buckets.push_back({.first = i, .count = 1});
  }
  plan.complete(parameters);
  for (Bucket& bucket : plan.buckets) {
    bucket.copied = options.fusion == PlanOptions::Fusion::copy && bucket.count > 1;
    bucket.allreduce = choose(bucket, parameters, options);
    bucket.pieces = pieces_of(static_cast<std::size_t>(wire_elements(bucket, parameters)) * sizeof(float), workers);
  }
  plan.codec = options.codec;
  return plan;
}

/// The arena ends with what the next forward reads first, so the last bucket is the most urgent; but a weight that
/// comes in chunks needs its first rows first, and before them its bias, which lies before the weight.
void Plan::complete(const Parameters& parameters) {
  for (Bucket& bucket : buckets) locate(bucket, parameters);
  for (const auto& p : parameters) parameter_names.push_back(p->info.name);
  bucket_of.assign(parameters.size(), -1);
  int priority = static_cast<int>(buckets.size());
  for (int b = priority; b-- > 0;)
    for (int i = 0; i < at(buckets, b).count; ++i) at(bucket_of, at(buckets, b).first + i) = b;
  for (int b = priority; b-- > 0;) {
    const Bucket& last = at(buckets, b);
    const int from = last.chunk() ? at(bucket_of, last.first) : b;
    const bool bias = last.chunk() && from > 0 && info_of(parameters, last.first - 1).role == Role::bias &&
                      !at(buckets, from - 1).chunk();
    if (bias) at(buckets, from - 1).priority = --priority;
    for (int c = from; c <= b; ++c) at(buckets, c).priority = --priority;
    b = bias ? from - 1 : from;
  }
}

Held held_by(const Bucket& bucket, const ParameterInfo& info) {
  if (!bucket.chunk()) return {info.name, info.shape, info.offset, info.elements};
  return {bucket.name, {bucket.rows.count, info.elements / info.shape[0]}, bucket.offset, bucket.elements};
}

std::int64_t Plan::chunk_rows(int place) const { return at(buckets, at(bucket_of, place)).rows.count; }

bool Plan::sparse() const {
  return std::any_of(buckets.begin(), buckets.end(), [](const Bucket& b) { return b.sparse(); });
}

const Bucket* largest_sparse(const Plan& plan) {
  const Bucket* largest = nullptr;
  for (const Bucket& b : plan.buckets)
    if (b.sparse() && (largest == nullptr || b.elements > largest->elements)) largest = &b;
  return largest;
}

bool Plan::has(Carrier carrier) const {
  return std::any_of(buckets.begin(), buckets.end(), [&](const Bucket& b) { return b.carrier() == carrier; });
}

std::int64_t Plan::copied_bytes(const Parameters& parameters) const {
  std::int64_t bytes = 0;
  for (const Bucket& b : buckets)
    if (b.copied) bytes += wire_elements(b, parameters) * 4;
  return bytes;
}

void clear_padding(const Tensor& state, std::span<const std::shared_ptr<Parameter>> neighbours) {
  for (std::size_t i = 0; i + 1 < neighbours.size(); ++i) {
    const ParameterInfo &here = neighbours[i]->info, &next = neighbours[i + 1]->info;
    const std::int64_t end = here.offset + here.elements;
    if (next.offset > end) raw::fill(state.range(end, next.offset - end), 0.0f);
  }
}

}  // namespace laconic::dist
