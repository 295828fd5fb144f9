#include "dist/method/redsync/sparse_wire.h"

#include <algorithm>
#include <utility>

#include "compress/selector.h"
#include "core/stream.h"

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
    compress::Selection some;
    elements_of_sign(indices, values, positive ? compress::Sign::positive : compress::Sign::negative, some);
    const Slice<const float> all = std::as_const(some).all_values();
    encode_sparse(format, some.all_indices(), all.first(std::min<std::size_t>(1, all.size())), n, payload);
    if (!positive) continue;
    const auto bytes = static_cast<std::uint32_t>(payload.size() - at - kHeader);
    copy_bytes(payload.data() + at, payload.device(), &bytes, kCpu, kHeader);
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
  copy_bytes(&bytes, kCpu, payload.data(), payload.device(), kHeader);
  const Slice<const std::byte> both = payload.sub(kHeader, payload.size() - kHeader);
  require<DataError>(bytes <= both.size(), "two sparse messages: the first is said to have ", bytes, " bytes where ",
                     both.size(), " follow.");
  view_at(views, next).read(format, both.first(bytes), n);
  view_at(views, next + 1).read(format, both.sub(bytes, both.size() - bytes), n);
  return next + 2;
}

}  // namespace laconic::dist
