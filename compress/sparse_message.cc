#include "compress/sparse_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/dispatch.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kBlock = 128;

std::size_t blocks_of(std::size_t count) { return (count + kBlock - 1) / kBlock; }
std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }
std::uint32_t low_bits(std::uint32_t value, unsigned width) {
  return width >= 32 ? value : value & ((std::uint32_t{1} << width) - 1);
}

/// Bits, lowest first.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(std::uint32_t value, unsigned width) {
    held_ |= std::uint64_t{value} << bits_;
    bits_ += width;
    while (bits_ >= 8) {
      *to_++ = static_cast<std::byte>(held_);
      held_ >>= 8, bits_ -= 8;
    }
  }
  void zeros(std::uint64_t count) {
    for (; count >= 32; count -= 32) put(0, 32);
    put(0, static_cast<unsigned>(count));
  }
  std::byte* finish() {
    if (bits_ > 0) *to_++ = static_cast<std::byte>(held_);
    held_ = 0, bits_ = 0;
    return to_;
  }

 private:
  std::byte* to_;
  std::uint64_t held_ = 0;
  unsigned bits_ = 0;
};

/// The parameter with which `count` gaps take the fewest bits, and how many those are.
struct Rice {
  unsigned p = 0;
  std::uint64_t bits = 0;
};
Rice best_rice(const std::uint32_t* gaps, std::size_t count) {
  Rice best{0, ~std::uint64_t{0}};
  for (unsigned p = 0; p < 32; ++p) {
    std::uint64_t bits = count * (p + 1);
    for (std::size_t j = 0; j < count; ++j) bits += gaps[j] >> p;
    if (bits < best.bits) best = {p, bits};
  }
  return best;
}

std::vector<std::uint32_t> gaps_of(Slice<const std::uint32_t> indices) {
  std::vector<std::uint32_t> gaps(indices.size());
  std::uint32_t next = 0;
  for (std::size_t j = 0; j < gaps.size(); ++j) {
    gaps[j] = indices[j] - next;
    next = indices[j] + 1;
  }
  return gaps;
}

void put_indices(IndexCoding coding, Slice<const std::uint32_t> indices, Bytes& payload) {
  const std::size_t count = indices.size(), blocks = blocks_of(count);
  if (count == 0) return;
  if (coding == IndexCoding::raw) {
    std::memcpy(payload.append(indices.size_bytes()).data(), indices.data(), indices.size_bytes());
    return;
  }
  const std::vector<std::uint32_t> gaps = gaps_of(indices);
  std::vector<std::uint8_t> widths(blocks);
  std::size_t bytes = blocks;
  std::uint64_t unary = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::uint32_t* const block = gaps.data() + b * kBlock;
    const std::size_t length = std::min(kBlock, count - b * kBlock);
    if (coding == IndexCoding::packed) {
      widths[b] = static_cast<std::uint8_t>(std::bit_width(*std::max_element(block, block + length)));
    } else {
      const Rice rice = best_rice(block, length);
      widths[b] = static_cast<std::uint8_t>(rice.p);
      unary += rice.bits - length * rice.p;
    }
    bytes += (length * widths[b] + 7) / 8;
  }
  bytes += static_cast<std::size_t>((unary + 7) / 8);
  const Slice<std::byte> out = payload.append(padded(bytes));
  std::fill(out.end() - std::min<std::size_t>(out.size(), 4), out.end(), std::byte{0});
  std::memcpy(out.data(), widths.data(), blocks);
  std::byte* to = out.data() + blocks;
  for (std::size_t b = 0; b < blocks; ++b) {
    BitWriter bits(to);
    for (std::size_t j = b * kBlock; j < std::min(count, (b + 1) * kBlock); ++j)
      bits.put(low_bits(gaps[j], widths[b]), widths[b]);
    to = bits.finish();
  }
  if (coding == IndexCoding::packed) return;
  BitWriter bits(to);
  for (std::size_t j = 0; j < count; ++j) {
    bits.zeros(gaps[j] >> widths[j / kBlock]);
    bits.put(1, 1);
  }
  bits.finish();
}

