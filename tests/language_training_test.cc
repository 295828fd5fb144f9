// Language models in the trainer: streams over workers, the hidden state, evaluation, and strategies.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <set>

#include "data/synthetic.h"
#include "dist/trainer/checkpoint.h"
#include "dist/trainer/language_modelling.h"
#include "tests/error_of.h"
#include "tests/pairwise.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

std::shared_ptr<const TextDataset> text() {
  static const auto data = std::make_shared<const TextDataset>(synthetic_text(700, 20));
  return data;
}

const Stop goes_on = [] { return false; };

/// A recipe that trains a small language model instead of its images.
struct Language {
  std::int64_t batch = 6, bptt = 5, hidden = 12, eval_rows = 4;
  float dropout = 0;
  bool tied = false;
};
Recipe recipe_of(const Language& l, int workers) {
  Recipe recipe(perceptron, workers);
  recipe.wrap = [l](std::unique_ptr<Workload>, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    const models::LanguageModel::Options model{.vocabulary = text()->vocabulary.size(),
                                               .hidden = static_cast<int>(l.hidden),
                                               .dropout = l.dropout,
                                               .tied = l.tied};
    return std::make_unique<LanguageModelling>(
        std::make_shared<models::LanguageModel>(model), text(), worker.rank, worker.size,
        LanguageModelling::Options{.batch = l.batch, .bptt = l.bptt, .eval_rows = l.eval_rows});
  };
  recipe.trainer.lr = 1;
  recipe.trainer.clip = Clip::parse("norm:1");
  return recipe;
}

TEST(LanguageModelling, LearnsTheLanguage) {
  Recipe recipe = recipe_of({.batch = 2, .hidden = 32}, 1);
  recipe.trainer.epochs = 8;
  recipe.trainer.optimizer.name = "adam", recipe.trainer.lr = 0.01, recipe.trainer.clip = {};
  const Outcome outcome = train(recipe);
  ASSERT_EQ(outcome.evals.size(), 8u);
  EXPECT_LT(*outcome.evals[7].perplexity, 0.6 * *outcome.evals[0].perplexity);
  EXPECT_DOUBLE_EQ(*outcome.evals[7].perplexity, std::exp(outcome.evals[7].loss));
  ASSERT_TRUE(outcome.summary.test);
  EXPECT_NE(outcome.summary.test->loss, outcome.evals[7].loss);
  EXPECT_NEAR(outcome.summary.test->loss, outcome.evals[7].loss, 0.5);
}

// What the model reads, against a loop over words: one stream at a time, its state carried from segment to segment.
TEST(LanguageModelling, CarriesTheStateAndForgetsItWhereAnEpochBegins) {
  const Language l{.batch = 3, .bptt = 4};
  models::LanguageModel::Options options{.vocabulary = text()->vocabulary.size(), .hidden = 8, .range = 0.5f};
  const auto model = std::make_shared<models::LanguageModel>(options);
  model->initialize(1);
  const auto twin = std::make_shared<models::LanguageModel>(options);
  twin->initialize(1);
  LanguageModelling task(model, text(), 1, 2, {.batch = l.batch, .bptt = l.bptt});
  const std::int64_t words = static_cast<std::int64_t>(text()->train.size()) / 6;
  const NoGrad no_grad;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<LSTM::State> states(3);
    std::int64_t read = 0;
    for (std::int64_t batch = 0; batch < task.batches_per_epoch(); ++batch) {
      const Share share = task.load();
      const float loss = task.loss().item();
      const std::int64_t steps = std::min<std::int64_t>(4, words - 1 - read);
      EXPECT_EQ(share.samples, 3 * steps);
      EXPECT_EQ(share.global_samples, 6 * steps);
      double sum = 0;
      for (std::int64_t b = 0; b < 3; ++b)
        for (std::int64_t t = 0; t < steps; ++t) {
          const auto place = static_cast<std::size_t>((3 + b) * words + read + t);
          const std::int64_t word = text()->train[place], next = text()->train[place + 1];
          const Tensor logits = (*twin)(Tensor::of({1, 1}, std::span(&word, 1)), states[static_cast<std::size_t>(b)]);
          sum += ops::sum_of_cross_entropy(logits, Tensor::of({1}, std::span(&next, 1)));
        }
      EXPECT_NEAR(loss, sum / static_cast<double>(3 * steps), 1e-5) << "epoch " << epoch << ", batch " << batch;
      read += steps;
    }
    EXPECT_EQ(read, words - 1);
  }
}

