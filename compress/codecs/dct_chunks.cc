#include "compress/codecs/dct_chunks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "core/base/parallel.h"

namespace laconic::compress {
namespace {

using CoefficientPlace = std::uint16_t;

/// The k values of largest magnitude, as their places, ascending; of equal ones those with the lowest.
///   keys : for its own use
void choose_coefficients(const float* y, std::size_t n, std::size_t k, std::vector<std::uint64_t>& keys,
                         CoefficientPlace* chosen) {
  keys.resize(n);
  for (std::size_t i = 0; i < n; ++i)
    keys[i] = std::uint64_t{std::bit_cast<std::uint32_t>(y[i]) & 0x7FFFFFFF} << 32 | (n - 1 - i);
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(k);
  if (end != keys.end()) std::nth_element(keys.begin(), end, keys.end(), std::greater());
  for (std::size_t j = 0; j < k; ++j) chosen[j] = static_cast<CoefficientPlace>(n - 1 - (keys[j] & 0xFFFFFFFF));
  std::sort(chosen, chosen + k);
}

}  // namespace

DctChunks::DctChunks(const Shape& shape, std::int64_t side, std::int64_t most) {
  auto [rows, columns] = matrix_size(shape);
  if (columns == 1) std::swap(rows, columns);
  columns_ = static_cast<std::size_t>(columns);
  const auto cuts = [&](std::int64_t n) {  // where parts begin, and the end
    const std::int64_t parts = (n + side - 1) / side;
    std::vector<std::size_t> all;
    for (std::int64_t i = 0; i <= parts; ++i) all.push_back(static_cast<std::size_t>(n * i / parts));
    return all;
  };
  const auto transform = [&](std::size_t length) { return &transforms_.try_emplace(length, length).first->second; };
  const std::vector<std::size_t> down = cuts(rows), across = cuts(columns);
  for (std::size_t i = 0; i + 1 < down.size(); ++i)
    for (std::size_t j = 0; j + 1 < across.size(); ++j) {
      Chunk chunk{down[i] * columns_ + across[j], transform(down[i + 1] - down[i]),
                  transform(across[j + 1] - across[j]), 0, kept_};
      chunk.kept = std::min(static_cast<std::size_t>(most), chunk.size());
      kept_ += chunk.kept;
      chunks_.push_back(chunk);
    }
}

/// f(chunk, memory) on several threads. memory : three arrays for a chunk, one after the other
template <class F>
void DctChunks::for_chunks(F f) const {
  constexpr std::int64_t kGrain = 4;
  parallel_for(static_cast<std::int64_t>(chunks_.size()), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> memory;
    for (std::int64_t c = begin; c < end; ++c) {
      const Chunk& chunk = chunks_[static_cast<std::size_t>(c)];
      memory.resize(std::max(memory.size(), 3 * chunk.size()));
      f(chunk, memory.data());
    }
  });
}

void DctChunks::extract(float* m, std::byte* message) const {
  for_chunks([&](const Chunk& c, float* y) {
    const std::size_t n = c.size(), w = c.columns->size();
    float *const x = y + n, *const work = x + n;
    std::vector<std::uint64_t> keys;
    std::vector<CoefficientPlace> chosen(c.kept);
    std::vector<float> sent(c.kept);
    dct_block(*c.rows, *c.columns, m + c.offset, columns_, y, work);
    choose_coefficients(y, n, c.kept, keys, chosen.data());
    for (std::size_t j = 0; j < c.kept; ++j) sent[j] = y[chosen[j]];
    std::byte* const to = message + 6 * c.before;
    std::memcpy(to, chosen.data(), 2 * c.kept);
    std::memcpy(to + 2 * c.kept, sent.data(), 4 * c.kept);
    std::fill_n(y, n, 0.0f);
    for (std::size_t j = 0; j < c.kept; ++j) y[chosen[j]] = sent[j];
    inverse_dct_block(*c.rows, *c.columns, y, x, work);
    for (std::size_t i = 0; i < c.rows->size(); ++i)
      for (std::size_t j = 0; j < w; ++j) m[c.offset + i * columns_ + j] -= x[i * w + j];
  });
}

void DctChunks::check(Slice<const std::byte> message) const {
  require<DataError>(message.size() == message_bytes(), message.size(), " bytes where there must be ", message_bytes());
  for (const Chunk& c : chunks_)
    for (std::size_t j = 0; j < c.kept; ++j) {
      CoefficientPlace place;
      std::memcpy(&place, message.data() + 6 * c.before + 2 * j, sizeof place);
      require<DataError>(place < c.size(), "coefficient ", place, " of a chunk of ", c.size());
    }
}

void DctChunks::combine(const std::vector<const std::byte*>& messages, float* q) const {
  for_chunks([&](const Chunk& c, float* y) {
    const std::size_t n = c.size(), w = c.columns->size();
    float *const x = y + n, *const work = x + n;
    std::fill_n(y, n, 0.0f);
    for (const std::byte* const message : messages)
      for (std::size_t j = 0; j < c.kept; ++j) {
        const std::byte* const from = message + 6 * c.before;
        CoefficientPlace place;
        float value;
        std::memcpy(&place, from + 2 * j, sizeof place);
        std::memcpy(&value, from + 2 * c.kept + 4 * j, sizeof value);
        y[place] += value;
      }
    inverse_dct_block(*c.rows, *c.columns, y, x, work);
    for (std::size_t i = 0; i < c.rows->size(); ++i) std::copy_n(x + i * w, w, q + c.offset + i * columns_);
  });
}

}  // namespace laconic::compress
