// Stop + resume = no stop, bit for bit; and on a CUDA device what is computed on the CPU. A strategy that is new joins
// by a line in kResumeCases.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "dist/trainer/checkpoint.h"
#include "dist/trainer/timetable.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

struct ResumeCase {
  const char* name;
  std::function<std::shared_ptr<Module>()> model;
  std::function<void(Recipe&)> set;
  int servers = 0;  ///< dedicated ones
};

/// Small models: parameters from 1 KiB on send one element in fifty.
void sends_little(Recipe& r, const char* sync, std::vector<std::pair<std::string, std::string>> settings = {}) {
  r.choose(sync, "1024", "0.02", std::move(settings));
  r.trainer.lr = 0.03;
}

const ResumeCase kResumeCases[] = {
    {"plain sgd", perceptron, [](Recipe&) {}},
    {"momentum, cosine, batch norm", normalized,
     [](Recipe& r) { r.trainer.optimizer.momentum = 0.9, r.trainer.schedule = Schedule::parse("warmup:4it+cosine"); }},
    {"nesterov, plateau", convolutional,
     [](Recipe& r) {
       r.trainer.optimizer = {.momentum = 0.9, .nesterov = true, .decay = {.weight_decay = 1e-3}};
       r.trainer.schedule = Schedule::parse("plateau:0,0.3");
       r.trainer.lr = 1;  // bad enough that the plateau is reached
     }},
    {"adam, accumulated", convolutional,
     [](Recipe& r) {
       r.trainer.optimizer.name = "adam", r.trainer.lr = 0.01, r.trainer.accumulate = 2, r.trainer.epochs = 6;
     }},
    {"adamw, butterfly, clipped", normalized,
     [](Recipe& r) {
       r.trainer.optimizer.name = "adamw", r.trainer.lr = 0.01;
       r.trainer.plan = {.allreduce = "butterfly", .bucket_bytes = 0};
       r.trainer.clip = Clip::parse("norm:0.5");
     }},
    {"a sum of gradients, not-a-number passed over", perceptron,
     [](Recipe& r) { r.trainer.mean = false, r.trainer.skip_nan = true, r.trainer.lr = 0.03; }},
    {"redsync, masked, in the first epoch dense", mixed,
     [](Recipe& r) {
       sends_little(r, "redsync", {{"warmup", "dense:1"}});
       r.trainer.optimizer.momentum = 0.9;
     }},
    {"redsync of one sign, the sampled search, in two epochs dense", mixed,
     [](Recipe& r) {
       sends_little(r, "redsync", {{"selector", "search"}, {"qrgc", ""}, {"warmup", "dense:2"}});
       r.trainer.optimizer = {.momentum = 0.9, .nesterov = true, .decay = {.weight_decay = 1e-3}};
     }},
    {"redsync, sampled, clipped, packed", mixed,
     [](Recipe& r) {
       sends_little(r, "redsync", {{"selector", "sampled"}, {"index-coding", "delta"}});
       r.trainer.optimizer.momentum = 0.9, r.trainer.clip = Clip::parse("norm:0.5");
     }},
    {"dgc, its density falls", mixed, [](Recipe& r) { sends_little(r, "dgc"), r.trainer.optimizer.momentum = 0.9; }},
    {"topk with adam", mixed,
     [](Recipe& r) { sends_little(r, "topk"), r.trainer.optimizer.name = "adam", r.trainer.lr = 0.01; }},
    {"random elements, momentum", mixed,
     [](Recipe& r) { sends_little(r, "randomk"), r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02; }},
    {"gradient dropping", mixed, [](Recipe& r) { sends_little(r, "gradient-dropping"); }},
    {"adacomp, accumulated", mixed, [](Recipe& r) { sends_little(r, "adacomp"), r.trainer.accumulate = 2; }},
    {"powersgd, momentum, in the first epoch dense", mixed,
     [](Recipe& r) {
       r.sync = "powersgd", r.settings = {{"rank", "1"}, {"warmup", "dense:1"}};
       r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
     }},
    {"votes of signs", mixed,
     [](Recipe& r) { r.sync = "signsgd", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02; }},
    {"strongest frequencies", mixed,
     [](Recipe& r) {
       r.sync = "demo", r.trainer.lr = 0.002;
       r.settings = {{"demo-chunk", "16"}, {"demo-topk", "8"}, {"demo-decay", "0.99"}};
     }},
    {"signs of Adam's momentum", mixed,
     [](Recipe& r) {
       r.sync = "onebit-adam", r.settings = {{"onebit-warmup", "4"}};
       r.trainer.optimizer.name = "adam", r.trainer.lr = 0.002;
     }},
    {"largest changes of momentum, with a ledger", mixed,
     [](Recipe& r) {
       r.choose("ef21", "1024", "0.05", {{"selector", "sampled"}}), r.trainer.lr = 0.2, r.trainer.ledger_every = 2;
     }},
    {"a parameter server, momentum, batch norm", normalized,
     [](Recipe& r) {
       r.sync = "ps", r.trainer.optimizer.momentum = 0.9, r.trainer.schedule = Schedule::parse("cosine");
     },
     1},
    {"servers among the workers, adam", mixed,
     [](Recipe& r) { r.sync = "ps", r.trainer.optimizer.name = "adam", r.trainer.lr = 0.01; }},
    {"layer dropping, two servers", mixed,
     [](Recipe& r) {
       r.sync = "layerdrop", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.settings = {{"drop-ratio", "0.5"}, {"threshold-every", "3"}, {"layerdrop-max-age", "4"}};
     },
     2},
    {"layer dropping among the workers, accumulated", convolutional,
     [](Recipe& r) {
       r.sync = "layerdrop", r.trainer.accumulate = 2;
       r.settings = {{"drop-ratio", "0.8"}, {"threshold-every", "2"}};
     }},
    {"a server, both ways in few bits, with feedback", mixed,
     [](Recipe& r) {
       r.sync = "ps", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.trainer.plan.codec = "qsgd:4:100", r.trainer.codec_feedback = true;
     },
     1},
    {"1-bit SGD", mixed, [](Recipe& r) { r.trainer.plan.codec = "onebit", r.trainer.lr = 0.03; }},
    {"a relative bound, with feedback", mixed,
     [](Recipe& r) {
       r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.trainer.plan.codec = "inceptionn:rel:2^0", r.trainer.codec_feedback = true;
     }},
    {"1-bit SGD by servers among the workers", mixed,
     [](Recipe& r) { r.sync = "ps", r.trainer.plan.codec = "onebit", r.trainer.lr = 0.03; }},
    {"servers that limit the length of the gradient", mixed,
     [](Recipe& r) { r.sync = "ps", r.trainer.clip = Clip::parse("norm:0.5"), r.trainer.optimizer.momentum = 0.9; }, 2},
    {"layer dropping by groups", mixed,
     [](Recipe& r) {
       r.sync = "layerdrop", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.settings = {{"drop-ratio", "0.5"}, {"threshold-every", "3"}, {"local-aggregate", "2"}};
     },
     1},
    {"layer dropping by rows", mixed,
     [](Recipe& r) {
       r.sync = "layerdrop", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.settings = {{"drop-ratio", "0.5"}, {"threshold-every", "3"}, {"layerdrop-unit", "rows"}};
     },
     1},
    {"quantised weights", mixed, [](Recipe& r) { r.sync = "ps", r.trainer.plan.codec = "qsgd:8:512"; }},
    {"layer dropping, what is lost stays at home", mixed,
     [](Recipe& r) {
       r.sync = "layerdrop", r.trainer.plan.codec = "terngrad", r.trainer.codec_feedback = true, r.trainer.lr = 0.02;
       r.settings = {{"drop-ratio", "0.5"}, {"threshold-every", "3"}};
     },
     2},
    {"slim-dp, quantised", mixed,
     [](Recipe& r) {
       r.sync = "slimdp", r.trainer.plan.codec = "qsgd:8:512", r.trainer.lr = 0.02;
       r.settings = {{"alpha", "0.3"}, {"explore", "0.1"}, {"core-every", "3"}};
     },
     1},
    {"slim-dp, momentum, every other step", mixed,
     [](Recipe& r) {
       r.sync = "slimdp", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.settings = {{"alpha", "0.3"}, {"explore", "0.1"}, {"core-every", "3"}, {"local-steps", "2"}};
     },
     1},
    {"slim-dp of the whole model among the workers, keys sent", convolutional,
     [](Recipe& r) {
       r.sync = "slimdp";
       r.settings = {{"alpha", "0.2"},
                     {"explore", "0.1"},
                     {"explorer-keys", "sent"},
                     {"slim-scope", "model"},
                     {"slim-residual", ""}};
     }},
    {"rounds, momentum, batch norm", normalized,
     [](Recipe& r) {
       r.sync = "rounds", r.trainer.optimizer.momentum = 0.9, r.trainer.lr = 0.02;
       r.settings = {{"every", "4"}, {"outer", "nesterov"}};
     }},
    {"rounds in fragments that arrive late, adam, in the first epoch dense", mixed,
     [](Recipe& r) {
       r.sync = "rounds", r.trainer.optimizer.name = "adam", r.trainer.lr = 0.005;
       r.settings = {{"every", "4"}, {"fragments", "3"}, {"delay", "3"}, {"outer", "momentum"}, {"warmup", "dense:1"}};
     }},
    {"rounds, clipped, in few bits, with feedback", mixed,
     [](Recipe& r) {
       r.sync = "rounds", r.trainer.clip = Clip::parse("norm:0.5"), r.trainer.lr = 0.03;
       r.trainer.plan.codec = "qsgd:4:100", r.trainer.codec_feedback = true;
       r.settings = {{"every", "3"}, {"delay", "1"}};
     }},
    {"rounds, the largest elements, late", mixed,
     [](Recipe& r) {
       r.sync = "rounds", r.settings = {{"every", "3"}, {"delay", "2"}, {"density", "0.1"}, {"outer-feedback", "0.9"}};
     }},
    {"rounds of pairs, late", mixed,
     [](Recipe& r) {
       r.sync = "rounds", r.settings = {{"every", "3"}, {"delay", "2"}, {"pairs", ""}, {"outer", "momentum"}};
     }},
    {"no exchange", normalized, [](Recipe& r) { r.sync = "none", r.trainer.optimizer.momentum = 0.9; }},
};

