#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/engine/busy.h"
#include "dist/method/ledger.h"
#include "dist/predict/receipt.h"

namespace laconic {

/// The facts that are known when training starts.
struct RunInfo {
  std::string model;            ///< "lenet"
  std::string data;             ///< "Fashion-MNIST, /usr/share/datasets/fashion-mnist" or "synthetic"
  std::string strategy;         ///< "allreduce, ring" or "none"
  std::string transport;        ///< "threads" or "mpi"
  std::string device;           ///< rank 0's: "cpu" or a GPU's name, "NVIDIA H200"
  std::int64_t parameters = 0;  ///< elements
  std::int64_t classes = 0;     ///< outputs of the model, of a language model its vocabulary; 0: no layer is the output
  std::int64_t train_samples = 0, validation_samples = 0, test_samples = 0;
  std::string data_note;  ///< what a user should know of how the data were read, in lines
  std::int64_t unseen_words = 0;  ///< of a text's validation and test, read as <unk>: training does not have them
  int workers = 1;
  int threads = 1;  ///< kernel threads per worker
  int batch = 0;    ///< per worker; of a language model streams
  int accumulate = 1;               ///< micro-batches of `batch` in a step
  std::string unit = "images";      ///< what samples are, but for words of a language model
  std::int64_t words_per_step = 0;  ///< of each stream of a language model, whose samples are words; else 0
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;  ///< counted from the start of training
  std::int64_t first_step = 0;   ///< updates made before (a resumed run), else 0
  std::int64_t steps_ahead = 0;  ///< dist::TrainingFacts
  std::int64_t exchange_every = 1;  ///< steps from exchange to exchange
  std::string overlap;              ///< "forward", as the option has it
  /// False where NCCL itself moves gradients: what was sent is then not known, here and in all reports.
  bool bytes_counted = true;
  std::optional<dist::Receipt> receipt{};  ///< why what travels how, if that was chosen here
};

/// How large the elements of a gradient are.
struct GradientCounts {
  std::string parameter;
  /// By the exponent of the float: [e] has those from 2^(e-127) up to twice that, [0] zeros and what is below 2^-126,
  /// [255] what is not finite.
  std::array<std::int64_t, 256> by_exponent{};
};

/// One step, as rank 0 saw it. What each figure counts: docs/architecture.md, "Log".
struct StepReport {
  std::int64_t step = 0;   ///< updates made so far, this one included: first 1
  std::int64_t epoch = 1;  ///< from 1
  double loss = 0;         ///< mean over the global batch; NaN for a step that was passed over (`on-nan` skip)
  double lr = 0;
  double step_ms = 0;               ///< wall time, from the end of the step before; evaluations left out
  double samples_per_s = 0;         ///< of all workers together; words of a text
  std::int64_t bytes_sent = 0;      ///< by this rank in this step: payload and our headers
  std::int64_t bytes_sent_sum = 0;  ///< by all ranks, servers included
  /// With parameter servers: the bytes from workers to servers, and back.
  std::optional<std::int64_t> bytes_up_sum{}, bytes_down_sum{};
  std::int64_t bytes_dense = 0;     ///< what a dense ring would have sent from this rank
  bool bytes_counted = true;        ///< see RunInfo
  /// CPU time of all threads of a worker, the mean over workers; and of a dedicated server, the mean over these. Only
  /// where ranks are processes.
  std::optional<double> cpu_ms{}, server_cpu_ms{};
  double data_ms = 0;  ///< the compute thread waited for its batches
  double forward_ms = 0, backward_ms = 0, select_ms = 0, comm_ms = 0, update_ms = 0;
  double exposed_ms = 0;  ///< the compute thread was blocked by communication
  std::vector<GradientCounts> gradients{};  ///< rank 0's own, in few of the steps (TrainerOptions::count_gradients)
};

/// What a step took each worker, by rank: means over some steps.
struct RanksReport {
  std::int64_t step = 0;   ///< updates made, the last of these included
  std::int64_t steps = 0;  ///< that these are means over
  std::vector<double> compute_ms{}, data_ms{}, exposed_ms{};  ///< as in StepReport; computing, choosing, updating
  std::vector<double> sending_ms{};  ///< at least one large message of it was on its way into the network
  std::vector<double> bytes_sent{};
};

/// The figures of a RanksReport by their names in a log.
struct RanksFigure {
  const char* name;
  std::vector<double> RanksReport::*values;
};
inline constexpr RanksFigure kRanksFigures[] = {{"compute_ms", &RanksReport::compute_ms},
                                                {"data_ms", &RanksReport::data_ms},
                                                {"exposed_ms", &RanksReport::exposed_ms},
                                                {"sending_ms", &RanksReport::sending_ms},
                                                {"bytes_sent", &RanksReport::bytes_sent}};

/// The figures of both, as means over all of their steps. Those of as many workers, or nothing: then the other.
RanksReport joined(const RanksReport& a, const RanksReport& b);

/// Names the worker that all others wait for, in a sentence with a full stop: one that computes, or waits for its data,
/// for more than 1.5 times as long as the median worker, by a millisecond and a tenth of a step at least. Else, of
/// three workers or more, names one whose link takes its messages at less than a third of the rate of the next, and
/// that waits for a fifth of a step at least; or two neighbours that send so slowly, since a link of one of them is
/// slow. Empty where there is none, or after fewer than ten steps.
std::string straggler_in(const RanksReport& ranks);

/// One pass over the test set, or the validation set.
struct EvalReport {
  std::int64_t epoch = 0;  ///< epochs trained
  std::int64_t samples = 0;  ///< that it was over; of a text, words
  double loss = 0;
  double top1_error = 0;              ///< per cent; of a classifier of images
  std::optional<double> top5_error;   ///< per cent; for more than 5 classes
  std::optional<double> perplexity{};  ///< exp(loss); of a language model
  /// Measures by name, each a mean over samples (Supervised::Options::metrics).
  std::vector<std::pair<std::string, double>> metrics{};
  /// Where workers' parameters differ from the model that is evaluated: by how much, the mean over workers of the
  /// 2-norm of the difference over that of the model.
  std::optional<double> drift{};
  double seconds = 0;                 ///< since the start of training
  std::int64_t bytes_sent_total = 0;  ///< bytes_sent_sum added since the start
  bool bytes_counted = true;          ///< see RunInfo
};

/// Where the bytes of each parameter went so far, on rank 0.
struct LedgerReport {
  std::int64_t step = 0;  ///< updates made
  dist::LedgerForm form;
  std::vector<dist::LedgerRow> rows;
};

/// The facts that are known at the end.
struct RunSummary {
  std::int64_t steps = 0;  ///< updates made since the start of training
  double seconds = 0;
  double samples_per_s = 0;            ///< trained samples over training time, evaluation left out
  double exposed_share = 0;            ///< of the steps' time, 0 … 1
  double data_share = 0;               ///< likewise: waiting for batches
  std::int64_t bytes_sent_total = 0;   ///< all ranks
  /// Everything that all ranks handed to the network in this run: the steps, and besides them the weights at the start,
  /// evaluation, checkpoints and agreements.
  std::int64_t bytes_network_total = 0;
  std::int64_t buffer_bytes_peak = 0;  ///< of communication buffers, rank 0's
  /// The most memory that tensors took in rank 0's process during a step, and the part of it that is not held between
  /// steps: activations (StepMemory). Where workers are threads, both are of all of them at once, the second divided by
  /// their number.
  std::optional<std::int64_t> memory_bytes_peak{}, activation_bytes_peak{};
  std::optional<std::int64_t> bytes_up_total{}, bytes_down_total{};  ///< in this run; where there are servers
  std::int64_t bytes_dense_total = 0;  ///< what dense rings would have sent, all ranks
  /// Share of the messages, 0 … 1, that were taken more than 2 ms after an emulated link had delivered them. Only where
  /// there is one.
  std::optional<double> link_late_share;
  std::optional<EvalReport> last_eval;
  std::optional<EvalReport> test;  ///< of a test set that is kept for the end
  std::vector<dist::LedgerRow> ledger;  ///< rank 0's; empty without `ledger`
  dist::LedgerForm ledger_form;         ///< what its figures are
  std::string straggler{};  ///< straggler_in() of all steps
  std::string stopped;  ///< why it ended early; empty if it did not
};

/// Watches a run: a progress bar, a log. The trainer calls it on rank 0, from one thread.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepReport&) {}
  /// In on_eval and on_test the model is the one that was evaluated: where workers hold different parameters the joint
  /// one, with running statistics that are the mean over workers.
  virtual void on_eval(const EvalReport&) {}
  virtual void on_test(const EvalReport&) {}  ///< once, at the end, where a test set is kept for that
  virtual void on_ranks(const RanksReport&) {}    ///< every hundred steps and at the end, where several workers join
  virtual void on_ledger(const LedgerReport&) {}  ///< with `ledger`, after every evaluation
  virtual void on_end(const RunSummary&) {}
};

