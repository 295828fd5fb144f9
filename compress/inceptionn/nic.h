#pragma once
#include <cstddef>

/// INCEPTIONN's network card as far as time depends on it: what its packets keep, and how fast its engines are. The
/// card gets plain floats and compresses the payload of each packet; the one at the other end decompresses it.
/// source: INCEPTIONN section VI-A, Figs. 9 and 10 (bursts of 256 bits at 100 MHz); the model that works burst by burst
/// is in the tests, and these are held against it
namespace laconic::compress {

inline constexpr std::size_t kBurstBytes = 32;  ///< bytes that the card's bus delivers in a cycle: 8 floats
inline constexpr double kNicHertz = 100e6;

/// TCP over Ethernet: 1448 bytes of payload in a packet of 1500; 52 bytes of IP and TCP headers with time stamps, 38 of
/// Ethernet, its preamble and the gap.
inline constexpr std::size_t kPacketPayload = 1448, kPacketOverhead = 52 + 38;

/// Bytes that pass over the wire for a number of floats whose payload has `payload` bytes. Packets keep their number.
double nic_wire_bytes(std::size_t floats, double payload);

/// Seconds that the compressing engine takes: a cycle for each burst, and one more for each packet, whose last bits are
/// left over. The decompressing engine takes the first alone.
double nic_seconds(std::size_t floats);

/// The bytes in full packets, without their headers, that keep a link busy for as long as such a message does: while
/// it is on the wire, or while an engine works on it, whichever takes longer.
///   bytes_per_second   payload of full packets that the link carries
double nic_link_bytes(std::size_t floats, double payload, double bytes_per_second);

}  // namespace laconic::compress