/// Every tensor of two checkpoints and every text, but for whose they are, and the time and the bytes that it took to
/// come there: the stop itself has messages.
void expect_same_state(const std::string& a, const std::string& b, int workers) {
  for (int rank = 0; rank < workers; ++rank) {
    const StateDict one = CheckpointStore::read_rank(a, rank), other = CheckpointStore::read_rank(b, rank);
    EXPECT_EQ(one.size(), other.size());
    for (const auto& [name, tensor] : one) {
      if (name == "run/bytes") continue;
      const Tensor& same = other.at(name);
      ASSERT_EQ(tensor.bytes(), same.bytes()) << name;
      EXPECT_EQ(std::memcmp(tensor.raw_data(), same.raw_data(), tensor.bytes()), 0) << name << " of rank " << rank;
    }
    for (const auto& [name, text] : one.texts()) {
      if (name != "run/seconds" && name != "checkpoint/of") {
        EXPECT_EQ(text, other.text(name)) << name;
      }
    }
  }
}

void expect_same_steps(const std::vector<StepReport>& all, const std::vector<StepReport>& later, std::size_t skipped) {
  ASSERT_EQ(all.size(), later.size() + skipped);
  for (std::size_t i = 0; i < later.size(); ++i) {
    const StepReport &a = all[i + skipped], &b = later[i];
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.epoch, b.epoch);
    EXPECT_EQ(a.loss, b.loss) << "step " << a.step;
    EXPECT_EQ(a.lr, b.lr) << "step " << a.step;
  }
}

