#include "tests/nic_model.h"

#include <algorithm>
#include <cstring>

namespace laconic::compress {
namespace {

constexpr std::size_t kVectorValues = 8;
constexpr std::size_t kTagBytes = 2;
constexpr std::size_t kLongestVector = kTagBytes + kVectorValues * sizeof(float);

/// Bytes in a register of hardware: they come at its end and leave at its front.
template <std::size_t kCapacity>
class ShiftRegister {
 public:
  std::size_t size() const { return size_; }
  const std::byte* data() const { return bytes_.data(); }
  void push(const std::byte* from, std::size_t count) {
    require<Error>(size_ + count <= kCapacity, "model of the network card: a register of ", kCapacity,
                   " bytes is to hold ", size_ + count);
    std::memcpy(bytes_.data() + size_, from, count);
    size_ += count;
  }
  void pop(std::size_t count) {
    std::memmove(bytes_.data(), bytes_.data() + count, size_ - count);
    size_ -= count;
  }

 private:
  std::array<std::byte, kCapacity> bytes_{};
  std::size_t size_ = 0;
};

/// The compression unit: eight floats to tags and payloads, put together by the shifter.
struct Vector {
  std::array<std::byte, kLongestVector> bytes{};
  std::size_t count = kTagBytes;
};
Vector compressed(InceptionnMode mode, int exponent, Slice<const float> floats) {
  Vector v;
  unsigned tags = 0;
  for (std::size_t block = 0; block < floats.size(); ++block) {
    const CodedValue coded = compress_value(mode, exponent, floats[block]);
    tags |= coded.tag << 2 * block;
    for (unsigned b = 0; b < kPayloadBytes[coded.tag]; ++b)
      v.bytes[v.count++] = static_cast<std::byte>(coded.payload >> 8 * b);
  }
  for (std::size_t b = 0; b < kTagBytes; ++b) v.bytes[b] = static_cast<std::byte>(tags >> 8 * b);
  return v;
}

unsigned tags_at(const std::byte* p) { return static_cast<unsigned>(p[0]) | static_cast<unsigned>(p[1]) << 8; }

/// The tag decoder.
std::size_t group_bytes(unsigned tags) {
  std::size_t bytes = kTagBytes;
  for (std::size_t block = 0; block < kVectorValues; ++block) bytes += kPayloadBytes[tags >> 2 * block & 3];
  return bytes;
}

}  // namespace

std::vector<Burst> NicCompressor::packet(Slice<const float> payload) {
  ShiftRegister<kBurstBytes - 1 + kLongestVector> gathered;  // of the alignment unit
  std::vector<Burst> out;
  std::size_t taken = 0;
  while (taken < payload.size() || gathered.size() > 0) {
    ++cycles_;
    const bool ends = taken == payload.size();
    if (gathered.size() >= kBurstBytes || ends) {
      Burst& burst = out.emplace_back();
      burst.count = std::min(kBurstBytes, gathered.size());
      std::memcpy(burst.bytes.data(), gathered.data(), burst.count);
      gathered.pop(burst.count);
    }
    if (!ends && gathered.size() < kBurstBytes) {
      const Slice<const float> floats = payload.sub(taken, std::min(kVectorValues, payload.size() - taken));
      const Vector v = compressed(mode_, exponent_, floats);
      gathered.push(v.bytes.data(), v.count);
      taken += floats.size();
    }
  }
  return out;
}

void NicDecompressor::packet(const std::vector<Burst>& bursts, Slice<float> payload) {
  const auto refuse = [&](const char* what) {
    throw DataError(concat("model of the network card: ", what, " for ", payload.size(), " floats"));
  };
  ShiftRegister<kBufferBytes> buffer;
  std::size_t next = 0, given = 0;
  while (given < payload.size()) {
    ++cycles_;
    const bool reads = buffer.size() < kLongestVector && next < bursts.size();
    if (reads) {
      const Burst& burst = bursts[next++];
      if (burst.count > kBurstBytes) refuse("a burst of more than 32 bytes");
      buffer.push(burst.bytes.data(), burst.count);
      fullest_ = std::max(fullest_, buffer.size());
    }
    if (buffer.size() < kTagBytes || buffer.size() < group_bytes(tags_at(buffer.data()))) {
      if (!reads) refuse("too few bytes");
      continue;
    }
    const unsigned tags = tags_at(buffer.data());
    const std::size_t count = std::min(kVectorValues, payload.size() - given);
    if (count < kVectorValues && tags >> 2 * count != 0) refuse("values that are not there");
    const std::byte* at = buffer.data() + kTagBytes;
    for (std::size_t block = 0; block < count; ++block) {
      CodedValue coded{.tag = tags >> 2 * block & 3, .payload = 0};
      for (unsigned b = 0; b < kPayloadBytes[coded.tag]; ++b)
        coded.payload |= static_cast<std::uint32_t>(*at++) << 8 * b;
      payload[given + block] = decompress_value(mode_, exponent_, coded);
    }
    buffer.pop(group_bytes(tags));
    given += count;
  }
  if (buffer.size() > 0 || next < bursts.size()) refuse("too many bytes");
}

NicPackets nic_packets(InceptionnMode mode, int exponent, Slice<const float> message, std::size_t packet_payload,
                       std::size_t packet_overhead) {
  require<UsageError>(packet_payload > 0 && packet_payload % sizeof(float) == 0, "packets cannot hold ", packet_payload,
                      " bytes of floats: give a multiple of 4");
  NicPackets sum;
  NicCompressor engine(mode, exponent);
  const std::size_t floats = packet_payload / sizeof(float);
  for (std::size_t at = 0; at < message.size(); at += floats) {
    const Slice<const float> payload = message.sub(at, std::min(floats, message.size() - at));
    ++sum.packets;
    sum.plain_bytes += packet_overhead + payload.size_bytes();
    sum.compressed_bytes += packet_overhead;
    for (const Burst& burst : engine.packet(payload)) sum.compressed_bytes += burst.count;
  }
  sum.compress_cycles = engine.cycles();
  return sum;
}

}  // namespace laconic::compress
