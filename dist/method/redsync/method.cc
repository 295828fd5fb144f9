#include "dist/method/redsync/method.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/parse.h"
#include "dist/method/redsync/redsync.h"

namespace laconic::dist {
namespace {

using compress::IndexCoding;

constexpr double kSlowSecondsPerByte = 8 / 500e6;                 // below 500 Mbit/s the smallest coding pays
constexpr double kPackedBytes = 13.1 / 8, kRiceBytes = 11.6 / 8;  // of an index at a density of 0.1 %

bool by_setting(const SparseMethod& m) { return *m.selector == '\0'; }

/// The traits of the selector by which a method chooses; the ordinary ones where the setting says by which.
compress::SelectorTraits traits_of(const SparseMethod& m) {
  return by_setting(m) ? compress::SelectorTraits() : compress::selector_kind(m.selector).traits;
}

/// Says whether the setting `selector` may name it. A fixed magnitude needs a threshold, which only strom is given.
bool may_be_named(const compress::SelectorTraits& traits) { return traits.by_name && !traits.one_magnitude; }

Warmup warmup_of(const SparseMethod& m, const SparseOptions& o) {
  return o.warmup ? *o.warmup : Warmup::parse(m.warmup, "`warmup`");
}

}  // namespace

IndexCoding SparseOptions::coding(const TrainingFacts& f) const {
  if (!delta) return IndexCoding::raw;
  return f.seconds_per_byte.value_or(0) > kSlowSecondsPerByte ? IndexCoding::rice : IndexCoding::packed;
}

// AdaComp's paper also rounds the values that it sends; here they are sent as they are.
const std::vector<SparseMethod>& sparse_methods() {
  static const std::vector<SparseMethod> methods = {
      {"redsync", "large elements of a residual (Fang et al. 2018)", "", true, true, "none"},
      {"dgc", "redsync, threshold estimated (Lin et al. 2018)", "dgc", true, true, "ramp:4"},
      {"topk", "redsync by exact top k, momentum not corrected", "exact", false, true, "none"},
      {"gradient-dropping", "topk, threshold estimated (Aji, Heafield 2017)", "dropping", false, true, "none"},
      {"adacomp", "topk, by the largest of a bin (Chen et al. 2018)", "adacomp", false, false, "none"},
      {"strom", "a threshold for what passes it (Strom 2015)", "fixed", false, false, "none"},
      {"randomk", "elements that all ranks draw alike", "random", false, true, "none"},
  };
  return methods;
}

const SparseMethod* sparse_method(const std::string& sync) {
  for (const SparseMethod& method : sparse_methods())
    if (sync == method.name) return &method;
  return nullptr;
}

std::vector<std::string> selector_names() {
  std::vector<std::string> names{"paper", "auto"};
  for (const compress::SelectorKind& kind : compress::selectors())
    if (may_be_named(kind.traits)) names.push_back(kind.name);
  return names;
}

bool fits(const SparseMethod& m, const Choice& choice) {
  if (choice.rank > 0) return false;
  if (choice.selector.empty()) return !choice.quantised;
  if (!by_setting(m)) return choice.selector == m.selector && !choice.quantised;
  const compress::SelectorTraits& traits = compress::selector_kind(choice.selector).traits;
  return may_be_named(traits) && (traits.one_value || !choice.quantised);
}

Dispatch dispatch_of(const SparseMethod& m, const SparseOptions& o, const TrainingFacts& f) {
  Dispatch d{
      .kind = Dispatch::Kind::fixed, .quantised = o.quantised, .density = o.density, .dense_below = o.dense_below};
  if (f.latency_seconds) d.latency_seconds = *f.latency_seconds;
  if (f.seconds_per_byte) d.seconds_per_byte = *f.seconds_per_byte;
  if (f.residual_seconds) d.residual_seconds = *f.residual_seconds;
  if (!by_setting(m)) {
    d.selector = m.selector;
  } else if (o.selector == "paper") {
    d.kind = Dispatch::Kind::paper;
  } else if (o.selector == "auto") {
    d.kind = Dispatch::Kind::automatic;
  } else {
    d.selector = one_of(o.selector, "`selector`", selector_names());
  }
  return d;
}

Density density_of(const SparseMethod& m, const SparseOptions& o, std::int64_t steps_per_epoch,
                   std::int64_t steps_ahead) {
  return [warmup = warmup_of(m, o), density = o.density, steps_ahead,
          per_epoch = std::max<std::int64_t>(1, steps_per_epoch)](std::int64_t step) {
    return warmup.density_in((step - 1 + steps_ahead) / per_epoch, density);
  };
}

void RedSyncMethod::settings(Settings& s) {
  SparseOptions& o = options;
  const bool has_indices = !traits_of(variant_).same_everywhere, by_selector = by_setting(variant_);
  s.group("Sending little (`sync` redsync and its neighbours)", Scope::exchange);
  if (variant_.has_density)
    s.real_number("density", "D", o.density, 0, 1, "0.001", "share of a tensor's elements that is sent");
  if (by_selector) {
    s.choice("selector", o.selector, selector_names(),
             "how they are chosen; paper: by layer; auto: where it\ntakes less time than sending all; ef21: exact, if "
             "none\nis named");
    s.flag("qrgc", o.quantised, "one sign at a time, all by one value (not the output layer)");
    s.value("qrgc-feedback", "", "what that value leaves out is kept (the default)",
            [this](const std::string&, const std::string&) { options.feedback = feedback_given_ = true; })
        .takes = Setting::Takes::nothing;
    s.value(
         "no-qrgc-feedback", "", "it is lost, as in the paper",
         [this](const std::string&, const std::string&) { options.feedback = !(no_feedback_given_ = true); },
         [&o] { return o.feedback ? "0" : "1"; })
        .takes = Setting::Takes::nothing;
  }
  if (variant_.corrects) s.flag("no-mask", o.masking, "what was sent keeps its momentum", false);
  s.value(
      "warmup", "none|dense:E|ramp:E",
      "in the first E epochs dense gradients, or densities\nfrom 25 % down [none; dgc: ramp:4]",
      [&o](const std::string& text, const std::string& where) { o.warmup = Warmup::parse(text, where); },
      [this] { return warmup_of(variant_, options).to_string(); });
  s.value(
      "dense-below", "SIZE", "smaller parameters travel whole [128KiB]",
      [this, &o](const std::string& text, const std::string& where) {
        const std::size_t size = text == "0" ? 0 : size_from(text);
        if (size == 0 && text != "0") refuse("'" + text + "' is no size", where, "give bytes, as 128KiB");
        o.dense_below = static_cast<std::int64_t>(size), dense_below_given_ = true;
      },
      [&o] { return number_text(o.dense_below); });
  if (has_indices)
    s.either("index-coding", o.delta, "raw", "delta", "4 bytes an index, or the gaps between them [raw]").text =
        nullptr;  // changes no bit
  if (traits_of(variant_).one_magnitude)
    s.value(
        "threshold", "T", "what strom sends, as T or -T",
        [&o](const std::string& text, const std::string& where) { o.threshold = real(text, where, 0, 1e30, "0.01"); },
        [&o] { return number_text(o.threshold); });
}

void RedSyncMethod::check(const TrainingFacts& f) const {
  const SparseMethod& m = variant_;
  const SparseOptions& o = options;
  if (feedback_given_ && no_feedback_given_)
    refuse("the two contradict each other", "`qrgc-feedback` and `no-qrgc-feedback`", "leave one of them out");
  if ((feedback_given_ || no_feedback_given_) && !o.quantised)
    refuse("without one sign at a time nothing is left out", feedback_given_ ? "`qrgc-feedback`" : "`no-qrgc-feedback`",
           "add `qrgc`, or leave it out");
  require<UsageError>(!m.corrects || f.optimizer == "sgd", "`sync` ", m.name,
                      " corrects the momentum of sgd on every worker, ", f.optimizer,
                      " has none of that kind (`optimizer`): take `optimizer` sgd, or `sync` topk");
  require<UsageError>(f.dampening == 0, "`sync` ", m.name, " knows no dampening: leave it out");
  require<UsageError>(f.clip_value == 0, "`sync` ", m.name,
                      " limits the length of each worker's gradient, not its elements (`clip`): give `clip` norm:X");
  require<UsageError>(o.density > 0 && o.density <= 1, "a share of ", o.density,
                      " of the elements is not to be had (`density`): give more than 0 and at most 1, as 0.001");
  require<UsageError>(!traits_of(m).one_magnitude || static_cast<float>(o.threshold) > 0,
                      "strom sends what reaches a threshold (`threshold`): give one above 0, as `threshold` 0.01");
  require<UsageError>(m.has_density || warmup_of(m, o).kind != Warmup::Kind::ramp, m.name,
                      " has no density that could fall (`warmup` ramp): take `warmup` dense:E");
  const Dispatch d = dispatch_of(m, o, f);
  if (d.kind == Dispatch::Kind::automatic && dense_below_given_)
    refuse("`selector` auto says which parameters travel whole", "`dense-below`", "leave one of the two out");
  if (!by_setting(m) || d.kind != Dispatch::Kind::fixed) return;
  require<UsageError>(!o.quantised || fits(m, {d.selector, true}), "`selector` ", d.selector,
                      " is not for one value for all of a sign (`qrgc`): take `selector` search or paper");
}

Method::Traits RedSyncMethod::traits() const {
  // Without a density the gradients decide how much travels.
  return {.chooses = true,
          .limits_norm = true,
          .asks_network = by_setting(variant_) && options.selector == "auto",
          .on_ghosts = variant_.has_density,
          .keeps = "residual"};
}

void RedSyncMethod::shape(PlanOptions& plan, const TrainingFacts& facts) const {
  plan.sparse = dispatch_of(variant_, options, facts);
}

std::unique_ptr<Strategy> RedSyncMethod::worker(WorkerSide side) const {
  require_choices(side.plan, [this](const Choice& choice) { return fits(variant_, choice); });
  Density density = density_of(variant_, options, side.facts.steps_per_epoch, side.facts.steps_ahead);
  return std::make_unique<RedSync>(std::move(side), variant_, options, std::move(density));
}

std::string RedSyncMethod::describe(const TrainingFacts&) const {
  if (!variant_.has_density)
    return options.threshold > 0 ? fmt::format("{}, threshold {:g}", variant_.name, options.threshold) : variant_.name;
  return fmt::format("{}, {:g} %{}{}", variant_.name, 100 * options.density,
                     by_setting(variant_) ? " by " + options.selector : "", options.quantised ? ", signs" : "");
}

std::optional<double> RedSyncMethod::expected_bytes(const Plan& plan,
                                                     const std::vector<std::shared_ptr<Parameter>>& parameters,
                                                     const TrainingFacts& facts) const {
  const SparseOptions& o = options;
  const double N = facts.workers, index = !o.delta ? 4 : o.coding(facts) == IndexCoding::rice ? kRiceBytes : kPackedBytes;
  double bytes = 0;
  for (const Bucket& b : plan.buckets) {
    if (!b.sparse()) {
      bytes += 2 * (N - 1) / N * 4 * static_cast<double>(b.elements);
      continue;
    }
    if (b.rows.first > 0) continue;  // a chunk of what was counted
    const compress::SelectorTraits& chosen = compress::selector_kind(b.choice.selector).traits;
    if (!chosen.by_k) return std::nullopt;
    const std::int64_t n = parameters[static_cast<std::size_t>(b.first)]->info.elements;
    const auto k = static_cast<double>(elements_to_send(n, o.density));
    const double own = b.choice.quantised ? index : index + 4;
    if (chosen.same_everywhere)
      bytes += 2 * (N - 1) / N * 4 * k;
    else
      bytes += (N - 1) * (k * own + 8);
  }
  return bytes;
}

}  // namespace laconic::dist
