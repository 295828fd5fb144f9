#include "apps/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <sstream>
#include <vector>

#include "core/random.h"

namespace laconic {
namespace {

/// One word's number by its chance; `left_out` has none.
std::int64_t draw(const std::vector<float>& logits, double temperature, std::int64_t left_out, Random& random) {
  std::int64_t best = -1;
  for (std::size_t k = 0; k < logits.size(); ++k)
    if (static_cast<std::int64_t>(k) != left_out && (best < 0 || logits[k] > logits[static_cast<std::size_t>(best)]))
      best = static_cast<std::int64_t>(k);
  if (best < 0) return left_out;
  if (temperature == 0) return best;
  const double highest = static_cast<double>(logits[static_cast<std::size_t>(best)]);
  std::vector<double> chances(logits.size());
  for (std::size_t k = 0; k < logits.size(); ++k)
    if (static_cast<std::int64_t>(k) != left_out)
      chances[k] = std::exp((static_cast<double>(logits[k]) - highest) / temperature);
  double rest = std::accumulate(chances.begin(), chances.end(), 0.0) * static_cast<double>(random.uniform());
  for (std::size_t k = 0; k < chances.size(); ++k)
    if ((rest -= chances[k]) < 0) return static_cast<std::int64_t>(k);
  return best;  // rounding
}

}  // namespace

std::string generate(models::LanguageModel& model, const Vocabulary& vocabulary, const GenerateOptions& o) {
  const NoGrad no_grad;
  model.eval();
  const std::int64_t unknown = vocabulary.find(Vocabulary::kUnknown).value_or(-1);
  const std::int64_t end = vocabulary.find(Vocabulary::kEnd).value_or(-1);
  const Device device = model.parameters().front()->value().device();
  LSTM::State state;
  Tensor logits;
  const auto read = [&](std::int64_t word) {
    logits = model(Tensor::of({1, 1}, std::span<const std::int64_t>(&word, 1), device), state);
  };
  read(std::max<std::int64_t>(end, 0));
  std::istringstream prompt(o.prompt);
  std::string text;
  const auto write = [&](const std::string& word) { text += (text.empty() || text.back() == '\n' ? "" : " ") + word; };
  for (std::string word; prompt >> word;) {
    const auto known = vocabulary.find(word);
    read(known.value_or(static_cast<std::int32_t>(std::max<std::int64_t>(unknown, 0))));
    write(word);
  }
  for (std::int64_t i = 0; i < o.words; ++i) {
    Random random(o.seed, Purpose::generate, static_cast<std::uint64_t>(i));
    const std::int64_t word = draw(logits.to_vector(), o.temperature, unknown, random);
    if (word == end)
      text += '\n';
    else
      write(vocabulary.word(static_cast<std::int32_t>(word)));
    if (i + 1 < o.words) read(word);
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

}  // namespace laconic
