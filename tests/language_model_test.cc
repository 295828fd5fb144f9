// The language models: names, initial values, the state between segments, tied weights, dropout by stream.
#include "layers/models/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "error_of.h"
#include "layers/loss.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

using models::LanguageModel;

Tensor words(std::int64_t steps, std::int64_t streams, std::int64_t vocabulary, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<std::int64_t> v(static_cast<std::size_t>(steps * streams));
  for (auto& w : v) w = random.below(static_cast<std::uint32_t>(vocabulary));
  return Tensor::of({steps, streams}, std::span<const std::int64_t>(v));
}

std::shared_ptr<LanguageModel> model(LanguageModel::Options o) {
  const auto m = std::make_shared<LanguageModel>(o);
  m->initialize(1);
  return m;
}

TEST(LanguageModel, UsesPyTorchsNames) {
  for (bool tied : {false, true}) {
    const auto m = model({.vocabulary = 7, .hidden = 3, .tied = tied});
    std::vector<std::string> names;
    for (const auto& p : m->named_parameters()) names.push_back(p.name);
    EXPECT_EQ(names,
              (std::vector<std::string>{"encoder.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0",
                                        "rnn.bias_hh_l0", "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1",
                                        "rnn.bias_hh_l1", "decoder.weight", "decoder.bias"}));
    const auto parameters = m->parameters();
    EXPECT_EQ(parameters.front() == parameters[9], tied);
    EXPECT_EQ(parameters[9]->info.name, tied ? "encoder.weight" : "decoder.weight");
    std::set<std::string> output;
    for (const auto& p : parameters)
      if (p->info.output) output.insert(p->info.name);
    EXPECT_EQ(output, (std::set<std::string>{tied ? "encoder.weight" : "decoder.weight", "decoder.bias"}));
  }
}

/// Largest magnitude of each parameter.
std::vector<std::pair<std::string, float>> ranges(const Module& m) {
  std::vector<std::pair<std::string, float>> all;
  for (const auto& [name, p] : m.named_parameters()) {
    float largest = 0;
    for (float v : p->value().to_vector()) largest = std::max(largest, std::abs(v));
    all.emplace_back(name, largest);
  }
  return all;
}

TEST(LanguageModel, BeginsWithTheRangesOfItsPaper) {
  for (const auto& [name, range] : ranges(*model({.vocabulary = 300, .hidden = 64, .range = 0.04f}))) {
    EXPECT_LE(range, 0.04f) << name;
    EXPECT_GT(range, 0.038f) << name;
  }
  for (const auto& [name, range] : ranges(*model({.vocabulary = 300, .hidden = 64, .tied = true}))) {
    const float expected = name == "decoder.bias" ? 0 : name.starts_with("rnn") ? 1 / 8.f : 0.1f;
    EXPECT_LE(range, expected) << name;
    EXPECT_GE(range, 0.95f * expected) << name;
  }
}

TEST(LanguageModel, GoesOnWhereTheSegmentBeforeEnded) {
  const auto m = model({.vocabulary = 11, .hidden = 6, .range = 0.5f});
  const NoGrad no_grad;
  const Tensor text = words(7, 3, 11, 2);
  const std::vector<float> whole = (*m)(text).to_vector();
  LSTM::State state;
  std::vector<float> parts = (*m)(text.rows(0, 4), state).to_vector();
  const std::vector<float> rest = (*m)(text.rows(4, 3), state).to_vector();
  parts.insert(parts.end(), rest.begin(), rest.end());
  ASSERT_EQ(parts.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-6f) << i;
  EXPECT_EQ(state.h.shape(), (Shape{2, 3, 6}));
}

TEST(LanguageModel, CutsHistoryBetweenSegments) {
  const auto m = model({.vocabulary = 11, .hidden = 6});
  ParameterArena arena(m->parameters());
  LSTM::State state;
  (*m)(words(4, 2, 11, 3), state);
  EXPECT_EQ(state.h.node(), nullptr);
  EXPECT_EQ(state.c.node(), nullptr);
}

