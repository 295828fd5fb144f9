// What a checkpoint promises: complete or absent, and refused with a sentence where it does not fit.
#include "dist/trainer/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

Recipe saving_in(const TempFolder& folder, int workers = 2) {
  Recipe recipe(perceptron, workers);
  recipe.data = tiny_images(40, 10);
  recipe.task.batch = 4;
  recipe.trainer.steps = 2;
  recipe.trainer.save = folder.path();
  return recipe;
}

Recipe resuming_from(const TempFolder& folder, int workers = 2) {
  Recipe recipe = saving_in(folder, workers);
  recipe.trainer.resume = folder.path();
  recipe.trainer.steps = 4;
  return recipe;
}

std::string refusal(const Recipe& recipe) {
  return error_of<DataError>([&] { train(recipe); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, HoldsAFileForEachRankAndAManifest) {
  TempFolder folder;
  train(saving_in(folder));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"checkpoint-000000000002", "weights.safetensors"}));
  EXPECT_EQ(names_in(folder / "checkpoint-000000000002"),
            (std::vector<std::string>{"manifest.json", "rank-0.safetensors", "rank-1.safetensors"}));
  const Manifest m = CheckpointStore::read_manifest(CheckpointStore::newest(folder.path()));
  EXPECT_EQ(m.step, 2);
  EXPECT_EQ(m.workers, 2);
  EXPECT_TRUE(has(m.plan, "fc1.weight")) << m.plan;
}

TEST(Checkpoint, TheTwoNewestAreKept) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  recipe.trainer.save_every = Every{1, true};
  recipe.trainer.steps = 5;
  train(recipe);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"checkpoint-000000000004", "checkpoint-000000000005", "weights.safetensors"}));
}

TEST(Checkpoint, ARunThatStartsAnewIsNotTakenForTheOldOne) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  recipe.trainer.steps = 5;
  recipe.trainer.save_every = Every{4, true};
  train(recipe);
  recipe.trainer.steps = 2;  // in the same folder, and not as far
  train(recipe);
  EXPECT_EQ(CheckpointStore::newest(folder.path()), folder / "checkpoint-000000000002");
}

TEST(Checkpoint, WithoutAManifestItDoesNotCount) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  train(recipe);
  recipe.trainer.steps = 3;
  train(recipe);
  fs::remove(folder / "checkpoint-000000000003/manifest.json");
  fs::remove(folder / "checkpoint-000000000003/rank-1.safetensors");
  EXPECT_EQ(CheckpointStore::newest(folder.path()), folder / "checkpoint-000000000002");
  EXPECT_EQ(train(resuming_from(folder)).steps.front().step, 3);
}

TEST(Checkpoint, OneCanBeNamedItself) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  train(recipe);
  recipe.trainer.resume = folder / "checkpoint-000000000002";
  recipe.trainer.steps = 3;
  train(recipe);
  recipe.trainer.steps = 4;
  EXPECT_EQ(train(recipe).steps.size(), 2u);
}

TEST(Checkpoint, WhereThereIsNoneTheFolderIsNamed) {
  TempFolder folder;
  EXPECT_EQ(refusal(resuming_from(folder)),
            "resume: no complete checkpoint in " + folder.path() + ". Name a directory that --save wrote to.");
}

TEST(Checkpoint, ADamagedManifestIsSaid) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string manifest = folder / "checkpoint-000000000002/manifest.json";
  for (const char* text :
       {"", "{\"format\": 1, \"step\"", "[]", "{\"format\": 1}", "{\"format\": 1, \"step\": \"two\"}"}) {
    std::ofstream(manifest) << text;
    const std::string error = refusal(resuming_from(folder));
    EXPECT_TRUE(has(error, manifest) && has(error, "is damaged")) << text << ": " << error;
  }
  std::ofstream(manifest) << "{\"format\": 2}";
  EXPECT_TRUE(has(refusal(resuming_from(folder)), "has format 2, this version reads 1"));
}

