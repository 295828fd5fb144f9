#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/state.h"

namespace laconic {

/// The learning rate over a run, as a factor on --lr. Made from the text of `--schedule`: [warmup:W+]MAIN, for example
/// `warmup:5+cosine` or `warmup:400it+multistep:32000it,48000it,0.1`, with W a number above 0 and MAIN one of
/// schedules():
///
///   const                     1
///   step:EVERY,FACTOR         FACTOR^floor(t / EVERY)
///   multistep:A,B,..,FACTOR   FACTOR^(how many of A < B < .. are <= t)
///   exp:F                     F^(whole epochs so far); exp:Fit: F^t, t in iterations
///   cosine[:LOW]              LOW + (1 - LOW) (1 + cos(pi (t - W) / (T - W))) / 2, T: the end of the epochs, or of
///                             the steps if these are more; LOW: 0 unless given. Changes every iteration; at the start
///                             of each epoch it agrees with PyTorch's closed form
///   plateau:PATIENCE,FACTOR   times FACTOR whenever the metric has not become lower by 1e-4 of itself for more than
///                             PATIENCE epochs in a row (PyTorch's ReduceLROnPlateau)
///
/// t counts from the start of the run, warm-up included, in epochs, or in iterations where a count has the suffix `it`:
/// iterations of the number of workers that the run began with, so that a count means as many samples after a change of
/// it. During the first W the factor is also multiplied by (iteration + 1) / (W in iterations): the last warm-up
/// iteration is the first at the full rate. source: warm-up: Goyal et al. 2017, section 2.2; cosine: Loshchilov &
/// Hutter 2017, eq. 5, without restarts.
class Schedule {
 public:
  /// How long an epoch and the run are, in updates of the workers that there are.
  struct Horizon {
    std::int64_t steps_per_epoch = 1, total_steps = 1;
    double iterations = 1;  ///< iterations that an update counts for: 4 where one worker began, and four go on
    /// Where the run ends after a number of updates, the iteration less the updates made: 0 unless the number of
    /// workers has changed.
    std::int64_t ahead = 0;
  };
  /// A number above 0; with the suffix `it` it counts iterations.
  struct Number {
    double value = 0;
    bool iterations = false;
    double in_steps(const Horizon& h) const {
      return iterations ? value / h.iterations : value * static_cast<double>(h.steps_per_epoch);
    }
  };
  /// What a rule knows at an update. Times are in iterations.
  struct Moment {
    std::int64_t iteration = 0;  ///< from 0
    Horizon horizon{};
    double warmup = 0;
    std::vector<double> counts{};  ///< EVERY; A, B, ..
    Number factor{};               ///< FACTOR or F
    std::int64_t reductions = 0;   ///< reductions by plateau so far
  };
  /// One rule.
  struct Kind {
    std::string name{};               ///< "step"
    std::string form{};               ///< "step:EVERY,FACTOR"; the name if it takes no numbers
    std::string example{};            ///< "step:30,0.1"
    std::size_t least = 0, most = 0;  ///< numbers behind the name, the factor last
    std::function<double(const Moment&)> factor = [](const Moment&) { return 1.0; };
    bool per_iteration = false;  ///< the factor may have the suffix `it`
    bool needs_metric = false;   ///< true: it goes by the epochs' metric; PATIENCE is in epochs and may be 0
  };

  Schedule() = default;  ///< const
  /// throws UsageError: says which part is wrong, suggests the nearest name, gives an example
  static Schedule parse(const std::string& text);

  /// The factor for update `iteration` (from 0).
  double factor(std::int64_t iteration, const Horizon& horizon) const;

  /// Length of the warm-up in updates.
  double warmup(const Horizon& horizon) const { return warmup_.in_steps(horizon); }

  /// Tells the metric of an epoch that has just ended, lower is better. Only plateau listens. A metric that is NaN is
  /// bad.
  void end_epoch(double metric);
  bool needs_metric() const { return kind_.needs_metric; }

  /// What end_epoch has learnt; everything else is a function of the iteration. Saves "schedule" (int64 [3]: the bits
  /// of the best metric, bad epochs in a row, reductions).
  void save(StateDict& state) const;
  /// throws DataError: missing, of another shape, or impossible numbers
  void load(const StateDict& state);

  const std::string& text() const { return text_; }  ///< the text as parsed, for logs and manifests

 private:
  std::string text_ = "const";
  Kind kind_;
  Number warmup_, factor_;
  std::vector<Number> counts_;  // EVERY; A, B, ..; PATIENCE
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t bad_epochs_ = 0, reductions_ = 0;
};

/// The table of all rules. Add your own before training begins.
std::vector<Schedule::Kind>& schedules();

}  // namespace laconic
