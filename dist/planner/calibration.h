#pragma once
#include <map>
#include <string>
#include <vector>

#include "dist/choice.h"
#include "dist/virtual_time.h"
#include "dist/world.h"

namespace laconic::dist {

/// Seconds that a codec takes for an element, on one thread.
struct CodecSpeed {
  double encode = 0, decode = 0;
};

/// The figures of a group of ranks that planning goes by. Where ranks differ, those of the slowest.
struct Calibration {
  int workers = 1;
  double bytes_per_second = 0;  ///< through a rank's port, while as much comes the other way
  double latency_seconds = 0;   ///< of a small message, from one rank's thread to the next one's, work included
  WorkCosts work{};             ///< without a codec
  std::map<std::string, CodecSpeed> codecs{};  ///< those that were asked for, by name

  /// The network with these figures, with the work of this codec.
  VirtualNetwork network(const std::string& codec) const;
  /// "4 workers, 941 Mbit/s, 112 us a message, adding 9.1 GB/s"
  std::string to_string() const;
};

/// Measures how long this machine takes to add floats and to run codecs, on one thread. Takes about 0.05 s for each.
WorkCosts measure_sums();
CodecSpeed measure_codec(const std::string& name);

/// Seconds that what sends a choice of a parameter takes, on one thread.
struct ResidualSpeed {
  double gather = 0;   ///< for an element: with momentum, into the residual; of low rank with the product for P
  double select = 0;   ///< for an element of the residual that is chosen from, with packing the message; product for Q
  double scatter = 0;  ///< for a chosen element that comes: reading the message, adding it where it belongs; of low
                       ///< rank for an element of the approximation
};
/// Measures it as RedSync does it, at a density of 0.1 %; a choice of low rank as PowerSGD. Takes about 0.1 s.
ResidualSpeed measure_residual(const Choice& choice);

/// Measures between the workers: latency, and rate with both directions busy, on a ring; sums and codecs on all of them
/// at the same time; the cores that are left to messages beside `threads` computing threads of each worker. All workers
/// call it, and all of them return the figures of all.
///   codecs   names, without "none"
///   cost     8 round trips, and 0.5 to 8 MiB a worker until 50 ms are over
std::vector<Calibration> calibrate(const Worker& worker, int threads, const std::vector<std::string>& codecs);

/// One object with these figures, and back.   throws DataError, which names `source`, if the text is none
std::string to_json(const Calibration& figures);
Calibration calibration_from(const std::string& json, const std::string& source);

/// The worst figure of each kind.
Calibration slowest(const std::vector<Calibration>& ranks);

}  // namespace laconic::dist