TEST(LanguageModelling, FourWorkersTrainAsOneWithFourTimesTheStreams) {
  for (float dropout : {0.f, 0.4f})
    for (bool tied : {false, true}) {
      Recipe four = recipe_of({.batch = 3, .dropout = dropout, .tied = tied}, 4),
             one = recipe_of({.batch = 12, .dropout = dropout, .tied = tied}, 1);
      const Outcome a = train(four), b = train(one);
      ASSERT_EQ(a.steps.size(), b.steps.size());
      ASSERT_GE(a.steps.size(), 20u);
      for (std::size_t i = 0; i < a.steps.size(); ++i)
        EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, 2e-5) << "step " << i << ", dropout " << dropout;
      EXPECT_LT(relative_difference(b.parameters[0], a.parameters[0]), 1e-4);
      EXPECT_NEAR(a.evals.back().loss, b.evals.back().loss, 2e-5);
    }
}

// Accumulated micro-batches are other words of the same streams under the same step: their masks must differ.
TEST(LanguageModelling, DropoutCountsTheStreamsOfEachBatchAnew) {
  std::set<std::int64_t> counted;
  for (int rank = 0; rank < 2; ++rank) {
    const auto model = std::make_shared<models::LanguageModel>(
        models::LanguageModel::Options{.vocabulary = text()->vocabulary.size(), .hidden = 4});
    const LanguageModelling task(model, text(), rank, 2, {.batch = 6, .bptt = 5});
    for (std::int64_t batch = 0; batch < task.batches_per_epoch(); ++batch)
      for (std::int64_t b = 0; b < 6; ++b) EXPECT_TRUE(counted.insert(task.share(0, batch).first_sample + b).second);
  }
}

TEST(LanguageModelling, PerplexityIsOfAllWordsWhateverTheNumberOfWorkers) {
  double loss = 0;
  for (int workers : {1, 2, 3, 5}) {
    double words = 0, sum = 0;
    for (int rank = 0; rank < workers; ++rank) {
      const auto model = std::make_shared<models::LanguageModel>(
          models::LanguageModel::Options{.vocabulary = text()->vocabulary.size(), .hidden = 8, .range = 0.5f});
      model->initialize(1);
      LanguageModelling task(model, text(), rank, workers, {.batch = 2, .bptt = 5, .eval_rows = 4});
      const EvalSums sums = task.evaluate(goes_on);
      words += sums.samples, sum += sums.loss;
      EXPECT_TRUE(model->training());
    }
    EXPECT_EQ(words, static_cast<double>(text()->valid.size() - 1));
    if (workers == 1) loss = sum;
    EXPECT_NEAR(sum, loss, 1e-5 * loss);
  }
}

