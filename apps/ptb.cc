// Trains LSTM language models on the Penn Treebank, WikiText-2, or any text.
#include "apps/language_task.h"
#include "apps/main.h"
#include "apps/train.h"
#include "layers/models/language_model.h"

namespace {

laconic::AppDefaults defaults() {
  laconic::AppDefaults app;
  app.program = "ptb";
  app.description = "Trains an LSTM language model on text: the Penn Treebank, WikiText-2, or a file of yours.";
  app.footer =
      "Examples:\n"
      "  ptb --data data/ptb --workers 4 --batch 5    four workers as threads of this process\n"
      "  ptb --data book.txt --generate 200 --temperature 0.8\n"
      "  ptb --data data/wikitext-2 --model lstm-1500 --sync redsync --workers 4 --batch 5\n"
      "  ptb --data data/ptb --init run/weights.safetensors --steps 0 --generate 100 --prompt \"the market\"\n"
      "  laconic launch -n 4 ptb --data data/ptb      four workers as processes, over MPI";
  for (const auto& recipe : laconic::models::language_recipes()) app.models.push_back(recipe.name);
  app.options.model = "lstm-small";
  app.options.data = "data/ptb";
  laconic::use_published_recipe(app.options);
  app.of_model = laconic::use_published_recipe;
  app.reads_text = true;
  app.task = [](const laconic::TrainOptions& o) { return laconic::make_language_task(o.data); };
  return app;
}

}  // namespace

int main(int argc, char** argv) {
  return laconic::run_main([&] {
    const auto app = defaults();
    const auto options = laconic::parse_options(argc, argv, app);
    return options ? laconic::run_training(*options, app) : 0;
  });
}
