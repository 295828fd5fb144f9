// What a checkpoint promises: complete or absent, and refused with a sentence where it does not fit.
#include "dist/trainer/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

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
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"checkpoint-000000000002", "run.json", "weights.safetensors"}));
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
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"checkpoint-000000000004", "checkpoint-000000000005",
                                                               "run.json", "weights.safetensors"}));
}

TEST(Checkpoint, ARunThatStartsAnewIsNotTakenForTheOldOne) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  recipe.trainer.steps = 5;
  recipe.trainer.save_every = Every{4, true};
  train(recipe);
  recipe.trainer.steps = 2;  // in the same folder, and not as far
  recipe.trainer.overwrite = true;
  train(recipe);
  EXPECT_EQ(CheckpointStore::newest(folder.path()), folder / "checkpoint-000000000002");
}

TEST(Checkpoint, WithoutAManifestItDoesNotCount) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  train(recipe);
  recipe.trainer.steps = 3, recipe.trainer.resume = folder.path();
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
            "resume: no complete checkpoint in " + folder.path() + ". Name a directory that `save` wrote to.");
}

TEST(Checkpoint, ADamagedManifestIsSaid) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string manifest = folder / "checkpoint-000000000002/manifest.json";
  for (const char* text : {"", "{\"format\": 1, \"step\"", "[]", "{\"format\": 1}",
                           "{\"format\": 1, \"step\": \"two\"}", "{\"format\": 2}"}) {
    std::ofstream(manifest) << text;
    const std::string error = refusal(resuming_from(folder));
    EXPECT_TRUE(has(error, manifest) && has(error, "is damaged")) << text << ": " << error;
  }
  std::ofstream(manifest) << "{\"format\": 3}";
  EXPECT_TRUE(has(refusal(resuming_from(folder)), "has format 3, this version reads 1 and 2"));
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

TEST(Checkpoint, ARanksFileThatIsMissingIsNamedToAnyNumberOfWorkers) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string file = folder / "checkpoint-000000000002/rank-1.safetensors";
  fs::remove(file);
  for (const int workers : {1, 2, 3}) {
    const std::string error = refusal(resuming_from(folder, workers));
    EXPECT_TRUE(has(error, file)) << error;
  }
}

TEST(Checkpoint, OfAnEarlierVersionIsForAsManyWorkers) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string path = CheckpointStore::newest(folder.path());
  Manifest m = CheckpointStore::read_manifest(path);
  m.position.reset();
  CheckpointStore(folder.path()).complete(m, 2);
  const std::string error = refusal(resuming_from(folder, 3));
  EXPECT_TRUE(has(error, "is of an earlier version")) << error;
  EXPECT_TRUE(has(error, "Start 2 workers")) << error;
  EXPECT_NO_THROW(train(resuming_from(folder)));
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