TEST(LanguageModel, TiedWeightGathersTheGradientsOfBothUses) {
  // The gradient of a shared weight is the sum of those of two equal ones.
  const auto gradient = [&](const LanguageModel& m, ParameterArena& arena, const char* name) {
    arena.begin_step();
    const Tensor loss =
        CrossEntropy()(const_cast<LanguageModel&>(m)(words(5, 2, 11, 4)), words(10, 1, 11, 5).view({10}));
    arena.backward(loss);
    arena.finish_gradients();
    for (const auto& [n, p] : m.named_parameters())
      if (n == name) return p->grad().to_vector();
    return std::vector<float>();
  };
  const auto tied = model({.vocabulary = 11, .hidden = 6, .tied = true}),
             apart = model({.vocabulary = 11, .hidden = 6});
  const auto values = tied->named_parameters();
  for (std::size_t i = 0; i < values.size(); ++i)
    apart->named_parameters()[i].parameter->value().copy_from(values[i].parameter->value());
  ParameterArena arena_tied(tied->parameters()), arena_apart(apart->parameters());
  EXPECT_EQ(arena_tied.elements(), tied->parameter_count());
  const auto both = gradient(*tied, arena_tied, "encoder.weight");
  const auto first = gradient(*apart, arena_apart, "encoder.weight"),
             second = gradient(*apart, arena_apart, "decoder.weight");
  ASSERT_EQ(both.size(), 66u);
  ASSERT_EQ(first.size(), 66u);
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], first[i] + second[i], 1e-6f);
}

TEST(LanguageModel, DropsByStreamWhoeverHoldsIt) {
  const auto m = model({.vocabulary = 11, .hidden = 6, .dropout = 0.5f});
  const NoGrad no_grad;
  ForwardContext context{.seed = 3, .step = 5, .first_sample = 8};
  m->set_context(&context);
  const Tensor text = words(3, 4, 11, 6);
  const std::vector<float> all = (*m)(text).to_vector();
  std::vector<std::int64_t> second;  // streams 2 and 3 alone
  const auto* w = text.data<std::int64_t>();
  for (int t = 0; t < 3; ++t) second.insert(second.end(), {w[4 * t + 2], w[4 * t + 3]});
  context.first_sample = 10;
  const std::vector<float> part = (*m)(Tensor::of({3, 2}, std::span<const std::int64_t>(second))).to_vector();
  for (int t = 0; t < 3; ++t)
    for (int b = 0; b < 2; ++b)
      for (int k = 0; k < 11; ++k)
        EXPECT_NEAR(part[static_cast<std::size_t>((2 * t + b) * 11 + k)],
                    all[static_cast<std::size_t>((4 * t + 2 + b) * 11 + k)], 1e-6f);
  m->eval();
  const std::vector<float> kept = (*m)(text).to_vector();
  EXPECT_NE(kept, all);
  m->set_context(nullptr);
}

TEST(LanguageModel, RefusesWhatIsNoText) {
  const auto m = model({.vocabulary = 11, .hidden = 6});
  EXPECT_THROW((*m)(words(3, 4, 11, 6).view({12})), ShapeError);
  EXPECT_THROW((*m)(Tensor::zeros({3, 4})), ShapeError);
  EXPECT_THROW((*m)(words(3, 4, 300, 6)), DataError);
  LSTM::State state;
  (*m)(words(3, 4, 11, 6), state);
  EXPECT_THROW((*m)(words(3, 5, 11, 6), state), ShapeError);
}

TEST(Recipes, AreModelsOfTheZoo) {
  for (const auto& recipe : models::language_recipes()) {
    const ModelInfo info = model_info(recipe.name);
    EXPECT_TRUE(info.reads_text());
    EXPECT_EQ(info.input, Shape{recipe.bptt});
    EXPECT_EQ(info.classes, recipe.model.vocabulary);
    EXPECT_EQ(models::language_recipe(recipe.name), &recipe);
  }
  EXPECT_EQ(models::language_recipe("lenet"), nullptr);
}

}  // namespace
}  // namespace laconic
