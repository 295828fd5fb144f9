#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/compare/trial.h"
#include "apps/statistics.h"

namespace laconic {

/// What the runs of one option set came to.
struct Row {
  std::string label, options;
  std::string error;                 ///< of the first run that failed; the figures are then of the others
  int runs = 0;                      ///< that ended well
  std::size_t blocks = 0;            ///< that step_ms was taken over
  Median step_ms;                    ///< over blocks of steps, or over runs where there are at least kRunsForInterval
  std::optional<Median> ratio;       ///< its step time / that of the first set, block by block or run by run
  std::optional<double> bytes_sent;  ///< median of a step; none if it was not counted
  double bytes_dense = 0, exposed_ms = 0;           ///< median of a step
  std::optional<double> accuracy, accuracy_spread;  ///< per cent at the end; mean and standard deviation over seeds
  std::optional<double> loss, loss_spread;          ///< of the test set, likewise; none if one of them is not finite
  std::optional<double> perplexity, perplexity_spread;  ///< of a language model on its validation set, likewise
  int reached_target = 0;
  std::optional<double> seconds_to_target;  ///< median over the runs that reached it; only if all did
  std::optional<double> compute_ms, exchange_ms, bound_ms;
};

/// Runs needed for a 95 % interval over runs; with fewer, each run is cut into blocks of steps.
constexpr int kRunsForInterval = 6;

/// Summarises trials[set][run], where the same run of every set has the same seed. The first `warm_up` steps of each
/// run are left out (a fifth, at most 20, unless given).
std::vector<Row> summarise(const std::vector<std::vector<Trial>>& trials, std::optional<int> warm_up,
                           std::optional<double> target_accuracy);

/// What stands around the table.
struct TableHead {
  std::string where;    ///< the machine
  std::string what;     ///< "mnist: lenet, 4 workers, 1 thread each, batch 64, 3 seeds"
  std::string command;  ///< that makes it again
  std::optional<double> target_accuracy;
  int repeat = 1;
};
std::string table_text(const TableHead& head, const std::vector<Row>& rows);
std::string table_markdown(const TableHead& head, const std::vector<Row>& rows);
/// One object, one line.
std::string table_json(const TableHead& head, const std::vector<Row>& rows);

}  // namespace laconic
