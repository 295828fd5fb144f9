#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text.h"
#include "layers/models/gpt.h"
#include "layers/models/language_model.h"

namespace laconic {

/// How to let a language model write.
struct GenerateOptions {
  std::int64_t words = 0;  ///< how many tokens to write, line ends among them
  double temperature = 1;  ///< token k has the chance softmax(logits / temperature)[k]; 0: always the likeliest one
  std::string prompt{};    ///< what it goes on from; empty: the beginning of a line
  std::uint64_t seed = 0;
  std::function<bool()> stop{};  ///< asked before each token, if there is one: whether to leave it at what is written
};

/// Reads one token more, and returns the logits of the one behind it.
using ReadToken = std::function<std::vector<float>(std::int64_t token)>;
/// The model must outlive it, and is left in evaluation mode.
ReadToken reader(models::LanguageModel& model);
/// It sees at most the last block of tokens. Cost: a forward pass over all of them for each.
ReadToken reader(models::GPT& model);

/// Writes the prompt and `words` tokens behind it, and ends the line. One seed writes one text on one kind of
/// processor.
///   words              with blanks between them and line breaks for <eos>. A word of the prompt that the vocabulary
///                      lacks is read as <unk>; <unk> itself is never written unless there is no other word
///   characters, pairs  as they are
///   show               is called with each token's text as soon as it is known: bytes, of which some pairs hold a part
///                      of a character
/// throws DataError: a character of the prompt is not in the vocabulary; nothing has been shown then
void generate(const ReadToken& read, const TextDataset& text, const GenerateOptions& options,
              const std::function<void(std::string_view)>& show);

}  // namespace laconic
