#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "compress/bytes.h"
#include "core/base/error.h"
#include "core/slice.h"

namespace laconic::compress {

/// What a codec that rounds at random draws its numbers from, together with the index of the element: never a generator
/// with hidden state, so that a resumed run draws the same, and ranks that must encode alike do.
struct Key {
  std::uint64_t seed = 0, step = 0;
  std::uint32_t operation = 0;  ///< the message's number in the plan
  std::uint32_t hop = 0;        ///< the collective's step
  std::uint32_t rank = 0;       ///< the rank that encodes; where several encode one thing, the first of them
  float scale = 0;              ///< the scale that the encoders of one sum share (Codec::scale_of); 0: each has its own
};

/// Turns floats into fewer bytes and back, with no memory of its own: same floats and same key, same bytes. (What
/// remembers what it has not sent yet is a compressor.) Any thread.
class Codec {
 public:
  virtual ~Codec() = default;
  /// The longest payload of that number of elements, in bytes: a receiver sizes its buffer by it.
  virtual std::size_t max_bytes(std::size_t elements) const = 0;
  /// Appends x to payload.
  virtual void encode(Slice<const float> x, const Key& key, Bytes& payload) const = 0;
  /// Appends x to payload, and `read` becomes what decode makes of that. read is as long as x, and may be x.
  virtual void encode_and_decode(Slice<const float> x, const Key& key, Bytes& payload, Slice<float> read) const;
  /// Error feedback: appends s = x + lost to payload; lost = s - d, or 0 where that is no finite number, with d what
  /// decode makes of the payload. lost is as long as x.
  ///   settle : x becomes d; else x is undefined
  virtual void encode_with_feedback(Slice<float> x, Slice<float> lost, const Key& key, Bytes& payload,
                                    bool settle) const;
  /// x becomes what the payload says, all of it. Throws DataError if the payload is not one of x.size() elements.
  virtual void decode(Slice<const std::byte> payload, Slice<float> x) const = 0;
  /// x += what the payload says, with the bits of decode and an addition. The default takes a buffer and one more pass.
  virtual void decode_add(Slice<const std::byte> payload, Slice<float> x) const;
  /// Appends x + what the payload says to `sum`, as decode_add and encode would. x is afterwards that sum or what it
  /// was. Where it throws, `sum` may have grown.
  virtual void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const;
  /// Whether the encoders of the parts of one sum can share a scale, so that all parts have the same levels.
  virtual bool shares_scale() const { return false; }
  /// Returns the scale that x alone needs, NaN if x has a value that is no number. The largest one of all parts goes
  /// into their Key::scale. Only for a codec that shares scales.
  virtual float scale_of(Slice<const float>) const { return 0; }
  /// The largest magnitude that it can send: no larger finite value is given to it. A codec of a small range says so,
  /// and a value beyond it is an error of the exchange (require_sendable). A power of two that neighbours share, as in
  /// fp16, extends a format to all of a float's range.
  virtual float largest() const { return std::numeric_limits<float>::max(); }
  /// About how long a payload is, for cost functions, which have no values.
  virtual double expected_bytes(std::size_t elements) const = 0;
};

/// Values that a codec cannot send.
class OutOfRange : public Error {
 public:
  using Error::Error;
};

/// Throws OutOfRange, naming the key's step, if a value of x is beyond codec.largest(), infinity and NaN included. It
/// costs nothing where largest() is a float's range, as with every codec of laconic. Else it is one pass, and on a CUDA
/// device the host waits for it.
void require_sendable(const Codec& codec, Slice<const float> x, const Key& key);

/// A codec whose payload of n values has exactly max_bytes(n) bytes, 0 of none.
class SizedCodec : public Codec {
 public:
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const final;
  /// throws DataError if the length is wrong
  void decode(Slice<const std::byte> payload, Slice<float> x) const final;
  double expected_bytes(std::size_t elements) const final { return static_cast<double>(max_bytes(elements)); }

 protected:
  /// What decode says of a wrong length: "NAME codec: 5 bytes WHERE 3 VALUES. ...", as "are no" and "values of 8 bits".
  SizedCodec(std::string name, std::string where, std::string values)
      : name_(std::move(name)), where_(std::move(where)), values_(std::move(values)) {}

 private:
  /// Both get at least one value, and a payload of the right length on the same device.
  virtual void write(Slice<const float> x, const Key& key, std::byte* to) const = 0;
  virtual void read(Slice<const std::byte> payload, Slice<float> x) const = 0;

  std::string name_, where_, values_;
};

}  // namespace laconic::compress
