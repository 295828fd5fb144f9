// Training whose coded and sparse messages NCCL carries: the ring's bits.
#include <gtest/gtest.h>

#include "dist/method/allreduce_sync.h"
#include "tests/dense_training.h"
#include "tests/error_of.h"
#include "tests/nccl_ranks.h"
#include "tests/redsync_training.h"

namespace laconic::dist {
namespace {

struct Outcome {
  std::vector<std::vector<float>> values, lost;  // by rank
  std::uint64_t bytes = 0, messages = 0;         // that rank 0 sent
};

constexpr int kSteps = 3;
/// Some buckets of several parameters, none of more than one piece.
Outcome train_coded(const std::string& allreduce, const std::string& codec, int N, Overlap overlap, bool feedback) {
  Outcome o;
  o.values.resize(static_cast<std::size_t>(N)), o.lost.resize(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    const auto r = static_cast<std::size_t>(w.rank);
    const ParameterArena arena(dense_training::some_parameters(), own_device(w));
    PlanOptions options{.bucket_bytes = 10'000, .chunk_bytes = 7000};
    set_allreduce(options, allreduce);
    set_codec(options, codec);
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), options, N), dense_training::sgd,
                       {.overlap = overlap, .seed = 7, .codec_feedback = feedback});
    const Traffic before = w.engine.counters().sent;
    dense_training::train(sync, arena, w.rank, 1, kSteps);
    o.values[r] = arena.values().to_vector();
    RankState state;
    sync.save(state);
    if (const Tensor* lost = state.find("codec.lost")) o.lost[r] = lost->to_vector();
    if (w.rank > 0) return;
    o.bytes = w.engine.counters().sent.bytes - before.bytes;
    o.messages = w.engine.counters().sent.messages - before.messages;
  });
  return o;
}

void expect_same(const Outcome& ring, const Outcome& nccl) {
  ASSERT_EQ(ring.values.size(), nccl.values.size());
  for (std::size_t r = 0; r < ring.values.size(); ++r) {
    EXPECT_TRUE(same_bits(nccl.values[r], ring.values[r])) << "rank " << r;
    EXPECT_TRUE(same_bits(nccl.lost[r], ring.lost[r])) << "what rank " << r << " lost";
  }
}

TEST_F(NcclTest, ACodedRingHasTheRingsBitsForEveryCodec) {
  for (const char* codec : {"identity", "fp16", "bf16", "trunc:16", "inceptionn:2^-10", "inceptionn-published:2^-6",
                            "inceptionn:rel:2^0", "qsgd:8:512", "terngrad", "onebit", "snappy", "lz4"})
    for (const bool feedback : {false, true}) {
      SCOPED_TRACE(concat(codec, feedback ? " with feedback" : ""));
      const int N = feedback ? 2 : std::min(3, cuda_devices());
      const Outcome ring = train_coded("ring", codec, N, Overlap::forward, feedback);
      const Outcome nccl = train_coded("nccl", codec, N, Overlap::forward, feedback);
      expect_same(ring, nccl);
      EXPECT_EQ(nccl.bytes, ring.bytes + 8 * ring.messages) << "a length before each";
    }
}

TEST_F(NcclTest, ACodedRingHasTheSameBitsWithEveryOverlapAndSize) {
  for (const int N : sizes(4)) {
    const Outcome ring = train_coded("ring", "qsgd:4:64", N, Overlap::none, true);
    for (const Overlap overlap : {Overlap::none, Overlap::backward, Overlap::forward}) {
      SCOPED_TRACE(concat(N, " ranks, ", to_string(overlap)));
      expect_same(ring, train_coded("nccl", "qsgd:4:64", N, overlap, true));
    }
  }
}

TEST(Nccl, ARankAloneHasNoUseForIt) {
  on_ranks(1, [](Worker& w) {
    const ParameterArena arena(dense_training::some_parameters()), same(dense_training::some_parameters());
    PlanOptions options;
    set_allreduce(options, "nccl");
    AllreduceSync sync(arena, w.engine, make_plan(arena.parameters(), options), dense_training::sgd);
    dense_training::train(sync, arena, 0, 1, 2);
    set_allreduce(options, "ring");
    AllreduceSync ring(same, w.engine, make_plan(same.parameters(), options), dense_training::sgd);
    dense_training::train(ring, same, 0, 1, 2);
    EXPECT_TRUE(same_bits(arena.values().to_vector(), same.values().to_vector()));
  });
}

