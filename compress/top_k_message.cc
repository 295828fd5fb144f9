#include "compress/top_k_message.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "compress/select/selector.h"
#include "core/base/error.h"

namespace laconic::compress {
namespace {

std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

SparseFormat format_of(const TopKWire& wire) { return {.coding = IndexCoding::rice, .one_value = wire.two_bits}; }

std::size_t code_bytes(std::size_t values) { return (values + 15) / 16 * 4; }

/// The two magnitudes that stand for all of a chunk's.
struct Levels {
  float low = 0, high = 0;
};
static_assert(sizeof(Levels) == 8);

struct Split {
  explicit Split(Slice<const float> values) {
    for (const float v : values) mean += std::abs(double{v});
    mean /= static_cast<double>(values.size());
    double sums[2] = {0, 0};
    std::size_t counts[2] = {0, 0};
    for (const float v : values) sums[is_high(v)] += std::abs(double{v}), ++counts[is_high(v)];
    const auto level = [&](int i) {
      return counts[i] > 0 ? static_cast<float>(sums[i] / static_cast<double>(counts[i])) : 0;
    };
    levels = {level(0), level(1)};
  }
  bool is_high(float v) const { return std::abs(double{v}) >= mean; }
  double mean = 0;
  Levels levels;
};

float value_of(unsigned code, Levels levels) {
  const float magnitude = code & 2 ? levels.high : levels.low;
  return code & 1 ? -magnitude : magnitude;
}

}  // namespace

std::vector<std::size_t> TopKWire::counts(std::int64_t n) const {
  std::vector<std::size_t> counts;
  for (std::int64_t begin = 0; begin < n; begin += kChunk)
    counts.push_back(static_cast<std::size_t>(elements_to_send(std::min(kChunk, n - begin), density)));
  return counts;
}

/// A gap takes as many bits as in a code with one parameter for all.
double TopKWire::expected_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const {
  const double indices = expected_rice_bytes(chosen, n);
  return two_bits ? indices + 8 + 8 * static_cast<double>(chunks) + static_cast<double>(code_bytes(chosen))
                  : indices + 4 * static_cast<double>(chosen);
}

std::size_t TopKWire::max_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const {
  const std::size_t sparse = max_sparse_bytes(format_of(*this), chosen, n);
  return two_bits ? 4 + sparse + chunks * sizeof(Levels) + code_bytes(chosen) : sparse;
}

void TopKWire::encode(Slice<const std::uint32_t> indices, Slice<float> values, std::span<const std::size_t> counts,
                      std::size_t n, Bytes& payload) const {
  if (!two_bits) return encode_sparse(format_of(*this), indices, values, n, payload);
  const std::size_t begin = payload.size();
  payload.append(4);
  const float nothing = 0;
  encode_sparse(format_of(*this), indices, Slice<const float>(&nothing, indices.empty() ? 0 : 1), n, payload);
  const auto length = static_cast<std::uint32_t>(payload.size() - begin - 4);
  std::memcpy(payload.data() + begin, &length, 4);
  std::vector<Levels> levels;
  std::vector<std::byte> codes(code_bytes(values.size()));
  std::size_t i = 0;
  for (const std::size_t count : counts) {
    const Split split(values.sub(i, count));
    levels.push_back(split.levels);
    for (const std::size_t end = i + count; i < end; ++i) {
      const unsigned code = (std::signbit(values[i]) ? 1u : 0u) | (split.is_high(values[i]) ? 2u : 0u);
      codes[i / 4] |= static_cast<std::byte>(code << 2 * (i % 4));
      values[i] = value_of(code, split.levels);
    }
  }
  const auto put = [&](const auto& all) {
    const std::size_t bytes = all.size() * sizeof(all[0]);
    if (bytes > 0) std::memcpy(payload.append(bytes).data(), all.data(), bytes);
  };
  put(levels), put(codes);
}

void TopKWire::decode_add(Slice<const std::byte> payload, std::span<const std::size_t> counts, float factor,
                          Slice<float> dense) const {
  const std::size_t chosen = sum_of(counts), others = counts.size() * sizeof(Levels) + code_bytes(chosen);
  const auto check = [&](bool ok, const char* wrong) {
    require<DataError>(ok, "what was chosen of ", dense.size(), " elements: ", payload.size(), " bytes ", wrong,
                       ". Do all ranks use the same options?");
  };
  SparseView view;
  if (!two_bits) {
    view.read(format_of(*this), payload, dense.size());
    check(view.size() == chosen, "hold another number of elements");
    return scatter_add(view, factor, dense);
  }
  check(payload.size() >= 4 + others, "end too early");
  std::uint32_t length;
  std::memcpy(&length, payload.data(), 4);
  check(length == payload.size() - 4 - others, "have another length than they announce");
  view.read(format_of(*this), payload.sub(4, length), dense.size());
  check(view.size() == chosen, "hold another number of elements");
  const std::byte* const magnitudes = payload.data() + 4 + length;
  const std::byte* const codes = magnitudes + counts.size() * sizeof(Levels);
  std::vector<float> values(chosen);
  std::size_t i = 0, chunk = 0;
  for (const std::size_t count : counts) {
    Levels levels;
    std::memcpy(&levels, magnitudes + sizeof levels * chunk++, sizeof levels);
    for (const std::size_t end = i + count; i < end; ++i)
      values[i] = value_of(static_cast<unsigned>(codes[i / 4]) >> 2 * (i % 4) & 3, levels);
  }
  scatter_add(view.indices(), slice(std::as_const(values)), factor, dense);
}

}  // namespace laconic::compress