TEST(LanguageModelling, AStopLeavesOutTheTestAtTheEndUntilResumed) {
  TempFolder folder;
  std::atomic<bool> asked = false;
  struct Stopping final : Passing {
    Stopping(std::unique_ptr<Workload> inner, std::atomic<bool>& its) : Passing(std::move(inner)), ask(its) {}
    EvalSums evaluate_at_the_end(const Stop& stop) override {
      ask = true;
      const EvalSums sums = Passing::evaluate_at_the_end(stop);
      EXPECT_EQ(sums.samples, 0);
      return sums;
    }
    std::atomic<bool>& ask;
  };
  Recipe recipe = recipe_of({}, 2);
  const Outcome undisturbed = train(recipe);
  recipe.trainer.save = folder.path();
  Recipe resumed = recipe;
  recipe.wrap = [&, make = recipe.wrap](std::unique_ptr<Workload> images, const dist::Worker& worker) {
    return std::make_unique<Stopping>(make(std::move(images), worker), asked);
  };
  recipe.trainer.stop_requested = [&] { return asked.load(); };
  const Outcome outcome = train(recipe);
  EXPECT_EQ(outcome.summary.stopped, "interrupted");
  EXPECT_EQ(outcome.evals.size(), 2u);
  EXPECT_FALSE(outcome.summary.test);
  resumed.trainer.resume = folder.path();
  const Outcome rest = train(resumed);
  EXPECT_EQ(rest.summary.stopped, "");
  EXPECT_TRUE(rest.steps.empty());
  ASSERT_TRUE(rest.summary.test);
  EXPECT_EQ(rest.summary.test->loss, undisturbed.summary.test->loss);
}

TEST(LanguageModelling, EvaluationLeavesTheTrainingStateAlone) {
  Recipe with = recipe_of({}, 2), without = recipe_of({}, 2);
  const auto make = with.wrap;
  struct Evaluating final : Passing {
    using Passing::Passing;
    Share load() override {
      evaluate(goes_on);
      return Passing::load();
    }
  };
  with.wrap = [make](std::unique_ptr<Workload> images, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    return std::make_unique<Evaluating>(make(std::move(images), worker));
  };
  EXPECT_TRUE(same_bits(train(with).parameters[0], train(without).parameters[0]));
}

struct Case {
  const char* name;
  std::function<void(Recipe&)> set;
};
void sparse(Recipe& r, const char* sync, std::vector<std::pair<std::string, std::string>> settings = {}) {
  r.sync = sync;
  r.settings = {{"dense-below", "512"}, {"density", "0.05"}};
  r.settings.insert(r.settings.end(), settings.begin(), settings.end());
}
const Case kCases[] = {
    {"allreduce", [](Recipe&) {}},
    {"no clipping, momentum",
     [](Recipe& r) { r.trainer.clip = {}, r.trainer.lr = 0.05, r.trainer.optimizer.momentum = 0.9; }},
    {"accumulated, plateau",
     [](Recipe& r) {
       r.trainer.accumulate = 2, r.trainer.lr = 4;  // bad enough that the plateau is reached
       r.trainer.schedule = Schedule::parse("plateau:0,0.25");
     }},
    {"redsync", [](Recipe& r) { sparse(r, "redsync"); }},
    {"redsync, momentum, first dense",
     [](Recipe& r) {
       sparse(r, "redsync", {{"warmup", "dense:1"}}), r.trainer.lr = 0.1, r.trainer.optimizer.momentum = 0.9;
     }},
    {"redsync of one sign",
     [](Recipe& r) {
       sparse(r, "redsync", {{"qrgc", ""}});
     }},
    {"dgc", [](Recipe& r) { sparse(r, "dgc"); }},
    {"topk", [](Recipe& r) { sparse(r, "topk"), r.trainer.clip = {}; }},
};

TEST(LanguageModelling, EveryOverlapGivesTheSameBits) {
  for (const auto& row : combinations({std::size(kCases), 2, 2})) {
    const Case& c = kCases[row[0]];
    const bool tied = row[1] == 1;
    const char* const fusion = row[2] == 0 ? "none" : "lazy:1MiB";
    SCOPED_TRACE(concat(c.name, tied ? ", tied, " : ", ", fusion));
    Recipe recipe = recipe_of({.dropout = 0.3f, .tied = tied}, 3);
    dist::set_fusion(recipe.trainer.plan, fusion);
    c.set(recipe);
    Outcome first;
    for (const dist::Overlap overlap : {dist::Overlap::none, dist::Overlap::backward, dist::Overlap::forward}) {
      recipe.trainer.overlap = overlap;
      const Outcome outcome = train(recipe);
      for (const auto& p : outcome.parameters) ASSERT_TRUE(same_bits(p, outcome.parameters[0]));
      if (overlap == dist::Overlap::none) first = outcome;
      ASSERT_TRUE(same_bits(outcome.parameters[0], first.parameters[0])) << dist::to_string(overlap);
      EXPECT_EQ(outcome.evals.back().loss, first.evals.back().loss);
    }
    EXPECT_LT(first.evals.back().loss, std::log(22.0));
  }
}

