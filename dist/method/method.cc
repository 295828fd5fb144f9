#include "dist/method/method.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/parse.h"
#include "core/raw.h"
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
      list.emplace_back(variant.name, [&variant] { return std::make_unique<SparseExchange>(variant); });
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
  if (!t.joins && is({"allreduce", "overlap", "fusion", "chunk", "plan", "reduce", "audit"}))
    return Refusal{no_use, "leave it out, or take `sync` allreduce"};
  if (!t.servers && is({"servers"})) return Refusal{no_use, "leave it out, or take `sync` ps"};
  if (is({"layer-shares"})) return Refusal{no_use, "leave it out, or take `sync` layerdrop"};
  if (ledger().columns.empty() && is({"ledger"})) return Refusal{no_use, "leave it out, or take `sync` redsync"};
  if (!t.codec && is({"codec", "codec-feedback"}))
    return Refusal{"`sync` " + name() + " adds up nothing that could pass through it",
                   "leave it out, or take `sync` allreduce"};
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

void JointModel::show() {
  const double whole = raw::sum_of_squares(arena_.gradients());
  double apart = 0;
  in_blocks([&](const Tensor& mine, const Tensor& joint, const Tensor& room) {
    room.copy_from(joint);
    raw::axpy(room, -1.0f, mine);
    apart += raw::sum_of_squares(room);
  });
  drift_ = whole > 0 ? std::sqrt(apart / whole) : 0;
  swap();
}

void JointModel::swap() {
  in_blocks([](const Tensor& mine, const Tensor& joint, const Tensor& room) {
    room.copy_from(mine);
    mine.copy_from(joint);
    joint.copy_from(room);
  });
  arena_.changed();
}

template <class F>
void JointModel::in_blocks(F f) const {
  const std::int64_t n = arena_.size(), most = std::min(n, kBlock);
  const Tensor room = Tensor::empty({most}, DType::f32, arena_.values().device());
  for (std::int64_t first = 0; first < n; first += most) {
    const std::int64_t count = std::min(most, n - first);
    f(arena_.values().range(first, count), arena_.gradients().range(first, count), room.range(0, count));
  }
}

}  // namespace laconic::dist
