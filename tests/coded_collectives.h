#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compress/codec.h"
#include "core/random.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/doubling_allreduce.h"
#include "dist/collective/hierarchical_allreduce.h"
#include "dist/collective/reduce_scatter.h"
#include "dist/collective/ring_allgather.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/collective/tree_allreduce.h"
#include "tests/on_ranks.h"
#include "tests/values_of.h"

/// All collectives whose hops may pass through a codec, and codecs that show what is done to them.
namespace laconic::dist::coded {

/// Rounds at random, by its key, to multiples of 1/256, in one 16-bit number each, and leaves out zeros at the end: a
/// codec that changes values and whose payloads differ in length.
class Dither : public compress::Codec {
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

/// The upper halves of floats behind three bytes: a length that a formula can tell.
class Upper final : public compress::Codec {
 public:
  std::size_t max_bytes(std::size_t elements) const override { return 3 + 2 * elements; }
  void encode(Slice<const float> x, const compress::Key&, compress::Bytes& payload) const override {
    std::byte* out = payload.append(3 + 2 * x.size()).data();
    std::memset(out, 7, 3);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x[i]) >> 16);
      std::memcpy(out + 3 + 2 * i, &upper, 2);
    }
  }
  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    require<DataError>(payload.size() == 3 + 2 * x.size() && payload[0] == std::byte{7}, "upper: no such payload");
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::uint16_t upper;
      std::memcpy(&upper, payload.data() + 3 + 2 * i, 2);
      x[i] = std::bit_cast<float>(std::uint32_t{upper} << 16);
    }
  }
  double expected_bytes(std::size_t elements) const override { return 3 + 2.0 * static_cast<double>(elements); }
};

using Collective = Task<> (*)(Communicator&, Slice<float>, Hops);
using CollectiveCost = Cost (*)(int N, double bytes, const compress::Codec*);
struct Named {
  const char* name;
  Collective run;
  CollectiveCost cost;
};
template <int P>
Task<> ring_in_pieces(Communicator& comm, Slice<float> x, Hops hops) {
  return ring_allreduce(comm, x, {.count = P, .in_flight = 2}, hops);
}
template <int P>
Cost ring_in_pieces_cost(int N, double bytes, const compress::Codec* codec) {
  return ring_allreduce_cost(N, bytes, {.count = P, .in_flight = 2}, codec);
}
template <int G>
Task<> by_groups(Communicator& comm, Slice<float> x, Hops hops) {
  return hierarchical_allreduce(comm, x, G, hops);
}
template <int G>
Cost by_groups_cost(int N, double bytes, const compress::Codec* codec) {
  return hierarchical_allreduce_cost(N, bytes, G, codec);
}
template <int G>
Task<> with_aggregators(Communicator& comm, Slice<float> x, Hops hops) {
  return hierarchical_allreduce(comm, x, G, hops, LeadersBy::tree);
}
template <int G>
Cost with_aggregators_cost(int N, double bytes, const compress::Codec* codec) {
  return hierarchical_allreduce_cost(N, bytes, G, codec, LeadersBy::tree);
}
template <int G>
Task<> in_a_tree(Communicator& comm, Slice<float> x, Hops hops) {
  return tree_allreduce(comm, x, G, hops);
}
template <int G>
Cost in_a_tree_cost(int N, double bytes, const compress::Codec* codec) {
  return tree_allreduce_cost(N, bytes, G, codec);
}
inline const std::vector<Named> kAllreduces = {
    {"doubling", doubling_allreduce, doubling_allreduce_cost},
    {"ring", ring_in_pieces<1>, ring_in_pieces_cost<1>},
    {"ring in 3 pieces", ring_in_pieces<3>, ring_in_pieces_cost<3>},
    {"butterfly", butterfly_allreduce, butterfly_allreduce_cost},
    {"groups of 1", by_groups<1>, by_groups_cost<1>},
    {"groups of 2", by_groups<2>, by_groups_cost<2>},
    {"groups of 3", by_groups<3>, by_groups_cost<3>},
    {"groups of 20", by_groups<20>, by_groups_cost<20>},
    {"groups of 2 below a tree", with_aggregators<2>, with_aggregators_cost<2>},
    {"groups of 3 below a tree", with_aggregators<3>, with_aggregators_cost<3>},
    {"tree of 2", in_a_tree<2>, in_a_tree_cost<2>},
    {"tree of 3", in_a_tree<3>, in_a_tree_cost<3>},
    {"tree of 20", in_a_tree<20>, in_a_tree_cost<20>},
};
inline const std::vector<Named> kCollectives = [] {
  std::vector<Named> all = kAllreduces;
  all.push_back({"reduce-scatter", reduce_scatter, reduce_scatter_cost});
  all.push_back({"allgather", ring_allgather, ring_allgather_cost});
  return all;
}();
/// Blocks of a group differ by an element, and its leader keeps one of the longer ones.
inline bool counts_to_the_byte(const Named& c) { return std::string(c.name).rfind("groups", 0) != 0; }

inline std::vector<std::vector<float>> run_all(int N, std::size_t n, Collective collective, const Hops& hops) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    std::vector<float>& x = result[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
    w.engine.run("collective", [&](Communicator& comm) { return collective(comm, slice(x), hops); });
  });
  return result;
}

}  // namespace laconic::dist::coded
