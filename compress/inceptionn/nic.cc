#include "compress/inceptionn/nic.h"

#include <algorithm>

namespace laconic::compress {
namespace {

constexpr std::size_t kPacketFloats = kPacketPayload / sizeof(float);

std::size_t bursts(std::size_t floats) { return (floats * sizeof(float) + kBurstBytes - 1) / kBurstBytes; }

}  // namespace

double nic_wire_bytes(std::size_t floats, double payload) {
  return payload + static_cast<double>((floats + kPacketFloats - 1) / kPacketFloats * kPacketOverhead);
}

double nic_seconds(std::size_t floats) {
  const std::size_t full = floats / kPacketFloats, rest = floats % kPacketFloats;
  const std::size_t cycles = full * (bursts(kPacketFloats) + 1) + (rest > 0 ? bursts(rest) + 1 : 0);
  return static_cast<double>(cycles) / kNicHertz;
}

double nic_link_bytes(std::size_t floats, double payload, double bytes_per_second) {
  constexpr double kShare = static_cast<double>(kPacketPayload) / (kPacketPayload + kPacketOverhead);
  return std::max(kShare * nic_wire_bytes(floats, payload), bytes_per_second * nic_seconds(floats));
}

}  // namespace laconic::compress
