#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/training/exchange_settings.h"
#include "dist/predict/calibration.h"
#include "dist/predict/layer_times.h"

namespace laconic {

/// Holds what `laconic simulate` is told of one training.
struct SimulateOptions : ExchangeOptions {
  std::string model = "resnet50", compute = "measured";
  int classes = 0;  ///< 0: the model's own
  int batch = 32, threads = 1;
  std::vector<int> workers{};               ///< each is another training; in Simulations::Set one
  std::optional<double> message_seconds{};  ///< 5 us, or what was measured
  std::optional<double> bytes_added_a_second{};  ///< by a core; nothing: what was measured
  std::optional<bool> shares_cores{};       ///< messages are worked on by the cores that compute
  double straggling = 0;                    ///< mean share by which a worker's step is longer

  /// Holds what was measured before: by a training, from its log (--replay), or by laconic calibrate (--calibration).
  struct Replayed {
    dist::Calibration group;
    dist::LayerTimes times;  ///< without layers: computing was not measured
  };
  std::shared_ptr<const Replayed> replayed{};
  std::map<std::string, dist::LayerShare> layer_shares{};  ///< from the log of a training with layerdrop
  bool own_link = true;  ///< `link` is a cable's; false: what was measured behind all headers

  dist::PlanOptions plan{};
  dist::Overlap overlap = dist::Overlap::forward;
  bool codec_feedback = false;
  std::optional<double> payload_bits{};  ///< of a value that went through the codec; nothing: what the codec expects
  bool in_card = false;                  ///< the codec runs in INCEPTIONN's network card
  std::optional<dist::LinkSpec> rate{};  ///< its rate is the link's

  bool json = false, markdown = false;
  std::string sweep{};              ///< "density=0.001,0.01"
  std::vector<std::string> sets{};  ///< "label: options", of the others
};

/// Holds what `laconic simulate` is asked: sets of options, each at the same values of one setting.
struct Simulations {
  struct Set {
    std::string label{};  ///< of --vs; empty: the only one
    std::vector<SimulateOptions> points{};
  };
  std::string axis = "workers";       ///< the setting
  std::vector<std::string> values{};  ///< of it
  std::vector<Set> sets{};
};

/// Parses a command line. Returns no set if that was all (--help).
/// throws UsageError
Simulations simulate_options(const std::vector<std::string>& arguments);

}  // namespace laconic
