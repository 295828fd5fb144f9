#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compress/choose/selector.h"
#include "core/base/random.h"
#include "core/slice.h"

namespace laconic::compress {

/// How Slim-DP chooses what travels of n elements: a core, the largest, and an explorer, drawn evenly from the others.
struct SlimRules {
  double alpha = 0.3;            ///< share of the elements that travel: (0, 1]
  double explore = 0.15;         ///< of them the explorer: [0, alpha], as a share of all
  std::int64_t core_every = 10;  ///< rounds until the core is chosen anew: q, at least 1
  bool keys_sent = false;        ///< the explorer's keys travel, as in the paper; else both ends draw them
};
/// throws UsageError naming the option that is out of range
void require_sensible(const SlimRules& rules);
std::size_t core_elements(const SlimRules& rules, std::size_t n);
std::size_t explorer_elements(const SlimRules& rules, std::size_t n);

/// Names an explorer's draw (compress/choose/random_subset.h): both ends make equal generators from it.
struct SlimKey {
  std::uint64_t seed = 0, round = 0;
  std::uint32_t tensor = 0;
  std::uint32_t who = 0;  ///< 0: the server; else 1 + the worker's rank
  bool operator==(const SlimKey&) const = default;
  Random random() const { return Random(seed, Purpose::selection, round, std::uint64_t{who} << 32 | tensor); }
};

/// 64 bits that tell sets of keys apart: what is sent in their place while they stay the same.
std::uint64_t signature_of(Slice<const std::uint32_t> keys);

/// The communication-set of one tensor at the end that sends: remembers the core between rounds. Keys are in host
/// memory: of a tensor on a CUDA device a new core's come there, and go back with the explorer's to gather what
/// travels.
/// source  SlimDP, Algorithm 1 and section 3 (settled: core by magnitude of the accumulated update, or of the parameter
///         on the server; re-chosen in rounds 0, q, 2q, ...)
class SlimSet {
 public:
  /// Chooses for this round. by : what is compared, n values without NaN (else DataError). A ghost chooses
  /// no keys. A core that is chosen anew is another one.
  void choose(const SlimRules& rules, Slice<const float> by, const SlimKey& key);
  /// Draws the explorer of a later round now, so that choose() finds it there. Does nothing if the core will be another
  /// one then. The draw is that of choose().
  ///   n : values that there will be; the last choice was from as many
  void draw_ahead(const SlimRules& rules, std::size_t n, const SlimKey& key);

  const std::vector<std::uint32_t>& core() const { return core_; }
  const std::vector<std::uint32_t>& explorer() const { return explorer_; }
  std::uint64_t signature() const { return signature_; }  ///< of the core
  /// What travels of x, brought to host memory: the core's elements, then the explorer's.
  void gather(Slice<const float> x, std::vector<float>& values) const;
  /// Whether the receiver does not know the core yet: it was chosen anew, or comes from a checkpoint.
  bool core_is_new() const { return new_; }
  void core_was_sent() { new_ = false; }

  /// One tensor "core". After a load the keys travel once more.
  void save(StateDict& state) const;
  /// throws DataError if it is no set of keys below n
  void load(const StateDict& state, std::size_t n);

 private:
  bool due(const SlimRules& rules, const SlimKey& key) const {
    return !chosen_ || key.round % static_cast<std::uint64_t>(rules.core_every) == 0;
  }

  std::unique_ptr<Selector> selector_ = make_selector("exact");
  Selection found_;
  std::vector<std::uint32_t> core_, explorer_, drawn_;
  std::optional<SlimKey> ahead_;  // the round that drawn_ is for
  std::uint64_t signature_ = 0;
  bool chosen_ = false, new_ = true;
};

/// After a local step, in one pass: delta += weight (value - before), and the two change places, so that `value` is
/// again what the rest of backward needs and `before` what follows. All of one length.
void put_step_by(Slice<float> value, Slice<float> before, Slice<float> delta, float weight = 1);

}  // namespace laconic::compress
