#include "layers/models/gpt.h"

#include <cmath>
#include <numeric>

#include "core/ops/reshape.h"
#include "layers/sequential.h"
#include "layers/stateless.h"
#include "layers/weighted.h"

namespace laconic::models {
namespace {

const Initializer kUsual = init::normal(0.02f), kZero = init::constant(0);

/// What ends one of the two branches of each layer begins smaller, so that their sum does not grow with the layers.
Initializer of_branch(const GPT::Options& o) {
  return init::normal(0.02f / std::sqrt(2.0f * static_cast<float>(o.layers)));
}

std::shared_ptr<Module> mlp(const GPT::Options& o) {
  return sequential(
      {{"c_fc", make<Linear>({.in = o.width, .out = 4 * o.width, .init = kUsual, .init_bias = kZero})},
       {"gelu", make<GELU>({.tanh = true})},
       {"c_proj", make<Linear>({.in = 4 * o.width, .out = o.width, .init = of_branch(o), .init_bias = kZero})},
       {"dropout", make<Dropout>({.p = o.dropout})}});
}

class TransformerLayer final : public Module {
 public:
  explicit TransformerLayer(const GPT::Options& o) {
    ln_1_ = child<LayerNorm>("ln_1", {.dim = o.width});
    attn_ = child<CausalSelfAttention>("attn", {.dim = o.width,
                                                .heads = o.heads,
                                                .dropout = o.dropout,
                                                .init = kUsual,
                                                .init_projection = of_branch(o),
                                                .init_bias = kZero});
    drop_ = child<Dropout>("dropout", {.p = o.dropout});
    ln_2_ = child<LayerNorm>("ln_2", {.dim = o.width});
    mlp_ = child("mlp", mlp(o));
  }

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + drop_(attn_(ln_1_(x)));
    return y + mlp_(ln_2_(y));
  }

  Child<LayerNorm> ln_1_, ln_2_;
  Child<CausalSelfAttention> attn_;
  Child<Dropout> drop_;
  Child<Module> mlp_;
};

const std::string kPrefix = "transformer.";

/// Whether a parameter is the weight of a linear layer of GPT-2, which its authors call a convolution, and which is
/// [in, out] there.
bool is_conv1d(const std::string& name) { return name.ends_with("weight") && name.find(".c_") != std::string::npos; }

}  // namespace

GPT::GPT(Options o) : o_(o) {
  require<ShapeError>(
      o.vocabulary >= 1 && o.layers >= 1 && o.heads >= 1 && o.width >= 1 && o.block >= 1 && o.width % o.heads == 0,
      "GPT: vocabulary = ", o.vocabulary, ", layers = ", o.layers, ", heads = ", o.heads, ", width = ", o.width,
      ", block = ", o.block, ": all must be at least 1, and the width a multiple of the heads.");
  const auto wte = child<Embedding>("wte", {.vocabulary = o.vocabulary, .dim = o.width, .init = kUsual});
  wte_ = wte;
  wpe_ = child<Embedding>("wpe", {.vocabulary = o.block, .dim = o.width, .init = kUsual});
  drop_ = child<Dropout>("drop", {.p = o.dropout});
  Layers layers;
  for (int i = 0; i < o.layers; ++i) layers.emplace_back(std::make_shared<TransformerLayer>(o));
  h_ = child("h", sequential(layers));
  ln_f_ = child<LayerNorm>("ln_f", {.dim = o.width});
  head_ = child<Linear>("lm_head",
                        {.in = o.width, .out = o.vocabulary, .bias = false, .output = true, .weight = wte->weight()});
  set_setting("heads", std::to_string(o.heads));
}

void GPT::checkpoint_activations(bool on) { h_->checkpoint_activations(on); }

Tensor GPT::forward(const Tensor& x) {
  require<ShapeError>(x.rank() == 2 && x.dim(0) <= o_.block, "GPT: the tokens are ", x.shape(),
                      ", not [T, B] with T at most ", o_.block, ".");
  std::vector<std::int64_t> places(static_cast<std::size_t>(x.dim(0)));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  const Tensor where = Tensor::of({x.dim(0)}, std::span<const std::int64_t>(places), x.device());
  // Inside a text's tokens follow each other: [B, T, width].
  const Tensor embedded = ops::permute((*wte_)(x), {1, 0, 2}) + ops::unsqueeze((*wpe_)(where), 0);
  const Tensor y = (*ln_f_)((*h_)((*drop_)(embedded)));
  return (*head_)(ops::reshape(ops::permute(y, {1, 0, 2}), {x.elements(), o_.width}));
}

std::string GPT::own_name(const std::string& full) const {
  const std::string name = full.starts_with(kPrefix) ? full.substr(kPrefix.size()) : full;
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ? "" : name;
}

StateDict GPT::translated(const StateDict& weights) const {
  StateDict mine;
  bool turned = false, first = true, biases = false;
  for (const auto& [full, tensor] : weights) {
    const std::string name = own_name(full);
    if (name.empty()) continue;
    // It is three times as wide as it is high in one order, and as high as it is wide in the other.
    if (first && name.ends_with(".attn.c_attn.weight") && tensor.rank() == 2)
      turned = tensor.dim(1) == 3 * tensor.dim(0), first = false;
    biases |= name.ends_with(".bias");
    mine.set(name, tensor);
  }
  if (turned)
    for (const auto& [name, tensor] : mine)
      if (is_conv1d(name) && tensor.rank() == 2) mine.set(name, ops::transpose(tensor, 0, 1));
  if (!biases)
    for (const auto& [name, parameter] : named_parameters())
      if (name.ends_with(".bias") && !mine.empty()) mine.set(name, Tensor::zeros(parameter->info.shape));
  for (const auto& [name, text] : weights.texts()) mine.set_text(name, text);
  return mine;
}

StateDict for_hugging_face(const GPT& model) {
  StateDict theirs;
  for (const auto& [name, tensor] : model.state_dict())
    theirs.set(kPrefix + name, is_conv1d(name) ? ops::transpose(tensor, 0, 1) : tensor);
  theirs.set_text("format", "pt");
  return theirs;
}

const std::vector<GptRecipe>& gpt_recipes() {
  static const std::vector<GptRecipe> all = {
      {"gpt-4x128", {.vocabulary = 65, .layers = 4, .heads = 4, .width = 128, .block = 64}},
      {"gpt-6x384", {.vocabulary = 65, .layers = 6, .heads = 6, .width = 384, .block = 256, .dropout = 0.2f}},
      {"gpt2", {.vocabulary = 50257, .layers = 12, .heads = 12, .width = 768, .block = 1024, .dropout = 0.1f}}};
  return all;
}

const GptRecipe* gpt_recipe(const std::string& name) {
  for (const GptRecipe& r : gpt_recipes())
    if (name == r.name) return &r;
  return nullptr;
}

}  // namespace laconic::models
