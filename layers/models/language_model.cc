#include "layers/models/language_model.h"

#include "core/ops/reshape.h"

namespace laconic::models {

LanguageModel::LanguageModel(Options o) : o_(o) {
  const Initializer uniform = init::uniform(o.range > 0 ? o.range : 0.1f);
  const Initializer published = o.range > 0 ? uniform : nullptr;
  encoder_ = child<Embedding>("encoder", {.vocabulary = o.vocabulary, .dim = o.hidden, .init = uniform});
  drop_in_ = child<Dropout>("drop_in", {.p = o.dropout, .time_first = true});
  rnn_ = child<LSTM>("rnn",
                     {.in = o.hidden, .hidden = o.hidden, .layers = o.layers, .dropout = o.dropout, .init = published});
  drop_out_ = child<Dropout>("drop_out", {.p = o.dropout, .time_first = true});
  decoder_ = child<Linear>("decoder", {.in = o.hidden,
                                       .out = o.vocabulary,
                                       .output = true,
                                       .weight = o.tied ? encoder_->weight() : nullptr,
                                       .init = uniform,
                                       .init_bias = o.range > 0 ? uniform : init::constant(0)});
}

Tensor LanguageModel::run(const Tensor& x, LSTM::State& state) {
  require<ShapeError>(x.rank() == 2, "LanguageModel: the words are ", x.shape(), ", not [T, B].");
  const Tensor y = (*drop_out_)((*rnn_)((*drop_in_)((*encoder_)(x)), state));
  return (*decoder_)(ops::reshape(y, {x.elements(), o_.hidden}));
}

const std::vector<LanguageRecipe>& language_recipes() {
  // Zaremba et al. print rates of 1 and norms of 5 and 10 for a loss that is summed over the words of a step; it is a
  // mean here, whose gradients are `bptt` times smaller. PyTorch's example has 20 and 0.25 for a mean.
  // clang-format off
  static const std::vector<LanguageRecipe> kRecipes = {
      {"lstm-small", {.vocabulary = 10000, .hidden = 200, .range = 0.1f}, 20, 20, 13, 20, 0.25, 4, 2},
      {"lstm-medium", {.vocabulary = 10000, .hidden = 650, .dropout = 0.5f, .range = 0.05f}, 35, 20, 39, 35, 0.143, 6,
       1.2},
      {"lstm-large", {.vocabulary = 10000, .hidden = 1500, .dropout = 0.65f, .range = 0.04f}, 35, 20, 55, 35, 0.286, 14,
       1.15},
      {"lstm-650", {.vocabulary = 10000, .hidden = 650, .dropout = 0.5f, .tied = true}, 35, 20, 40, 20, 0.25, 0, 0},
      {"lstm-1500", {.vocabulary = 10000, .hidden = 1500, .dropout = 0.65f, .tied = true}, 35, 20, 40, 20, 0.25, 0, 0},
  };
  // clang-format on
  return kRecipes;
}

const LanguageRecipe* language_recipe(const std::string& name) {
  for (const LanguageRecipe& r : language_recipes())
    if (name == r.name) return &r;
  return nullptr;
}

}  // namespace laconic::models
