#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dist/plan/choice.h"
#include "dist/engine/virtual_time.h"
#include "dist/world.h"

namespace laconic::dist {

/// Seconds that a codec takes for an element, on one thread.
struct CodecSpeed {
  double encode = 0, decode = 0;
};

/// Seconds that what sends a choice of a parameter takes, on one thread.
struct ResidualSpeed {
  double gather = 0;   ///< for an element: with momentum, into the residual; of low rank with the product for P
  double select = 0;   ///< for an element of the residual that is chosen from, with packing the message; product for Q
  double scatter = 0;  ///< for a chosen element that comes: reading the message, adding it where it belongs; of low
                       ///< rank for an element of the approximation
};

/// The speeds of selection and codecs with this number of values at once.
struct SpeedAtSize {
  std::int64_t elements = 0;
  ResidualSpeed residual{};
  std::map<std::string, CodecSpeed> codecs{};
};

/// The figures of a group of ranks that planning goes by. Where ranks differ, each is the slowest rank's.
struct Calibration {
  int workers = 1;
  double bytes_per_second = 0;          ///< through a rank's port, while as much comes the other way
  double one_way_bytes_per_second = 0;  ///< while nothing does; 0: not measured
  double latency_seconds = 0;           ///< of a small message, from one rank's thread to the next one's, work included
  double threads_per_core = 1;          ///< that compute on a rank's machine, where they are more than its cores
  WorkCosts work{};                     ///< of a thread that has a core to itself, without a codec
  std::map<std::string, CodecSpeed> codecs{};  ///< those that were asked for, by name
  std::vector<SpeedAtSize> sizes{};            ///< those that were asked for

  /// The network with these figures, with the work of this codec. All work takes as much longer as threads share cores.
  VirtualNetwork network(const std::string& codec) const;
  /// "4 workers, 941 Mbit/s, a latency of 112 us, adding 9.1 GB/s"
  std::string to_string() const;
};

/// Measures how long this machine takes to add floats and to run codecs, on one thread. Takes about 0.05 s for each of
/// the usual size.
WorkCosts measure_sums();
CodecSpeed measure_codec(const std::string& name, std::int64_t elements = 1 << 18);
/// Measures residual compression as RedSync does it; a choice of low rank as PowerSGD, in 1,024 rows. Takes about 0.3 s
/// for the usual size, which is more than caches hold.
ResidualSpeed measure_residual(const Choice& choice, double density = Dispatch().density,
                               std::int64_t elements = 1 << 22);

/// What calibrate() is asked for.
struct CalibrationOptions {
  int threads = 1;                     ///< that compute, of each worker
  std::vector<std::string> codecs{};   ///< names; "none" takes no time
  bool one_way = false;                ///< the rate in one direction too
  std::vector<std::int64_t> sizes{};   ///< numbers of values, with which selection and these codecs are timed too
  Choice choice{.selector = "exact"};  ///< by which is selected then
};

/// Measures between the workers: latency, and rate with both directions busy, on a ring; sums and codecs on all of them
/// at the same time; the cores that are left to messages. All workers call it, and all of them return the figures of
/// all.
///   cost     11 round trips, and streams of about 0.4 s in all (stream_rate.h), two of 512 KiB at least: they take
///            longer below 20 Mbit/s. 0.3 s for each direction alone; some 0.1 s for each codec, and size
std::vector<Calibration> calibrate(const Worker& worker, const CalibrationOptions& options);

/// What is the same in all processes of one machine, containers and network namespaces included, and nowhere else.
std::string machine_id();

/// One object with these figures, and back.
/// throws DataError, which names `source`, if the text is none, or a figure is none that a machine can have
std::string to_json(const Calibration& figures);
Calibration calibration_from(const std::string& json, const std::string& source);

/// The worst figure of each kind.
Calibration slowest(const std::vector<Calibration>& ranks);

}  // namespace laconic::dist
