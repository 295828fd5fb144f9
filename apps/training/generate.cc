#include "apps/training/generate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <sstream>

#include "core/base/random.h"

namespace laconic {
namespace {

/// One token's number by its chance; `left_out` has none.
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

/// Calls write for each new token.
template <class Write>
void go_on(const ReadToken& read, std::vector<float> logits, std::int64_t left_out, const GenerateOptions& o,
           Write&& write) {
  for (std::int64_t i = 0; i < o.words && !(o.stop && o.stop()); ++i) {
    Random random(o.seed, Purpose::generate, static_cast<std::uint64_t>(i));
    const std::int64_t token = draw(logits, o.temperature, left_out, random);
    write(token);
    if (i + 1 < o.words) logits = read(token);
  }
}

/// Shows text, and knows whether its last line is still open.
class Written {
 public:
  explicit Written(const std::function<void(std::string_view)>& show) : show_(show) {}

  void add(std::string_view text) {
    if (text.empty()) return;
    show_(text);
    last_ = text.back();
  }
  void add_word(const std::string& word) { add((in_line() ? " " : "") + word); }
  bool in_line() const { return last_ != '\n'; }

 private:
  const std::function<void(std::string_view)>& show_;
  char last_ = '\n';
};

void words(const ReadToken& read, const Vocabulary& vocabulary, const GenerateOptions& o, Written& written) {
  const std::int64_t unknown = vocabulary.find(Vocabulary::kUnknown).value_or(-1);
  const std::int64_t end = vocabulary.find(Vocabulary::kEnd).value_or(-1);
  std::vector<float> logits = read(std::max<std::int64_t>(end, 0));
  std::istringstream prompt(o.prompt);
  for (std::string word; prompt >> word;) {
    written.add_word(word);
    const auto known = vocabulary.find(word);
    logits = read(known.value_or(static_cast<std::int32_t>(std::max<std::int64_t>(unknown, 0))));
  }
  go_on(read, std::move(logits), unknown, o, [&](std::int64_t word) {
    if (word == end)
      written.add("\n");
    else
      written.add_word(vocabulary.word(static_cast<std::int32_t>(word)));
  });
}

void as_they_are(const ReadToken& read, const TextDataset& text, const GenerateOptions& o, Written& written) {
  std::vector<std::int32_t> prompt = text.encode(o.prompt);
  written.add(o.prompt);
  if (prompt.empty()) prompt = text.vocabulary.find("\n") ? text.encode("\n") : std::vector<std::int32_t>{0};
  std::vector<float> logits;
  for (const std::int32_t token : prompt) logits = read(token);
  go_on(read, std::move(logits), -1, o, [&](std::int64_t token) {
    const auto number = static_cast<std::int32_t>(token);
    written.add(text.decode({&number, 1}));
  });
}

}  // namespace

ReadToken reader(models::LanguageModel& model) {
  model.eval();
  return [&model, state = LSTM::State(),
          device = model.parameters().front()->value().device()](std::int64_t token) mutable {
    const NoGrad no_grad;
    return model(Tensor::of({1, 1}, std::span<const std::int64_t>(&token, 1), device), state).to_vector();
  };
}

ReadToken reader(models::GPT& model) {
  model.eval();
  return [&model, seen = std::vector<std::int64_t>(),
          device = model.parameters().front()->value().device()](std::int64_t token) mutable {
    const NoGrad no_grad;
    if (std::ssize(seen) == model.options().block) seen.erase(seen.begin());
    seen.push_back(token);
    const std::int64_t T = std::ssize(seen);
    return model(Tensor::of({T, 1}, std::span<const std::int64_t>(seen), device)).rows(T - 1, 1).to_vector();
  };
}

void generate(const ReadToken& read, const TextDataset& text, const GenerateOptions& o,
              const std::function<void(std::string_view)>& show) {
  Written written(show);
  if (text.tokens.are_spaced())
    words(read, text.vocabulary, o, written);
  else
    as_they_are(read, text, o, written);
  if (written.in_line()) written.add("\n");
}

}  // namespace laconic