TEST(Checkpoint, WeightsThatAreNotFiniteAreNamed) {
  TempFolder folder;
  train(saving_in(folder));
  const auto spoil = [](const std::string& path, const std::string& tensor) {
    StateDict state = load_safetensors(path);
    float* values = state.at(tensor).data<float>();
    values[2] = std::numeric_limits<float>::quiet_NaN(), values[3] = -std::numeric_limits<float>::infinity();
    return save_safetensors(state, path);
  };
  const std::string weights = folder / "weights.safetensors", checkpoint = folder / "checkpoint-000000000002";
  spoil(weights, "fc2.bias");
  Manifest manifest = CheckpointStore::read_manifest(checkpoint);
  manifest.ranks[1] = spoil(checkpoint + "/rank-1.safetensors", "model/fc2.bias");
  CheckpointStore(folder.path()).complete(manifest, 2);  // no damage of the file
  Recipe recipe = saving_in(folder);
  recipe.trainer.init = weights;
  EXPECT_EQ(refusal(recipe), weights +
                                 ": 2 of the 7 elements of 'fc2.bias' are not finite. Take weights from before they "
                                 "went wrong.");
  EXPECT_TRUE(has(refusal(resuming_from(folder)), checkpoint + ": 2 of the 7 elements of 'fc2.bias' are not finite"));
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

// ------------------------------------------------------------------------------------------------------- integrity

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Two whole checkpoints, after steps 1 and 2.
Recipe saving_twice(const TempFolder& folder) {
  Recipe recipe = saving_in(folder);
  recipe.trainer.save_every = Every{1, true};
  return recipe;
}

TEST(Checkpoint, EveryFlippedBitIsFound) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string checkpoint = folder / "checkpoint-000000000002";
  const Manifest whole = CheckpointStore::read_manifest(checkpoint);
  std::uint32_t random = 1;
  for (const char* name : {"/manifest.json", "/rank-0.safetensors", "/rank-1.safetensors"}) {
    const std::string before = file_text(checkpoint + name);
    for (int trial = 0; trial < 200; ++trial) {
      random = random * 1664525u + 1013904223u;
      std::string damaged = before;
      char& byte = damaged[random % damaged.size()];
      byte = static_cast<char>(byte ^ (1 << (random >> 29)));
      write_bytes(checkpoint + name, damaged);
      const std::string error = error_of<DataError>([&] {
        const Manifest m = CheckpointStore::read_manifest(checkpoint);
        EXPECT_EQ(m.step, whole.step);  // a blank that became another one is no damage
        EXPECT_EQ(m.ranks, whole.ranks);
        EXPECT_EQ(m.fingerprint, whole.fingerprint);
        for (int rank : {0, 1}) CheckpointStore::verify(checkpoint, m, rank);
      });
      if (std::string(name) != "/manifest.json") {
        // A flip in the few letters that say whose file it is makes it another's.
        EXPECT_TRUE(has(error, "is damaged") || has(error, ", not of rank ")) << error;
      }
    }
    write_bytes(checkpoint + name, before);
  }
}

TEST(Checkpoint, FilesOfAnotherRankOrStepAreFound) {
  TempFolder folder;
  train(saving_twice(folder));
  const std::string older = folder / "checkpoint-000000000001", newer = folder / "checkpoint-000000000002";
  const std::string mine = file_text(newer + "/rank-0.safetensors");
  write_bytes(newer + "/rank-0.safetensors", file_text(newer + "/rank-1.safetensors"));
  const Manifest m = CheckpointStore::read_manifest(newer);
  std::string error = error_of<DataError>([&] { CheckpointStore::verify(newer, m, 0); });
  EXPECT_TRUE(has(error, "is of rank 1 after step 2 of run " + m.run + ", not of rank 0 after step 2")) << error;
  write_bytes(newer + "/rank-0.safetensors", file_text(older + "/rank-0.safetensors"));
  error = error_of<DataError>([&] { CheckpointStore::verify(newer, m, 0); });
  EXPECT_TRUE(has(error, "is of rank 0 after step 1 of run")) << error;
  write_bytes(newer + "/rank-0.safetensors", mine);
  EXPECT_EQ(error_of<DataError>([&] { CheckpointStore::verify(newer, m, 0); }), "");
  write_bytes(newer + "/manifest.json", file_text(older + "/manifest.json"));
  error = error_of<DataError>([&] { CheckpointStore::verify(newer, CheckpointStore::read_manifest(newer), 0); });
  EXPECT_TRUE(has(error, "is of rank 0 after step 2")) << error;
}

TEST(Checkpoint, ADamagedOneIsPassedOverForTheOneBefore) {
  TempFolder folder;
  train(saving_twice(folder));
  const std::string newer = folder / "checkpoint-000000000002";
  for (const char* name : {"/rank-1.safetensors", "/manifest.json"}) {
    const std::string before = file_text(newer + name);
    std::string damaged = before;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    write_bytes(newer + name, damaged);
    Recipe recipe = resuming_from(folder);
    recipe.trainer.save.clear();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(train(recipe).steps.front().step, 2) << name;
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(has(said, newer + name) && has(said, "It is passed over; the one before is")) << said;
    recipe.trainer.resume = newer;  // named itself: no other will do
    EXPECT_TRUE(has(refusal(recipe), "is damaged"));
    write_bytes(newer + name, before);
  }
}

TEST(Checkpoint, AllOfThemDamagedIsAnErrorThatNamesTheNewest) {
  TempFolder folder;
  train(saving_twice(folder));
  for (const char* step : {"1", "2"}) write_bytes(folder / "checkpoint-00000000000" + step + "/rank-0.safetensors", "");
  Recipe recipe = resuming_from(folder);
  recipe.trainer.resume_if_any = true;
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(has(refusal(recipe), "checkpoint-000000000002/rank-0.safetensors is damaged"));
  ::testing::internal::GetCapturedStderr();
}

