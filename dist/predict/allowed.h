#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/method/method.h"

namespace laconic::dist {

/// A method with what was set of it, by names and texts of its settings.
struct MethodChoice {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  MethodChoice(const std::string& name, Settings of_it)
      : method(dist::method(name, of_it)), settings(std::move(of_it)) {}

  std::shared_ptr<const Method> method;
  Settings settings;
  /// Returns how it would have a model cut into messages, among this number of workers.
  PlanOptions options(int workers) const;
};

/// The things that a plan of the planner's own may do to what is summed. Dense float32 always is allowed.
struct Allowed {
  bool sixteen_bits = false;             ///< every hop in bfloat16
  std::optional<std::string> bounded{};  ///< every hop through INCEPTIONN's codec with this bound: "2^-10", "rel:2^0"
  /// Instead of `sync` allreduce: one that sends a choice of elements (Traits::chooses), or one that sends dense
  /// messages once in a period. Each at most once.
  std::vector<MethodChoice> methods{};

  /// Reads "exact", or several of "16bit", "bounded:2^-E", "bounded:rel:2^E", "sparse[:DENSITY]" (redsync) and
  /// "rounds[:STEPS]" with commas.   throws UsageError
  static Allowed parse(const std::string& text, const std::string& where);
  /// throws UsageError if one of the methods does not go with this training
  void check(const TrainingFacts& facts) const;
  /// Names the codecs that are allowed, "none" first.
  std::vector<std::string> codecs() const;
  /// Null if this method is not allowed, or is allreduce.
  const MethodChoice* find(const std::string& name) const;
};

}  // namespace laconic::dist
