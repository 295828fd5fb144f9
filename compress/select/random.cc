#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "compress/cpu/select.h"
#include "compress/cuda/choosing.h"
#include "compress/select/random_subset.h"
#include "compress/select/selector.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

using Indices = std::vector<std::uint32_t>;

/// `places` count what is not in `without`, both ascending: now they name it.
void step_over(Slice<const std::uint32_t> without, Indices& places) {
  std::size_t before = 0;  // members of `without` below the number that a place becomes
  for (std::uint32_t& place : places) {
    while (before < without.size() && without[before] <= place + before) ++before;
    place += static_cast<std::uint32_t>(before);
  }
}

void few(std::size_t n, std::size_t k, Slice<const std::uint32_t> without, Random& random, Indices& indices) {
  indices.clear();
  const std::size_t all = n - without.size();
  std::vector<bool> chosen(all);
  for (std::size_t top = all - k; top < all; ++top) {
    const std::uint32_t i = random.below(static_cast<std::uint32_t>(top + 1));
    indices.push_back(chosen[i] ? static_cast<std::uint32_t>(top) : i);
    chosen[indices.back()] = true;
  }
  std::sort(indices.begin(), indices.end());
  step_over(without, indices);
}

constexpr std::size_t kTile = 2048;          // numbers whose lots are drawn at a time
constexpr std::size_t kPhiloxBlocks = kTile / 16;  // blocks of philox: 4 words of 4 lots each
constexpr std::size_t kWorthLots = 4096;     // numbers; their counts are near enough to what is expected

/// lots[i] = 1 with probability limit / 256: functions of (key, counter, tile, i).
LACONIC_MULTIVERSION void draw_lots(const std::uint32_t* key, const std::uint32_t* counter, std::uint32_t tile,
                                    std::uint32_t limit, std::uint8_t* LACONIC_RESTRICT lots) {
  std::uint32_t words[4 * kPhiloxBlocks];
  for (std::size_t l = 0; l < kPhiloxBlocks; ++l) {
    const auto block = philox({tile * static_cast<std::uint32_t>(kPhiloxBlocks) + static_cast<std::uint32_t>(l),
                               counter[0], counter[1], counter[2]},
                              {key[0], key[1]});
    for (std::size_t w = 0; w < 4; ++w) words[w * kPhiloxBlocks + l] = block[w];
  }
  for (unsigned byte = 0; byte < 4; ++byte)
    for (std::size_t i = 0; i < 4 * kPhiloxBlocks; ++i)
      lots[byte * 4 * kPhiloxBlocks + i] = (words[i] >> (8 * byte) & 0xFF) < limit;
}

/// Each number outside of `without` with probability limit / 256.
void by_lot(std::size_t n, std::uint32_t limit, Slice<const std::uint32_t> without, Random& random, Indices& indices) {
  const std::uint32_t key[2] = {random.bits(), random.bits()},
                      counter[3] = {random.bits(), random.bits(), random.bits()};
  std::array<std::uint8_t, kTile> lots;
  std::size_t excluded = 0, count = 0;
  for (std::size_t first = 0; first < n; first += kTile) {
    const std::size_t here = std::min(kTile, n - first);
    draw_lots(key, counter, static_cast<std::uint32_t>(first / kTile), limit, lots.data());
    for (; excluded < without.size() && without[excluded] < first + here; ++excluded)
      lots[without[excluded] - first] = 0;
    if (indices.size() < count + kTile + 16) indices.resize(count + kTile + 16 + indices.size() / 2);
    count += cpu::marked(lots.data(), here, static_cast<std::uint32_t>(first), indices.data() + count);
  }
  indices.resize(count);
}

/// Keeps all but those at the given places, which ascend.
void drop(const Indices& places, Indices& indices) {
  std::size_t to = places.front();
  for (std::size_t p = 0; p < places.size(); ++p) {
    const std::size_t from = places[p] + std::size_t{1};
    const std::size_t end = p + 1 < places.size() ? places[p + 1] : indices.size();
    std::copy(indices.begin() + static_cast<std::ptrdiff_t>(from), indices.begin() + static_cast<std::ptrdiff_t>(end),
              indices.begin() + static_cast<std::ptrdiff_t>(to));
    to += end - from;
  }
  indices.resize(to);
}

/// Draws k elements evenly, by SelectionInput::key: every rank draws the same ones.
class Evenly final : public Selector {
  void choose(const Offer& o, Selection& out) override {
    out.indices = draw(o.in);
    for (const std::uint32_t i : out.indices) out.values.push_back(o.in.values[i]);
  }
  Steps choose_on_cuda(Offer o, Selection& out) override {
    if constexpr (kCudaBuilt) {
      cuda::Choosing choosing(o.in, cuda_scratch_, out);
      // Looks for a NaN; and the device has copied what was given before.
      static_cast<void>(co_await choosing.outcome());
      const std::vector<std::uint32_t> indices = draw(o.in);
      const Device device = o.in.values.device();
      DeviceElements& chosen = out.on_device;
      chosen.renew(device, indices.size());
      Pinned& given = choosing.scratch().given;
      const std::size_t bytes = indices.size() * sizeof(std::uint32_t);
      if (given.size() < bytes) given = Pinned(bytes, device);
      std::memcpy(given.data(), indices.data(), bytes);
      copy_bytes_later(chosen.indices(), device, given.data(), kCpu, bytes);
      cuda::gather_at(chosen.values(), o.in.values.data(), chosen.indices(), indices.size(), o.in.values.size());
      chosen.resize(indices.size());
    }
  }
  static std::vector<std::uint32_t> draw(const SelectionInput& in) {
    std::vector<std::uint32_t> indices;
    random_subset(in.values.size(), in.k, {}, Random(in.key.seed, Purpose::selection, in.key.step, in.key.operation),
                  indices);
    return indices;
  }
};

}  // namespace

void random_subset(std::size_t n, std::size_t k, Slice<const std::uint32_t> without, Random random, Indices& indices) {
  require<ShapeError>(without.size() <= n && k <= n - without.size(), "random subset: ", k, " of ", n, " without ",
                      without.size());
  const std::size_t all = n - without.size();
  if (k <= all / 64 || all < kWorthLots) return few(n, k, without, random, indices);
  const double share = static_cast<double>(k) / static_cast<double>(all);
  const double spread = std::sqrt(share * (1 - share) / static_cast<double>(all));
  // Rather too many than too few: dropping is cheaper than drawing others.
  const double limit = std::ceil(256 * (share + 2 * spread));
  by_lot(n, static_cast<std::uint32_t>(std::min(256.0, limit)), without, random, indices);
  Indices others;
  if (indices.size() > k) {
    random_subset(indices.size(), indices.size() - k, {}, random, others);
    drop(others, indices);
  } else if (indices.size() < k) {
    Indices taken(without.size() + indices.size());
    std::merge(without.begin(), without.end(), indices.begin(), indices.end(), taken.begin());
    few(n, k - indices.size(), slice(std::as_const(taken)), random, others);
    const auto middle = static_cast<std::ptrdiff_t>(indices.size());
    indices.insert(indices.end(), others.begin(), others.end());
    std::inplace_merge(indices.begin(), indices.begin() + middle, indices.end());
  }
}

SelectorKind random_selector() {
  return {"random",
          {.by_name = false, .by_sign = false, .one_value = false, .same_everywhere = true},
          [](const SelectorOptions&) { return std::make_unique<Evenly>(); }};
}

}  // namespace laconic::compress