Recipe recipe_of(const ResumeCase& c, int workers) {
  Recipe recipe(c.model, workers);
  recipe.servers = c.servers;
  recipe.data = tiny_images(100, 30);
  recipe.task.batch = workers == 1 ? 24 : 8;
  recipe.task.augment = kPadCropFlip;  // 5 batches an epoch, the last one short
  recipe.trainer.epochs = 3;
  c.set(recipe);
  return recipe;
}

/// Trains to the end, and again with a stop after each of these steps. The outcome of the first.
Outcome expect_goes_on(Recipe recipe, std::initializer_list<std::size_t> stops) {
  TempFolder whole;
  recipe.trainer.save = whole.path();
  const Outcome straight = train(recipe);
  const std::size_t per_epoch = recipe.trainer.accumulate == 2 ? 3 : 5;
  EXPECT_EQ(straight.steps.size(), per_epoch * static_cast<std::size_t>(recipe.trainer.epochs));
  for (const std::size_t stop : stops) {
    SCOPED_TRACE(concat("stopped after step ", stop));
    TempFolder parts;
    recipe.trainer.save = parts.path();
    recipe.trainer.steps = stop;
    const Outcome first = train(recipe);
    expect_same_steps({straight.steps.begin(), straight.steps.begin() + static_cast<std::ptrdiff_t>(stop)}, first.steps,
                      0);
    recipe.trainer.steps.reset();
    recipe.trainer.resume = parts.path();
    const Outcome second = train(recipe);
    recipe.trainer.resume.clear();

    expect_same_steps(straight.steps, second.steps, stop);
    for (std::size_t r = 0; r < second.parameters.size(); ++r) {
      EXPECT_TRUE(same_bits(second.parameters[r], straight.parameters[r])) << "rank " << r;
      EXPECT_EQ(second.buffers[r], straight.buffers[r]) << "rank " << r;
    }
    EXPECT_EQ(second.evals.back().loss, straight.evals.back().loss);
    if (recipe.sync == "layerdrop" || recipe.sync == "slimdp" || recipe.sync == "rounds" || recipe.sync == "signsgd" ||
        recipe.sync == "demo" || recipe.sync == "onebit-adam" || recipe.sync == "ef21" ||
        recipe.trainer.plan.codec != "none") {
      EXPECT_EQ(second.summary.bytes_sent_total > 0, recipe.workers + recipe.servers > 1);
    } else if (!dist::methods().make(recipe.sync)->traits().chooses) {
      EXPECT_GE(second.summary.bytes_sent_total, second.summary.bytes_dense_total);
    } else if (recipe.workers > 1) {
      EXPECT_LT(second.summary.bytes_sent_total, second.summary.bytes_dense_total);
    }
    expect_same_state(CheckpointStore::newest(whole.path()), CheckpointStore::newest(parts.path()),
                      recipe.workers + recipe.servers);
  }
  return straight;
}

TEST(Resume, GoesOnAsIfNothingHadHappened) {
  for (const ResumeCase& c : kResumeCases)
    for (int workers : {1, 3}) {
      SCOPED_TRACE(concat(c.name, ", ", workers, " workers"));
      const Recipe recipe = recipe_of(c, workers);
      const std::size_t per_epoch = recipe.trainer.accumulate == 2 ? 3 : 5;
      expect_goes_on(recipe, {per_epoch + 2, 2 * per_epoch});  // within an epoch, and at the end of one
    }
}

class ResumeOnCuda : public CudaTest, public testing::WithParamInterface<std::size_t> {};

