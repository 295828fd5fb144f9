#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "dist/trainer/report.h"

namespace laconic {

/// {"step":1,"epoch":1,"loss":2.3,"lr":0.1,"step_ms":...}, without line break. What each of its figures counts stands
/// in docs/architecture.md, "Log". Numbers that are not finite become null, and so do bytes that are not counted.
std::string to_json(const StepReport& report);

/// {"eval":{"epoch":1,"loss":...,"top1_error":...,"top5_error":...,"seconds":...,"bytes_sent_total":...}}
/// top5_error only where there is one; of a language model "perplexity" instead of both, of a model with measures of
/// its own "metrics", an object of them; "drift" where workers differ from the model that is evaluated. kind "test":
/// {"test":{...}}, the same of a test set that is kept for the end.
std::string to_json(const EvalReport& report, const char* kind = "eval");

/// {"ledger":{"step":100,"parameters":[{"parameter":"fc1.weight","choice":"trimmed","elements":...,"bytes":...}]}}
/// The method says which figures follow (Method::ledger); one that was not measured is left out.
std::string to_json(const LedgerReport& report);

/// {"ranks":{"last_step":100,"steps":99,"compute_ms":[41.2,...],"data_ms":[...],"exposed_ms":[...],
/// "sending_ms":[...],"bytes_sent":[...]}}: lists by rank.
std::string to_json(const RanksReport& report);

/// The object that --json prints on the last line: what ran, and what came of it (RunSummary), with "eval", "test" and
/// "ledger" as above where there are any.
std::string to_json(const RunInfo& info, const RunSummary& summary);

/// {"version":...,"commit":...,"model":...,"seed":...,"command":...}: what a log is of.
std::string run_to_json(const std::string& model, std::uint64_t seed, const std::string& command);
/// That object with what is known when training starts: accumulate, exchange_every, overlap, total_steps.
std::string run_to_json(const std::string& run, const RunInfo& info);

/// A training as --dry-run --json describes it to tools that run it: what the command line, files of options, presets
/// and defaults have come to.
struct Described {
  std::string plan;       ///< Plan::json()
  std::string travels;    ///< "plan": all that travels; "nothing"; "more": the method adds to the plan, or sends less
  std::string computing;  ///< options by which it computes: where they are equal, computing alone takes as long
  int servers = 0;        ///< dedicated ones
  std::uint64_t seed = 0;
  std::optional<dist::LinkSpec> link{};  ///< the slowest of all workers' emulated links; none where hosts share a port
  std::string device, precision;
};
/// One object with these, and `workers`, `accumulate`, `overlap` and `total_steps` of `info`.
std::string to_json(const Described& training, const RunInfo& info);

/// Writes a line of JSON for each step and each evaluation (JSONL), and a last one, {"memory":{"memory_bytes_peak":...,
/// "activation_bytes_peak":...}}, where these are known: the file of --log. Each line is in the file at once, so that a
/// run that is killed leaves all of them. Throws DataError if the file cannot be written.
class JsonLog final : public Observer {
 public:
  /// A resumed run and an evaluation append; any other starts the file anew.
  ///   run     an object that says what runs: {"run": RUN} is the first line
  ///   trains  false: no step is made
  explicit JsonLog(std::string path, bool append = false, std::string run = "", bool trains = true);
  /// A resumed run goes on after the checkpoint's step: lines of later steps, of a run that was cut off, are dropped.
  void on_start(const RunInfo& info) override;
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_test(const EvalReport& report) override;
  void on_ranks(const RanksReport& report) override;
  void on_ledger(const LedgerReport& report) override;
  void on_end(const RunSummary& summary) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void shorten(const RunInfo& info);
  void line(std::string text);
  std::string path_;
  bool append_, trains_;
  std::string run_;  // JSON: what stands before all other lines, until it does
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace laconic
