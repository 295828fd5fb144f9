#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "compress/codec.h"
#include "core/base/random.h"
#include "dist/collective/allreduce.h"
#include "dist/collective/ring_halves.h"
#include "tests/collective_costs.h"
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

using Collective = std::function<Task<>(Communicator&, Slice<float>, Hops)>;
struct Named {
  std::string name;
  Collective run;
  std::function<Cost(int N, double bytes, const compress::Codec*)> cost;
};
/// As allreduces() names it: "tree:2".
inline Named named(const std::string& name, int pieces = 1) {
  const auto [kind, group] = allreduce_named(name);
  const AllreduceNumbers numbers{.group = group, .pieces = pieces};
  return {pieces == 1 ? name : concat(name, " in ", pieces, " pieces"),
          [&kind = kind, numbers](Communicator& comm, Slice<float> x, Hops hops) {
            return kind.run(comm, x, numbers, hops);
          },
          [&kind = kind, numbers](int N, double bytes, const compress::Codec* codec) {
            return *kind.cost(N, bytes, numbers, codec);
          }};
}
/// All that messages of ours carry, in groups of all sizes that matter; the ring in more pieces than travel at once,
/// too.
inline const std::vector<Named> kAllreduces = [] {
  std::vector<Named> all{named("ring", 3), named("ring", Communicator::kChannels + 2)};
  for (const AllreduceKind& kind : allreduces()) {
    if (kind.carrier != Carrier::messages) continue;
    if (kind.least_group == 0) all.push_back(named(kind.name));
    for (const int G : {1, 2, 3, 20})
      if (kind.least_group > 0 && G >= kind.least_group) all.push_back(named(concat(kind.name, ":", G)));
  }
  return all;
}();
inline const std::vector<Named> kCollectives = [] {
  std::vector<Named> all = kAllreduces;
  all.push_back({"reduce-scatter", reduce_scatter, reduce_scatter_cost});
  all.push_back({"allgather", ring_allgather, ring_allgather_cost});
  return all;
}();
/// Blocks of a group differ by an element, and its leader keeps one of the longer ones.
inline bool counts_to_the_byte(const Named& c) {
  return !c.name.starts_with("hierarchical") && !c.name.starts_with("ring-tree");
}

inline std::vector<std::vector<float>> run_all(int N, std::size_t n, const Collective& collective, const Hops& hops) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(N));
  on_ranks(N, [&](Worker& w) {
    std::vector<float>& x = result[static_cast<std::size_t>(w.rank)] = values_of(w.rank, n);
    w.engine.run("collective", [&](Communicator& comm) { return collective(comm, slice(x), hops); });
  });
  return result;
}

}  // namespace laconic::dist::coded
