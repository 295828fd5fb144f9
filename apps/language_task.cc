#include "apps/language_task.h"

#include <fmt/format.h>

#include "apps/generate.h"
#include "core/parallel.h"
#include "data/synthetic.h"
#include "data/synthetic_text.h"
#include "dist/trainer/language_modelling.h"

namespace laconic {
namespace {

class LanguageTask final : public Task {
 public:
  explicit LanguageTask(const std::string& data)
      : data_([data] { return is_synthetic(data) ? synthetic_text_named(data) : load_text(data); }) {}

  std::string model_name(const TrainOptions& o) const override { return o.model; }

  std::unique_ptr<Workload> workload(const TrainOptions& o, int rank, int workers) override {
    const std::shared_ptr<const TextDataset> data = data_.get();
    models::LanguageModel::Options model = models::language_recipe(o.model)->model;
    model.vocabulary = data->vocabulary.size();
    if (o.tied) model.tied = *o.tied;
    if (o.dropout) model.dropout = *o.dropout;
    return std::make_unique<LanguageModelling>(std::make_shared<models::LanguageModel>(model), data, rank, workers,
                                               LanguageModelling::Options{.batch = o.batch, .bptt = o.bptt});
  }

  void finish(const TrainOptions& o, Workload& workload) override {
    if (o.generate == 0) return;
    set_kernel_threads(1);  // one word at a time has no work for more, and the text is then the same for any --threads
    const GenerateOptions options{
        .words = o.generate, .temperature = o.temperature, .prompt = o.prompt, .seed = o.seed};
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

}  // namespace

std::unique_ptr<Task> make_language_task(const std::string& data) { return std::make_unique<LanguageTask>(data); }

AppDefaults language_app() {
  AppDefaults app;
  app.program = "ptb";
  app.description = "Trains an LSTM language model on text: the Penn Treebank, WikiText-2, or a file of yours.";
  app.footer =
      "Examples:\n"
      "  ptb --data data/ptb --workers 4 --batch 5    four workers as threads of this process\n"
      "  ptb --data book.txt --generate 200 --temperature 0.8\n"
      "  ptb --data data/wikitext-2 --model lstm-1500 --sync redsync --workers 4 --batch 5\n"
      "  ptb --data data/ptb --init run/weights.safetensors --steps 0 --generate 100 --prompt \"the market\"\n"
      "  laconic launch -n 4 ptb --data data/ptb      four workers as processes, over MPI";
  for (const auto& recipe : models::language_recipes()) app.models.push_back(recipe.name);
  app.options.model = "lstm-small";
  app.options.data = "data/ptb";
  use_published_recipe(app.options);
  app.of_model = use_published_recipe;
  app.reads_text = true;
  app.task = [](const TrainOptions& o) { return make_language_task(o.data); };
  return app;
}

void use_published_recipe(TrainOptions& o) {
  const models::LanguageRecipe* r = models::language_recipe(o.model);
  require<Error>(r != nullptr, "no recipe for the model ", o.model, ".");
  o.batch = static_cast<int>(r->batch);
  o.bptt = r->bptt;
  o.epochs = r->epochs;
  o.lr = static_cast<float>(r->lr);
  o.clip = {Clip::Kind::norm, r->clip_norm};
  o.schedule = r->decay > 0 ? divided_every_epoch(r->full_epochs, r->epochs, r->decay) : "plateau:0,0.25";
}

}  // namespace laconic
