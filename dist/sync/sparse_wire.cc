#include "dist/sync/sparse_wire.h"

#include <cstring>

namespace laconic::dist {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t);

compress::SparseView& view_at(std::vector<compress::SparseView>& views, std::size_t i) {
  if (views.size() <= i) views.resize(i + 1);
  return views[i];
}

}  // namespace

std::size_t SparseWire::max_bytes(std::size_t count, std::size_t n) const {
  const std::size_t one = (max_sparse_bytes(format, count, n) + 3) / 4 * 4;
  return both_signs ? kHeader + one + (max_sparse_bytes(format, 0, n) + 3) / 4 * 4 + one : one;
}

void SparseWire::encode(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
                        compress::Bytes& payload) const {
  if (!both_signs) return encode_sparse(format, indices, values, n, payload);
  const std::size_t at = payload.size();
  payload.append(kHeader);
  for (const bool positive : {true, false}) {
    std::vector<std::uint32_t> some;
    float value = 0;
    for (std::size_t j = 0; j < indices.size(); ++j)
      if ((values[j] > 0) == positive) some.push_back(indices[j]), value = values[j];
    encode_sparse(format, slice(std::as_const(some)), {&value, 1}, n, payload);
    if (!positive) continue;
    const auto bytes = static_cast<std::uint32_t>(payload.size() - at - kHeader);
    std::memcpy(payload.data() + at, &bytes, kHeader);
  }
}

std::size_t SparseWire::read(Slice<const std::byte> payload, std::size_t n, std::vector<compress::SparseView>& views,
                             std::size_t next) const {
  if (!both_signs) {
    view_at(views, next).read(format, payload, n);
    return next + 1;
  }
  require<DataError>(payload.size() >= kHeader, "two sparse messages: ", payload.size(), " bytes are too few.");
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, payload.data(), kHeader);
  const Slice<const std::byte> both = payload.sub(kHeader, payload.size() - kHeader);
  require<DataError>(bytes <= both.size(), "two sparse messages: the first is said to have ", bytes, " bytes where ",
                     both.size(), " follow.");
  view_at(views, next).read(format, both.first(bytes), n);
  view_at(views, next + 1).read(format, both.sub(bytes, both.size() - bytes), n);
  return next + 2;
}

}  // namespace laconic::dist