TEST(Checkpoint, ResumingBeforeTheFirstOneBeginsWithANote) {
  TempFolder folder;
  Recipe recipe = resuming_from(folder);
  recipe.trainer.resume_if_any = true;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(recipe).steps.size(), 4u);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "laconic: note: there is no checkpoint in " + folder.path() + " yet: the training begins\n");
}

TEST(Checkpoint, OneOfFormat1StillLoadsWithANote) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string manifest = folder / "checkpoint-000000000002/manifest.json";
  const Outcome straight = train(resuming_from(folder));
  fs::remove_all(folder / "checkpoint-000000000004");
  auto j = nlohmann::json::parse(file_text(manifest));
  for (const char* later : {"run", "ranks", "weights", "checksum"}) j.erase(later);
  j["format"] = 1;
  write_bytes(manifest, j.dump());
  ::testing::internal::CaptureStderr();
  const Outcome resumed = train(resuming_from(folder));
  EXPECT_TRUE(has(::testing::internal::GetCapturedStderr(), "has no checksums"));
  EXPECT_TRUE(same_bits(resumed.parameters[0], straight.parameters[0]));
}

TEST(Checkpoint, RanksThatWentOnFromDifferentWeightsAreFound) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string checkpoint = folder / "checkpoint-000000000002";
  Manifest m = CheckpointStore::read_manifest(checkpoint);
  StateDict state = CheckpointStore::read_rank(checkpoint, 1);
  state.at("model/fc1.bias").data<float>()[0] += 1;
  const CheckpointStore store(folder.path());
  m.ranks[1] = store.write_rank(m.run, 2, 1, state);
  store.complete(m, 2);  // with checksums that are right
  const std::string error = error_of<CommError>([&] { train(resuming_from(folder)); });
  EXPECT_TRUE(has(error, "rank 1 has 'parameters after step 2=")) << error;
}

TEST(Checkpoint, AnOlderOneWhoseMethodHasOtherLinesIsLoadedWithANote) {
  TempFolder folder;
  Recipe recipe = saving_in(folder);
  recipe.choose("topk", "64", "0.1");
  train(recipe);
  const std::string checkpoint = folder / "checkpoint-000000000002";
  Manifest m = CheckpointStore::read_manifest(checkpoint);
  const auto at = m.fingerprint.find("\nmethod=topk");
  ASSERT_NE(at, std::string::npos);
  const auto resumed = [&](const char* density) {
    Recipe again = resuming_from(folder);
    again.choose("topk", "64", density);
    return again;
  };
  EXPECT_TRUE(has(refusal(resumed("0.2")), "density=0.1"));
  m.fingerprint.replace(at, 8, "\nsparse=");
  CheckpointStore(folder.path()).complete(m, 2);
  ::testing::internal::CaptureStderr();
  train(resumed("0.1"));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "was written by an earlier version: its settings of --sync topk are not compared")) << said;
}

TEST(Checkpoint, ASettingThatHasGoneIsNotComparedIfItHadTheValueOfNow) {
  const std::string now = "model=lenet\nmethod=topk density=0.1 warmup=none\nallow=sums, redsync density=0.1, rounds";
  const auto then = [](const std::string& how) {
    return "model=lenet\nmethod=topk density=0.1 warmup=none sparse-reduce=" + how +
           "\nallow=sums, redsync density=0.1 sparse-reduce=allgather, rounds";
  };
  EXPECT_FALSE(other_training(then("allgather"), now));
  EXPECT_TRUE(other_training(then("split"), now));
  EXPECT_TRUE(other_training("method=topk density=0.2 warmup=none sparse-reduce=allgather", now));
}

// ------------------------------------------------------------------------------------------------------- ownership

