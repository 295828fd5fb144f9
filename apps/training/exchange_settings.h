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

/// Where settings of the exchange are kept. They hold the defaults.
struct ExchangeTargets {
  std::string& sync;  ///< a name of dist::methods()
  MethodSettings& method_settings;
  dist::PlanOptions& plan;
  dist::Overlap& overlap;
  bool& codec_feedback;
  std::optional<int>& servers;  ///< dedicated ranks; 0: the workers serve
  std::optional<dist::LinkSpec>& link;
  std::map<int, dist::LinkSpec>& link_of;       ///< exceptions, by rank
  int& per_host;                                ///< ranks of a host; 0: there are no hosts
  std::optional<dist::LinkSpec>& link_between;  ///< hosts
};

/// Adds how workers join what they learn, and over what: what a training and a simulated one can both be told, the
/// settings of all methods included.
void add_exchange_settings(Settings& settings, const ExchangeTargets& targets);

/// The network that these make.   link : there is one
/// throws UsageError for hosts without a link between them, and the reverse; for exceptions from no link
dist::LinkOptions link_options(const dist::LinkSpec& link, const std::map<int, dist::LinkSpec>& link_of, int per_host,
                               const std::optional<dist::LinkSpec>& link_between);

/// Makes the method that `sync` names, as it is to be set.   given : all settings, with those that were given
/// throws UsageError for one that was given and that this method has no use for
std::shared_ptr<const dist::Method> make_method(const Settings& given, const std::string& sync,
                                                const MethodSettings& method_settings);

}  // namespace laconic
