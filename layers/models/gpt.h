#pragma once
#include <string>
#include <vector>

#include "layers/module.h"

namespace laconic::models {

/// A decoder-only transformer as GPT-2: at every token it predicts the next one.
///   x = wte[tokens] + wpe[0 … T-1];  of each layer  x += attn(ln_1(x)), x += mlp(ln_2(x));  logits = ln_f(x) wte'
///   mlp     width -> 4 width, GELU (by tanh), -> width
///   x : i64 [T, B], B texts of T <= block tokens   ->   logits : [T B, vocabulary], row t B + b behind x[t, b]
///   names   GPT-2's: wte.weight, wpe.weight, h.0.ln_1.weight, h.0.attn.c_attn.weight …, ln_f.weight; the output's
///           weight is wte's. Weights of linear layers are [out, in], as everywhere here
///   weights ~ Normal(0, 0.02^2), those that end a residual branch ~ Normal(0, 0.02^2 / (2 layers)); biases 0
///   source  Radford et al. 2019, "Language models are unsupervised multitask learners"; the tying: Press & Wolf 2017
/// With checkpoint_activations() each layer is a segment.
/// Throws ShapeError if x is no [T, B] or T is more than block; DataError if a token is not in the vocabulary.
class GPT final : public Module {
 public:
  struct Options {
    int vocabulary = 0, layers = 4, heads = 4;
    int width = 128;    ///< a multiple of heads
    int block = 64;     ///< the most tokens that a text can have
    float dropout = 0;  ///< the share of embeddings, attention's probabilities and both branches' results
  };
  explicit GPT(Options o);
  const Options& options() const { return o_; }
  void checkpoint_activations(bool on = true) override;
  std::string own_name(const std::string& name) const override;
  /// Takes weights as other programs save GPT-2 too: with "transformer." in front of names or not, masks beside them;
  /// weights of linear layers [in, out] (Hugging Face's) or [out, in] (nanoGPT's), as the first c_attn's shape tells;
  /// without a single bias, as nanoGPT trains them: those are 0.
  StateDict translated(const StateDict& weights) const override;

 private:
  Tensor forward(const Tensor& x) override;
  Options o_;
  std::shared_ptr<Module> wte_, wpe_, drop_, h_, ln_f_, head_;
};

/// The weights of a GPT under Hugging Face's names, with its linear layers as [in, out], so that its GPT2LMHeadModel
/// loads them.
StateDict for_hugging_face(const GPT& model);

/// A GPT that programs know by name. Parameters: 0.81, 10.8 and 124 million.
struct GptRecipe {
  const char* name;
  GPT::Options model;
};
/// nullptr if there is none of that name.
const GptRecipe* gpt_recipe(const std::string& name);
const std::vector<GptRecipe>& gpt_recipes();

}  // namespace laconic::models