// Every strategy: the same bits on all ranks (they are audited after every step), stopped or not, and the losses of the
// CPU as long as rounding has not led elsewhere.
TEST_P(ResumeOnCuda, GoesOnAndLearnsAsTheCpu) {
  const ResumeCase& c = kResumeCases[GetParam()];
  Recipe recipe = recipe_of(c, 3);
  recipe.trainer.epochs = std::min<std::int64_t>(recipe.trainer.epochs, 3);
  const Outcome cpu = train(recipe);
  recipe.trainer.device = kCuda;
  const std::size_t per_epoch = recipe.trainer.accumulate == 2 ? 3 : 5;
  const Outcome cuda = expect_goes_on(recipe, {per_epoch + 2});
  ASSERT_EQ(cuda.steps.size(), cpu.steps.size());
  // Where something is chosen or rounded to few bits, a last bit may make another choice, now and then; the first loss
  // is before any.
  const bool all_is_sent = (c.servers == 0 || recipe.sync == "ps") && recipe.sync != "signsgd" &&
                           recipe.sync != "demo" && recipe.sync != "onebit-adam" && recipe.sync != "ef21" &&
                           !dist::methods().make(recipe.sync)->traits().chooses && recipe.trainer.plan.codec == "none";
  for (std::size_t i = 0; i < std::min<std::size_t>(10, cpu.steps.size()); ++i) {
    const double tolerance = i == 0 ? 1e-5 : all_is_sent || i < 3 ? 1e-4 : 1e-2;
    EXPECT_NEAR(cuda.steps[i].loss, cpu.steps[i].loss, tolerance * cpu.steps[i].loss) << "step " << i + 1;
  }
}
INSTANTIATE_TEST_SUITE_P(EveryStrategy, ResumeOnCuda, testing::Range<std::size_t>(0, std::size(kResumeCases)),
                         [](const auto& info) {
                           std::string name = kResumeCases[info.param].name;
                           std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name;
                         });

TEST(Resume, APlateauIsReachedInTheCaseAbove) {
  const Outcome outcome = train(recipe_of(kResumeCases[2], 1));
  EXPECT_LT(outcome.steps.back().lr, outcome.steps.front().lr);
}

TEST(Resume, FromACheckpointOnTheWay) {
  for (int workers : {1, 3}) {
    Recipe recipe = recipe_of(kResumeCases[1], workers);
    const Outcome undisturbed = train(recipe);
    TempFolder folder;
    recipe.trainer.save = folder.path();
    recipe.trainer.save_every = Every{4, true};
    const Outcome saving = train(recipe);  // 15 steps: checkpoints 4, 8, 12, 15, of which two are kept
    EXPECT_TRUE(same_bits(saving.parameters[0], undisturbed.parameters[0])) << "saving is not to disturb";
    expect_same_steps(undisturbed.steps, saving.steps, 0);
    EXPECT_TRUE(std::filesystem::exists(folder / "checkpoint-000000000012"));

    std::filesystem::remove_all(folder / "checkpoint-000000000015");  // as if the run had been killed before
    recipe.trainer.resume = folder.path();
    const Outcome resumed = train(recipe);
    expect_same_steps(undisturbed.steps, resumed.steps, 12);
    EXPECT_TRUE(same_bits(resumed.parameters[0], undisturbed.parameters[0]));
    EXPECT_EQ(resumed.buffers, undisturbed.buffers);
  }
}

TEST(Resume, WithEpochsThatEndEarly) {
  for (const int every : {2, 3}) {  // at the end of an epoch of three steps, and within one
    Recipe recipe = recipe_of(kResumeCases[1], 2);
    recipe.trainer.epochs = 4, recipe.trainer.epoch_steps = 3;
    const Outcome undisturbed = train(recipe);
    ASSERT_EQ(undisturbed.steps.size(), 12u);
    TempFolder folder;
    recipe.trainer.save = folder.path(), recipe.trainer.save_every = Every{every, true};
    recipe.trainer.steps = 2 * every;
    train(recipe);
    recipe.trainer.steps.reset(), recipe.trainer.resume = folder.path();
    const Outcome resumed = train(recipe);
    expect_same_steps(undisturbed.steps, resumed.steps, static_cast<std::size_t>(2 * every));
    EXPECT_TRUE(same_bits(resumed.parameters[0], undisturbed.parameters[0])) << every;
    recipe.trainer.epoch_steps = 4;
    expect_error<DataError>([&] { train(recipe); }, {"epoch-steps=3", "epoch-steps=4"});
    recipe.trainer.epoch_steps.reset();
    expect_error<DataError>([&] { train(recipe); }, {"epoch-steps=3", "epoch-steps=all"});
  }
}

/// Earlier versions have not told where in its epoch a training is, nor how long its first ones were.
TEST(Resume, OfAnEarlierVersionWithinAnEpochThatEndsEarly) {
  Recipe recipe = recipe_of(kResumeCases[1], 2);
  recipe.trainer.epochs = 4, recipe.trainer.epoch_steps = 3;
  const Outcome undisturbed = train(recipe);
  TempFolder folder;
  recipe.trainer.save = folder.path(), recipe.trainer.steps = 4;
  train(recipe);
  Manifest m = CheckpointStore::read_manifest(CheckpointStore::newest(folder.path()));
  m.position.reset(), m.first_steps_per_epoch.reset();
  CheckpointStore(folder.path()).complete(m, 2);
  recipe.trainer.steps.reset(), recipe.trainer.resume = folder.path();
  const Outcome resumed = train(recipe);
  expect_same_steps(undisturbed.steps, resumed.steps, 4);
  EXPECT_TRUE(same_bits(resumed.parameters[0], undisturbed.parameters[0]));
}

