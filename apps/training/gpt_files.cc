#include "apps/training/gpt_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <tuple>

#include "apps/common/text.h"
#include "core/base/atomic_file.h"
#include "core/weights_file.h"
#include "data/bpe.h"
#include "layers/models/gpt_config.h"

namespace laconic {
namespace {

std::optional<models::GPT::Options> config_beside(const std::string& weights) {
  return weights.empty() ? std::nullopt : models::gpt_from_config(folder_of_weights(weights));
}

}  // namespace

models::GPT::Options gpt_asked_for(const TrainOptions& o, models::GPT::Options model) {
  const auto config = config_beside(o.trainer.init);
  if (config) model = *config;
  for (const auto& [name, given, its] :
       {std::tuple{"layers", o.layers, &model.layers}, std::tuple{"heads", o.heads, &model.heads},
        std::tuple{"width", o.width, &model.width}, std::tuple{"block", o.block, &model.block}}) {
    if (given == 0) continue;
    if (config && given != *its)
      refuse(fmt::format("the config.json beside the weights says {}", *its), fmt::format("--{} {}", name, given),
             "leave it out");
    *its = given;
  }
  if (o.dropout) model.dropout = *o.dropout;
  if (model.width % model.heads != 0)
    refuse(fmt::format("{} heads cannot share {} numbers", model.heads, model.width), "--heads and --width",
           "give a width that is a multiple of the heads");
  return model;
}

std::string tokens_of_weights(const TrainOptions& o) {
  if (!config_beside(o.trainer.init)) return "";
  const std::filesystem::path folder = folder_of_weights(o.trainer.init);
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::is_regular_file(folder / name, error);
  };
  if (!has("tokenizer.json") && !(has("vocab.json") && has("merges.txt"))) return "";
  // A number behind "bpe:" would be a size.
  return "bpe:" + (folder.is_absolute() ? folder : "." / folder).string();
}

std::string numbers_of_weights(const TrainOptions& o) {
  const auto config = config_beside(o.trainer.init);
  return config ? fmt::format("numbers:{}", config->vocabulary) : "numbers";
}

void require_room_for_export(const TrainOptions& o, const models::GPT::Options& model, const TextDataset& data) {
  const std::filesystem::path folder = folder_of_weights(o.export_path), config = folder / "config.json";
  const auto sizes = [](const models::GPT::Options& of) {
    return std::tuple(of.layers, of.heads, of.width, of.block, of.vocabulary);
  };
  const auto is_of_such_a_gpt = [&] {
    try {
      const auto there = models::gpt_from_config(folder.string());
      return there && sizes(*there) == sizes(model);
    } catch (const DataError&) {
      return false;
    }
  };
  std::error_code none;
  const bool described = std::filesystem::exists(config, none);
  if (described && !is_of_such_a_gpt())
    refuse(config.string() + " is of something else, and would be replaced", "--export", "name another folder");
  if (described && data.pairs) return;
  for (const char* const name : {"tokenizer.json", "vocab.json", "merges.txt"})
    if (const auto file = folder / name; std::filesystem::exists(file, none))
      refuse(file.string() + " is there, and of something else", "--export", "name another folder");
}

void export_gpt(const TrainOptions& o, const models::GPT& model, const Workload& workload, const TextDataset& data) {
  const std::filesystem::path folder = folder_of_weights(o.export_path);
  StateDict weights = models::for_hugging_face(model);
  weights.set_text("model", o.model);
  for (const auto& [name, value] : model.settings()) weights.set_text(name, value);
  workload.describe_weights(weights);
  // Weights come last: whoever finds them finds what belongs to them.
  if (data.pairs) data.pairs->save(folder.string());
  AtomicFile config((folder / "config.json").string());
  config.write(models::config_of(model, data.pairs ? data.vocabulary.find("<|endoftext|>") : std::nullopt));
  config.commit();
  save_safetensors(weights, o.export_path);
  if (!o.quiet)
    fmt::print("weights for Hugging Face: {}, with {}\n", o.export_path,
               data.pairs ? "config.json, tokenizer.json, vocab.json and merges.txt" : "config.json");
}

}  // namespace laconic
