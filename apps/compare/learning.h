#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/compare/table.h"

namespace laconic {

/// Time to accuracy of `compare --learn`. What a set learns by its steps does not depend on the network, and what a
/// step takes hardly depends on what has been learned. So learning is measured without the network, and steps are timed
/// on it, in short epochs, so that every phase of a training has its own time. The product is what a whole training on
/// the network would take.

/// Epochs in a row whose steps take alike.
struct LearningPhase {
  std::int64_t steps = 0;  ///< of a whole training
  double ms = 0;           ///< the mean of a timed step
};

/// The results of one set of options.
struct LearningRow {
  std::string label, options;
  std::string error;                         ///< of the first run that failed
  int runs = 0;                              ///< seeds that it learned with
  std::optional<double> end, end_spread;     ///< accuracy in per cent, or perplexity; mean and deviation over seeds
  std::vector<double> ends;                  ///< of each seed
  double behind = 0;                         ///< worse than the first set by so much; negative: better
  std::int64_t epochs = 0;                   ///< until the mean over seeds has come to the target; 0: it never does
  std::vector<LearningPhase> phases;         ///< until then
  std::optional<Median> seconds;             ///< the sum of the phases; its interval over turns
  std::optional<Median> speedup;             ///< seconds of the first set / its own, turn by turn
  std::optional<double> bytes, timed_bytes;  ///< that rank 0 sent in a step, while learning and on the network; means
  std::string caveat;                        ///< why its figures may mislead, in a sentence; empty: nothing is known
};

struct Learning {
  bool perplexity = false;    ///< of a language model: lower is better
  double standard_error = 0;  ///< of the first set's end
  double target = 0;          ///< its end, worse by one standard error
  std::int64_t samples = 0;   ///< of the test set
  std::vector<LearningRow> rows;
};

/// Puts learned[set][seed] and timed[set][turn] together. A timed epoch's first step is left out, and the
/// last step of a run, if a round remains without it. Where exchanges are some steps apart, what is more than whole
/// rounds is left out too. The standard error of an accuracy p over n test samples is sqrt(p (1 - p) / n). For a
/// perplexity the deviation over seeds stands for it.
Learning put_together(const std::vector<std::vector<Trial>>& learned, const std::vector<std::vector<Trial>>& timed);

std::string learning_text(const TableHead& head, const Learning& learning, bool markdown);
std::string learning_json(const TableHead& head, const Learning& learning);

}  // namespace laconic
