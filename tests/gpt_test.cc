// GPT against Hugging Face's GPT-2, and its files.
#include "layers/models/gpt.h"

#include <gtest/gtest.h>

#include "core/ops/losses.h"
#include "core/ops/reshape.h"
#include "core/raw.h"
#include "layers/models/zoo.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

using models::GPT;

const std::string kGolden = std::string(LACONIC_SOURCE) + "/tests/golden/";
constexpr GPT::Options kSmall{.vocabulary = 19, .layers = 2, .heads = 3, .width = 12, .block = 7};

TEST(Gpt, GivesTheLogitsOfHuggingFacesGpt2) {
  GPT model(kSmall);
  model.name_all();
  model.load_state_dict(model.translated(load_safetensors(kGolden + "gpt2.safetensors")));
  model.eval();
  const StateDict theirs = load_safetensors(kGolden + "gpt2_logits.safetensors");
  const NoGrad no_grad;
  const Tensor tokens = theirs.at("tokens"), expected = theirs.at("logits");  // [B, T], [B, T, vocabulary]
  const std::int64_t B = tokens.dim(0), T = tokens.dim(1);
  std::vector<std::int64_t> by_time;
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t b = 0; b < B; ++b) by_time.push_back(tokens.data<std::int64_t>()[b * T + t]);
  const Tensor logits = model(Tensor::of({T, B}, std::span<const std::int64_t>(by_time)));
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t k = 0; k < 19; ++k)
        ASSERT_NEAR(logits.data<float>()[(t * B + b) * 19 + k], expected.data<float>()[(b * T + t) * 19 + k], 1e-4);
}

TEST(Gpt, FilesOfBothProgramsAreToldApart) {
  const StateDict theirs = load_safetensors(kGolden + "gpt2.safetensors");
  GPT model(kSmall), other(kSmall);
  model.name_all(), other.name_all();
  model.load_state_dict(model.translated(theirs));
  const StateDict back = models::for_hugging_face(model);
  std::size_t compared = 0;
  for (const auto& [name, tensor] : back) {
    const Tensor& expected = theirs.at(name);
    ASSERT_EQ(tensor.shape(), expected.shape()) << name;
    EXPECT_EQ(tensor.to_vector(), expected.to_vector()) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 2 + 2 * 12 + 2u);
  const TempFolder dir;
  save_safetensors(model.state_dict(), dir / "ours.safetensors");
  save_safetensors(back, dir / "theirs.safetensors");
  for (const char* const file : {"ours.safetensors", "theirs.safetensors"}) {
    other.initialize(1);
    other.load_state_dict(other.translated(load_safetensors(dir / file)));
    for (const auto& [name, tensor] : model.state_dict())
      EXPECT_EQ(other.state_dict().at(name).to_vector(), tensor.to_vector()) << file << " " << name;
  }
}

TEST(Gpt, SeesNothingOfWhatComesLater) {
  GPT model(kSmall);
  model.initialize(3);
  model.eval();
  const NoGrad no_grad;
  std::vector<std::int64_t> tokens{1, 5, 2, 18, 0, 7, 3};
  const std::vector<float> before = model(Tensor::of({7, 1}, std::span<const std::int64_t>(tokens))).to_vector();
  tokens[4] = 11;
  const std::vector<float> after = model(Tensor::of({7, 1}, std::span<const std::int64_t>(tokens))).to_vector();
  for (std::size_t i = 0; i < 4 * 19; ++i) ASSERT_EQ(before[i], after[i]) << i;
  for (std::size_t t = 4; t < 7; ++t) EXPECT_NE(before[t * 19], after[t * 19]) << t;
}

TEST(Gpt, RefusesWhatDoesNotFit) {
  expect_error<ShapeError>([] { GPT({.vocabulary = 5, .heads = 3, .width = 10}); },
                           {"the width a multiple of the heads"});
  GPT model(kSmall);
  model.initialize(0);
  expect_error<ShapeError>([&] { model(Tensor::zeros({8, 1}, DType::i64)); }, {"T at most 7"});
  expect_error<ShapeError>([&] { model(Tensor::zeros({7}, DType::i64)); }, {"not [T, B]"});
}

TEST(Gpt, LayersCanBeComputedAgain) {
  std::vector<std::vector<float>> gradients;
  for (const bool again : {false, true}) {
    GPT::Options o = kSmall;
    o.dropout = 0.2f;
    GPT model(o);
    model.initialize(5);
    model.checkpoint_activations(again);
    ParameterArena arena(model.parameters(), kCpu);
    arena.begin_step();
    const std::vector<std::int64_t> tokens{1, 5, 2, 18, 0, 7, 3, 3, 2, 1, 9, 9, 4, 2};
    const Tensor x = Tensor::of({7, 2}, std::span<const std::int64_t>(tokens));
    const Tensor y = Tensor::of({14}, std::span<const std::int64_t>(tokens));
    arena.backward(ops::cross_entropy(model(x), y));
    arena.finish_gradients();
    gradients.push_back(arena.gradients().to_vector());
  }
  EXPECT_TRUE(gradients[0] == gradients[1]);
  EXPECT_GT(std::count_if(gradients[0].begin(), gradients[0].end(), [](float g) { return g != 0; }), 3000);
}

}  // namespace
}  // namespace laconic