/// Four workers have made one of the three steps of the third epoch, and two go on.
TEST(Timetable, SharesTheRestOfAnEpochThatEndsEarly) {
  TrainerOptions options;
  options.epochs = 4, options.epoch_steps = 3;
  ImageClassification task(perceptron(), tiny_images(150, 60), 0, 2, {.batch = 16});
  Timetable t(options, task, 2);
  Manifest m{.step = 7, .workers = 4};
  m.position = DataPosition{.epoch = 2, .trained = {{4, 1}}};
  t.go_on_from(m);  // of an earlier version: it does not tell how long epochs were
  EXPECT_EQ(t.steps_per_epoch(), 3);
  EXPECT_EQ(t.first_steps_per_epoch(), 2);
  EXPECT_EQ(t.steps_ahead(), 0);
  EXPECT_EQ(t.epochs_done(7), 2);
  EXPECT_EQ(t.batch_at(7), 0);
  EXPECT_EQ(t.position(8).trained, (std::vector<Trained>{{4, 1}, {2, 1}}));
  EXPECT_FALSE(t.ends_epoch(8));
  EXPECT_TRUE(t.ends_epoch(9));
  EXPECT_EQ(t.last_step(), 12);
}

TEST(Resume, AfterAnInterrupt) {
  Recipe recipe = recipe_of(kResumeCases[1], 3);
  const Outcome undisturbed = train(recipe);
  TempFolder folder;
  recipe.trainer.save = folder.path();
  recipe.per_rank = [](TrainerOptions& options, int rank) {
    // Asked after five steps, before the one batch of an evaluation, and after steps again.
    if (rank == 1) options.stop_requested = [calls = 0]() mutable { return ++calls >= 8; };
  };
  const Outcome interrupted = train(recipe);
  EXPECT_EQ(interrupted.summary.stopped, "interrupted");
  ASSERT_LT(interrupted.steps.size(), 10u);
  EXPECT_EQ(interrupted.evals.size(), interrupted.steps.size() / 5) << "saved, and not evaluated";
  recipe.per_rank = {};
  recipe.trainer.resume = folder.path();
  const Outcome resumed = train(recipe);
  EXPECT_EQ(resumed.summary.stopped, "");
  expect_same_steps(undisturbed.steps, resumed.steps, interrupted.steps.size());
  EXPECT_TRUE(same_bits(resumed.parameters[0], undisturbed.parameters[0]));
}

TEST(Resume, AnEvaluationThatAStopPutOffIsMadeFirst) {
  for (const int epochs : {1, 3})
    for (const int asked : {5, 7}) {  // after the last step of the first epoch, and before its second batch of two
      SCOPED_TRACE(concat(epochs, " epochs, stopped when asked ", asked, " times"));
      Recipe recipe = recipe_of(kResumeCases[2], 3);  // whose rate goes by evaluations
      recipe.trainer.epochs = epochs, recipe.task.eval_batch = 5;
      const Outcome undisturbed = train(recipe);
      TempFolder folder;
      recipe.trainer.save = folder.path();
      recipe.per_rank = [asked](TrainerOptions& options, int rank) {
        if (rank == 1) options.stop_requested = [asked, calls = 0]() mutable { return ++calls >= asked; };
      };
      const Outcome interrupted = train(recipe);
      EXPECT_EQ(interrupted.summary.stopped, "interrupted");
      EXPECT_EQ(interrupted.steps.size(), 5u);
      EXPECT_TRUE(interrupted.evals.empty());
      recipe.per_rank = {};
      recipe.trainer.resume = folder.path();
      const Outcome resumed = train(recipe);
      EXPECT_EQ(resumed.summary.stopped, "");
      expect_same_steps(undisturbed.steps, resumed.steps, 5);
      EXPECT_TRUE(same_bits(resumed.parameters[0], undisturbed.parameters[0]));
      ASSERT_EQ(resumed.evals.size(), undisturbed.evals.size());
      for (std::size_t i = 0; i < resumed.evals.size(); ++i)
        EXPECT_EQ(resumed.evals[i].loss, undisturbed.evals[i].loss) << i;
    }
}

/// Counts how often each position in the order of epochs is trained.
struct Counting final : Passing {
  Counting(std::unique_ptr<Workload> inner, std::vector<int>& counts, std::mutex& mutex)
      : Passing(std::move(inner)), counts(counts), mutex(mutex) {}
  Share load() override {
    const Share share = Passing::load();
    const std::lock_guard lock(mutex);
    for (std::int64_t i = 0; i < share.samples; ++i) ++counts[static_cast<std::size_t>(share.first_sample + i)];
    return share;
  }
  std::vector<int>& counts;
  std::mutex& mutex;
};

