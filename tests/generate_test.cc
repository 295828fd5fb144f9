// Letting a language model write: chances, temperatures, what is never written.
#include "apps/training/generate.h"

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

std::string generate(const ReadToken& read, const TextDataset& text, const GenerateOptions& options) {
  std::string all;
  laconic::generate(read, text, options, [&](std::string_view shown) { all += shown; });
  return all;
}

std::string generate(models::LanguageModel& model, const Vocabulary& vocabulary, const GenerateOptions& options) {
  TextDataset text;
  for (std::int32_t i = 0; i < vocabulary.size(); ++i) text.vocabulary.add(vocabulary.word(i));
  return generate(reader(model), text, options);
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

TextDataset characters(const std::string& all) {
  TextDataset text;
  text.tokens.kind = Tokens::Kind::characters;
  for (const char c : all) text.vocabulary.add(std::string(1, c));
  return text;
}

TEST(Generate, WritesCharactersAsTheyAre) {
  const TextDataset text = characters("\n abc");
  std::vector<std::int64_t> read;
  const ReadToken next = [&](std::int64_t token) {  // c follows a, blank follows c, a all others
    read.push_back(token);
    std::vector<float> logits(5, -9.0f);
    logits[token == 2 ? 4 : token == 4 ? 1 : 2] = 9;
    return logits;
  };
  EXPECT_EQ(generate(next, text, {.words = 4, .temperature = 0}), "ac a\n");
  EXPECT_EQ(read, (std::vector<std::int64_t>{0, 2, 4, 1})) << "a line begins, and the last one is not read";
  EXPECT_EQ(generate(next, text, {.words = 2, .temperature = 0, .prompt = "b c"}), "b c a\n");
  std::string shown;
  EXPECT_THROW(laconic::generate(next, text, {.words = 2, .prompt = "az"}, [&](std::string_view s) { shown += s; }),
               DataError);
  EXPECT_EQ(shown, "");
}

TEST(Generate, ShowsEachTokenBeforeTheNextAndStopsWhereItIsTold) {
  const TextDataset text = characters("\nab");
  std::vector<std::string> shown;
  std::size_t seen = 0;
  GenerateOptions options{.words = 1000, .temperature = 0, .prompt = "b"};
  options.stop = [&] { return shown.size() == 4; };
  laconic::generate(
      [&](std::int64_t) {
        return seen = shown.size(), std::vector<float>{0, 9, 0};
      },
      text, options, [&](std::string_view token) { shown.emplace_back(token); });
  EXPECT_EQ(shown, (std::vector<std::string>{"b", "a", "a", "a", "\n"})) << "the line ends";
  EXPECT_EQ(seen, 4u);
}

TEST(Generate, AGptSeesItsLastBlock) {
  models::GPT model({.vocabulary = 7, .layers = 1, .heads = 2, .width = 8, .block = 3});
  model.initialize(4);
  const std::vector<std::int64_t> tokens{1, 6, 2, 2, 5};
  std::vector<float> last;
  ReadToken read = reader(model);
  for (const std::int64_t token : tokens) last = read(token);
  const Tensor whole = model(Tensor::of({3, 1}, std::span<const std::int64_t>(tokens).last(3)));
  EXPECT_EQ(last, whole.rows(2, 1).to_vector());
}

}  // namespace
}  // namespace laconic
