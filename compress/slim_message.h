#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "compress/bytes.h"
#include "compress/codec.h"
#include "compress/choose/slim.h"

namespace laconic::compress {

/// Some elements of one tensor as Slim-DP sends them:
///
///     little-endian   offset  0   round : u32
///                             4   what : u32             1: the core's keys follow; 2: the explorer's do
///                             8   signature : u64        of the core's keys
///                            16   core keys : u32 each   if they follow; how many follows from n and the rules
///                                 explorer keys          likewise
///                                 values                 of core and explorer, in this order: float32, or a codec's
///
/// So while a core stays the same 16 bytes stand for its keys, and for the explorer's the generator. In a ghost's
/// memory a message has its length alone.
struct SlimFormat {
  SlimRules rules{};
  std::size_t n = 0;             ///< elements of the tensor
  const Codec* codec = nullptr;  ///< of the values; null: float32
  std::size_t count() const { return core_elements(rules, n) + explorer_elements(rules, n); }
  std::size_t max_bytes() const;
};

/// Appends. values : of the core, then of the explorer; for a ghost's message as many of a ghost
/// with_keys : the core's keys travel
void write_slim(const SlimFormat& format, const SlimSet& set, bool with_keys, std::uint32_t round,
                Slice<const float> values, const Key& key, Bytes& message);

/// Where the bytes of a message go; the rest is its header.   throws DataError if it has none
struct SlimBytes {
  double core = 0, explorer = 0, keys = 0;
};
SlimBytes bytes_of(const SlimFormat& format, Slice<const std::byte> message);

/// What one sender sends, round after round: remembers its core.
class SlimReader {
 public:
  /// Before a message comes, where there is time: draws the explorer that it will speak of if the core stays as it is
  /// known here, so that read() with this key need not. Changes no result.
  void expect(const SlimFormat& format, const SlimKey& key);
  /// False: the core that the signature speaks of is not known here; the sender has to send its keys. Else indices()
  /// and values() are those of the message, and of a ghost's there are none. `key`: what the sender draws by.
  /// throws DataError if this is no such message; nothing is read outside of it
  bool read(const SlimFormat& format, Slice<const std::byte> message, const SlimKey& key);
  void forget() { known_ = false; }

  const std::vector<std::uint32_t>& core() const { return core_; }
  const std::vector<std::uint32_t>& explorer() const { return explorer_; }
  const std::vector<float>& values() const { return values_; }  ///< of the core, then of the explorer

  /// dense[key] += factor * value.
  void add_to(float factor, Slice<float> dense) const;
  /// dense[key] = value: Merge.
  void overwrite(Slice<float> dense) const;

 private:
  std::vector<std::uint32_t> core_, explorer_;
  std::vector<float> values_;
  std::uint64_t signature_ = 0;
  bool known_ = false;
  std::optional<SlimKey> drawn_;  // what explorer_ was drawn by, outside of core_
};

}  // namespace laconic::compress