TEST(Resume, OtherNumbersOfWorkersTrainEachSampleOncePerEpoch) {
  for (const int accumulate : {1, 2}) {
    SCOPED_TRACE(accumulate);
    std::vector<int> counts(100);
    std::mutex mutex;
    Recipe recipe = recipe_of(kResumeCases[1], 4);
    recipe.trainer.accumulate = accumulate, recipe.trainer.epochs = 3 * accumulate;
    recipe.wrap = [&](std::unique_ptr<Workload> inner, const dist::Worker&) {
      return std::make_unique<Counting>(std::move(inner), counts, mutex);
    };
    const TempFolder folder;
    recipe.trainer.save = folder.path();
    std::int64_t step = 0;
    std::vector<std::int64_t> evaluated;
    double lr = 1;
    for (const int workers : {4, 3, 1, 1, 2, 4}) {  // within an epoch, and beyond its end
      recipe.workers = workers;
      recipe.trainer.steps = step += 3;
      if (workers == 4 && step > 3) recipe.trainer.steps.reset();
      const Outcome part = train(recipe);
      for (std::size_t r = 1; r < part.parameters.size(); ++r) {
        EXPECT_TRUE(same_bits(part.parameters[r], part.parameters[0]));
      }
      if (step > 6) {  // a cosine that goes on, but for a step: what is left of an epoch is no whole number of them
        const double of_a_step = (part.steps.front().lr - part.steps.back().lr) / 2;
        EXPECT_LE(part.steps.front().lr, lr + of_a_step);
      }
      lr = part.steps.back().lr;
      for (const EvalReport& report : part.evals) evaluated.push_back(report.epoch);
      recipe.trainer.resume = folder.path();
    }
    EXPECT_EQ(counts, std::vector<int>(100, 3 * accumulate));
    EXPECT_EQ(evaluated.back(), 3 * accumulate);
    for (std::int64_t epoch = 1; epoch <= 3 * accumulate; ++epoch)
      EXPECT_TRUE(std::count(evaluated.begin(), evaluated.end(), epoch) >= 1) << epoch;
  }
}

/// A count of iterations in a schedule means as many samples, whoever goes on.
TEST(Resume, TheRateGoesOnWhereItWasWithOtherWorkers) {
  for (const auto& [schedule, begin, go_on, steps] : {std::tuple{"warmup:30it+const", 1, 4, 120},
                                                      {"warmup:60it+const", 1, 4, 120},
                                                      {"multistep:20it,100it,0.1", 1, 2, 120},
                                                      {"warmup:10it+cosine", 4, 1, 120},
                                                      {"warmup:10it+cosine", 1, 4, 0}}) {
    SCOPED_TRACE(concat(schedule, ", ", begin, " and ", go_on));
    Recipe recipe(perceptron, begin);
    recipe.data = tiny_images(96, 16);
    recipe.task.batch = 4;  // 24 steps an epoch, and 6 of four workers
    recipe.trainer.schedule = Schedule::parse(schedule);
    recipe.trainer.eval_every = 0, recipe.trainer.audit_every = 0, recipe.trainer.keep = 100;
    recipe.trainer.epochs = 1;
    if (steps > 0)
      recipe.trainer.steps = steps;
    else
      recipe.trainer.epochs = 5;
    const TempFolder one, other;
    recipe.trainer.save = one.path(), recipe.trainer.save_every = Every{12, true};
    const double before = train(recipe).steps[47].lr;
    recipe.workers = go_on;
    recipe.trainer.resume = one.path() + "/checkpoint-000000000048", recipe.trainer.save = other.path();
    const std::vector<StepReport> later = train(recipe).steps;
    EXPECT_NEAR(later[0].lr, before, recipe.trainer.lr * go_on / 59);
    recipe.workers = begin;
    recipe.trainer.resume = other.path() + "/checkpoint-000000000060", recipe.trainer.save.clear();
    recipe.trainer.save_every.reset();
    EXPECT_NEAR(train(recipe).steps[0].lr, later[11].lr, recipe.trainer.lr * go_on / 59);
  }
}

/// An epoch has other steps with other workers, and a dense beginning is as many epochs long; rounds that have begun
/// end where they would have.
TEST(Resume, OtherWorkersGoOnWithTheRoundThatIsUnderWay) {
  Recipe recipe(perceptron, 2);
  recipe.data = tiny_images(96, 16);  // 6 steps an epoch, and 3 of four workers
  recipe.task.batch = 8;
  recipe.sync = "rounds", recipe.settings = {{"every", "5"}, {"warmup", "dense:1"}};
  recipe.trainer.epochs = 6;
  const TempFolder folder;
  recipe.trainer.save = folder.path();
  recipe.trainer.steps = 12;
  train(recipe);
  recipe.workers = 4;
  recipe.trainer.resume = folder.path(), recipe.trainer.save.clear();
  for (const std::int64_t steps : {13, 14, 15, 16, 17}) {
    recipe.trainer.steps = steps;
    const Outcome outcome = train(recipe);
    EXPECT_EQ(same_bits(outcome.parameters[0], outcome.parameters[3]), steps == 16) << steps;  // 6 + 2 times 5
  }
}

