#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "apps/task.h"
#include "core/parallel.h"
#include "core/random.h"
#include "data/synthetic.h"
#include "dist/trainer/language_modelling.h"

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

namespace {

class LanguageTask final : public Task {
 public:
  explicit LanguageTask(const std::string& data)
      : data_(once([data] { return is_synthetic(data) ? synthetic_text_named(data) : load_text(data); })) {}

  std::unique_ptr<Workload> workload(const TrainOptions& o, const dist::Worker& worker) override {
    const std::shared_ptr<const TextDataset> data = data_.get();
    models::LanguageModel::Options model = models::language_recipe(o.model)->model;
    model.vocabulary = data->vocabulary.size();
    if (o.tied) model.tied = *o.tied;
    if (o.dropout) model.dropout = *o.dropout;
    return std::make_unique<LanguageModelling>(std::make_shared<models::LanguageModel>(model), data, worker.rank,
                                               worker.size,
                                               LanguageModelling::Options{.batch = o.batch, .bptt = o.bptt});
  }

  void finish(const TrainOptions& o, Workload& workload) override {
    if (o.generate.words == 0) return;
    set_kernel_threads(1);  // one word at a time has no work for more, and the text is then the same for any --threads
    GenerateOptions options = o.generate;
    options.seed = o.trainer.seed;
    fmt::print("{}{}", o.quiet ? "" : "\n",
               generate(dynamic_cast<models::LanguageModel&>(workload.model()), data_.get()->vocabulary, options));
  }

 private:
  Once<TextDataset> data_;
};

/// Full rate in the first epochs, then divided before each of the others.
std::string divided_every_epoch(std::int64_t full_epochs, std::int64_t epochs, double divisor) {
  std::string text = "multistep:";
  for (std::int64_t e = full_epochs; e < epochs; ++e) text += fmt::format("{},", e);
  return text + fmt::format("{:.6g}", 1 / divisor);
}

/// Puts the hyper-parameters that a language model was published with into the options that follow from its name.
void use_published_recipe(TrainOptions& o) {
  const models::LanguageRecipe* r = models::language_recipe(o.model);
  require<Error>(r != nullptr, "no recipe for the model ", o.model, ".");
  o.batch = static_cast<int>(r->batch);
  o.bptt = r->bptt;
  o.lr = static_cast<float>(r->lr);
  o.trainer.epochs = r->epochs;
  o.trainer.clip = {Clip::Kind::norm, r->clip_norm};
  o.trainer.schedule =
      Schedule::parse(r->decay > 0 ? divided_every_epoch(r->full_epochs, r->epochs, r->decay) : "plateau:0,0.25");
}

}  // namespace

std::unique_ptr<Task> make_language_task(const TrainOptions& o) { return std::make_unique<LanguageTask>(o.data); }

Program language_program() {
  Program program{
      .name = "ptb",
      .summary = "Trains an LSTM language model on text: the Penn Treebank, WikiText-2, or a file of yours.",
      .examples =
          "Examples:\n"
          "  ptb --data data/ptb --workers 4 --batch 5    four workers as threads of this process\n"
          "  ptb --data book.txt --generate 200 --temperature 0.8\n"
          "  ptb --data data/wikitext-2 --model lstm-1500 --sync redsync --workers 4 --batch 5\n"
          "  ptb --data data/ptb --init run/weights.safetensors --steps 0 --generate 100 --prompt \"the market\"\n"
          "  laconic launch -n 4 ptb --data data/ptb      four workers as processes, over MPI",
      .options = "--data data/ptb",
      .models = {},
      .reads = Program::Reads::text,
      .of_model = use_published_recipe};
  for (const auto& recipe : models::language_recipes()) program.models.push_back(recipe.name);
  return program;
}

}  // namespace laconic
