#include <cstring>
#include <limits>

#include "compress/codecs.h"
#include "compress/codecs/value_bits.h"
#include "dist/method/allreduce_sync.h"
#include "tests/dense_training.h"
#include "tests/error_of.h"
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
  const ParameterArena arena(some_parameters());
  const auto said = [&](const std::string& codec) {
    PlanOptions options = plan;
    set_codec(options, codec);
    return *bytes_of_step(make_plan(arena.parameters(), options, 4), 4);
  };
  train_with("none", 4, plan, Overlap::forward, false, &plain);
  train_with("bf16", 4, plan, Overlap::forward, false, &coded);
  EXPECT_EQ(plain, 2 * coded);
  EXPECT_DOUBLE_EQ(2 * said("bf16"), said("none"));
  train_with("fp16", 4, plan, Overlap::forward, false, &coded);
  EXPECT_GT(2 * coded, plain) << "exponents";
  EXPECT_NEAR(2 * static_cast<double>(coded), static_cast<double>(plain), 1e-3 * static_cast<double>(plain));
  EXPECT_NEAR(static_cast<double>(coded), 3 * said("fp16"), 8) << "three steps; blocks differ by a value";
}

/// Plain halves, as a codec of somebody else may send them.
class Halves final : public compress::SizedCodec {
 public:
  Halves() : SizedCodec("halves", "are no", "halves") {}
  std::size_t max_bytes(std::size_t n) const override { return 2 * n; }
  float largest() const override { return 65504; }

 private:
  void write(Slice<const float> x, const compress::Key&, std::byte* to) const override {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint16_t half = compress::fp16_of(x[i]);
      std::memcpy(to + 2 * i, &half, 2);
    }
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::uint16_t half;
      std::memcpy(&half, payload.data() + 2 * i, 2);
      x[i] = float_of(half);
    }
  }
};

/// One step in which every gradient of every rank is `gradient`, through this codec. Returns rank 0's parameters.
std::vector<float> step_through(const std::string& codec, int N, float gradient, bool mean, const std::string& by) {
  std::vector<float> values;
  on_ranks(N, [&](Worker& w) {
    const ParameterArena arena(some_parameters());
    PlanOptions options = plan_options(by, "lazy:1MiB", 0);
    set_codec(options, codec);
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), options, N), sgd, {.mean = mean});
    sync.begin_step({.step = 7, .lr = 1});
    for (const auto& p : arena.parameters()) {
      raw::fill(p->grad(), gradient), raw::fill(p->value(), 0.0f);
      sync.gradient_ready(*p, p->all_rows());
    }
    sync.end_step();
    sync.flush();
    if (w.rank == 0)
      for (const auto& p : arena.parameters())
        for (const float v : p->value().to_vector()) values.push_back(v);
  });
  return values;
}

TEST(AllreduceSync, ASumBeyondAHalfsRangeTravelsThroughFp16) {
  for (const auto& [N, by] : {std::pair{8, "ring"}, {8, "butterfly"}, {8, "doubling"}, {8, "tree:2"}, {64, "ring"}})
    for (const bool mean : {true, false})
      for (const float v : step_through("fp16", N, 8192, mean, by))
        ASSERT_EQ(v, mean ? -8192 : -8192 * N) << by << " of " << N;
}

TEST(AllreduceSync, ACodecOfASmallRangeNamesStepBucketAndWhatToTake) {
  static const bool added = [] {
    compress::codecs().push_back(compress::plain_codec("halves", {}, [] { return std::make_unique<Halves>(); }));
    return true;
  }();
  ASSERT_TRUE(added);
  for (const float v : step_through("halves", 4, 8192, true, "ring")) ASSERT_EQ(v, -8192);
  expect_error<compress::OutOfRange>([] { step_through("halves", 16, 8192, true, "ring"); },
                                     {"allreduce ", "in step 7 is beyond 65504", "(`codec`): take bf16 or fp16"});
  expect_error<compress::OutOfRange>(
      [] { step_through("halves", 2, std::numeric_limits<float>::infinity(), true, "ring"); },
      {"allreduce ", "what is to be sent in step 7 is not finite: lower `lr`, or clip"});
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