TEST(LanguageModelling, ResumedRunsGoOnWithTheStateOfEveryWorker) {
  for (const Case& c : kCases)
    for (int workers : {1, 3}) {
      Recipe recipe = recipe_of({.batch = workers == 1 ? 6 : 2, .dropout = 0.3f, .tied = true}, workers);
      recipe.trainer.epochs = 3;
      c.set(recipe);
      const TempFolder whole;
      recipe.trainer.save = whole.path();
      const Outcome straight = train(recipe);
      const auto per_epoch = straight.steps.size() / 3;
      for (std::size_t stop : {per_epoch + 2, 2 * per_epoch}) {  // within an epoch, and at the end of one
        SCOPED_TRACE(concat(c.name, ", ", workers, " workers, stopped after step ", stop));
        const TempFolder parts;
        recipe.trainer.save = parts.path();
        recipe.trainer.steps = stop;
        const Outcome first = train(recipe);
        EXPECT_TRUE(first.summary.test);
        recipe.trainer.steps.reset();
        recipe.trainer.resume = parts.path();
        const Outcome second = train(recipe);
        recipe.trainer.resume.clear();
        ASSERT_EQ(second.steps.size(), straight.steps.size() - stop);
        for (std::size_t i = 0; i < second.steps.size(); ++i)
          EXPECT_EQ(second.steps[i].loss, straight.steps[i + stop].loss) << "step " << i + stop;
        for (std::size_t r = 0; r < second.parameters.size(); ++r)
          EXPECT_TRUE(same_bits(second.parameters[r], straight.parameters[r])) << "rank " << r;
        EXPECT_EQ(second.evals.back().loss, straight.evals.back().loss);
        EXPECT_EQ(second.summary.test->loss, straight.summary.test->loss);
      }
    }
}

TEST(LanguageModelling, ACheckpointHoldsTheHiddenStateOfEachWorker) {
  Recipe recipe = recipe_of({.batch = 2}, 2);
  const TempFolder folder;
  recipe.trainer.save = folder.path();
  recipe.trainer.steps = 3;
  train(recipe);
  const std::string checkpoint = CheckpointStore::newest(folder.path());
  const StateDict a = CheckpointStore::read_rank(checkpoint, 0), b = CheckpointStore::read_rank(checkpoint, 1);
  for (const char* name : {"workload/h", "workload/c"}) {
    EXPECT_EQ(a.at(name).shape(), (Shape{2, 2, 12}));
    EXPECT_NE(a.at(name).to_vector(), b.at(name).to_vector());
  }
  // One of another shape is no state of ours.
  StateDict damaged;
  for (const auto& [name, tensor] : a) damaged.set(name, name == "workload/c" ? Tensor::zeros({2, 3, 12}) : tensor);
  for (const auto& [name, value] : a.texts()) damaged.set_text(name, value);
  const CheckpointStore store(folder.path());
  Manifest manifest = CheckpointStore::read_manifest(checkpoint);
  manifest.ranks[0] = store.write_rank(manifest.run, 3, 0, damaged);
  store.complete(manifest, 2);
  recipe.trainer.steps = 4;
  recipe.trainer.resume = folder.path();
  const std::string error = error_of<DataError>([&] { train(recipe); });
  EXPECT_NE(error.find("the hidden state c is float32 [2, 3, 12], expected [2, 2, 12]"), std::string::npos) << error;
}