/// Values of all ranks after some steps, a device each.
std::vector<std::vector<float>> train_sparse(int N, Settings s, const char* allreduce, int steps) {
  std::vector<std::vector<float>> values(static_cast<std::size_t>(N));
  s.allreduce = allreduce;
  on_ranks(N, [&](Worker& w) {
    Settings mine = s;
    mine.device = own_device(w);
    mine.reversed = w.rank == 1;  // as a rank without samples might have them
    Training t(w, mine);
    t.steps(1, steps);
    values[static_cast<std::size_t>(w.rank)] = t.values();
  });
  return values;
}

/// One of each way to choose and to send.
bool each_way(const Case& c) {
  const std::string name = c.name;
  return name == "paper, packed" || name == "qrgc" || name == "gradient-dropping" || name == "adacomp" ||
         name == "randomk";
}

/// Sums of NCCL's own may be added in another order: of two ranks there is one.
TEST_F(NcclTest, SparseTrainingHasTheRingsBitsWithEveryOverlap) {
  for (const Case& c : kCases) {
    Settings s = settings_of(c);
    const auto ring = train_sparse(2, s, "ring", 2);
    for (const Overlap overlap : {Overlap::forward, Overlap::backward, Overlap::none}) {
      if (overlap != Overlap::forward && !each_way(c)) continue;
      s.overlap = overlap;
      const auto nccl = train_sparse(2, s, "nccl", 2);
      for (std::size_t r = 0; r < 2; ++r)
        EXPECT_TRUE(same_bits(nccl[r], ring[r])) << c.name << ", " << to_string(overlap) << ", rank " << r;
    }
  }
}

TEST_F(NcclTest, OfMoreRanksWhatTravelsSparselyHasTheRingsBits) {
  const ParameterArena arena(redsync_parameters());
  for (const int N : sizes(4))
    for (const Case& c : kCases) {
      const Settings s = settings_of(c);
      if (N == 2 || !each_way(c) || s.sync == "randomk") continue;
      const auto ring = train_sparse(N, s, "ring", 2), nccl = train_sparse(N, s, "nccl", 2);
      for (const auto& values : nccl) EXPECT_TRUE(same_bits(values, nccl[0])) << c.name;
      for (const auto& p : arena.parameters())
        for (std::int64_t i = 0; i < p->info.elements; ++i) {
          const auto at = static_cast<std::size_t>(p->info.offset + i);
          if (is_large(p->info))
            ASSERT_EQ(nccl[0][at], ring[0][at]) << c.name << ", " << N << " ranks, " << p->info.name;
          else
            ASSERT_NEAR(nccl[0][at], ring[0][at], 1e-5) << c.name << ", " << N << " ranks, " << p->info.name;
        }
    }
}

TEST_F(NcclTest, PhasesChangeAsTheyDoWithTheRing) {
  for (const char* sync : {"redsync", "topk"}) {
    Settings s{.sync = sync, .momentum = 0.9f};
    s.sparse.density = 0.02;
    s.density = [](std::int64_t step) { return step <= 2 || step == 5 ? std::nullopt : std::optional<double>(0.02); };
    EXPECT_TRUE(same_bits(train_sparse(2, s, "nccl", 6)[1], train_sparse(2, s, "ring", 6)[1])) << sync;
  }
}

TEST_F(NcclTest, WhatIsSentSparselyDoesNotPassTheHost) {
  constexpr int kStepsHere = 2;
  const auto to_host = [](const char* allreduce, double density) {
    Settings s;
    s.sparse.selector = "radix";
    s.sparse.density = density;
    const std::uint64_t before = copied_to_host_bytes();
    train_sparse(2, s, allreduce, kStepsHere);
    return static_cast<double>(copied_to_host_bytes() - before) / (2 * kStepsHere);
  };
  // What the test itself brings there falls out; of some 13,000 elements half are sent, 8 bytes each.
  EXPECT_GT(to_host("ring", 0.5) - to_host("ring", 0.01), 40'000);
  EXPECT_LT(std::abs(to_host("nccl", 0.5) - to_host("nccl", 0.01)), 1000);
}

}  // namespace
}  // namespace laconic::dist
