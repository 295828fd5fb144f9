#include "data/digest.h"

#include <zlib.h>

#include "core/base/random.h"

namespace laconic {

void Digest::add(const void* data, std::size_t bytes) {
  // Two 32-bit checks of each piece, folded so that their order counts.
  const auto* p = static_cast<const Bytef*>(data);
  const auto crc = static_cast<std::uint32_t>(crc32_z(0, p, bytes));
  const auto adler = static_cast<std::uint32_t>(adler32_z(1, p, bytes));
  const auto mixed = philox({crc, adler, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes >> 32)},
                            {static_cast<std::uint32_t>(value_), static_cast<std::uint32_t>(value_ >> 32)});
  value_ = std::uint64_t{mixed[0]} << 32 | mixed[1];
}

}  // namespace laconic