// One worker's loss is not a number in the third step: the step is passed over, and so is the state that came of it.
TEST(LanguageModelling, AStepThatIsPassedOverLeavesNoState) {
  struct Poison final : Passing {
    using Passing::Passing;
    Tensor loss() override {
      Tensor loss = Passing::loss();
      if (++losses == 3) {
        StateDict state;  // the real one: its memory is shared
        save(state);
        for (const auto& [name, tensor] : state) tensor.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
        loss.value().data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      }
      return loss;
    }
    int losses = 0;
  };
  Recipe recipe = recipe_of({}, 2);
  const auto make = recipe.wrap;
  recipe.wrap = [make](std::unique_ptr<Workload> images, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    auto task = make(std::move(images), worker);
    if (worker.rank == 0) return task;
    return std::make_unique<Poison>(std::move(task));
  };
  recipe.trainer.skip_nan = true;
  const Outcome outcome = train(recipe);
  for (std::size_t i = 0; i < outcome.steps.size(); ++i) EXPECT_EQ(std::isnan(outcome.steps[i].loss), i == 2) << i;
  for (float v : outcome.parameters[0]) ASSERT_TRUE(std::isfinite(v));
}

// RedSync clips each worker's own gradient, at the limit times sqrt(N) for a mean (docs/papers/redsync.md).
TEST(LanguageModelling, RedSyncClipsEachWorkersOwnGradient) {
  std::vector<float> first;
  for (const char* clip : {"norm:1e-3", "norm:2e-3", "norm:1e6"}) {
    Recipe recipe = recipe_of({}, 4);
    recipe.trainer.steps = 1;
    recipe.trainer.clip = Clip::parse(clip);
    sparse(recipe, "redsync", {{"density", "1"}, {"selector", "exact"}});
    const Outcome outcome = train(recipe);
    recipe.trainer.steps = 0;
    const std::vector<float> before = train(recipe).parameters[0];
    double moved = 0;
    for (std::size_t i = 0; i < before.size(); ++i) moved += std::pow(outcome.parameters[0][i] - before[i], 2);
    const double limit = recipe.trainer.clip.limit * 2;  // sqrt(4); the mean of 4 such gradients is no longer
    if (limit < 1) {
      EXPECT_LT(std::sqrt(moved), 1.01 * limit) << clip;
      EXPECT_GT(std::sqrt(moved), 0.3 * limit) << clip;
    } else {
      EXPECT_GT(std::sqrt(moved), 0.01);
    }
  }
}

TEST(LanguageModelling, ATextTooShortIsSaid) {
  const auto error = [](std::int64_t batch, std::int64_t bptt) {
    return error_of<DataError>([&] {
      LanguageModelling(std::make_shared<models::LanguageModel>(
                            models::LanguageModel::Options{.vocabulary = text()->vocabulary.size(), .hidden = 4}),
                        text(), 0, 2, {.batch = batch, .bptt = bptt});
    });
  };
  EXPECT_EQ(error(10, 34), "");
  EXPECT_EQ(error(10, 35),
            "synthetic has 700 words to train on, and 2 workers with 10 streams of 35 words a step need 720. Give a "
            "longer text, or less `batch` or `bptt`.");
}

TEST(LanguageModelling, OptionsBelowOneAndAnotherVocabularyAreRefused) {
  const auto make = [](const LanguageModelling::Options& options, int more_words = 0) {
    const models::LanguageModel::Options model{.vocabulary = text()->vocabulary.size() + more_words, .hidden = 4};
    LanguageModelling(std::make_shared<models::LanguageModel>(model), text(), 0, 1, options);
  };
  EXPECT_EQ(error_of<UsageError>([&] { make({.batch = 0}); }),
            "language model: batch = 0, bptt = 35, eval_rows = 20 must be at least 1.");
  EXPECT_NE(error_of<UsageError>([&] { make({.bptt = 0}); }), "");
  EXPECT_NE(error_of<UsageError>([&] { make({.eval_rows = 0}); }), "");
  EXPECT_NE(error_of<ShapeError>([&] { make({.batch = 2, .bptt = 5}, 1); }), "");
}

}  // namespace
}  // namespace laconic
