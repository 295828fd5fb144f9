#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compress/bytes.h"
#include "core/slice.h"

namespace laconic::compress {

/// How ascending indices are written. raw: 4 bytes each. packed and rice write the gaps d = index - index before - 1
/// (of the first: the index itself) in blocks of 128, each with a parameter of its own: at a density of 0.1 % about 13
/// bits an index (packed), 11.5 (rice), and half of that where what is sent clusters. packed is the fastest to read,
/// rice the smallest: it pays on links below some 500 Mbit/s.
enum class IndexCoding : std::uint8_t { raw, packed, rice };

/// What sender and receiver agree on; it is not in the message.
struct SparseFormat {
  IndexCoding coding = IndexCoding::raw;
  bool one_value = false;  ///< quantised: one value that stands for all
  bool operator==(const SparseFormat&) const = default;
};

/// No message of at most `count` elements of a tensor of n is longer: for a receiver to size its buffer.
std::size_t max_sparse_bytes(SparseFormat format, std::size_t count, std::size_t n);

/// Bytes of a message in Rice's coding about `count` of n elements that lie anywhere, without its values; an estimate.
double expected_rice_bytes(std::size_t count, std::size_t n);

/// Appends a message to payload. Its length is a multiple of 4; an empty selection takes 4 bytes (one_value: 8).
///
///     little-endian   count : u32 | value : f32 (one_value) | indices | 0 to 3 zero bytes | value : f32 count
///                                                                                           (unless one_value)
///     indices, raw    u32 count
///     packed          width : u8 for each block of 128 gaps, the bits of the largest | per block its gaps, width bits
///                     each, lowest bits first, filled up to a byte
///     rice            p : u8 for each block | per block the low p bits of its gaps, in the same way | gap >> p for
///                     all, each as that number of 0 bits and a 1, lowest bits first, filled up to a byte
///
/// indices : ascending, below n < 2^32. values : as many, or 1 with one_value (0 or 1 if there are no indices)
/// source: RedSync 2.2 (packed message), 3.2 (quantised); Golomb 1966, Rice 1979
/// On a CUDA device packed and rice code their indices, which are few, on the host, which waits for a copy of them; raw
/// waits for nothing. Indices and values may then lie there or in host memory. Where they lie there and the payload in
/// host memory, the message is made there and comes in one piece.
/// throws  ShapeError if indices and values do not fit together
void encode_sparse(SparseFormat format, Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
                   Bytes& payload);

/// A message that has been read: indices and values of it, valid as long as payload and this. Memory is kept from one
/// to the next.
class SparseView {
 public:
  SparseView() = default;
  SparseView(SparseView&&) = default;  // pointers stay valid, as a copy's would not
  SparseView& operator=(SparseView&&) = default;

  /// Reads a message about a tensor of n elements. Every length and index is checked first.
  /// What is stored as it is used (values, raw indices) is not copied if the payload is aligned to 4 bytes.
  /// If the payload lies on a CUDA device, the host waits for the device's verdict; packed and rice bring their indices
  /// to the host for it.
  /// throws DataError if it is no message: too short or too long, indices that do not ascend or are n or more
  void read(SparseFormat format, Slice<const std::byte> payload, std::size_t n);

  std::size_t size() const { return size_; }
  Slice<const std::uint32_t> indices() const { return {indices_, size_, device_}; }
  /// One for each index, or a single one with one_value.
  Slice<const float> values() const { return {values_, one_value_ ? (size_ ? 1 : 0) : size_, device_}; }
  /// In host memory.
  float value(std::size_t j) const { return values_[one_value_ ? 0 : j]; }
  bool one_value() const { return one_value_; }

 private:
  std::size_t size_ = 0;
  bool one_value_ = false;
  const std::uint32_t* indices_ = nullptr;
  const float* values_ = nullptr;
  Device device_{};  // device of indices and values
  std::vector<std::uint32_t> decoded_;
  std::unique_ptr<Storage> own_indices_, own_values_;  // copies of what is not aligned, or was decoded for a device
};

/// How many elements some of the messages name. Cost: a sort of all indices.
std::size_t united(const std::vector<SparseView>& messages);

/// dense[index] += factor value, for all of a message; or of several, in their order, on every element: so the bits
/// depend on no thread. On kernel_threads() threads, each with an index range of its own.
/// throws ShapeError if an index is outside (then nothing has been added); of indices on a CUDA device, which are left
/// out, the next synchronize() throws DataError
void scatter_add(const SparseView& message, float factor, Slice<float> dense);
void scatter_add(const std::vector<SparseView>& messages, float factor, Slice<float> dense);
void scatter_add(Slice<const std::uint32_t> indices, Slice<const float> values, float factor, Slice<float> dense);

}  // namespace laconic::compress
