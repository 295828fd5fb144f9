// Letting a language model write: chances, temperatures, what is never written.
#include "apps/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

namespace laconic {
namespace {

Vocabulary words(const std::vector<const char*>& all) {
  Vocabulary v;
  for (const char* w : all) v.add(w);
  return v;
}

/// Its logits are the decoder's bias, whatever it has read.
models::LanguageModel& with_logits(models::LanguageModel& m, const std::vector<float>& logits) {
  m.initialize(1);
  for (const auto& [name, p] : m.named_parameters()) {
    if (name == "decoder.weight") p->value().copy_from(Tensor::zeros(p->value().shape()));
    if (name == "decoder.bias") p->value().copy_from(Tensor::of(p->value().shape(), logits));
  }
  return m;
}

std::map<std::string, double> shares(const std::string& text) {
  std::map<std::string, double> counts;
  std::istringstream in(text);
  double n = 0;
  for (std::string w; in >> w; ++n) ++counts[w];
  for (auto& [w, c] : counts) c /= n;
  return counts;
}

TEST(Generate, DrawsWordsByTheirChances) {
  models::LanguageModel m({.vocabulary = 5, .hidden = 3});
  const Vocabulary v = words({"a", "b", "<eos>", "<unk>", "c"});
  with_logits(m, {std::log(6.f), std::log(3.f), -50, 50, std::log(1.f)});
  auto got = shares(generate(m, v, {.words = 4000}));
  EXPECT_NEAR(got["a"], 0.6, 0.03);
  EXPECT_NEAR(got["b"], 0.3, 0.03);
  EXPECT_NEAR(got["c"], 0.1, 0.02);
  EXPECT_EQ(got.count("<unk>"), 0u);                                  // the likeliest of all
  got = shares(generate(m, v, {.words = 4000, .temperature = 0.5}));  // chances squared
  EXPECT_NEAR(got["a"], 36 / 46.0, 0.03);
  EXPECT_NEAR(got["c"], 1 / 46.0, 0.01);
  got = shares(generate(m, v, {.words = 50, .temperature = 0}));
  EXPECT_EQ(got["a"], 1);
  got = shares(generate(m, v, {.words = 50, .temperature = 1e-30}));
  EXPECT_EQ(got["a"], 1);
}

TEST(Generate, BreaksLinesAtTheirEnd) {
  models::LanguageModel m({.vocabulary = 3, .hidden = 3});
  const Vocabulary v = words({"a", "<eos>", "<unk>"});
  EXPECT_EQ(generate(with_logits(m, {-9, 9, 0}), v, {.words = 2, .temperature = 0, .prompt = "a  zebra"}),
            "a zebra\n\n");
  EXPECT_EQ(generate(with_logits(m, {9, -9, 0}), v, {.words = 3, .temperature = 0}), "a a a\n");
  EXPECT_EQ(generate(m, v, {.words = 0, .prompt = "a"}), "a\n");
  EXPECT_EQ(generate(m, v, {.words = 0}), "");
}

TEST(Generate, WritesTheUnknownWordOnlyIfThereIsNoOther) {
  models::LanguageModel m({.vocabulary = 1, .hidden = 3});
  m.initialize(1);
  EXPECT_EQ(generate(m, words({"<unk>"}), {.words = 2}), "<unk> <unk>\n");
}

TEST(Generate, IsAFunctionOfTheSeedAndThePrompt) {
  models::LanguageModel m({.vocabulary = 9, .hidden = 6, .dropout = 0.5f, .range = 4});
  m.initialize(1);
  const Vocabulary v = words({"a", "b", "c", "d", "e", "f", "g", "<eos>", "<unk>"});
  const std::string text = generate(m, v, {.words = 40, .prompt = "a b", .seed = 3});
  EXPECT_EQ(text, generate(m, v, {.words = 40, .prompt = "a b", .seed = 3}));
  EXPECT_NE(text, generate(m, v, {.words = 40, .prompt = "a b", .seed = 4}));
  std::set<std::string> texts;  // behind other prompts
  for (const char* prompt : {"a a", "b c", "c g", "d e", "e b", "f f", "g a", "c c c c", "e e e e", "g g g g"})
    texts.insert(generate(m, v, {.words = 40, .prompt = prompt, .seed = 3}).substr(std::string(prompt).size()));
  EXPECT_GT(texts.size(), 1u);
  // What it writes does not depend on how much it is asked for.
  EXPECT_EQ(text.rfind(generate(m, v, {.words = 10, .prompt = "a b", .seed = 3}).substr(0, 12), 0), 0u);
}

}  // namespace
}  // namespace laconic
