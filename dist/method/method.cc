#include "dist/method/method.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/parse.h"
#include "dist/method/redsync/method.h"
#include "dist/server/server.h"

namespace laconic::dist {

// Each in its own folder.
std::unique_ptr<Method> make_none();
std::unique_ptr<Method> make_allreduce();
std::unique_ptr<Method> make_power_sgd();
std::unique_ptr<Method> make_sign_sgd();
std::unique_ptr<Method> make_demo();
std::unique_ptr<Method> make_onebit_adam();
std::unique_ptr<Method> make_ef21();
std::unique_ptr<Method> make_ps();
std::unique_ptr<Method> make_layer_drop();
std::unique_ptr<Method> make_slim();
std::unique_ptr<Method> make_rounds();

namespace {

constexpr const char* kOverlaps[] = {"none", "backward", "forward"};

/// Names the first method that has a use for a setting.
std::string advice_on(const std::string& setting) {
  static thread_local bool asking = false;  // whether other methods refuse it, and not why
  if (std::exchange(asking, true)) return {};
  std::string advice = "leave it out";
  for (const std::string& name : methods().names())
    if (!methods().make(name)->refuses(setting)) {
      advice += ", or take `sync` " + name;
      break;
    }
  asking = false;
  return advice;
}

}  // namespace

const char* to_string(Overlap overlap) { return kOverlaps[static_cast<int>(overlap)]; }

Overlap overlap_named(const std::string& name) {
  for (int i = 0; i < static_cast<int>(std::size(kOverlaps)); ++i)
    if (name == kOverlaps[i]) return static_cast<Overlap>(i);
  refuse_unknown("value", name, "`overlap`", {std::begin(kOverlaps), std::end(kOverlaps)});
}

Catalogue<Method>& methods() {
  static Catalogue<Method> all("method", "`sync`", [] {
    std::vector<std::pair<std::string, Catalogue<Method>::Make>> list{{"none", make_none},
                                                                      {"allreduce", make_allreduce}};
    for (const SparseMethod& variant : sparse_methods())
      list.emplace_back(variant.name, [&variant] { return std::make_unique<RedSyncMethod>(variant); });
    list.insert(list.end(), {{"powersgd", make_power_sgd},
                             {"signsgd", make_sign_sgd},
                             {"demo", make_demo},
                             {"onebit-adam", make_onebit_adam},
                             {"ef21", make_ef21},
                             {"ps", make_ps},
                             {"layerdrop", make_layer_drop},
                             {"slimdp", make_slim},
                             {"rounds", make_rounds}});
    return list;
  }());
  return all;
}

std::unique_ptr<Method> method(const std::string& name,
                               const std::vector<std::pair<std::string, std::string>>& settings) {
  std::unique_ptr<Method> made = methods().make(name);
  Settings table;
  made->settings(table);
  for (const auto& [setting, text] : settings) table.set(setting, text);
  return made;
}

std::unique_ptr<ParameterServer> Method::server(ServerSide) const {
  throw Error(concat("method: ", name(), " has no servers."));
}

std::optional<Method::Refusal> Method::refuses(const std::string& setting) const {
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return setting == name; });
  };
  const Traits t = traits();
  const std::string no_use = "`sync` " + name() + " has no use for it";
  if ((!t.joins && is({"allreduce", "overlap", "fusion", "chunk", "plan", "reduce", "audit"})) ||
      (!t.servers && is({"servers"})) || is({"layer-shares"}) || (ledger().columns.empty() && is({"ledger"})))
    return Refusal{no_use, advice_on(setting)};
  if (!t.codec && is({"codec", "codec-feedback"}))
    return Refusal{"`sync` " + name() + " adds up nothing that could pass through it", advice_on(setting)};
  return std::nullopt;
}

std::string Method::fingerprint() const {
  Settings table;
  const_cast<Method*>(this)->settings(table);  // is only read
  return table.fingerprint();
}

void Method::refuse_copies(const TrainingFacts& facts) const {
  if (facts.plan.fusion == PlanOptions::Fusion::copy)
    refuse("every message of `sync` " + name() + " is a copy", "`fusion` copy", "take lazy:SIZE or none");
}

void Method::require_choices(const Plan& plan, const std::function<bool(const Choice&)>& fits) const {
  for (const Bucket& bucket : plan.buckets)
    require<UsageError>(fits(bucket.choice), "the plan chooses from ", bucket.name, " by '", to_string(bucket.choice),
                        "', which is not for `sync` ", name(), " (`plan`): make the plan for this strategy");
}

}  // namespace laconic::dist
