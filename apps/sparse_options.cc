#include <chrono>

#include "apps/option_family.h"

namespace laconic {
namespace {

/// Options of strategies that send little, where --sync names another one, or one that has no use for them.
void refuse_strangers(const CLI::App& app, const std::string& sync) {
  const dist::SparseMethod* method = dist::sparse_method(sync);
  const auto given = [&](const char* name) { return app.get_option(name)->count() > 0; };
  const auto check = [&](const char* name, const std::string& advice, auto has) {
    if (given(name) && (method == nullptr || !has(*method)))
      refuse("--sync " + sync + " has no use for it", name, advice);
  };
  using Method = dist::SparseMethod;
  const std::string advice = "leave it out, or add --sync ";
  const auto chooses = [](const Method& m) { return !m.method.has_value(); };
  const auto has_indices = [](const Method& m) { return m.method != compress::Method::random; };
  check("--density", advice + "redsync", [](const Method& m) { return m.has_density; });
  check("--selector", advice + "redsync", chooses);
  check("--qrgc", advice + "redsync", chooses);
  for (const char* name : {"--qrgc-feedback", "--no-qrgc-feedback"}) {
    check(name, advice + "redsync", chooses);
    if (given(name) && !given("--qrgc"))
      refuse("without one sign at a time nothing is left out", name, "add --qrgc, or leave it out");
  }
  if (given("--qrgc-feedback") && given("--no-qrgc-feedback"))
    refuse("the two contradict each other", "--qrgc-feedback and --no-qrgc-feedback", "leave one of them out");
  if (dist::server_method(sync) == nullptr) check("--ledger", advice + "redsync", [](const Method&) { return true; });
  check("--no-mask", advice + "redsync", [](const Method& m) { return m.corrects; });
  check("--warmup", advice + "redsync", [](const Method&) { return true; });
  check("--index-coding", advice + "redsync", has_indices);
  check("--sparse-reduce", advice + "redsync", has_indices);
  check("--threshold", advice + "strom", [](const Method& m) { return m.method == compress::Method::fixed; });
}

void add_sparse_options(OptionAdder& add, TrainOptions& o) {
  dist::SparseOptions& sparse = o.sparse;
  add.group("Sending little (--sync redsync and its neighbours)");
  add.real_number("--density", "D", sparse.density, 0, 1, "0.001", "share of a tensor's elements that is sent");
  add.choice("--selector", sparse.selector, dist::selector_names(),
             "how they are chosen; paper: by layer; auto: where it\ntakes less time than sending all");
  add.flag("--qrgc", sparse.quantised, "one sign at a time, all by one value (not the output layer)");
  add.flag("--qrgc-feedback", sparse.feedback, "what that value leaves out is kept (the default)");
  add.flag("--no-qrgc-feedback", o.no_feedback, "it is lost, as in the paper");
  add.flag("--no-mask", o.no_mask, "what was sent keeps its momentum");
  add.value("--warmup", "none|dense:E|ramp:E",
            "in the first E epochs dense gradients, or densities\nfrom 25 % down [none; dgc: ramp:4]",
            [&sparse](const std::string& text, const std::string& option) {
              sparse.warmup = dist::Warmup::parse(text, option);
            });
  add.value("--index-coding", "raw|delta", "4 bytes an index, or the gaps between them [raw]",
            [&sparse](const std::string& text, const std::string& option) {
              sparse.delta = one_of(text, option, {"raw", "delta"}) == "delta";
            });
  add.value("--sparse-reduce", "allgather|split",
            "all send all to all; or each adds up a range of the\nelements and returns the largest [allgather]",
            [&sparse](const std::string& text, const std::string& option) {
              sparse.split = one_of(text, option, {"allgather", "split"}) == "split";
            });
  add.value("--threshold", "T", "what strom sends, as T or -T",
            [&sparse](const std::string& text, const std::string& option) {
              sparse.threshold = real(text, option, 0, 1e30, "0.01");
            });
  add.value("--ledger", "[K]",
            "where the bytes of each layer go, measured every K\n"
            "steps [100], as a table at the end and in --log, --json",
            [&o](const std::string& text, const std::string& option) {
              o.ledger = text.empty() ? 100 : whole<std::int64_t>(text, option, 1);
            })
      ->expected(0, 1);
}

void settle_sparse_options(const CLI::App& app, TrainOptions& o) {
  refuse_strangers(app, o.sync);
  const dist::SparseMethod* method = dist::sparse_method(o.sync);
  if (method == nullptr) return;
  o.sparse.masking = !o.no_mask;
  o.sparse.feedback = !o.no_feedback;
  if (o.link) {
    o.sparse.latency_seconds = std::chrono::duration<double>(o.link->latency).count();
    o.sparse.seconds_per_byte = 8.0 / static_cast<double>(o.link->bits_per_second);
  }
  dist::require_sensible(*method, o.sparse, o.optimizer, o.clip.kind == Clip::Kind::value);
  if (o.sparse.split && dist::allreduce_text(o.plan) == "nccl")
    refuse("NCCL carries what all send to all", "--sparse-reduce split with --allreduce nccl",
           "take --sparse-reduce allgather, or --allreduce ring");
}

}  // namespace

OptionFamily sparse_options() {
  OptionFamily family{{}, add_sparse_options, settle_sparse_options};
  for (const dist::SparseMethod& method : dist::sparse_methods()) family.syncs.push_back(method.name);
  return family;
}

}  // namespace laconic
