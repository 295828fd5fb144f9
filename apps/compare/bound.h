#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "dist/predict/layer_times.h"
#include "dist/predict/replay.h"
#include "dist/transport/link.h"

namespace laconic {

/// How gradients travel.
struct ExchangeFacts {
  int workers = 1;
  std::optional<dist::LinkSpec> link{};  ///< the slowest of all workers
  dist::Overlap overlap = dist::Overlap::forward;
  int accumulate = 1;  ///< micro-batches of a step
};
/// Reads it from what --dry-run --json of an app prints.
///   rate   the workers' link where none is emulated
ExchangeFacts exchange_of(const nlohmann::json& described, const std::optional<dist::LinkSpec>& rate);

/// The schedule's bound of a training step (dist::replay). The layers' times are scaled so that a step without
/// exchange takes `compute_seconds`: measured with all workers at work, which the layers were not.
///   plan   JSON as --dry-run --json of an app prints it: what travels, and by what plan
/// Nothing if the link is not known, or for a way of exchanging that has no replay. throws DataError if the plan cannot
/// be read or is for other layers
std::optional<dist::Replay> bound_of(const dist::LayerTimes& times, const std::string& plan,
                                     const ExchangeFacts& exchange, double compute_seconds);

}  // namespace laconic