TEST(Checkpoint, AnotherTrainingsFolderIsRefusedWithoutOverwrite) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string weights = file_text(folder / "weights.safetensors");
  Recipe other = saving_in(folder);
  other.trainer.lr = 0.2;
  EXPECT_EQ(refusal(other),
            folder.path() +
                " is of another training, with lr=0.1 where this one has lr=0.2 (`save`): choose another "
                "folder, or add `overwrite`");
  fs::remove(folder / "run.json");  // then the checkpoint tells
  EXPECT_TRUE(has(refusal(other), "lr=0.1 where this one has lr=0.2"));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"checkpoint-000000000002", "weights.safetensors"}));
  EXPECT_EQ(file_text(folder / "weights.safetensors"), weights);
  other.trainer.overwrite = true;
  other.trainer.steps = 1;
  train(other);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"checkpoint-000000000001", "run.json", "weights.safetensors"}));
  EXPECT_EQ(refusal(other), "");
}

TEST(Checkpoint, TheSameTrainingBegunAgainReplacesNothingWithoutOverwrite) {
  TempFolder folder;
  train(saving_in(folder));
  const std::string weights = file_text(folder / "weights.safetensors");
  const auto before = names_in(folder.path());
  EXPECT_EQ(refusal(saving_in(folder)),
            folder.path() +
                " holds checkpoint-000000000002 (`save`): add `resume` to go on from there, or `overwrite` to begin "
                "anew");
  EXPECT_EQ(refusal(saving_in(folder, 3)).substr(0, folder.path().size() + 6), folder.path() + " holds");
  EXPECT_EQ(names_in(folder.path()), before);
  EXPECT_EQ(file_text(folder / "weights.safetensors"), weights);
  Recipe again = saving_in(folder);
  again.trainer.overwrite = true;
  again.trainer.steps = 1;
  train(again);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"checkpoint-000000000001", "run.json", "weights.safetensors"}));
  fs::remove_all(folder / "checkpoint-000000000001");
  EXPECT_EQ(refusal(saving_in(folder)),
            folder.path() + " holds weights of a training (`save`): choose another folder, or add `overwrite`");
  Recipe first_save_was_cut_off = resuming_from(folder);
  first_save_was_cut_off.trainer.resume_if_any = true;
  EXPECT_EQ(train(first_save_was_cut_off).steps.front().step, 1);
  fs::remove_all(folder / "checkpoint-000000000004");
  fs::remove(folder / "weights.safetensors");
  train(saving_in(folder));  // nothing is lost
}

TEST(Checkpoint, ATrainingGoesOnInItsFolderHoweverThatIsNamed) {
  TempFolder folder, elsewhere;
  train(saving_in(folder));
  train(saving_in(elsewhere));
  Recipe from_there = resuming_from(elsewhere);
  from_there.trainer.save = folder.path();
  EXPECT_TRUE(has(refusal(from_there), folder.path() + " holds checkpoint-000000000002 (`save`)"));
  const std::string name = fs::path(folder.path()).filename();
  std::int64_t steps = 2;
  for (const std::string& from : {folder / "checkpoint-000000000002", folder / "", folder / "../" + name}) {
    Recipe recipe = resuming_from(folder);
    recipe.trainer.resume = from;
    recipe.trainer.steps = ++steps;
    EXPECT_EQ(train(recipe).summary.steps, steps) << from;
  }
}

TEST(Checkpoint, WeightsOfUnknownOriginAreNotReplaced) {
  TempFolder folder;
  write_bytes(folder / "weights.safetensors", "mine");
  EXPECT_TRUE(has(refusal(saving_in(folder)), "may be of another training (`save`)"));
  EXPECT_EQ(file_text(folder / "weights.safetensors"), "mine");
}