TEST(Resume, OtherWorkersGoOnWithTheMeanOfStatistics) {
  for (const std::int64_t steps : {3, 4}) {  // three have no sample in the fourth
    const TempFolder folder;
    Recipe recipe = recipe_of(kResumeCases[1], 4);
    recipe.trainer.save = folder.path(), recipe.trainer.steps = steps;
    const Outcome four = train(recipe);
    recipe.workers = 3, recipe.trainer.resume = folder.path();
    const Outcome three = train(recipe);
    const double first = steps == 3 ? 1 : 28.0 * 4 / 100, others = steps == 3 ? 1 : 24.0 * 4 / 100;
    for (const char* name : {"bn.running_mean", "bn.running_var"})
      for (std::size_t i = 0; i < four.buffers[0].at(name).size(); ++i) {
        double sum = 0;
        for (std::size_t r = 0; r < 4; ++r) sum += (r == 0 ? first : others) * double{four.buffers[r].at(name)[i]};
        for (const auto& rank : three.buffers) {
          EXPECT_FLOAT_EQ(rank.at(name)[i], static_cast<float>(sum / 4)) << name;
          if (steps == 3) {
            EXPECT_EQ(rank.at(name)[i], static_cast<float>(sum / 4)) << name;
          }
        }
      }
    EXPECT_TRUE(same_bits(three.parameters[2], four.parameters[0]));
  }
}

/// A file of before this says nothing of samples: then all count alike.
TEST(Resume, ACheckpointWithoutCountsOfSamplesIsTaken) {
  const TempFolder folder;
  Recipe recipe = recipe_of(kResumeCases[1], 3);
  recipe.trainer.save = folder.path(), recipe.trainer.steps = 5;
  train(recipe);
  const std::string checkpoint = CheckpointStore::newest(folder.path());
  Manifest manifest = CheckpointStore::read_manifest(checkpoint);
  for (int r = 0; r < 3; ++r) {
    const StateDict now = CheckpointStore::read_rank(checkpoint, r);
    EXPECT_TRUE(now.contains("run/samples"));
    StateDict before;
    for (const auto& [name, tensor] : now)
      if (name != "run/samples") before.set(name, tensor);
    for (const auto& [name, text] : now.texts()) before.set_text(name, text.starts_with("mean") ? "mean" : text);
    manifest.ranks[static_cast<std::size_t>(r)] =
        CheckpointStore(folder.path()).write_rank(manifest.run, manifest.step, r, before);
  }
  CheckpointStore(folder.path()).complete(manifest, 2);
  recipe.trainer.resume = folder.path();
  EXPECT_EQ(train(recipe).summary.steps, 5);
  recipe.workers = 2, recipe.trainer.steps = 7;
  EXPECT_EQ(train(recipe).summary.steps, 7);
}

/// It changes the weights by its mean over workers, or with `reduce` sum by its sum.
TEST(Resume, WhatOthersHavePutByMovesTheWeightsAsFar) {
  for (const bool mean : {true, false})
    for (const std::string method : {"redsync", "layerdrop"}) {
      SCOPED_TRACE(concat(method, mean ? ", mean" : ", sum"));
      const TempFolder four, three, one;
      Recipe recipe = recipe_of(kResumeCases[0], 4);
      recipe.model = mixed;
      if (method == "redsync")
        sends_little(recipe, "redsync");
      else
        recipe.sync = method, recipe.settings = {{"drop-ratio", "0.8"}};
      recipe.trainer.mean = mean, recipe.trainer.lr = 0.002, recipe.trainer.steps = 3;
      const auto moves = [&](const TempFolder& to, int workers) {
        recipe.workers = workers, recipe.trainer.save = to.path();
        train(recipe);
        recipe.trainer.resume = to.path();
        std::vector<double> all;
        for (int r = 0; r < workers; ++r) {
          const StateDict state = CheckpointStore::read_rank(CheckpointStore::newest(to.path()), r);
          const std::vector<float> own =
              state.at("strategy/" + method + (method == "redsync" ? "/residual" : "/kept")).to_vector();
          all.resize(own.size());
          for (std::size_t i = 0; i < own.size(); ++i) all[i] += double{own[i]} / (mean ? workers : 1);
        }
        return all;
      };
      const std::vector<double> before = moves(four, 4);
      EXPECT_TRUE(std::any_of(before.begin(), before.end(), [](double x) { return x != 0; }));
      for (const auto& after : {moves(three, 3), moves(one, 1)})
        for (std::size_t i = 0; i < before.size(); ++i)
          ASSERT_NEAR(after[i], before[i], 0x1p-22 * std::abs(before[i]) + 0x1p-126) << i;
      if (method == "redsync") continue;
      const auto threshold = [](const TempFolder& in, int rank) {
        const StateDict state = CheckpointStore::read_rank(CheckpointStore::newest(in.path()), rank);
        return state.numbers("strategy/layerdrop/threshold", 3, "the threshold");
      };
      EXPECT_NE(threshold(four, 1), threshold(four, 2)) << "each has its own";
      for (int r = 0; r < 3; ++r) EXPECT_EQ(threshold(three, r), threshold(four, r));
    }
}

TEST(Resume, OnlyTheNewestCheckpointsAreKept) {
  for (const int keep : {1, 3}) {
    const TempFolder folder;
    Recipe recipe = recipe_of(kResumeCases[0], 2);
    recipe.trainer.save = folder.path(), recipe.trainer.keep = keep;
    recipe.trainer.save_every = Every{2, true}, recipe.trainer.steps = 10;
    train(recipe);
    const std::vector<std::string> all = CheckpointStore::all_in(folder.path());
    ASSERT_EQ(all.size(), static_cast<std::size_t>(keep));
    for (int i = 0; i < keep; ++i)
      EXPECT_EQ(CheckpointStore::read_manifest(all[static_cast<std::size_t>(i)]).step, 10 - 2 * i);
  }
}