/// Passes each report on to several observers, in their order. Meanwhile this rank is busy, for they may write to a
/// slow disk, or export a model.
class Observers final : public Observer {
 public:
  void add(std::shared_ptr<Observer> one) { all_.push_back(std::move(one)); }
  bool empty() const { return all_.empty(); }
  const RunInfo& info() const { return info_; }  ///< of the run that was begun last

  void on_start(const RunInfo& r) override { tell(&Observer::on_start, info_ = r); }
  void on_step(const StepReport& r) override { tell(&Observer::on_step, r); }
  void on_eval(const EvalReport& r) override { tell(&Observer::on_eval, r); }
  void on_test(const EvalReport& r) override { tell(&Observer::on_test, r); }
  void on_ranks(const RanksReport& r) override { tell(&Observer::on_ranks, r); }
  void on_ledger(const LedgerReport& r) override { tell(&Observer::on_ledger, r); }
  void on_end(const RunSummary& r) override { tell(&Observer::on_end, r); }

 private:
  template <class Report>
  void tell(void (Observer::*on)(const Report&), const Report& report) {
    for (const std::shared_ptr<Observer>& one : all_) {
      const dist::Busy busy(dist::Busy::With::files, "writes its report");
      ((*one).*on)(report);
    }
  }
  std::vector<std::shared_ptr<Observer>> all_;
  RunInfo info_;
};

}  // namespace laconic
