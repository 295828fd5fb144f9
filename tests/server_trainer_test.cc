// Training with parameter servers, from the weights to the checkpoint.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "dist/trainer/checkpoint.h"
#include "tests/error_of.h"
#include "tests/temp_folder.h"
#include "tests/training.h"

namespace laconic {
namespace {

Recipe recipe_of(const char* sync, int workers, int servers) {
  Recipe recipe(mixed, workers);
  recipe.data = tiny_images(100, 30);
  recipe.task.batch = 8;
  recipe.servers = servers;
  recipe.sync = sync;
  recipe.trainer.lr = 0.03;
  recipe.trainer.optimizer = {.momentum = 0.9, .decay = {.weight_decay = 1e-3}};
  // This cuts a linear weight of 64 KiB. A worker that is alone has nothing to hide, and layers are never cut: where
  // bits are compared with them, no plan may be cut.
  recipe.trainer.plan.chunk_bytes = workers > 1 && std::string(sync) == "ps" ? 16 << 10 : 0;
  return recipe;
}

TEST(ServerTrainer, DenseServersGiveOneResultWhereverTheyAre) {
  for (int workers : {1, 3}) {
    const Outcome first = train(recipe_of("ps", workers, 1));
    const Outcome ring = train(recipe_of("allreduce", workers, 0));
    EXPECT_LT(relative_difference(ring.parameters[0], first.parameters[0]), 1e-3);
    if (workers == 1) {
      EXPECT_EQ(ring.parameters[0].size(), first.parameters[0].size());
    }
    for (int servers : {0, 2})
      for (const dist::Overlap overlap : {dist::Overlap::none, dist::Overlap::backward, dist::Overlap::forward}) {
        Recipe recipe = recipe_of("ps", workers, servers);
        recipe.trainer.overlap = overlap;
        const Outcome other = train(recipe);
        for (const auto& parameters : other.parameters)
          EXPECT_TRUE(same_bits(parameters, first.parameters[0])) << servers << " " << dist::to_string(overlap);
        EXPECT_EQ(other.evals.back().loss, first.evals.back().loss);
      }
  }
}

TEST(ServerTrainer, LayersOfARatioOfZeroAreTheDenseServer) {
  Recipe whole = recipe_of("ps", 3, 1);
  whole.trainer.plan.chunk_bytes = 0;
  const Outcome dense = train(whole);
  for (int servers : {0, 1}) {
    Recipe recipe = recipe_of("layerdrop", 3, servers);
    recipe.settings = {{"drop-ratio", "0"}};
    EXPECT_TRUE(same_bits(train(recipe).parameters[0], dense.parameters[0]));
  }
}

TEST(ServerTrainer, SaysWhatEachLegHasTaken) {
  const Outcome dense = train(recipe_of("ps", 2, 1));
  Recipe recipe = recipe_of("layerdrop", 2, 1);
  recipe.settings = {{"drop-ratio", "0.9"}};
  recipe.trainer.ledger_every = 1;
  const Outcome dropping = train(recipe);
  std::int64_t up = 0, down = 0, sent = 0;
  for (const StepReport& step : dropping.steps) {
    ASSERT_TRUE(step.bytes_up_sum && step.bytes_down_sum);
    up += *step.bytes_up_sum, down += *step.bytes_down_sum, sent += step.bytes_sent_sum;
  }
  EXPECT_EQ(dropping.summary.bytes_up_total, up);
  EXPECT_EQ(dropping.summary.bytes_down_total, down);
  EXPECT_EQ(dropping.summary.bytes_sent_total, sent);
  EXPECT_LE(up, down);                                   // what one has sent comes back to both
  EXPECT_LT(up, *dense.summary.bytes_up_total * 3 / 4);  // one layer is three quarters of the model
  // Not step by step: what is on its way at the end of one counts for one of them here, and for the next one there.
  EXPECT_LE(up + down, dropping.summary.bytes_network_total);
  EXPECT_GE(dropping.summary.bytes_network_total, sent);
  ASSERT_FALSE(dropping.summary.ledger.empty());
  for (const dist::LedgerRow& row : dropping.summary.ledger) {
    EXPECT_GE(row.more.at(0), 1);  // the first step sends all
    EXPECT_GE(row.more.at(1), row.more.at(0));
    EXPECT_LE(row.more.at(1), static_cast<double>(dropping.steps.size()));
  }
  for (const StepReport& step : train(recipe_of("allreduce", 2, 0)).steps) EXPECT_FALSE(step.bytes_up_sum);
}

TEST(ServerTrainer, TheLedgerSaysWhatEachParameterTook) {
  for (const char* sync : {"ps", "layerdrop", "slimdp"})
    for (const char* codec : {"none", "qsgd:8:512"}) {
      Recipe recipe = recipe_of(sync, 2, 1);
      recipe.trainer.ledger_every = 1;
      recipe.trainer.plan.codec = codec;
      TempFolder folder;
      recipe.trainer.save = folder.path();
      const Outcome outcome = train(recipe);
      double up = 0, down = 0;
      for (const dist::LedgerRow& row : outcome.summary.ledger) {
        up += row.bytes, down += row.bytes_down;
        EXPECT_EQ(row.exchanges, static_cast<std::int64_t>(outcome.steps.size()));
        if (std::string(sync) != "slimdp") continue;
        const double rest = row.bytes + row.bytes_down - row.more.at(0) - row.more.at(1) - row.more.at(2);
        EXPECT_NEAR(rest, 40.0 * static_cast<double>(row.exchanges), 1) << "two headers of 16 bytes, two answers of 4";
        EXPECT_GT(row.more.at(2), 0);
      }
      EXPECT_EQ(down, 0.5 * static_cast<double>(*outcome.summary.bytes_down_total)) << sync << ": one of two workers";
      if (std::string(sync) == "ps") {
        EXPECT_EQ(up, 0.5 * static_cast<double>(*outcome.summary.bytes_up_total));
      }
      recipe.trainer.resume = folder.path();  // it is finished already
      const Outcome again = train(recipe);
      EXPECT_TRUE(again.summary.last_eval) << "it has a result all the same";
      ASSERT_EQ(again.summary.ledger.size(), outcome.summary.ledger.size());
      EXPECT_EQ(again.summary.ledger[0].bytes, outcome.summary.ledger[0].bytes);
      EXPECT_EQ(again.summary.ledger[0].exchanges, outcome.summary.ledger[0].exchanges);
    }
}

TEST(ServerTrainer, SlimEvaluatesAndSavesTheServersModelAndSaysHowFarWorkersAreFromIt) {
  TempFolder folder;
  std::vector<std::vector<float>> weights;
  for (int servers : {0, 1, 2}) {
    Recipe recipe = recipe_of("slimdp", 3, servers);
    recipe.trainer.save = folder / concat("servers-", servers);
    const Outcome outcome = train(recipe);
    EXPECT_FALSE(same_bits(outcome.parameters[0], outcome.parameters[1]));  // workers drift apart
    ASSERT_TRUE(outcome.evals.back().drift);
    EXPECT_GT(*outcome.evals.back().drift, 0);
    EXPECT_LT(*outcome.evals.back().drift, 1);
    EXPECT_LT(outcome.evals.back().loss, outcome.evals.front().loss);
    EXPECT_LT(outcome.steps.end()[-2].loss, outcome.steps.front().loss) << "the last step has six images";
    const StateDict saved = load_safetensors(recipe.trainer.save + "/weights.safetensors");
    weights.push_back(saved.at("large.weight").to_vector());
    EXPECT_TRUE(same_bits(weights.back(), weights.front())) << "the server's bits";
  }
}

TEST(ServerTrainer, AnotherNumberOfServersGoesOnWithTheSameBits) {
  for (const char* optimizer : {"sgd", "adam"}) {
    TempFolder folder;
    Recipe recipe = recipe_of("ps", 2, 2);
    recipe.trainer.optimizer = {.name = optimizer};
    if (recipe.trainer.optimizer.name == std::string("sgd")) recipe.trainer.optimizer.momentum = 0.9;
    std::int64_t steps = 0;
    for (const int servers : {2, 0, 1, 3, 0}) {
      recipe.servers = servers;
      recipe.trainer.steps = steps += 2;
      recipe.trainer.resume.clear(), recipe.trainer.save.clear();
      const Outcome straight = train(recipe);
      recipe.trainer.save = folder.path();
      if (steps > 2) recipe.trainer.resume = folder.path();
      EXPECT_TRUE(same_bits(train(recipe).parameters[1], straight.parameters[1])) << optimizer << ", " << servers;
    }
  }
}

TEST(ServerTrainer, AServersFileThatIsMissingIsNamed) {
  TempFolder folder;
  Recipe recipe = recipe_of("ps", 2, 2);
  recipe.trainer.save = folder.path();
  train(recipe);
  recipe.trainer.resume = folder.path();
  std::filesystem::remove(CheckpointStore::newest(folder.path()) + "/rank-3.safetensors");
  expect_error<DataError>([&] { train(recipe); }, {"rank-3.safetensors"});
}

TEST(ServerTrainer, ServersWithoutAStrategyForThemAreRefused) {
  expect_error<UsageError>([] { train(recipe_of("allreduce", 2, 1)); }, {"has no use for 1 servers"});
  for (const bool alone : {false, true}) {
    Recipe recipe = recipe_of(alone ? "ps" : "slimdp", alone ? 1 : 2, alone ? 0 : 1);
    recipe.trainer.clip = Clip::parse("norm:1");
    expect_error<UsageError>([&] { train(recipe); }, {"`clip`"});
  }
}

TEST(ServerTrainer, LimitsTheLengthOfTheGradientAsAllreduceDoes) {
  for (const double limit : {0.5, 1e9}) {
    const auto clipped = [&](const char* sync, int servers) {
      Recipe recipe = recipe_of(sync, 3, servers);
      recipe.trainer.clip = {Clip::Kind::norm, limit};
      return train(recipe).parameters;
    };
    const auto ring = clipped("allreduce", 0), first = clipped("ps", 1);
    EXPECT_LT(relative_difference(ring[0], first[0]), 1e-3);
    for (int servers : {0, 2})
      for (const auto& parameters : clipped("ps", servers)) EXPECT_TRUE(same_bits(parameters, first[0]));
    if (limit < 1) {
      EXPECT_FALSE(same_bits(first[0], train(recipe_of("ps", 3, 1)).parameters[0]));
    }
  }
}

TEST(ServerTrainer, AServerThatWasStartedOtherwiseIsNamed) {
  Recipe recipe = recipe_of("ps", 2, 1);
  recipe.per_rank = [](TrainerOptions& options, int rank) {
    if (rank == 2) options.optimizer.momentum = 0.5;
  };
  expect_error<CommError>([&] { train(recipe); }, {"rank 2 has", "momentum=0.5"});
  recipe.per_rank = [](TrainerOptions& options, int rank) {
    if (rank == 2) options.audit_every = 7;
  };
  expect_error<CommError>([&] { train(recipe); }, {"rank 2 has 'audit=7' where rank 0 has 'audit="});
}

TEST(ServerTrainer, AWorkersErrorEndsTheServersToo) {
  struct Failing final : Passing {
    using Passing::Passing;
    Tensor loss() override {
      if (++calls == 3) throw DataError("label 7 is out of range");
      return Passing::loss();
    }
    int calls = 0;
  };
  Recipe recipe = recipe_of("ps", 2, 1);
  recipe.wrap = [](std::unique_ptr<Workload> inner, const dist::Worker& worker) -> std::unique_ptr<Workload> {
    if (worker.rank == 1) return std::make_unique<Failing>(std::move(inner));
    return inner;
  };
  expect_error<DataError>([&] { train(recipe); }, {"label 7 is out of range"});
}

TEST(ServerTrainer, StepsThatAreNotFiniteArePassedOver) {
  struct Nan final : Passing {
    using Passing::Passing;
    Tensor loss() override {
      Tensor loss = Passing::loss();
      if (++calls == 4) loss.value().data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      return loss;
    }
    int calls = 0;
  };
  for (int servers : {0, 1}) {
    Recipe recipe = recipe_of("ps", 2, servers);
    recipe.trainer.skip_nan = true;
    recipe.wrap = [](std::unique_ptr<Workload> inner, const dist::Worker& worker) -> std::unique_ptr<Workload> {
      if (worker.rank == 1) return std::make_unique<Nan>(std::move(inner));
      return inner;
    };
    const Outcome outcome = train(recipe);
    EXPECT_TRUE(std::isnan(outcome.steps[3].loss));
    EXPECT_TRUE(same_bits(outcome.parameters[0], outcome.parameters[1]));
    EXPECT_LT(outcome.steps.back().loss, outcome.steps.front().loss);
  }
}

}  // namespace
}  // namespace laconic
