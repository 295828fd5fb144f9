#include <algorithm>
#include <atomic>
#include <cstring>

#include "dist/collective/allgatherv.h"
#include "dist/collective/pieces.h"
#include "dist/server/leg.h"
#include "tests/error_of.h"
#include "tests/on_ranks.h"

namespace laconic::dist {
namespace {

std::vector<std::byte> some_bytes(std::size_t count, int first = 0) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(first));
  return bytes;
}

TEST(LongMessages, ComeWholeWhateverTheirLength) {
  constexpr std::size_t kPiece = kMessageBytes;
  for (const std::size_t most : {std::size_t{0}, std::size_t{5}, kPiece, kPiece + 1, 3 * kPiece, 3 * kPiece + 8})
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, most / 2, kPiece, 2 * kPiece, most}) {
      if (length > most) continue;
      SCOPED_TRACE(concat(length, " bytes of ", most));
      const std::vector<std::byte> all = some_bytes(length);
      on_ranks(3, [&](Worker& w) {
        std::atomic<std::uint64_t> moved{0};
        const std::vector<int> others{1, 2};
        std::vector<std::byte> room(most);
        w.engine.run("message", [&](Communicator& comm) -> Task<> {
          const Leg leg{.moved = &moved};
          const Slice<const std::byte> bytes = slice(all);
          const Slice<std::byte> in = slice(room);
          for (int again = 0; again < 2; ++again)
            if (w.rank == 0) {
              co_await send_message(comm, others, bytes, most, leg);
            } else {
              Incoming incoming(comm, 0, in);
              const std::size_t came = co_await incoming.arrives();
              EXPECT_EQ(came, length);
              EXPECT_TRUE(std::equal(all.begin(), all.end(), room.begin()));
              moved += came + incoming.length_bytes();
            }
        });
        const std::size_t each = 2 * (length + (most > kPiece ? sizeof(std::uint64_t) : 0));
        EXPECT_EQ(moved, w.rank == 0 ? 2 * each : each);
      });
    }
}

// Rank 1 speaks the protocol by hand.
TEST(LongMessages, ThatAreNotAsLongAsAnnouncedAreRefused) {
  const std::vector<std::byte> piece = some_bytes(kMessageBytes), most(2 * kMessageBytes);
  const struct {
    std::uint64_t announced;
    std::vector<std::size_t> pieces;
    const char* why;
  } cases[] = {{2 * kMessageBytes + 1, {}, "524288 are the most"},
               {~std::uint64_t{0}, {}, "524288 are the most"},
               {2 * kMessageBytes, {kMessageBytes - 1}, "expected 262144 bytes"},
               {2 * kMessageBytes, {kMessageBytes, 0}, "expected 262144 bytes"}};
  for (const auto& c : cases)
    on_ranks(2, [&](Worker& w) {
      std::vector<std::byte> room(most.size());
      const auto talk = [&] {
        w.engine.run("message", [&](Communicator& comm) -> Task<> {
          const Slice<std::byte> in = slice(room);
          if (w.rank == 1) {
            co_await send_header(comm, 0, c.announced, Leg{});
            for (const std::size_t n : c.pieces) {
              const Slice<const std::byte> part = slice(piece).first(n);
              co_await comm.send(0, part);
            }
          } else {
            Incoming incoming(comm, 1, in);
            co_await incoming.arrives();
          }
        });
      };
      if (w.rank == 1)
        talk();
      else
        expect_error<CommError>(talk, {"rank 1", c.why});
    });
  const std::uint64_t length = most.size();
  EXPECT_THROW(messages_with_length(slice(most), most.size() - 1, length), Error) << "the receiver has no room for it";
}

TEST(LongMessages, AllgathervAndAlltoallvCutTheirPartsAndLoseNothing) {
  for (const int N : {2, 3, 4, 5}) {
    const std::size_t most = 600'000;
    const auto length = [&](int from, int to) {  // some are empty, some the longest
      return most * static_cast<std::size_t>((from + 2 * to) % 4) / 3;
    };
    on_ranks(N, [&](Worker& w) {
      const std::vector<std::byte> mine = some_bytes(length(w.rank, 0), w.rank);
      Gathered all, ring, swapped;
      std::vector<compress::Bytes> parts;
      for (int to = 0; to < N; ++to) {
        parts.emplace_back();
        const std::vector<std::byte> part = some_bytes(length(w.rank, to), w.rank + 10 * to);
        if (!part.empty()) std::memcpy(parts.back().append(part.size()).data(), part.data(), part.size());
      }
      w.engine.run("allgatherv", [&](Communicator& comm) { return allgatherv(comm, slice(mine), most, all); });
      w.engine.run("in a ring", [&](Communicator& comm) { return ring_allgatherv(comm, slice(mine), most, ring); });
      w.engine.run("alltoallv", [&](Communicator& comm) { return alltoallv(comm, parts, most, swapped); });
      for (int from = 0; from < N; ++from) {
        const auto is = [&](Slice<const std::byte> part, const std::vector<std::byte>& expected) {
          return part.size() == expected.size() && std::equal(expected.begin(), expected.end(), part.data());
        };
        EXPECT_TRUE(is(all[from], some_bytes(length(from, 0), from)));
        EXPECT_TRUE(is(ring[from], some_bytes(length(from, 0), from)));
        EXPECT_TRUE(is(swapped[from], some_bytes(length(from, w.rank), from + 10 * w.rank)));
      }
    });
  }
}

}  // namespace
}  // namespace laconic::dist
