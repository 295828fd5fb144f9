#pragma once
#include <cstdint>
#include <string>

#include "data/text.h"
#include "layers/models/language_model.h"

namespace laconic {

/// How to let a language model write.
struct GenerateOptions {
  std::int64_t words = 0;  ///< how many to write, line ends among them
  double temperature = 1;  ///< word k has the chance softmax(logits / temperature)[k]; 0: always the likeliest one
  std::string prompt{};    ///< what it goes on from: words between blanks; empty: the beginning of a line
  std::uint64_t seed = 0;
};

/// Writes `words` words behind the prompt, with blanks between and line breaks for <eos>. A word of the prompt that the
/// vocabulary lacks is read as <unk>; <unk> itself is never written unless there is no other word. The same seed writes
/// the same text on one kind of processor. The model is left in evaluation mode.
std::string generate(models::LanguageModel& model, const Vocabulary& vocabulary, const GenerateOptions& options);

}  // namespace laconic
