#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/settings.h"
#include "dist/method/method.h"
#include "dist/transport/link.h"

namespace laconic {

inline constexpr auto kNetGroup = "Workers and network",
                      kCodecGroup = "Codecs (--sync allreduce, ps, layerdrop, slimdp, rounds)";

/// Settings of methods, by name: those of one method, or of all of them.
using MethodSettings = std::vector<std::pair<std::string, std::string>>;

/// How workers join what they learn, and over what: what a training and a simulated one are both told.
struct ExchangeOptions {
  std::string sync = "allreduce";                ///< a name of dist::methods()
  MethodSettings method_settings{};              ///< what is to be set of it, and of others
  std::shared_ptr<const dist::Method> method{};  ///< of that name, as it was set
  std::optional<int> servers{};                  ///< dedicated ranks; 0: the workers serve
  std::optional<dist::LinkSpec> link{};          ///< emulated between the workers
  std::map<int, dist::LinkSpec> link_of{};       ///< exceptions, by rank
  int per_host = 0;                              ///< ranks of a host; 0: there are no hosts
  std::optional<dist::LinkSpec> link_between{};  ///< hosts

  /// The network that these make, where there is a link.
  /// throws UsageError for hosts without a link between them, and the reverse
  dist::LinkOptions network() const;
  const dist::LinkSpec& slower_link() const { return link_between ? *link_between : *link; }
  /// Makes the method that `sync` names, as it is to be set.   given : all settings, with those that were given
  /// throws UsageError for one that was given and that this method has no use for
  void make_method(const Settings& given);
};

/// Adds the settings of these, those of all methods included. The targets hold the defaults.
void add_exchange_settings(Settings& settings, ExchangeOptions& options, dist::PlanOptions& plan,
                           dist::Overlap& overlap, bool& codec_feedback);

}  // namespace laconic