std::uint32_t get_u32(const std::byte* from) {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

std::size_t max_sparse_bytes(SparseFormat format, std::size_t count, std::size_t n) {
  count = std::min(count, n);
  const std::size_t head = 4 + (format.one_value ? 4 : 4 * count);
  if (count == 0) return format.one_value ? 8 : 4;
  if (format.coding == IndexCoding::raw) return head + 4 * count;
  // A gap is below n. Rice with p = the width of the largest gap of a block takes one bit more each.
  const std::size_t width = static_cast<std::size_t>(std::bit_width(n - 1)) + (format.coding == IndexCoding::rice);
  return head + padded(2 * blocks_of(count) + (count * std::min<std::size_t>(width, 33) + 7) / 8 + 1);
}

void encode_sparse(SparseFormat format, Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
                   Bytes& payload) {
  const std::size_t count = indices.size();
  require<ShapeError>(format.one_value ? values.size() == 1 || (count == 0 && values.empty()) : values.size() == count,
                      "sparse message: ", values.size(), " values for ", count, " indices.");
  require<ShapeError>(count == 0 || indices[count - 1] < n, "sparse message: index ", count ? indices[count - 1] : 0,
                      " of ", n, " elements.");
  const HostAccess access(payload.device());
  payload.reserve(payload.size() + max_sparse_bytes(format, count, n));
  const auto head = static_cast<std::uint32_t>(count);
  std::memcpy(payload.append(4).data(), &head, 4);
  if (format.one_value) {
    const float value = values.empty() ? 0.0f : values[0];
    std::memcpy(payload.append(4).data(), &value, 4);
  }
  put_indices(format.coding, indices, payload);
  if (!format.one_value && count > 0)
    std::memcpy(payload.append(values.size_bytes()).data(), values.data(), values.size_bytes());
}

void SparseView::read(SparseFormat format, Slice<const std::byte> payload, std::size_t n) {
  const HostAccess access(payload.device());
  const auto check = [&](bool ok, const char* what) {
    require<DataError>(ok, "sparse message: ", payload.size(), " bytes about ", n, " elements ", what,
                       ". Do all ranks use the same options?");
  };
  const std::size_t head = format.one_value ? 8 : 4;
  check(payload.size() >= head && payload.size() % 4 == 0, "are no whole message");
  const std::size_t count = get_u32(payload.data());
  const std::size_t value_bytes = format.one_value ? 0 : 4 * count;
  check(count <= n && payload.size() - head >= value_bytes, "cannot hold what they announce");
  const std::byte* from = payload.data() + head;
  const std::byte* const end = payload.end() - value_bytes;
  decoded_.resize(count);
  if (format.coding == IndexCoding::raw) {
    check(static_cast<std::size_t>(end - from) == 4 * count, "are not as long as they announce");
    if (count > 0) std::memcpy(decoded_.data(), from, 4 * count);
  } else if (count == 0) {
    check(from == end, "are not as long as they announce");
  } else {
    const std::size_t blocks = blocks_of(count);
    check(static_cast<std::size_t>(end - from) >= blocks, "end before their indices");
    const std::byte* const widths = from;
    from += blocks;
    std::uint64_t low_bytes = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const unsigned width = static_cast<unsigned>(widths[b]);
      check(width <= 32, "have a block of more than 32 bits");
      low_bytes += (std::min(kBlock, count - b * kBlock) * width + 7) / 8;
    }
    check(static_cast<std::uint64_t>(end - from) >= low_bytes, "end before their indices");
    const std::byte* unary = from + low_bytes;
    const std::uint64_t unary_bits = static_cast<std::uint64_t>(end - unary) * 8;
    std::uint64_t next = 0, at = 0;
    for (std::size_t j = 0; j < count; ++j) {
      const unsigned width = static_cast<unsigned>(widths[j / kBlock]);
      const std::size_t first_bit = (j % kBlock) * width;
      std::uint64_t gap = 0;
      for (unsigned bit = 0; bit < width; ++bit)
        gap |= std::uint64_t{(static_cast<unsigned>(from[(first_bit + bit) / 8]) >> ((first_bit + bit) % 8)) & 1}
               << bit;
      if (format.coding == IndexCoding::rice) {
        std::uint64_t quotient = 0;
        for (;; ++quotient, ++at) {
          check(at < unary_bits, "end before their indices");
          if ((static_cast<unsigned>(unary[at / 8]) >> (at % 8)) & 1) break;
        }
        ++at;
        check(quotient < (std::uint64_t{1} << 32), "have an index outside");
        gap += quotient << width;
      }
      check(gap < n && next + gap < n, "have an index outside");
      decoded_[j] = static_cast<std::uint32_t>(next + gap);
      next += gap + 1;
      if (j % kBlock == kBlock - 1 || j + 1 == count) from += ((j % kBlock + 1) * width + 7) / 8;
    }
    const std::byte* const stop = format.coding == IndexCoding::rice ? unary + (at + 7) / 8 : from;
    check(padded(static_cast<std::size_t>(stop - widths)) == static_cast<std::size_t>(end - widths),
          "are not as long as they announce");
  }
  for (std::size_t j = 0; j < count; ++j)
    check(decoded_[j] < n && (j == 0 || decoded_[j - 1] < decoded_[j]),
          "have indices that do not ascend or are outside");
  copied_.resize(format.one_value ? 1 : count);
  if (!copied_.empty()) std::memcpy(copied_.data(), format.one_value ? payload.data() + 4 : end, 4 * copied_.size());
  size_ = count, one_value_ = format.one_value;
  indices_ = decoded_.data(), values_ = copied_.data();
}

void scatter_add(const SparseView& message, float factor, Slice<float> dense) {
  const auto indices = message.indices();
  require<ShapeError>(indices.empty() || indices[indices.size() - 1] < dense.size(), "scatter_add: index ",
                      indices.empty() ? 0 : indices[indices.size() - 1], " of ", dense.size(), " elements.");
  on_device(dense.device(), [&] {
    for (std::size_t j = 0; j < indices.size(); ++j) dense[indices[j]] += factor * message.value(j);
  });
}

void scatter_add(const std::vector<SparseView>& messages, float factor, Slice<float> dense) {
  for (const SparseView& m : messages)
    require<ShapeError>(m.size() == 0 || m.indices()[m.size() - 1] < dense.size(), "scatter_add: index ",
                        m.size() ? m.indices()[m.size() - 1] : 0, " of ", dense.size(), " elements.");
  for (const SparseView& m : messages) scatter_add(m, factor, dense);
}

void scatter_add(Slice<const std::uint32_t> indices, Slice<const float> values, float factor, Slice<float> dense) {
  require<ShapeError>(values.size() == indices.size(), "scatter_add: ", values.size(), " values for ", indices.size(),
                      " indices.");
  require<ShapeError>(indices.empty() || indices[indices.size() - 1] < dense.size(), "scatter_add: index ",
                      indices.empty() ? 0 : indices[indices.size() - 1], " of ", dense.size(), " elements.");
  on_device(dense.device(), [&] {
    for (std::size_t j = 0; j < indices.size(); ++j) dense[indices[j]] += factor * values[j];
  });
}

void scatter_add(SparseFormat format, Slice<const std::byte> payload, float factor, Slice<float> dense) {
  SparseView message;
  message.read(format, payload, dense.size());
  scatter_add(message, factor, dense);
}

}  // namespace laconic::compress
