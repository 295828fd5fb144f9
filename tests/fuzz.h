#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"

namespace laconic {

/// Calls f(Random&) once for each seed: `count` of them; or, for LACONIC_FUZZ_SECONDS, until so many seconds are over,
/// from LACONIC_FUZZ_SEED on. A failure names its seed.
template <class F>
void fuzz(std::uint64_t count, F&& f) {
  const char* const seconds = std::getenv("LACONIC_FUZZ_SECONDS");
  const char* const first = std::getenv("LACONIC_FUZZ_SEED");
  const std::uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds ? std::atof(seconds) : 0);
  std::uint64_t inputs = 0;
  for (; seconds ? std::chrono::steady_clock::now() < end : inputs < count; ++inputs) {
    SCOPED_TRACE(concat("LACONIC_FUZZ_SEED=", begin + inputs));
    Random random(begin + inputs, Purpose::test);
    f(random);
    if (testing::Test::HasFailure()) return;
  }
  if (seconds) std::printf("%llu inputs\n", static_cast<unsigned long long>(inputs));
}

/// A message as something on the way might have left it: cut, longer, with bits flipped, with numbers of another size,
/// with parts of itself elsewhere, or nothing of it at all. In memory of its own length, so that a sanitizer sees what
/// is read behind it.
inline std::vector<std::byte> damaged(std::vector<std::byte> message, Random& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random.below(static_cast<std::uint32_t>(n)); };
  for (std::uint32_t rounds = 1 + random.below(3); rounds > 0; --rounds) {
    const std::size_t size = message.size();
    switch (random.below(7)) {
      case 0:
        message.resize(below(size + 1));
        break;
      case 1:
        for (std::uint32_t more = random.below(40); more > 0; --more)
          message.push_back(static_cast<std::byte>(random.bits()));
        break;
      case 2:
        for (std::uint32_t flips = 1 + random.below(4); flips > 0 && size > 0; --flips)
          message[below(size)] ^= static_cast<std::byte>(1u << random.below(8));
        break;
      case 3:
      case 4: {  // a number: lengths and counts stand in front
        const std::uint32_t numbers[] = {
            0, 1, 2, 128, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, static_cast<std::uint32_t>(size), random.bits()};
        if (size < 4) break;
        const std::size_t at = random.below(2) == 0 ? 0 : below(size / 4) * 4;
        std::memcpy(message.data() + at, &numbers[random.below(9)], 4);
        break;
      }
      case 5: {
        const std::size_t length = below(size / 2 + 1), from = below(size - length + 1), to = below(size - length + 1);
        if (length > 0) std::memmove(message.data() + to, message.data() + from, length);
        break;
      }
      default:
        if (random.below(4) > 0) break;
        message.assign(4 * below(80), std::byte{0});
        for (std::byte& b : message) b = static_cast<std::byte>(random.bits() >> random.below(9));
    }
  }
  message.shrink_to_fit();
  return message;
}

}  // namespace laconic
