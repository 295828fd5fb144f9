// Collectives whose hops pass through a codec.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "compress/codecs.h"
#include "core/base/random.h"
#include "dist/collective/ring_allreduce.h"
#include "tests/coded_collectives.h"
#include "tests/pairwise.h"
#include "tests/test_devices.h"

namespace laconic::dist {
namespace {

using namespace coded;

TEST(Hop, IdentityCodecGivesTheSameBitsAsNone) {
  const auto identity = compress::make_codec("identity");
  constexpr std::size_t sizes[] = {0, 1, 7, 1003};
  for (const auto& row : combinations({std::size(kCollectives), std::size(kRanks), std::size(sizes)})) {
    const auto& collective = kCollectives[row[0]];
    const int N = kRanks[row[1]];
    const std::size_t n = sizes[row[2]];
    const auto plain = run_all(N, n, collective.run, {}),
               coded = run_all(N, n, collective.run, {.codec = identity.get()});
    for (std::size_t r = 0; r < plain.size(); ++r)
      ASSERT_TRUE(same_bits(plain[r], coded[r])) << collective.name << ", rank " << r << " of " << N << ", " << n;
  }
}

TEST(Hop, IdentityCodecGivesTheSameBitsAsNoneAlsoWhereALargeOperationIsCut) {
  const auto identity = compress::make_codec("identity");
  const std::size_t n = 600'011;  // of a butterfly 5 pieces, of doubling, of a ring of leaders and of a tree 10
  const char* const names[] = {"butterfly", "doubling", "hierarchical:2", "ring-tree:2", "tree:2"};
  for (const auto& row : combinations({std::size(names), 3})) {
    const char* const name = names[row[0]];
    const int N = 3 + static_cast<int>(row[1]);
    const auto plain = run_all(N, n, named(name).run, {}),
               coded = run_all(N, n, named(name).run, {.codec = identity.get()});
    for (std::size_t r = 0; r < plain.size(); ++r)
      ASSERT_TRUE(same_bits(plain[r], coded[r])) << name << ", " << r << " of " << N;
  }
}

TEST(Hop, CodecThatRoundsAtRandomStillLeavesTheSameBitsOnAllRanks) {
  const Dither dither;
  std::vector<Named> everywhere = kAllreduces;
  everywhere.push_back({"allgather", ring_allgather, ring_allgather_cost});
  constexpr std::size_t sizes[] = {0, 1, 203};
  for (const auto& row : combinations({everywhere.size(), std::size(kRanks), std::size(sizes)})) {
    const Named& collective = everywhere[row[0]];
    const int N = kRanks[row[1]];
    const std::size_t n = sizes[row[2]];
    const auto all = run_all(N, n, collective.run, {.codec = &dither, .key = {.seed = 3, .step = 5, .operation = 2}});
    for (std::size_t r = 1; r < all.size(); ++r)
      EXPECT_TRUE(same_bits(all[0], all[r])) << collective.name << ", rank " << r << " of " << N << ", " << n;
  }
}

TEST(Hop, AllreduceCarriesNoMoreErrorsThanMessagesWereEncodedOnTheWay) {
  const Dither dither;
  for (const auto& collective : kAllreduces)
    for (const int N : {2, 3, 4, 5, 6, 7, 8, 9, 17}) {
      const std::size_t n = 203;
      const auto exact = run_all(N, n, collective.run, {}), coded = run_all(N, n, collective.run, {.codec = &dither});
      // A sum of N has at most N messages behind it, one of them finished; by groups each one's to its leader too; by
      // doubling both partners', which is all that was sent.
      const std::string name = collective.name;
      const double errors = name == "doubling" ? 2.0 * N : counts_to_the_byte(collective) ? N : 2.0 * N;
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_NEAR(exact[0][i], coded[0][i], errors / 256 + 1e-5) << name << ", " << N << " ranks";
      EXPECT_FALSE(same_bits(exact[0], coded[0])) << name << ": nothing went through the codec";
    }
}

TEST(Hop, SendsWhatTheCostFormulaExpectsOfTheCodec) {
  const Upper upper;
  for (const auto& collective : kCollectives)
    for (const int N : kRanks)
      for (std::size_t n : {0, 1, 7, 1003}) {
        std::vector<Traffic> sent(static_cast<std::size_t>(N));
        on_ranks(N, [&](Worker& w) {
          std::vector<float> x(n, 1.0f);
          w.engine.run("it", [&](Communicator& comm) { return collective.run(comm, slice(x), {.codec = &upper}); });
          sent[static_cast<std::size_t>(w.rank)] = w.engine.counters().sent;
        });
        const Cost cost = collective.cost(N, 4.0 * static_cast<double>(n), &upper);
        Traffic all;
        std::uint64_t busiest = 0;
        for (const Traffic& t : sent) {
          all.messages += t.messages, all.bytes += t.bytes, busiest = std::max(busiest, t.bytes);
          EXPECT_LE(static_cast<double>(t.messages), cost.messages) << collective.name;
        }
        const std::string which = concat(collective.name, ", ", N, " ranks, ", n);
        EXPECT_EQ(static_cast<double>(all.messages), cost.all_messages) << which;
        EXPECT_NEAR(static_cast<double>(all.bytes), cost.all_bytes, counts_to_the_byte(collective) ? 1e-6 : 4.0 * N)
            << which;
        EXPECT_LE(static_cast<double>(busiest), cost.bytes + 4.0 * N) << which;  // some blocks are longer
      }
}

/// Notes with which keys it was asked to encode.
class Noting final : public Dither {
 public:
  void encode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload) const override {
    {
      std::lock_guard lock(mutex_);
      keys_.insert({key.hop, key.rank});
      ++count_;
    }
    Dither::encode(x, key, payload);
  }
  std::size_t count() const { return count_; }
  std::size_t different() const { return keys_.size(); }

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::pair<std::uint32_t, std::uint32_t>> keys_;
  mutable std::size_t count_ = 0;
};

TEST(Hop, EveryBlockThatIsDoneIsEncodedOnceAndNoTwoMessagesHaveTheSameKey) {
  const auto noting = [](int N, std::size_t n, const Named& collective) {
    Noting codec;
    run_all(N, n, collective.run, {.codec = &codec});
    EXPECT_EQ(codec.count(), codec.different()) << N << " ranks, " << n;
    return codec.count();
  };
  for (const std::size_t N : {2, 3, 4, 5, 6, 7, 8, 9, 17}) {
    const int ranks = static_cast<int>(N);
    const std::size_t p = std::bit_floor(N), steps = static_cast<std::size_t>(std::bit_width(p)) - 1;
    EXPECT_EQ(noting(ranks, 100, named("ring")), N * (N - 1) + N);
    EXPECT_EQ(noting(ranks, 100, named("ring", 3)), 3 * (N * (N - 1) + N));
    EXPECT_EQ(noting(ranks, 100, named("butterfly")), N - p + p * steps + p);
    std::size_t inside = 0;  // groups of 3: their rings, and to the leader
    for (std::size_t first = 0; first < N; first += 3) {
      const std::size_t k = std::min<std::size_t>(3, N - first);
      inside += k * (k - 1) + k - 1;
    }
    const std::size_t g = (N + 2) / 3;
    EXPECT_EQ(noting(ranks, 100, named("hierarchical:3")), inside + g * (g - 1) + g);
    EXPECT_EQ(noting(ranks, 100, named("ring-tree:3")), inside + g);
    EXPECT_EQ(noting(ranks, 100, named("tree:3")), N);
  }
  EXPECT_EQ(noting(3, 300'000, named("butterfly")), 3u * (1 + 2 + 2));  // pieces of at most 512 KiB
  EXPECT_EQ(noting(4, 300'000, named("tree:2")), 5u * 4);               // of 256 KiB
  EXPECT_EQ(noting(2, 300'000, named("doubling")), 5u * 2);             // likewise
}

TEST(Hop, ReduceScatterCarriesAtMostNMinusOneErrorsOfItsCodec) {
  const Dither dither;
  for (const int N : kRanks) {
    if (N == 1) continue;  // nothing travels
    const std::size_t n = 203;
    const auto exact = run_all(N, n, reduce_scatter, {}), coded = run_all(N, n, reduce_scatter, {.codec = &dither});
    bool changed = false;
    for (std::size_t r = 0; r < exact.size(); ++r) {
      std::vector<float> a = exact[r], b = coded[r];
      const Slice<float> mine = slice(a).part(r, exact.size()), theirs = slice(b).part(r, exact.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_NEAR(mine[i], theirs[i], (N - 1) / 256.0 + 1e-5);
        changed |= mine[i] != theirs[i];
      }
    }
    EXPECT_TRUE(changed) << "nothing went through the codec";
  }
}

TEST(Hop, AnotherStepDrawsOtherNumbersAndTheSameStepTheSame) {
  const Dither dither;
  for (const auto& collective : kAllreduces) {
    const auto at = [&](std::uint64_t step) {
      return run_all(3, 100, collective.run, {.codec = &dither, .key = {.step = step}})[0];
    };
    EXPECT_TRUE(same_bits(at(1), at(1))) << collective.name;
    EXPECT_FALSE(same_bits(at(1), at(2))) << collective.name;
  }
}

TEST(Hop, SendsWhatTheCodecWroteAndNoMore) {
  const Dither dither;
  on_ranks(4, [&](Worker& w) {
    std::vector<float> x(400, 1.0f);
    w.engine.run("allgather", [&](Communicator& comm) { return ring_allgather(comm, slice(x), {.codec = &dither}); });
    EXPECT_EQ(w.engine.counters().sent.bytes, 3u * 100 * 2);
    std::vector<float> zeros(400, 0.0f);
    w.engine.run("allgather",
                 [&](Communicator& comm) { return ring_allgather(comm, slice(zeros), {.codec = &dither}); });
    EXPECT_LE(w.engine.counters().sent.bytes, 3u * 100 * 2 + 3 * 200);
  });
}

// -------------------------------------------------------------------------------------------------------- INCEPTIONN

TEST(Hop, TheMeanOverABoundedRingIsWithinTheBound) {
  for (const int exponent : {-6, -10, -14}) {
    const auto codec = compress::make_codec(concat("inceptionn:2^", exponent));
    for (const int N : kRanks) {
      if (N == 1) continue;  // nothing travels
      const std::size_t n = 3001;
      const auto sum = run_all(N, n, named("ring", 3).run, {.codec = codec.get()});
      std::vector<double> exact(n, 0.0);
      for (int r = 0; r < N; ++r) {
        const auto x = values_of(r, n);
        for (std::size_t i = 0; i < n; ++i) exact[i] += x[i];
      }
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(sum[0][i] - exact[i]) / N);
      const double bound = std::ldexp(1.0, exponent);
      EXPECT_LE(worst, bound + 1e-5) << N << " ranks";  // and the rounding of float sums
      EXPECT_GT(worst, bound / 20) << N << " ranks: nothing went through the codec";
      for (const auto& other : sum) EXPECT_TRUE(same_bits(other, sum[0]));
    }
  }
}

TEST(Hop, EveryCodecLeavesTheSameBitsOnAllRanks) {
  const char* const names[] = {"fp16",
                               "bf16",
                               "trunc:16",
                               "trunc:22",
                               "inceptionn:2^-10",
                               "inceptionn-published:2^-10",
                               "inceptionn:rel:2^0",
                               "qsgd:8:512",
                               "terngrad"};
  constexpr std::size_t sizes[] = {0, 1, 1003};
  for (const auto& row : combinations({std::size(names), std::size(kAllreduces), 5, std::size(sizes)})) {
    const char* const name = names[row[0]];
    const auto& collective = kAllreduces[row[1]];
    const int N = 2 + static_cast<int>(row[2]);
    const auto codec = compress::make_codec(name);
    const auto all = run_all(N, sizes[row[3]], collective.run, {.codec = codec.get()});
    for (std::size_t r = 1; r < all.size(); ++r)
      EXPECT_TRUE(same_bits(all[0], all[r])) << name << ", " << collective.name << ", rank " << r << " of " << N;
  }
}

class HopOnDevice : public CudaTest {};

/// With feedback twice over, since the second time adds what the first has lost.
std::vector<std::vector<float>> sums_on(Device device, int N, std::size_t n, const Collective& collective, Hops hops,
                                        bool feedback) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(N));
  const auto elements = static_cast<std::int64_t>(n);
  on_ranks(N, [&](Worker& w) {
    const std::vector<float> mine = values_of(w.rank, n);
    const Tensor x = Tensor::of({elements}, std::span<const float>(mine), device);
    const Tensor lost = Tensor::zeros({elements}, DType::f32, device);
    Hops own = hops;
    if (feedback) own.lost = lost.slice(), own.of = x.data<float>();
    std::vector<float>& all = result[static_cast<std::size_t>(w.rank)];
    for (int turn = 0; turn < (feedback ? 2 : 1); ++turn) {
      w.engine.run(
          "collective", [&](Communicator& comm) { return collective(comm, x.slice(), own); }, device);
      for (const Tensor& t : {x, lost})
        for (const float v : t.to_vector()) all.push_back(v);
    }
  });
  return result;
}

TEST_F(HopOnDevice, EveryCodecGivesTheBitsOfTheCpu) {
  const char* const names[] = {"none",
                               "identity",
                               "fp16",
                               "bf16",
                               "trunc:16",
                               "qsgd:8:512",
                               "terngrad",
                               "onebit",
                               "inceptionn:2^-10",
                               "inceptionn-published:2^-10",
                               "inceptionn:rel:2^0"};
  // No combinations(): a device is emulated under a sanitizer only.
  for (const auto& row : pairwise({std::size(names), std::size(kAllreduces), 2, 2})) {
    const char* const name = names[row[0]];
    const auto& collective = kAllreduces[row[1]];
    const int N = row[2] == 0 ? 2 : 3;
    const std::size_t n = row[2] == 0 ? 1 : 5003;
    const auto codec = compress::make_codec(name);
    const Hops hops{.codec = codec.get(), .key = {.seed = 3, .step = 5, .operation = 2}};
    const bool feedback = row[3] == 1 && codec != nullptr && std::string(collective.name) != "doubling";
    const auto cpu = sums_on(kCpu, N, n, collective.run, hops, feedback),
               cuda = sums_on(kCuda, N, n, collective.run, hops, feedback);
    for (std::size_t r = 0; r < cpu.size(); ++r)
      EXPECT_TRUE(same_bits(cpu[r], cuda[r]))
          << name << ", " << collective.name << ", feedback " << feedback << ", rank " << r << " of " << N;
  }
}

// ------------------------------------------------------------------------------------------------------ error feedback

TEST(Hop, WithFeedbackWhatAStepLosesComesInLaterOnes) {
  const auto codec = compress::make_codec("inceptionn:2^-4");
  for (const auto& collective : kAllreduces)
    for (int N : {2, 3, 4, 5}) {
      const std::size_t n = 203;
      constexpr int kSteps = 40;
      const auto totals = [&](bool feedback) {
        std::vector<std::vector<double>> total(static_cast<std::size_t>(N), std::vector<double>(n, 0.0));
        on_ranks(N, [&](Worker& w) {
          std::vector<float> lost(n, 0.0f);
          for (int step = 0; step < kSteps; ++step) {
            std::vector<float> x = values_of(w.rank, n);
            for (float& v : x) v *= 0.02f;  // most of it below the bound, for ever
            Hops hops{.codec = codec.get()};
            if (feedback) hops.lost = slice(lost), hops.of = x.data();
            w.engine.run("it", [&](Communicator& comm) { return collective.run(comm, slice(x), hops); });
            for (std::size_t i = 0; i < n; ++i) total[static_cast<std::size_t>(w.rank)][i] += x[i];
          }
        });
        for (const auto& other : total) EXPECT_EQ(other, total[0]) << collective.name;
        return total[0];
      };
      const auto with = totals(true), without = totals(false);
      std::vector<double> exact(n, 0.0);
      for (int r = 0; r < N; ++r) {
        const auto x = values_of(r, n);
        for (std::size_t i = 0; i < n; ++i) exact[i] += static_cast<double>(kSteps) * 0.02 * x[i];
      }
      double worst = 0, plain = 0;
      for (std::size_t i = 0; i < n; ++i) {
        worst = std::max(worst, std::abs(with[i] - exact[i]));
        plain = std::max(plain, std::abs(without[i] - exact[i]));
      }
      // With it, what a rank still holds back: at most the bound of each. By doubling also what is rounded in common.
      if (std::string(collective.name) != "doubling") {
        EXPECT_LE(worst, N / 16.0 + 1e-3) << collective.name << ", " << N << " ranks";
      }
      EXPECT_LT(worst, plain) << collective.name << ", " << N << " ranks";
    }
}

TEST(Hop, FeedbackKeepsNothingOfWhatIsNoNumber) {
  const auto codec = compress::make_codec("fp16");
  std::vector<float> values(100, 1.0f);
  values[3] = std::numeric_limits<float>::quiet_NaN(), values[60] = std::numeric_limits<float>::infinity();
  for (const Device device : test_devices())
    on_ranks(2, [&](Worker& w) {
      const Tensor x = Tensor::of({100}, std::span<const float>(values), device);
      const Tensor lost = Tensor::zeros({100}, DType::f32, device);
      w.engine.run(
          "it",
          [&](Communicator& comm) {
            return ring_allreduce(comm, x.slice(), 1,
                                  {.codec = codec.get(), .lost = lost.slice(), .of = x.data<float>()});
          },
          device);
      EXPECT_EQ(lost.to_vector(), std::vector<float>(100, 0.0f)) << device;
    });
}

}  // namespace
}  // namespace laconic::dist