TEST(Resume, ADamagedCheckpointTakesNoPlaceOfThoseThatAreKept) {
  const TempFolder folder;
  Recipe recipe = recipe_of(kResumeCases[0], 2);
  recipe.trainer.save = folder.path(), recipe.trainer.keep = 3;
  recipe.trainer.save_every = Every{2, true}, recipe.trainer.steps = 10;
  train(recipe);
  const std::string damaged = CheckpointStore::all_in(folder.path())[1];
  std::filesystem::resize_file(damaged + "/rank-1.safetensors", 100);
  recipe.trainer.resume = folder.path(), recipe.trainer.steps = 12;
  train(recipe);
  std::vector<std::int64_t> steps;
  for (const std::string& kept : CheckpointStore::all_in(folder.path()))
    steps.push_back(CheckpointStore::read_manifest(kept).step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{12, 10, 6}));
}

/// Says when this worker has come to its seventh loss.
class SaysAtSeven final : public Passing {
 public:
  SaysAtSeven(std::unique_ptr<Workload> inner, std::atomic<bool>& said) : Passing(std::move(inner)), said_(said) {}
  Tensor loss() override {
    if (++losses_ == 7) said_ = true;
    return Passing::loss();
  }

 private:
  std::atomic<bool>& said_;
  int losses_ = 0;
};

/// The weights go into a pipe that nobody reads until the training has gone on for three steps.
TEST(Resume, TheTrainingGoesOnWhileACheckpointIsWritten) {
  const TempFolder folder;
  const std::string pipe = folder / "weights.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int fd = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_GT(::fcntl(fd, F_SETPIPE_SZ, 4096), 0);  // less than the weights
  Recipe recipe = recipe_of(kResumeCases[0], 2);
  recipe.trainer.save = folder.path(), recipe.trainer.overwrite = true, recipe.trainer.keep = 3;
  recipe.trainer.save_every = Every{4, true}, recipe.trainer.steps = 12, recipe.trainer.eval_every = 0;
  std::atomic<bool> went_on{false};
  recipe.wrap = [&](std::unique_ptr<Workload> task, const dist::Worker& w) -> std::unique_ptr<Workload> {
    if (w.rank != 0) return task;
    return std::make_unique<SaysAtSeven>(std::move(task), went_on);
  };
  std::atomic<bool> over{false};
  bool in_time = false;
  std::size_t counted = 0, bytes = 0;
  std::thread reader([&] {
    for (int i = 0; i < 60'000 && !went_on && !over; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    in_time = went_on;
    counted = CheckpointStore::all_in(folder.path()).size();
    for (char some[4096]; !over; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      for (ssize_t n = 0; (n = ::read(fd, some, sizeof some)) > 0;) bytes += static_cast<std::size_t>(n);
  });
  EXPECT_EQ(error_of<Error>([&] { train(recipe); }), "");
  over = true;
  reader.join();
  ::close(fd);
  EXPECT_GT(bytes, 3 * 4096u);
  EXPECT_TRUE(in_time);
  EXPECT_EQ(counted, 0u) << "it counts before all of it is written";
  EXPECT_EQ(CheckpointStore::all_in(folder.path()).size(), 3u);
}

/// Steps tell each other that all parts are written: a checkpoint does not wait for the next one, or for the end.
TEST(Resume, ACheckpointCountsWhileTheTrainingGoesOn) {
  for (const int servers : {0, 1}) {
    const TempFolder folder;
    Recipe recipe = recipe_of(kResumeCases[0], 2);
    if (servers > 0) recipe.sync = "ps", recipe.servers = servers;
    recipe.trainer.save = folder.path(), recipe.trainer.save_every = Every{100, true};
    recipe.trainer.steps = 200, recipe.trainer.eval_every = 0, recipe.trainer.audit_every = 0;
    std::atomic<int> asked{0};
    std::atomic<bool> counts{false};
    recipe.trainer.stop_requested = [&] {
      if (++asked <= 2 * 100) return false;
      if (!CheckpointStore::all_in(folder.path()).empty()) counts = true;
      if (!counts) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return counts.load();
    };
    train(recipe);
    EXPECT_TRUE(counts);
    const std::vector<std::string> all = CheckpointStore::all_in(folder.path());
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(CheckpointStore::read_manifest(all[1]).step, 100);
    EXPECT_LT(CheckpointStore::read_manifest(all[0]).step, 200);
  }
}

TEST(Resume, ARunThatIsCompleteStaysAsItIs) {
  TempFolder folder;
  Recipe recipe = recipe_of(kResumeCases[1], 3);
  recipe.trainer.save = folder.path();
  const Outcome done = train(recipe);
  recipe.trainer.resume = folder.path();
  const Outcome again = train(recipe);
  EXPECT_TRUE(again.steps.empty());
  EXPECT_TRUE(same_bits(again.parameters[0], done.parameters[0]));
  EXPECT_EQ(again.buffers, done.buffers);
}

}  // namespace
}  // namespace laconic
