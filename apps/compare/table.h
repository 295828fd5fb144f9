#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/look/log_file.h"

namespace laconic {

/// One run of one option set, read from its log and its last line of output.
struct Trial {
  std::string error;  ///< empty: it ran to its end
  std::string model;
  int workers = 0, threads = 0, batch = 0;
  int classes = 0;  ///< outputs of the model, of a language model its vocabulary; 0: the model's own
  std::string build;                       ///< that ran: version and commit; of a peer its own words
  std::int64_t exchange_every = 1;         ///< steps from exchange to exchange
  std::optional<std::int64_t> steps_made;  ///< as its last line of output says
  std::vector<LoggedStep> steps;  ///< in their order
  struct Evaluation {
    double seconds = 0;                  ///< since the start of training
    std::optional<double> accuracy{};    ///< per cent; a language model has none
    std::optional<double> loss{};        ///< over the test set; none: not finite
    std::optional<double> perplexity{};  ///< of a language model
    std::int64_t epoch = 0;              ///< epochs trained
    std::int64_t samples = 0;            ///< that it was over
  };
  std::vector<Evaluation> evaluations;
};

/// Reads what a run left behind: its log, the files of its output, its exit code. A run that failed keeps its first
/// sentence on stderr as `error`, without "laconic: error: ".
Trial read_trial(const std::string& log, const std::string& out, const std::string& err, int exit_code);

/// The last step in a log that is still written: number and time; nothing before the first.
struct LastStep {
  long long step = 0;
  double ms = 0;
};
std::optional<LastStep> last_step(const std::string& log);

/// What the runs of one option set came to.
struct Row {
  std::string label, options;
  std::string error;                 ///< of the first run that failed; the figures are then of the others
  int runs = 0;                      ///< that ended well
  std::size_t blocks = 0;            ///< that step_ms was taken over
  Median step_ms;                    ///< over blocks of steps, or over runs where there are at least kRunsForInterval
  std::int64_t exchange_every = 1;   ///< steps that were taken together
  bool whole_rounds = true;          ///< so many were there in each run,
  bool ratio_of_rounds = true;       ///< and in those of the first set
  std::optional<Median> ratio;       ///< its step time / that of the first set, block by block or run by run
  std::optional<double> bytes_sent;  ///< mean of a step; none if it was not counted
  double bytes_dense = 0;            ///< median of a step
  std::optional<double> exposed_ms;  ///< likewise; none if it was not counted
  std::optional<double> accuracy, accuracy_spread;  ///< per cent at the end; mean and standard deviation over seeds
  std::optional<double> loss, loss_spread;          ///< of the test set, likewise; none if one of them is not finite
  std::optional<double> perplexity, perplexity_spread;  ///< of a language model on its validation set, likewise
  int reached_target = 0;
  std::optional<double> seconds_to_target;  ///< median over the runs that reached it; only if all did
  std::optional<double> compute_ms, exchange_ms, bound_ms;
  /// One run: its step, and what it ended with.
  struct Seed {
    std::size_t run;  ///< from 0
    double step_ms;
    std::optional<double> accuracy{}, loss{}, perplexity{};
  };
  std::vector<Seed> seeds;  ///< of the runs that ended well
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
  std::uint64_t seed = 0;  ///< of the first run
};
/// The table with what stands around it.   markdown : for documents
std::string table_text(const TableHead& head, const std::vector<Row>& rows, bool markdown = false);
/// A table of sets between head, errors and notes.
std::string around(const TableHead& head, ResultTable table, const std::string& notes, bool markdown);
/// One object, one line.
std::string table_json(const TableHead& head, const std::vector<Row>& rows);

}  // namespace laconic
