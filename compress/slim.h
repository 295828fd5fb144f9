#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compress/bytes.h"
#include "compress/codec.h"
#include "compress/select/selector.h"
#include "core/base/random.h"
#include "core/slice.h"

/// Slim-DP's communication-sets and messages.
/// source  SlimDP, Algorithm 1 and section 3 (settled: core by magnitude of the accumulated update, or of the parameter
///         on the server; re-chosen in rounds 0, q, 2q, ...)
namespace laconic::compress {

/// How Slim-DP chooses what travels of n elements: a core, the largest, and an explorer, drawn evenly from the others.
struct SlimRules {
  double alpha = 0.3;            ///< share of the elements that travel: (0, 1]
  double explore = 0.15;         ///< share of all elements that the explorer has: [0, alpha]
  std::int64_t core_every = 10;  ///< rounds until the core is chosen anew: q, at least 1
  bool keys_sent = false;        ///< the explorer's keys travel, as in the paper; else both ends draw them
};
/// throws UsageError naming the option that is out of range
void require_sensible(const SlimRules& rules);
std::size_t core_elements(const SlimRules& rules, std::size_t n);
std::size_t explorer_elements(const SlimRules& rules, std::size_t n);

/// Names an explorer's draw (compress/select/random_subset.h): both ends make equal generators from it.
struct SlimKey {
  std::uint64_t seed = 0, round = 0;
  std::uint32_t tensor = 0;
  std::uint32_t who = 0;  ///< 0: the server; else 1 + the worker's rank
  bool operator==(const SlimKey&) const = default;
  Random random() const { return Random(seed, Purpose::selection, round, std::uint64_t{who} << 32 | tensor); }
};

/// 64 bits that tell sets of keys apart: what is sent in their place while they stay the same.
std::uint64_t signature_of(Slice<const std::uint32_t> keys);

/// A communication-set of one tensor at either end: keys in host memory, ascending. A core stays for several rounds.
class SlimKeys {
 public:
  const std::vector<std::uint32_t>& core() const { return core_; }
  const std::vector<std::uint32_t>& explorer() const { return explorer_; }
  std::uint64_t signature() const { return signature_; }  ///< of the core

 protected:
  void set_core(std::vector<std::uint32_t> core);
  /// Draws an explorer of n elements outside of the core.
  void draw(const SlimRules& rules, std::size_t n, const SlimKey& key, std::vector<std::uint32_t>& explorer) const;

  std::vector<std::uint32_t> core_, explorer_;
  std::uint64_t signature_ = 0;
};

/// The end that sends: remembers the core between rounds. Of a tensor on a CUDA device a new core's keys come to host
/// memory, and go back with the explorer's to gather what travels.
class SlimSet : public SlimKeys {
 public:
  /// Chooses for this round. A core that is chosen anew is another one. A ghost chooses no keys.
  ///   by : what is compared, n values without NaN (else DataError)
  void choose(const SlimRules& rules, Slice<const float> by, const SlimKey& key);
  /// Draws the explorer of a later round now, so that choose() finds it there. Does nothing if the core will be another
  /// one then. It draws what choose() would.
  ///   n : values that there will be; the last choice was from as many
  void draw_ahead(const SlimRules& rules, std::size_t n, const SlimKey& key);

  /// Brings what travels of x to host memory: the core's elements, then the explorer's.
  void gather(Slice<const float> x, std::vector<float>& values) const;
  /// Says whether the receiver does not know the core yet: it was chosen anew, or comes from a checkpoint.
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
  std::vector<std::uint32_t> drawn_;
  std::optional<SlimKey> ahead_;  // the round that drawn_ is for
  bool chosen_ = false, new_ = true;
};

/// Some elements of one tensor as Slim-DP sends them:
///
///     little-endian   offset  0   round : u32
///                             4   what : u32             1: the core's keys follow; 2: the explorer's do
///                             8   signature : u64        of the core's keys
///                            16   core keys : u32 each   if they follow; their number is known from n and the rules
///                                 explorer keys          in the same way
///                                 values                 of core and explorer, in this order: float32, or a codec's
///
/// While a core stays the same, 16 bytes stand for its keys, and the generator for the explorer's. A ghost's message
/// has its length alone.
struct SlimFormat {
  SlimRules rules{};
  std::size_t n = 0;             ///< elements of the tensor
  const Codec* codec = nullptr;  ///< the values' codec; null: float32
  std::size_t count() const { return core_elements(rules, n) + explorer_elements(rules, n); }
  std::size_t max_bytes() const;
};

/// Appends a message.
///   values    of the core, then of the explorer; for a ghost's message as many of a ghost
///   with_keys the core's keys travel
void write_slim(const SlimFormat& format, const SlimSet& set, bool with_keys, std::uint32_t round,
                Slice<const float> values, const Key& key, Bytes& message);

/// Bytes of a message without its header.
struct SlimBytes {
  double core = 0, explorer = 0, keys = 0;
};
/// throws DataError if the message has no header
SlimBytes bytes_of(const SlimFormat& format, Slice<const std::byte> message);

/// The end that receives what one sender sends, round after round: remembers its core.
class SlimReader : public SlimKeys {
 public:
  /// Before a message comes, where there is time: draws the explorer that it will speak of if the core stays as it is
  /// known here, so that read() with this key need not. Changes no result.
  void expect(const SlimFormat& format, const SlimKey& key);
  /// Reads a message, whose sender draws by `key`; of a ghost's nothing. Returns false if the core that the signature
  /// speaks of is not known here: then the sender has to send its keys.
  /// throws DataError if this is no such message; nothing is read outside of it
  bool read(const SlimFormat& format, Slice<const std::byte> message, const SlimKey& key);
  void forget() { known_ = false; }

  const std::vector<float>& values() const { return values_; }  ///< of the core, then of the explorer
  /// dense[key] += factor * value.
  void add_to(float factor, Slice<float> dense) const;
  /// dense[key] = value: Merge.
  void overwrite(Slice<float> dense) const;

 private:
  std::vector<float> values_;
  bool known_ = false;
  std::optional<SlimKey> drawn_;  // key of explorer_'s draw
};

/// After a local step, in one pass: delta += weight (value - before), and the two change places, so that `value` is
/// again what the rest of backward needs and `before` what follows. All of one length.
void put_step_by(Slice<float> value, Slice<float> before, Slice<float> delta, float weight = 1);

}  // namespace laconic::compress
