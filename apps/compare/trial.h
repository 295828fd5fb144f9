#pragma once
#include <optional>
#include <string>
#include <vector>

namespace laconic {

/// One run of one option set, read from its log and its last line of output.
struct Trial {
  std::string error;  ///< empty: it ran to its end
  std::string model;
  int workers = 0, threads = 0, batch = 0;
  int classes = 0;  ///< outputs of the model, of a language model its vocabulary; 0: the model's own
  struct Step {
    double ms = 0, exposed_ms = 0;
    std::optional<double> bytes_sent;  ///< none: not counted
    double bytes_dense = 0;
  };
  std::vector<Step> steps;  ///< in their order
  struct Evaluation {
    double seconds = 0;                                ///< since the start of training
    std::optional<double> accuracy{};                  ///< per cent; a language model has none
    std::optional<double> loss{};                      ///< over the test set; none: not finite
    std::optional<double> perplexity{};                ///< of a language model
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

}  // namespace laconic
