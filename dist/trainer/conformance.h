#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// How check_method() trains.
struct CheckOptions {
  std::optional<double> lr{};  ///< nothing: what fits the method's optimiser, 0.05 with SGD
  std::int64_t steps = 0;      ///< at least 16; 0: 24, or twelve exchanges if there are fewer of them (Traits::every)
};

/// Tries whether a method, as `sync` names it, keeps the promises of dist/method/method.h. It trains a small network
/// with 1, 2, 3 and 5 workers that are threads, which takes about a second. For tests of your methods, and of ours.
///   learning   the loss falls: the last eight steps' mean is below 98 % of the first eight's
///   bits       two runs, and every overlap, give the same ones
///   ranks      all workers hold the same parameters, if its traits say so
///   resume     a training that was stopped ends as one that was not, and goes on with other numbers of workers
///   bytes      it sends what it said that it would, within a quarter, in all steps, or in the second half of them
///   simulation sends as much, if its traits say that it can be simulated, and it has no servers
///   settings   take the values that they show
/// settings : as dist::method() takes them
/// throws Error, or what the training throws, naming the promise that is broken, with figures; UsageError for too few
///        steps
void check_method(const std::string& method, const std::vector<std::pair<std::string, std::string>>& settings = {},
                  const CheckOptions& options = {});

}  // namespace laconic
