#include "apps/option_family.h"

namespace laconic {
namespace {

void add_server_options(OptionAdder& add, TrainOptions& o) {
  dist::LayerDropSync::Rules& layers = o.server.layers;
  add.group("Parameter servers (--sync ps, layerdrop, slimdp)");
  add.value("--servers", "K|colocated",
            "further ranks that serve and train nothing, or every\nworker serves a part [1]",
            [&o](const std::string& text, const std::string& option) {
              if (text == "colocated") {
                o.servers = 0;
                return;
              }
              const auto count = number_from<int>(text);
              if (!count || *count < 1)
                refuse("'" + text + "' is no number of servers", option, "give one, as --servers 1, or colocated");
              o.servers = *count;
            });
  add.whole_number<int>(
      "--local-aggregate", "G", o.server.local_aggregate, 1,
      "groups of G workers join their gradients by --allreduce,\nand one of each talks to the servers");
  add.value("--drop-ratio", "R",
            fmt::format("share of the elements that layerdrop keeps at home [{}]", layers.drop_ratio),
            [&layers](const std::string& text, const std::string& option) {
              layers.drop_ratio = real(text, option, 0, 1, "0.9");
              if (layers.drop_ratio >= 1)
                refuse("then nothing would ever be sent", option, "give less than 1, as 0.97");
            });
  add.whole_number<std::int64_t>("--threshold-every", "K", layers.threshold_every, 0,
                                 "steps until layerdrop finds a new threshold; 0: once");
  add.value("--layerdrop-norm", "mean|l1|l2", "what layerdrop compares: mean magnitude, sum, length [mean]",
            [&layers](const std::string& text, const std::string& option) {
              layers.norm = compress::layer_norm_named(text, option);
            });
  add.whole_number<std::int64_t>("--layerdrop-max-age", "A", layers.max_age, 0,
                                 "a layer is sent at least every A steps; 0: no limit");
  add.value("--layerdrop-unit", "module|parameter",
            "what a layer is: weight and bias of one module, or each\nby itself [module]",
            [&o](const std::string& text, const std::string& option) {
              o.server.finest = one_of(text, option, {"module", "parameter"}) == "parameter";
            });
  dist::SlimSync::Rules& slim = o.server.slim;
  add.real_number("--alpha", "A", slim.chosen.alpha, 0, 1, "0.3", "share of the elements that slimdp sends");
  add.real_number("--explore", "E", slim.chosen.explore, 0, 1, "0.15",
                  "of these the ones drawn at random, as a share of all");
  add.whole_number<std::int64_t>("--core-every", "Q", slim.chosen.core_every, 1,
                                 "exchanges until the others are chosen anew");
  add.whole_number<std::int64_t>("--local-steps", "P", slim.local_steps, 1,
                                 "steps of each worker from exchange to exchange");
  add.value("--slim-scope", "layer|model", "choose from each parameter, or from all together [layer]",
            [&slim](const std::string& text, const std::string& option) {
              slim.whole_model = one_of(text, option, {"layer", "model"}) == "model";
            });
  add.value("--explorer-keys", "drawn|sent", "both ends draw the same, or they travel [drawn]",
            [&slim](const std::string& text, const std::string& option) {
              slim.chosen.keys_sent = one_of(text, option, {"drawn", "sent"}) == "sent";
            });
  add.flag("--slim-residual", slim.residual, "what was not sent stays to be chosen from");
}

void settle_server_options(const CLI::App& app, TrainOptions& o) {
  const dist::ServerMethod* method = dist::server_method(o.sync);
  const auto check = [&](const char* name, bool useful, const char* advice) {
    if (app.get_option(name)->count() > 0 && !useful) refuse("--sync " + o.sync + " has no use for it", name, advice);
  };
  for (const char* name : {"--servers", "--local-aggregate"})
    check(name, method != nullptr, "leave it out, or add --sync ps");
  const bool layers = method != nullptr && method->kind == dist::ServerMethod::Kind::layers;
  for (const char* name :
       {"--drop-ratio", "--threshold-every", "--layerdrop-norm", "--layerdrop-max-age", "--layerdrop-unit"})
    check(name, layers, "leave it out, or add --sync layerdrop");
  const bool slim = method != nullptr && method->kind == dist::ServerMethod::Kind::slim;
  for (const char* name :
       {"--alpha", "--explore", "--core-every", "--local-steps", "--slim-scope", "--explorer-keys", "--slim-residual"})
    check(name, slim, "leave it out, or add --sync slimdp");
  if (method == nullptr) return;
  for (const char* name : {"--fusion", "--chunk"})
    check(name, !layers, "leave it out: a layer travels as a whole, or not at all");
  check("--fusion", !slim, "leave it out: what is chosen from is one parameter, or all (--slim-scope)");
  check("--chunk", !slim || !o.server.slim.whole_model, "leave it out: what is chosen from is all (--slim-scope)");
  if (!o.servers) o.servers = 1;
  check("--allreduce", o.server.local_aggregate > 1, "leave it out: there is a server in its place");
  if (o.server.local_aggregate > 1 && dist::allreduce_text(o.plan) == "mpi")
    refuse("MPI's own allreduce joins all ranks, and no group of them", "--local-aggregate", "take --allreduce ring");
  if (o.server.local_aggregate > 1 && dist::allreduce_text(o.plan) == "nccl")
    refuse("NCCL joins all ranks, and no group of them", "--local-aggregate", "take --allreduce ring");
  dist::require_sensible(*method, o.server, o.clip.kind == Clip::Kind::norm);
}

}  // namespace

OptionFamily server_options() {
  OptionFamily family{{}, add_server_options, settle_server_options};
  for (const dist::ServerMethod& method : dist::server_methods()) family.syncs.push_back(method.name);
  return family;
}

}  // namespace laconic
