// What comes from the network may be anything: damaged messages go through the readers of sparse messages, and through
// their exchange. `LACONIC_FUZZ_SECONDS=300 fuzz_test --gtest_filter='SparseFuzz.*'` goes on for so long each.
#include <algorithm>
#include <cstring>

#include "dist/collective/allgatherv.h"
#include "dist/method/carry.h"
#include "tests/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/scripted_ranks.h"

namespace laconic::dist {
namespace {

using compress::Bytes;
using compress::IndexCoding;
using Message = std::vector<std::byte>;

Message to_message(const Bytes& bytes) { return {bytes.slice().begin(), bytes.slice().end()}; }

SparseWire any_wire(Random& random) {
  const bool both = random.below(3) == 0;
  const IndexCoding codings[] = {IndexCoding::raw, IndexCoding::packed, IndexCoding::rice};
  return {.format = {.coding = codings[random.below(3)], .one_value = both || random.below(2) == 0},
          .both_signs = both};
}

/// Up to `most` elements of [begin, end), and how a wire wants their values.
struct Some {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};
Some some_of(std::uint64_t begin, std::uint64_t end, std::size_t most, const SparseWire& wire, Random& random) {
  Some s;
  const std::uint64_t wanted = std::min<std::uint64_t>(end - begin, random.below(static_cast<std::uint32_t>(most + 1)));
  std::uint64_t left = wanted;
  for (std::uint64_t i = begin; i < end && left > 0; ++i) {
    if (random.below(static_cast<std::uint32_t>(end - i)) >= left) continue;
    s.indices.push_back(static_cast<std::uint32_t>(i));
    s.values.push_back(random.below(2) == 0 ? 0.5f : -0.5f);
    if (!wire.format.one_value) s.values.back() = random.normal();
    --left;
  }
  if (wire.format.one_value && !wire.both_signs) s.values.resize(std::min<std::size_t>(1, s.values.size()));
  return s;
}

Message encoded(const SparseWire& wire, const Some& s, std::size_t n) {
  Bytes payload;
  wire.encode(slice(std::as_const(s.indices)), slice(std::as_const(s.values)), n, payload);
  return to_message(payload);
}

/// What a reader has accepted is a message: it can be added, and written and read again it is the same.
void expect_sound(const std::vector<compress::SparseView>& views, std::size_t count, const SparseWire& wire,
                  std::size_t n) {
  std::vector<float> dense(n);
  for (std::size_t v = 0; v < count; ++v) {
    const compress::SparseView& view = views[v];
    for (std::size_t j = 0; j < view.size(); ++j) {
      ASSERT_LT(view.indices()[j], n);
      ASSERT_TRUE(j == 0 || view.indices()[j - 1] < view.indices()[j]);
    }
    compress::scatter_add(view, 1.0f, slice(dense));
    Bytes again;
    compress::encode_sparse(wire.format, view.indices(), view.values(), n, again);
    compress::SparseView twice;
    twice.read(wire.format, again.slice(), n);
    ASSERT_TRUE(
        std::equal(view.indices().begin(), view.indices().end(), twice.indices().begin(), twice.indices().end()));
    ASSERT_EQ(view.values().size(), twice.values().size());
    if (view.size() == 0) continue;
    ASSERT_EQ(std::memcmp(view.values().data(), twice.values().data(), 4 * view.values().size()), 0);
  }
}

/// Whether it is one.
bool read(const SparseWire& wire, std::size_t n, const Message& message) {
  static std::vector<compress::SparseView> views;
  std::size_t count = 0;
  try {
    count = wire.read(slice(message), n, views, 0);
  } catch (const DataError& e) {
    EXPECT_EQ(dynamic_cast<const UsageError*>(&e), nullptr) << e.what();
    return false;
  }
  expect_sound(views, count, wire, n);
  return true;
}

TEST(SparseFuzz, AMessageIsReadOrRefused) {
  std::uint64_t taken = 0, refused = 0;
  fuzz(10'000, [&](Random& random) {
    const SparseWire wire = any_wire(random);
    const std::size_t n = 1 + random.below(random.below(2) == 0 ? 300 : 70'000);
    Message message = encoded(wire, some_of(0, n, random.below(4) == 0 ? 400 : 20, wire, random), n);
    if (random.below(8) > 0) message = damaged(std::move(message), random);
    read(wire, n, message) ? ++taken : ++refused;
  });
  EXPECT_GT(taken, 100u);
  EXPECT_GT(refused, 100u);
}

/// What comes in an allgatherv, message by message: parts behind their lengths.
void add_gathered(Script& comm, const std::function<Message()>& part, bool damages, Random& random) {
  for (int have = 1; have < comm.size(); have *= 2) {
    Bytes message;
    for (int j = have; j < std::min(2 * have, comm.size()); ++j) append_part(message, slice(part()));
    Message bytes = to_message(message);
    comm.messages().push_back(damages && random.below(2) == 0 ? damaged(std::move(bytes), random) : bytes);
  }
}

TEST(SparseFuzz, AnExchangeEndsWithMessagesOrARankThatSentNone) {
  std::uint64_t ended = 0, refused = 0;
  fuzz(4'000, [&](Random& random) {
    const SparseWire wire = any_wire(random);
    const int N = 2 + static_cast<int>(random.below(4)),
              rank = static_cast<int>(random.below(static_cast<unsigned>(N)));
    const std::size_t n = static_cast<std::size_t>(N) + random.below(3'000), most = 40;
    const bool damages = random.below(8) > 0;
    Script comm(rank, N);
    const auto part = [&] {
      Message message = encoded(wire, some_of(0, n, most, wire, random), n);
      return damages && random.below(3) == 0 ? damaged(std::move(message), random) : message;
    };
    Gathered gathered;
    const Message mine = encoded(wire, some_of(0, n, most, wire, random), n);
    try {
      add_gathered(comm, part, damages, random);
      run_alone(allgatherv(comm, slice(mine), wire.max_bytes(most, n), gathered));
      std::vector<compress::SparseView> views;
      std::size_t count = 0;
      for (int r = 0; r < N; ++r) count = wire.read(gathered[r], n, views, count);
      expect_sound(views, count, wire, n);
      ++ended;
    } catch (const CommError&) {
      ++refused;
    } catch (const DataError& e) {
      ASSERT_EQ(dynamic_cast<const UsageError*>(&e), nullptr) << e.what();
      ++refused;
    }
  });
  EXPECT_GT(ended, 100u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace laconic::dist

/// [how it is written : u8 | elements of the tensor, less one : u16, little-endian | message]
bool laconic::read_sparse_message(FuzzInput input) {
  if (input.size() < 3) return false;
  const auto at = [&](std::size_t i) { return static_cast<unsigned>(input[i]); };
  const dist::SparseWire wire{
      .format = {.coding = static_cast<compress::IndexCoding>(at(0) % 3), .one_value = (at(0) & 12u) != 0},
      .both_signs = (at(0) & 8u) != 0};
  return dist::read(wire, 1 + at(1) + 256 * at(2), dist::Message(input.begin() + 3, input.end()));
}
