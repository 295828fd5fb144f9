// Payloads that their codec did not write, and what collectives make of them.
#include <atomic>
#include <vector>

#include "dist/collective/allgatherv.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "tests/coded_collectives.h"

namespace laconic::dist {
namespace {

using namespace coded;

/// Goes wrong at the `when`-th message that it encodes.
class Torn final : public Dither {
 public:
  explicit Torn(int when) : when_(when) {}
  void encode(Slice<const float> x, const compress::Key& key, compress::Bytes& payload) const override {
    if (made_++ != when_) return Dither::encode(x, key, payload);
    payload.append(1);
  }
  bool went_wrong() const { return made_ > when_; }

 private:
  const int when_;
  mutable std::atomic<int> made_{0};
};

TEST(Hop, APayloadThatIsNoneEndsEveryRankAtWhateverStepItComes) {
  for (const auto& collective : kCollectives)
    for (int N : {2, 3, 4, 5})
      for (int when = 0;; ++when) {
        ASSERT_LT(when, 100);
        const Torn torn(when);
        const Dither dither;
        try {
          on_ranks(N, [&](Worker& w) {
            std::vector<float> x(100, 1.0f);
            const Hops hops{.codec = w.rank == 1 ? static_cast<const compress::Codec*>(&torn) : &dither};
            w.engine.run("it", [&](Communicator& comm) { return collective.run(comm, slice(x), hops); });
          });
          EXPECT_FALSE(torn.went_wrong()) << collective.name << ", message " << when << " of rank 1 of " << N;
        } catch (const CommError& e) {
          EXPECT_NE(std::string(e.what()).find("sent is no message: dither: "), std::string::npos) << e.what();
        } catch (const DataError& e) {  // of rank 1 itself, which reads what it gives to all
          EXPECT_NE(std::string(e.what()).find("dither"), std::string::npos) << e.what();
        }
        if (!torn.went_wrong()) {
          EXPECT_GT(when, 0) << collective.name << ": rank 1 encoded nothing";
          break;
        }
      }
}

TEST(Hop, PayloadsThatCameTogetherAreReadOnlyAsFarAsTheyGo) {
  const Dither dither;
  const Hops hops{.codec = &dither};
  // All of them together, or the stretch of one rank: both are lists of lengths and bytes.
  for (const std::size_t wrong : {0, 1, 3, 5, 9, 99}) {
    std::vector<std::byte> bad(wrong, std::byte{0xff}), room(2000);
    const Slice<std::byte> in = slice(room), out = slice(bad);
    try {
      on_ranks(3, [&](Worker& w) {
        w.engine.run("butterfly", [&](Communicator& comm) -> Task<> {
          if (w.rank == 0) {
            std::vector<float> x(100, 1.0f);
            co_await butterfly_allreduce(comm, slice(x), hops);
          } else if (w.rank == 1) {
            co_await comm.recv(0, in);
            co_await comm.send(0, out);
          }
        });
      });
      ADD_FAILURE() << "butterfly, " << wrong;
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1 sent"), std::string::npos) << e.what();
    }
    try {
      on_ranks(2, [&](Worker& w) {
        w.engine.run("groups", [&](Communicator& comm) -> Task<> {
          if (w.rank == 1) {
            std::vector<float> x(100, 1.0f);
            co_await hierarchical_allreduce(comm, slice(x), 2, hops);
          } else {
            const Slice<std::byte> nothing = out.first(0);  // zeros
            co_await comm.recv(1, in);
            co_await comm.send(1, nothing);
            co_await comm.recv(1, in);
            co_await comm.send(1, out);
            Gathered all;
            co_await ring_allgatherv(comm, out, 1000, all);
          }
        });
      });
      ADD_FAILURE() << "groups, " << wrong;
    } catch (const CommError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 0 sent"), std::string::npos) << e.what();
    }
  }
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
      EXPECT_NE(std::string(e.what()).find("rank 0: what rank 1 sent is no message: "), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace laconic::dist
