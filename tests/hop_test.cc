// Collectives whose hops pass through a codec.
#include <cmath>
#include <cstring>

#include "compress/identity.h"
#include "core/random.h"
#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/reduce_scatter.h"
#include "dist/collective/ring_allgather.h"
#include "tests/on_ranks.h"
#include "tests/values_of.h"

namespace laconic::dist {
namespace {

/// Rounds at random, by its key, to multiples of 1/256, in one 16-bit number each, and leaves out zeros at the end: a
/// codec that changes values and whose payloads differ in length.
class Dither final : public compress::Codec {
 public:
  std::size_t max_bytes(std::size_t elements) const override { return 2 * elements; }
  void encode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload) const override {
    Random random(key.seed, Purpose::test, key.step * 1000 + key.operation, std::uint64_t{key.hop} * 1000 + key.rank);
    std::vector<std::int16_t> numbers;
    for (float v : x) numbers.push_back(static_cast<std::int16_t>(std::floor(v * 256 + random.uniform())));
    while (!numbers.empty() && numbers.back() == 0) numbers.pop_back();
    const std::size_t bytes = numbers.size() * sizeof(std::int16_t);
    const Slice<std::byte> out = payload.append(bytes);
    if (bytes > 0) std::memcpy(out.data(), numbers.data(), bytes);
  }
  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    require<DataError>(payload.size() <= 2 * x.size() && payload.size() % 2 == 0, "dither: ", payload.size(),
                       " bytes for ", x.size(), " elements");
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::int16_t number = 0;
      if (2 * i < payload.size()) std::memcpy(&number, payload.data() + 2 * i, sizeof number);
      x[i] = static_cast<float>(number) / 256;
    }
  }
  double expected_bytes(std::size_t elements) const override { return 2.0 * static_cast<double>(elements); }
};

using Collective = Task<> (*)(Communicator&, Slice<float>, Hops);
const struct {
  const char* name;
  Collective run;
} kCollectives[] = {
    {"reduce-scatter", reduce_scatter}, {"allgather", ring_allgather}, {"doubling", doubling_allreduce}};

std::vector<std::vector<float>> run_all(int N, std::size_t n, Collective collective, const Hops& hops) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    std::vector<float>& x = result[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
    w.engine.run("collective", [&](Communicator& comm) { return collective(comm, slice(x), hops); });
  });
  return result;
}

TEST(Hop, IdentityCodecGivesTheSameBitsAsNone) {
  const compress::Identity identity;
  for (const auto& collective : kCollectives)
    for (int N = 1; N <= 9; ++N)
      for (std::size_t n : {0, 1, 7, 1003}) {
        const auto plain = run_all(N, n, collective.run, {}),
                   coded = run_all(N, n, collective.run, {.codec = &identity});
        for (std::size_t r = 0; r < plain.size(); ++r)
          ASSERT_TRUE(same_bits(plain[r], coded[r])) << collective.name << ", rank " << r << " of " << N << ", " << n;
      }
}

TEST(Hop, CodecThatRoundsAtRandomStillLeavesTheSameBitsOnAllRanks) {
  const Dither dither;
  for (Collective collective : {ring_allgather, doubling_allreduce})
    for (int N = 1; N <= 9; ++N) {
      const auto all = run_all(N, 203, collective, {.codec = &dither, .key = {.seed = 3, .step = 5, .operation = 2}});
      for (std::size_t r = 1; r < all.size(); ++r) EXPECT_TRUE(same_bits(all[0], all[r])) << r << " of " << N;
    }
}

TEST(Hop, ReduceScatterCarriesAtMostNMinusOneErrorsOfItsCodec) {
  const Dither dither;
  for (int N = 2; N <= 9; ++N) {
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
  const auto at = [&](std::uint64_t step) {
    return run_all(3, 100, doubling_allreduce, {.codec = &dither, .key = {.step = step}})[0];
  };
  EXPECT_TRUE(same_bits(at(1), at(1)));
  EXPECT_FALSE(same_bits(at(1), at(2)));
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

TEST(Hop, PayloadThatIsNoneEndsInASentenceThatNamesTheSender) {
  const Dither dither;
  for (const std::size_t wrong : {1, 3, 99}) try {
      on_ranks(2, [&](Worker& w) {
        w.engine.run("allgather", [&](Communicator& comm) -> Task<> {
          if (w.rank == 0) {
            std::vector<float> x(100, 1.0f);
            const Hops hops{.codec = &dither};
            co_await ring_allgather(comm, slice(x), hops);
          } else {
            std::vector<std::byte> bad(wrong), room(1000);
            const Slice<std::byte> in = slice(room), out = slice(bad);
            co_await comm.recv(0, in);
            co_await comm.send(0, out);
          }
        });
      });
      FAIL() << wrong;
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 0 cannot read what rank 1 sent"), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace laconic::dist