TEST(Checkpoint, NothingIsRemovedThatIsNotOurs) {
  TempFolder folder, elsewhere;
  train(saving_in(elsewhere));
  for (const char* mine : {"checkpoint-notes", "checkpoint-2", "checkpoint-0000000000010", "checkpoint-00000000001x"}) {
    fs::create_directory(folder / mine);
    write_bytes(folder / mine + "/manifest.json", file_text(elsewhere / "checkpoint-000000000002/manifest.json"));
  }
  fs::create_directory_symlink(elsewhere / "checkpoint-000000000002", folder / "checkpoint-000000000009");
  fs::create_directory(folder / "checkpoint-000000000008");  // one of ours, by its name, with something else in it
  write_bytes(folder / "checkpoint-000000000008/rank-0.safetensors", "");
  write_bytes(folder / "checkpoint-000000000008/diary.txt", "mine");
  write_bytes(folder / "weights.safetensors.tmp", "mine");
  train(saving_in(folder));
  EXPECT_EQ(
      names_in(folder.path()),
      (std::vector<std::string>{"checkpoint-0000000000010", "checkpoint-000000000002", "checkpoint-000000000008",
                                "checkpoint-000000000009", "checkpoint-00000000001x", "checkpoint-2",
                                "checkpoint-notes", "run.json", "weights.safetensors", "weights.safetensors.tmp"}));
  EXPECT_EQ(names_in(folder / "checkpoint-000000000008"), std::vector<std::string>{"diary.txt"});
  EXPECT_EQ(names_in(folder / "checkpoint-notes"), std::vector<std::string>{"manifest.json"});
  EXPECT_EQ(names_in(elsewhere / "checkpoint-000000000002").size(), 3u);
}

TEST(Checkpoint, WhatKilledRunsLeftIsSwept) {
  TempFolder folder;
  train(saving_in(folder));
  write_bytes(folder / "weights.safetensors.123.0.tmp", "");
  for (const char* step : {"1", "3"}) {
    fs::create_directory(folder / "checkpoint-00000000000" + step);
    write_bytes(folder / "checkpoint-00000000000" + step + "/rank-0.safetensors.123.4.tmp", "");
    write_bytes(folder / "checkpoint-00000000000" + step + "/rank-1.safetensors", "");
  }
  Recipe again = saving_in(folder);
  again.trainer.overwrite = true;
  train(again);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"checkpoint-000000000002", "run.json", "weights.safetensors"}));
}

TEST(Checkpoint, AFolderIsForOneRunAtATime) {
  TempFolder folder;
  Recipe outer = saving_in(folder, 1);
  outer.wrap = [&](std::unique_ptr<Workload> task, const dist::Worker&) {
    struct Nested final : Passing {
      Nested(std::unique_ptr<Workload> inner, std::function<void()> then)
          : Passing(std::move(inner)), then(std::move(then)) {}
      EvalSums evaluate(const Stop& stop) override {
        then();
        return Passing::evaluate(stop);
      }
      std::function<void()> then;
    };
    return std::make_unique<Nested>(std::move(task), [&] {
      EXPECT_EQ(refusal(saving_in(folder, 1)),
                "another run saves to " + folder.path() + " now (`save`): choose another folder, or wait for its end");
    });
  };
  train(outer);
  EXPECT_EQ(refusal(resuming_from(folder, 1)), "");
}

TEST(Checkpoint, AFolderMayBeNamedWithASlashAtItsEnd) {
  TempFolder folder;
  Recipe recipe = saving_twice(folder);
  recipe.trainer.save += "//";
  recipe.trainer.steps = 3;
  train(recipe);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"checkpoint-000000000002", "checkpoint-000000000003",
                                                               "run.json", "weights.safetensors"}));
  recipe.trainer.resume = recipe.trainer.save;
  recipe.trainer.steps = 4;
  EXPECT_EQ(train(recipe).steps.front().step, 4);
}

TEST(Checkpoint, ARecordThatCannotBeOpenedIsSaid) {
  TempFolder folder;
  fs::create_symlink(folder / "nowhere/run.json", folder / "run.json");
  EXPECT_TRUE(has(refusal(saving_in(folder)), "save: cannot open " + (folder / "run.json")));
}

TEST(Checkpoint, AFolderThatIsOnlyClaimedStaysAsItWas) {
  TempFolder folder;
  CheckpointStore(folder / "a/b").claim(0, "model=x", CheckpointStore::Replaces::nothing);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Checkpoint, SignsOfARunThatWasKilledGo) {
  TempFolder folder;
  std::ofstream(folder / "sign-0123456789abcdef");
  std::ofstream(folder / "sign-of-mine");
  CheckpointStore store(folder.path());
  store.claim(0, "model=x", CheckpointStore::Replaces::all);
  store.begin();
  EXPECT_FALSE(fs::exists(folder / "sign-0123456789abcdef"));
  EXPECT_TRUE(fs::exists(folder / "sign-of-mine"));
}

}  // namespace
}  // namespace laconic
