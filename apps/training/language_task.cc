#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "apps/common/text.h"
#include "apps/training/gpt_files.h"
#include "apps/training/task.h"
#include "core/base/parallel.h"
#include "data/synthetic.h"
#include "dist/trainer/language_modelling.h"

namespace laconic {
namespace {

Tokens tokens_of(const TrainOptions& o) {
  const bool numbers = !is_synthetic(o.data) && has_token_numbers(o.data);
  const bool words = o.tokens.empty() && !numbers && (models::gpt_recipe(o.model) == nullptr || is_synthetic(o.data));
  std::string text = o.tokens;
  if (text.empty() && !words) text = tokens_of_weights(o);
  if (text.empty()) text = numbers ? numbers_of_weights(o) : "chars";
  const Tokens tokens = words ? Tokens{} : Tokens::parse(text);
  if (is_synthetic(o.data) && tokens.kind != Tokens::Kind::words)
    refuse("synthetic text is made of words", "--tokens " + o.tokens, "leave it out, or give a text with --data");
  return tokens;
}

class LanguageTask final : public Task {
 public:
  explicit LanguageTask(const TrainOptions& o)
      : data_(once([data = o.data, tokens = tokens_of(o)] {
          return is_synthetic(data) ? synthetic_text_named(data) : load_text(data, tokens);
        })) {}

  std::unique_ptr<Workload> workload(const TrainOptions& o, const dist::Worker& worker) override {
    const models::GptRecipe* const gpt = models::gpt_recipe(o.model);
    // Whether the prompt can be read is to be known before hours of training.
    if (o.generate.words > 0 && data_.get()->tokens.kind != Tokens::Kind::words) data_.get()->encode(o.generate.prompt);
    return gpt ? of_blocks(o, gpt->model, worker) : of_streams(o, worker);
  }

  void finish(const TrainOptions& o, Workload& workload, const Stop& stop) override {
    auto* const gpt = dynamic_cast<models::GPT*>(&workload.model());
    if (!o.export_path.empty()) export_gpt(o, *gpt, workload, *data_.get());
    if (o.generate.words == 0) return;
    set_kernel_threads(1);  // one word at a time has no work for more, and the text is then the same for any --threads
    GenerateOptions options = o.generate;
    options.seed = o.trainer.seed, options.stop = stop;
    const ReadToken read = gpt ? reader(*gpt) : reader(dynamic_cast<models::LanguageModel&>(workload.model()));
    if (!o.quiet) fmt::print("\n");
    generate(read, *data_.get(), options, [](std::string_view text) {
      fmt::print("{}", text);
      const bool written = std::fflush(stdout) == 0;
      require<DataError>(written, "the text could not be written: ", std::strerror(errno),
                         ". Free some space, or send it elsewhere.");
    });
  }

 private:
  std::unique_ptr<Workload> of_streams(const TrainOptions& o, const dist::Worker& worker) {
    const std::shared_ptr<const TextDataset> data = data_.get();
    models::LanguageModel::Options model = models::language_recipe(o.model)->model;
    model.vocabulary = data->vocabulary.size();
    if (o.tied) model.tied = *o.tied;
    if (o.dropout) model.dropout = *o.dropout;
    return std::make_unique<LanguageModelling>(std::make_shared<models::LanguageModel>(model), data, worker.rank,
                                               worker.size,
                                               LanguageModelling::Options{.batch = o.batch, .bptt = o.bptt});
  }

  std::unique_ptr<Workload> of_blocks(const TrainOptions& o, const models::GPT::Options& of_recipe,
                                      const dist::Worker& worker) {
    const std::shared_ptr<const TextDataset> data = data_.get();
    models::GPT::Options model = gpt_asked_for(o, of_recipe);
    model.vocabulary = data->vocabulary.size();
    if (!o.export_path.empty()) require_room_for_export(o, model, *data);
    return std::make_unique<BlockLanguageModelling>(
        std::make_shared<models::GPT>(model), data, worker.rank, worker.size,
        BlockLanguageModelling::Options{.batch = o.batch,
                                        .block = model.block,
                                        .shuffle = o.images.shuffle,
                                        .seed = o.trainer.seed,
                                        .model = fmt::format("{}, heads {}, width {}, dropout {}", model.layers,
                                                             model.heads, model.width, model.dropout)});
  }

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

/// nanoGPT's: "config/train_shakespeare_char.py", and what its README takes on a computer without GPU.
void use_nanogpt_recipe(TrainOptions& o) {
  const bool small = o.model == "gpt-4x128", large = o.model == "gpt2";
  o.batch = small ? 12 : large ? 4 : 64;
  o.trainer.steps = small ? 2000 : 5000;
  o.trainer.epochs = 0;  // the schedule ends with the steps
}

}  // namespace

std::unique_ptr<Task> make_language_task(const TrainOptions& o) { return std::make_unique<LanguageTask>(o); }

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

Program gpt_program() {
  Program program{.name = "gpt",
                  .summary = "Trains a small GPT on a text: its characters, words, or pairs of bytes.",
                  .examples =
                      "Examples:\n"
                      "  gpt --data input.txt --generate 500               nanoGPT's small model, then 500 characters\n"
                      "  gpt --preset shakespeare-char --data input.txt    nanoGPT's larger one\n"
                      "  gpt --data book.txt --tokens bpe:1000 --layers 6 --width 192 --heads 6\n"
                      "  gpt --data input.txt --workers 4 --batch 3 --link 100mbit,1ms --sync rounds --every 20\n"
                      "  laconic launch -n 4 gpt --data input.txt --batch 3",
                  .options =
                      "--data data/tinyshakespeare.txt --optimizer adamw --betas 0.9,0.99 --weight-decay 0.1 "
                      "--no-decay-norm-bias --clip norm:1 --schedule warmup:100it+cosine:0.1",
                  .models = {},
                  .reads = Program::Reads::blocks,
                  .of_model = use_nanogpt_recipe};
  for (const auto& recipe : models::gpt_recipes()) program.models.push_back(recipe.name);
  return program;
}

}  // namespace laconic