TEST(Checkpoint, ADamagedOrMissingFileOfARankIsSaid) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string file = folder / "checkpoint-000000000002/rank-1.safetensors";
  const auto size = fs::file_size(file);
  for (const std::uintmax_t left : {size - 1, size / 2, std::uintmax_t{4}, std::uintmax_t{0}}) {
    fs::resize_file(file, left);
    const std::string error = refusal(resuming_from(folder));
    EXPECT_TRUE(has(error, file)) << left << ": " << error;
  }
  fs::remove(file);
  EXPECT_TRUE(has(refusal(resuming_from(folder)), file));
}

TEST(Checkpoint, AnotherNumberOfWorkersIsRefused) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string error = refusal(resuming_from(folder, 3));
  EXPECT_TRUE(has(error, "is of 2 workers, this run has 3")) << error;
}

TEST(Checkpoint, OtherOptionsAreRefusedAndNamed) {
  TempFolder folder;
  train(saving_in(folder));
  const auto with = [&](const std::function<void(Recipe&)>& change) {
    Recipe recipe = resuming_from(folder);
    change(recipe);
    return refusal(recipe);
  };
  std::string error = with([](Recipe& r) { r.model = convolutional, r.trainer.model_name = "other"; });
  EXPECT_TRUE(has(error, "model=model, this run has model=other")) << error;
  error = with([](Recipe& r) { r.model = convolutional; });
  EXPECT_TRUE(has(error, "parameters=")) << error;
  error = with([](Recipe& r) { r.task.batch = 5; });
  EXPECT_TRUE(has(error, "batch=4") && has(error, "batch=5")) << error;
  EXPECT_FALSE(has(error, "train=40")) << "only what differs: " << error;
  error = with([](Recipe& r) { r.trainer.lr = 0.2; });
  EXPECT_TRUE(has(error, "lr=0.1, this run has lr=0.2")) << error;
  error = with([](Recipe& r) { r.data = tiny_images(41, 10); });
  EXPECT_TRUE(has(error, "train=40")) << error;
  EXPECT_EQ(with([](Recipe&) {}), "");
}

TEST(Checkpoint, WeightsThatDoNotFitNameTheFirstMismatch) {
  TempFolder folder;
  Recipe recipe = saving_in(folder, 1);
  recipe.model = convolutional;
  train(recipe);
  recipe.trainer.init = folder / "weights.safetensors";
  recipe.trainer.save.clear();
  recipe.model = [] {
    return sequential({{"conv", make<Conv2d>({.in = 3, .out = 8, .pad = 1})},
                       {"pool", make<MaxPool2d>({.kernel = 2})},
                       {"flatten", make<Flatten>()},
                       {"fc", make<Linear>({.in = 128, .out = 9})}});
  };
  std::string error = refusal(recipe);
  EXPECT_TRUE(has(error, "fc.weight") && has(error, "[9, 128]") && has(error, "[7, 128]")) << error;
  recipe.model = perceptron;
  error = refusal(recipe);
  EXPECT_TRUE(has(error, "fc1.weight")) << error;
}

TEST(Checkpoint, WeightsMoveToAnyNumberOfWorkers) {
  TempFolder folder;
  Recipe recipe = saving_in(folder, 1);
  const Outcome source = train(recipe);
  recipe.trainer.init = folder / "weights.safetensors";
  recipe.trainer.save.clear();
  recipe.trainer.steps = 0;
  recipe.workers = 3;
  const Outcome copies = train(recipe);
  for (const auto& parameters : copies.parameters) EXPECT_TRUE(same_bits(parameters, source.parameters[0]));
}

TEST(Checkpoint, APlaceThatCannotBeWrittenToIsSaid) {
  TempFolder folder;
  std::ofstream(folder / "file") << "not a folder";
  Recipe recipe = saving_in(folder);
  recipe.trainer.save = folder / "file";
  EXPECT_TRUE(has(refusal(recipe), folder / "file"));
}

}  // namespace
}  // namespace laconic
