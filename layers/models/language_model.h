#pragma once
#include "layers/recurrent.h"
#include "layers/stateless.h"
#include "layers/weighted.h"

namespace laconic::models {

/// Predicts the next word of a text, at every word: embedding, dropout, LSTM (dropout between its layers), dropout,
/// decoder.
///   x : i64 [T, B], B streams of T words   ->   logits : [T B, vocabulary], row t B + b for the word behind x[t, b]
///   names    encoder.weight, rnn.weight_ih_l0 …, decoder.weight, decoder.bias; tied: decoder.weight is encoder.weight
///   source   Zaremba et al. 2014, "Recurrent neural network regularization"; tied: Press & Wolf 2017
/// The state has no history: truncated backpropagation.
/// Throws ShapeError if x or the state does not fit, DataError if a word is not in the vocabulary.
class LanguageModel final : public Stateful<LSTM::State> {
 public:
  struct Options {
    int vocabulary = 0;
    int hidden = 0;  ///< units of a layer, and the width of the embedding
    int layers = 2;
    float dropout = 0;  ///< the share of the embedding's output and of each LSTM layer's; drawn by stream and word
    bool tied = false;  ///< the decoder's weight is the embedding's
    /// Everything ~ Uniform(-range, range), as Zaremba et al. 0: as PyTorch's example word_language_model: embedding
    /// and decoder ~ Uniform(-0.1, 0.1), the decoder's bias 0, the LSTM as layers/recurrent.h.
    float range = 0;
  };
  explicit LanguageModel(Options o);
  const Options& options() const { return o_; }

 private:
  Tensor run(const Tensor& x, LSTM::State& state) override;
  Options o_;
  std::shared_ptr<Embedding> encoder_;
  std::shared_ptr<Dropout> drop_in_;
  std::shared_ptr<LSTM> rnn_;
  std::shared_ptr<Dropout> drop_out_;
  std::shared_ptr<Linear> decoder_;
};

/// A published language model and the hyper-parameters it was trained with. Parameters at a vocabulary of 10,000:
///   lstm-small, lstm-medium, lstm-large   Zaremba et al. 2014, untied: 4,653,200, 19,780,400, 66,034,000
///   lstm-650                              PyTorch's word_language_model, tied: 13,280,400
///   lstm-1500                             Fang et al. (RedSync), tied: 51,034,000; its dropout is not printed there
struct LanguageRecipe {
  const char* name;
  LanguageModel::Options model;  ///< vocabulary 10,000
  std::int64_t bptt;             ///< words per step
  std::int64_t batch;            ///< streams
  std::int64_t epochs;
  double lr, clip_norm;  ///< rate and norm for the mean over all words of a step
  /// Zaremba et al.: the rate is divided by `decay` before every epoch behind `full_epochs`. 0: by 4 (PyTorch's
  /// example) when the validation loss has not fallen.
  std::int64_t full_epochs;
  double decay;
};
/// nullptr if there is none of that name.
const LanguageRecipe* language_recipe(const std::string& name);
const std::vector<LanguageRecipe>& language_recipes();

}  // namespace laconic::models
