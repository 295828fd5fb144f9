#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/layers.h"
#include "dist/replay.h"

namespace laconic {

/// What a worker's link carries in each direction.
struct LinkSpeed {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};
/// "100mbit,1ms[,JITTER]", "119.5MB/s": bits with kbit, mbit, gbit, bytes with kB, MB, GB; latency in us, ms or s.
/// Throws UsageError in the name of `option`.
LinkSpeed link_speed(const std::string& text, const std::string& option);

/// How gradients travel, as an app's command line says it.
struct Exchange {
  int workers = 1;
  std::optional<LinkSpeed> link;  ///< the slowest of all workers
  std::string sync = "allreduce", allreduce = "ring";
  dist::ReplayOptions::Overlap overlap = dist::ReplayOptions::Overlap::forward;
  double bucket_bytes = 1 << 20;  ///< 0: every parameter alone
};
/// Reads --sync, --allreduce, --overlap, --fusion, --link and --link-of; what is not there has the app's default.
Exchange exchange_of(const std::vector<std::string>& words, int workers, const std::optional<LinkSpeed>& rate);

/// The schedule's bound of a training step (dist/replay.h). The layers' times are scaled so that a step without
/// exchange takes `compute_seconds`: measured with all workers at work, which the layers were not. Nothing if the link
/// is not known, or for a way of exchanging that has no replay.
std::optional<dist::Replay> bound_of(const LayerTimes& times, const Exchange& exchange, double compute_seconds);

}  // namespace laconic
