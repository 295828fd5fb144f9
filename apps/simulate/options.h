#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/exchange_settings.h"
#include "dist/planner/calibration.h"
#include "dist/planner/layer_times.h"

namespace laconic {

/// Holds what `laconic simulate` is told of one set.
struct SimulateOptions {
  std::string label{};  ///< of --vs; empty: the only one
  std::string model = "resnet50", compute = "measured";
  int classes = 0;  ///< 0: the model's own
  int batch = 32, threads = 1;
  std::vector<int> workers{};
  std::optional<double> message_seconds{};  ///< 5 us, or what was measured
  std::optional<bool> shares_cores{};       ///< messages are worked on by the cores that compute
  double straggling = 0;                    ///< mean share by which a worker's step is longer

  /// Holds what was measured before: by a training, from its log (--replay), or by laconic calibrate (--calibration).
  struct Replayed {
    dist::Calibration group;
    dist::LayerTimes times;  ///< without layers: computing was not measured
  };
  std::shared_ptr<const Replayed> replayed{};
  bool own_link = true;  ///< `link` is a cable's; false: what was measured behind all headers

  std::string sync = "allreduce";
  MethodSettings method_settings{};
  std::shared_ptr<const dist::Method> method{};
  dist::PlanOptions plan{};
  dist::Overlap overlap = dist::Overlap::forward;
  bool codec_feedback = false;
  std::optional<int> servers{};
  std::optional<dist::LinkSpec> link{};
  std::map<int, dist::LinkSpec> link_of{};

  bool json = false, markdown = false;
  std::string svg{};
  std::vector<std::string> sets{};  ///< "label: options", of the others
};

/// Parses a command line. Returns one set for each --vs, or the only one; nothing if that was all (--help).
/// throws UsageError that names options
std::vector<SimulateOptions> simulate_options(const std::vector<std::string>& arguments);

}  // namespace laconic
