#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/inceptionn/nic.h"
#include "core/slice.h"
#include "tests/inceptionn_steps.h"

/// INCEPTIONN's network card (compress/inceptionn/nic.h) in software: its engines burst by burst, bit for bit what the codec
/// writes, with the clock cycles that they take. The engines are pipelines; what is counted is their throughput, not
/// the few cycles from first input to first output, which the paper does not tell. source: INCEPTIONN section VI-A,
/// Figs. 9 and 10
namespace laconic::compress {

/// Up to 32 bytes on the bus; only the last of a packet has fewer.
struct Burst {
  std::array<std::byte, kBurstBytes> bytes{};
  std::size_t count = kBurstBytes;
};

/// Eight compression blocks, one a float; a shifter that puts their outputs together; an alignment unit that gathers
/// vectors of 16 to 272 bits and gives out bursts.
///
///     each cycle   a burst goes out if 256 bits have been gathered, and a burst comes in if fewer than 256 then are
///     left
///
/// So n floats take n/8 cycles and what is left at the end, but where nothing shrinks: each burst then adds 272 bits
/// and takes 256 away, and every 17th cycle takes nothing in.
class NicCompressor {
 public:
  NicCompressor(InceptionnMode mode, int exponent) : mode_(mode), exponent_(exponent) {}
  /// One packet's payload, any number of floats: the bursts that leave the engine.
  std::vector<Burst> packet(Slice<const float> payload);
  std::uint64_t cycles() const { return cycles_; }  ///< so far

 private:
  InceptionnMode mode_;
  int exponent_;
  std::uint64_t cycles_ = 0;
};

/// A burst buffer, a tag decoder that finds how long the eight payloads are, eight decompression blocks.
///
///     each cycle   a burst is read if fewer bits are buffered than the longest group has, and a group that is complete
///                  is decoded to 8 floats
///
/// The paper's buffer holds two bursts, 64 bytes, and reads when fewer than 32 are left. With 33 left and a group of 34
/// to come it would neither read nor decode ever again; this one has 65 bytes, and reads while fewer than 34 are left.
class NicDecompressor {
 public:
  static constexpr std::size_t kBufferBytes = 2 * kBurstBytes + 1;

  NicDecompressor(InceptionnMode mode, int exponent) : mode_(mode), exponent_(exponent) {}
  /// One packet's bursts to payload.size() floats.
  /// throws DataError if they are not the compressed form of so many
  void packet(const std::vector<Burst>& bursts, Slice<float> payload);
  std::uint64_t cycles() const { return cycles_; }
  std::size_t fullest() const { return fullest_; }  ///< most bytes that were buffered

 private:
  InceptionnMode mode_;
  int exponent_;
  std::uint64_t cycles_ = 0;
  std::size_t fullest_ = 0;
};

/// What passes over the link for one message. Packets keep their number: the card compresses the payload of each, and
/// the stack above knows nothing of it.
struct NicPackets {
  std::uint64_t packets = 0;
  std::uint64_t plain_bytes = 0;       ///< headers, preamble and gaps between packets included
  std::uint64_t compressed_bytes = 0;  ///< likewise
  std::uint64_t compress_cycles = 0;
  double compress_seconds() const { return static_cast<double>(compress_cycles) / kNicHertz; }
};

/// throws UsageError unless the packets' payload is a whole number of floats, at least one
NicPackets nic_packets(InceptionnMode mode, int exponent, Slice<const float> message,
                       std::size_t packet_payload = kPacketPayload, std::size_t packet_overhead = kPacketOverhead);

}  // namespace laconic::compress
