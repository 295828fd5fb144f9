#include "dist/method/allreduce/allreduce_sync.h"
#include "tests/dense_training.h"
#include "tests/on_ranks.h"
#include "tests/pairwise.h"

namespace laconic::dist {
namespace {

using namespace dense_training;

std::vector<std::vector<float>> train_with(const std::string& codec, int N, const PlanOptions& plan, Overlap overlap,
                                           bool feedback = false, std::uint64_t* bytes = nullptr) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    PlanOptions options = plan;
    set_codec(options, codec);
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), options, N), sgd,
                       {.overlap = overlap, .seed = 7, .codec_feedback = feedback});
    train(sync, arena, w.rank, 1, 3);
    values[static_cast<std::size_t>(w.rank)] = arena.values().to_vector();
    if (bytes && w.rank == 0) *bytes = w.engine.counters().sent.bytes;
  });
  return values;
}

TEST(AllreduceSync, IdentityIsNoCodecAndEveryOtherLeavesEqualBitsOnAllRanksWithEveryOverlap) {
  const char* const codecs[] = {"inceptionn:2^-10", "qsgd:8:512", "fp16", "terngrad", "inceptionn-published:2^-6"};
  const char* const fusions[] = {"none", "lazy:10KiB", "copy:10kB"};
  for (const auto& row : combinations({3, algorithms().size(), std::size(fusions), std::size(codecs), 2})) {
    const int N = static_cast<int>(row[0]) + 2;
    const std::string allreduce = algorithms()[row[1]], codec = codecs[row[3]];
    const PlanOptions plan = plan_options(allreduce, fusions[row[2]], row[4] == 0 ? 0 : 7000);
    SCOPED_TRACE(concat(N, " ranks, ", allreduce, ", ", fusions[row[2]], ", ", codec, ", chunks ", row[4]));
    const auto plain = train_with("none", N, plan, Overlap::forward);
    EXPECT_TRUE(same_bits(train_with("identity", N, plan, Overlap::forward)[0], plain[0]));
    for (const bool feedback : {false, true}) {
      const auto first = train_with(codec, N, plan, Overlap::none, feedback);
      EXPECT_FALSE(same_bits(first[0], plain[0])) << "nothing went through the codec";
      for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward})
        for (const auto& v : train_with(codec, N, plan, overlap, feedback))
          ASSERT_TRUE(same_bits(v, first[0])) << to_string(overlap);
    }
  }
}

TEST(AllreduceSync, CountsWhatTheCodecSends) {
  std::uint64_t plain = 0, coded = 0;
  const PlanOptions plan = plan_options("ring", "lazy:1MiB", 0);
  train_with("none", 4, plan, Overlap::forward, false, &plain);
  train_with("fp16", 4, plan, Overlap::forward, false, &coded);
  EXPECT_EQ(plain, 2 * coded);
  const ParameterArena arena(some_parameters());
  PlanOptions options = plan;
  set_codec(options, "fp16");
  EXPECT_DOUBLE_EQ(2 * *bytes_of_step(make_plan(arena.parameters(), options, 4), 4),
                   *bytes_of_step(make_plan(arena.parameters(), plan, 4), 4));
}

TEST(AllreduceSync, WhatWasLostIsSavedAndResumed) {
  const auto run = [](bool stop) {
    std::vector<float> values;
    on_ranks(3, [&](Worker& w) {
      PlanOptions options = plan_options("ring", "copy:10kB", 0);
      set_codec(options, "inceptionn:2^-6");
      const TrainingFacts feedback{.codec_feedback = true};
      const ParameterArena arena(some_parameters());
      const Plan plan = make_plan(arena.parameters(), options, 3);
      if (!stop) {
        AllreduceSync sync(arena, w.engine, plan, sgd, feedback);
        train(sync, arena, w.rank, 1, 6);
      } else {
        RankState state;
        {
          AllreduceSync sync(arena, w.engine, plan, sgd, feedback);
          train(sync, arena, w.rank, 1, 3);
          sync.save(state);
        }
        AllreduceSync sync(arena, w.engine, plan, sgd, feedback);
        sync.load(state);
        train(sync, arena, w.rank, 4, 6);
        EXPECT_THROW(sync.load({}), DataError);
        StateDict other;
        other.set("codec.lost", Tensor::zeros({3}));
        EXPECT_THROW(sync.load(other), DataError);
      }
      if (w.rank == 0) values = arena.values().to_vector();
    });
    return values;
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(AllreduceSync, WhatWasLostIsSavedInOneOrderWhateverThePlan) {
  on_ranks(2, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    ASSERT_GT(arena.size(), arena.elements()) << "there is padding";
    const auto sync_with = [&](const char* fusion) {
      PlanOptions options = plan_options("ring", fusion, 0);
      set_codec(options, "inceptionn:2^-6");
      return AllreduceSync(arena, w.engine, make_plan(arena.parameters(), options, 2), sgd, {.codec_feedback = true});
    };
    RankState copied, lazy;
    {
      AllreduceSync sync = sync_with("copy:10kB");
      train(sync, arena, w.rank, 1, 3);
      sync.save(copied);
    }
    AllreduceSync sync = sync_with("lazy:1MiB");
    sync.load(copied);
    sync.save(lazy);
    const auto lost = [](const StateDict& state) { return state.at("codec.lost").to_vector(); };
    EXPECT_TRUE(same_bits(lost(copied), lost(lazy)));
    std::vector<float> rest = lost(copied);
    for (const auto& p : arena.parameters()) std::fill_n(rest.begin() + p->info.offset, p->info.elements, 0.0f);
    EXPECT_EQ(rest, std::vector<float>(rest.size())) << "nothing stands in the padding";
  });
}

}  // namespace
}  // namespace laconic::dist
