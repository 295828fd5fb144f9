#include "dist/sync/methods.h"

#include <algorithm>
#include <bit>

namespace laconic::dist {
namespace {

using compress::IndexCoding;
using compress::Method;

constexpr double kSlowSecondsPerByte = 8 / 500e6;                 // below 500 Mbit/s the smallest coding pays
constexpr double kPackedBytes = 13.1 / 8, kRiceBytes = 11.6 / 8;  // of an index at a density of 0.1 %

IndexCoding coding_of(const SparseOptions& o) {
  if (!o.delta) return IndexCoding::raw;
  return o.seconds_per_byte && *o.seconds_per_byte > kSlowSecondsPerByte ? IndexCoding::rice : IndexCoding::packed;
}

Warmup warmup_of(const SparseMethod& m, const SparseOptions& o) {
  return o.warmup ? *o.warmup : Warmup::parse(m.warmup, "--warmup");
}

}  // namespace

const std::vector<SparseMethod>& sparse_methods() {
  static const std::vector<SparseMethod> methods = {
      {"redsync", true, true, std::nullopt, "none"},      {"dgc", true, true, Method::dgc, "ramp:4"},
      {"topk", false, true, Method::exact, "none"},       {"gradient-dropping", false, true, Method::dropping, "none"},
      {"adacomp", false, false, Method::adacomp, "none"}, {"strom", false, false, Method::fixed, "none"},
      {"randomk", false, true, Method::random, "none"},
  };
  return methods;
}

const SparseMethod* sparse_method(const std::string& sync) {
  for (const SparseMethod& method : sparse_methods())
    if (sync == method.name) return &method;
  return nullptr;
}

const std::vector<std::string>& selector_names() {
  static const std::vector<std::string> names = {"paper", "auto", "radix", "trimmed", "search", "sampled", "exact"};
  return names;
}

void require_sensible(const SparseMethod& m, const SparseOptions& o, const std::string& optimizer, bool clips_values) {
  require<UsageError>(!m.corrects || optimizer == "sgd", "--sync ", m.name,
                      " corrects the momentum of sgd on every worker, ", optimizer,
                      " has none of that kind (--optimizer): take --optimizer sgd, or --sync topk");
  require<UsageError>(!clips_values, "--sync ", m.name,
                      " limits the length of each worker's gradient, not its elements (--clip): give --clip norm:X");
  require<UsageError>(o.density > 0 && o.density <= 1, "a share of ", o.density,
                      " of the elements is not to be had (--density): give more than 0 and at most 1, as 0.001");
  require<UsageError>(!(o.quantised && o.selector == "sampled"),
                      "one sign at a time has no threshold to reuse (--qrgc with --selector sampled): take --selector "
                      "search or paper");
  require<UsageError>(m.method != Method::fixed || static_cast<float>(o.threshold) > 0,
                      "strom sends what reaches a threshold (--threshold): give one above 0, as --threshold 0.01");
  require<UsageError>(m.has_density || warmup_of(m, o).kind != Warmup::Kind::ramp, m.name,
                      " has no density that could fall (--warmup ramp): take --warmup dense:E");
  require<UsageError>(!o.split || (m.has_density && m.method != Method::random), m.name, " ",
                      m.has_density ? "sends no indices to split by" : "has no k to share out",
                      " (--sparse-reduce split): take allgather");
  if (!m.method) dispatch_of(m, o);
}

bool fits(const SparseMethod& m, const Choice& choice) {
  if (!choice.method) return !choice.quantised;
  if (m.method) return choice.method == m.method && !choice.quantised;
  switch (*choice.method) {
    case Method::fixed:
    case Method::dropping:
    case Method::dgc:
    case Method::adacomp:
    case Method::random:
      return false;
    case Method::sampled:
      return !choice.quantised;
    default:
      return true;
  }
}

Dispatch dispatch_of(const SparseMethod& m, const SparseOptions& o) {
  Dispatch d{
      .kind = Dispatch::Kind::fixed, .quantised = o.quantised, .density = o.density, .dense_below = o.dense_below};
  if (o.latency_seconds) d.latency_seconds = *o.latency_seconds;
  if (o.seconds_per_byte) d.seconds_per_byte = *o.seconds_per_byte;
  if (m.method) {
    d.method = *m.method;
  } else if (o.selector == "paper") {
    d.kind = Dispatch::Kind::paper;
  } else if (o.selector == "auto") {
    d.kind = Dispatch::Kind::automatic;
  } else {
    const std::vector<std::string>& names = selector_names();
    if (std::find(names.begin(), names.end(), o.selector) == names.end())
      refuse_unknown("value", o.selector, "--selector", names);
    d.method = compress::method_from(o.selector, "--selector");
  }
  return d;
}

RedSync::Options redsync_options(const SparseMethod& m, const SparseOptions& o, std::int64_t steps_per_epoch) {
  RedSync::Options r;
  r.name = m.name;
  r.corrects = m.corrects;
  r.rules.masking = o.masking;
  r.rules.feedback = o.feedback;
  r.rules.coding = coding_of(o);
  r.rules.threshold = static_cast<float>(o.threshold);
  r.split = o.split;
  r.density = [warmup = warmup_of(m, o), density = o.density, per_epoch = std::max<std::int64_t>(1, steps_per_epoch)](
                  std::int64_t step) { return warmup.density_in((step - 1) / per_epoch, density); };
  return r;
}

std::string to_string(const SparseMethod& m, const SparseOptions& o) {
  return concat(m.name, " density=", o.density, " selector=", o.selector, " qrgc=", o.quantised,
                " feedback=", o.feedback, " mask=", o.masking, " warmup=", warmup_of(m, o).to_string(),
                " split=", o.split, " threshold=", o.threshold);
}

std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                     const SparseOptions& o, int workers) {
  const double N = workers, index = !o.delta ? 4 : coding_of(o) == IndexCoding::rice ? kRiceBytes : kPackedBytes;
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    if (!b.sparse()) {
      bytes += 2 * (N - 1) / N * 4 * static_cast<double>(b.elements);
      continue;
    }
    if (b.rows.first > 0) continue;  // a chunk of what was counted
    if (b.choice.method == Method::fixed || b.choice.method == Method::adacomp) return std::nullopt;
    const std::int64_t n = parameters[static_cast<std::size_t>(b.first)]->info.elements;
    const auto k = static_cast<double>(elements_to_send(n, o.density));
    const double own = b.choice.quantised ? index : index + 4;
    if (b.choice.method == Method::random)
      bytes += 2 * (N - 1) / N * 4 * k;
    else if (o.split)
      bytes += (N - 1) / N * k * (own + index + 4) + (N - 1) * 12;
    else
      bytes += (N - 1) * (k * own + 8);
  }
  return bytes;
}

}  // namespace laconic::dist
