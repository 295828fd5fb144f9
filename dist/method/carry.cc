#include "dist/method/carry.h"

#include <algorithm>
#include <utility>

#include "compress/select/selector.h"
#include "core/base/trace.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/cuda/nccl.h"
#include "dist/cuda/nccl_collectives.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

constexpr std::size_t kFirstLength = sizeof(std::uint32_t);  // ahead of two messages

}  // namespace

std::size_t SparseWire::max_bytes(std::size_t count, std::size_t n) const {
  const std::size_t one = (max_sparse_bytes(format, count, n) + 3) / 4 * 4;
  return both_signs ? kFirstLength + one + (max_sparse_bytes(format, 0, n) + 3) / 4 * 4 + one : one;
}

void SparseWire::encode(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
                        compress::Bytes& payload) const {
  if (!both_signs) return encode_sparse(format, indices, values, n, payload);
  const std::size_t at = payload.size();
  payload.append(kFirstLength);
  for (const bool positive : {true, false}) {
    compress::Selection some;
    elements_of_sign(indices, values, positive ? compress::Sign::positive : compress::Sign::negative, some);
    const Slice<const float> all = std::as_const(some).all_values();
    encode_sparse(format, some.all_indices(), all.first(std::min<std::size_t>(1, all.size())), n, payload);
    if (!positive) continue;
    const auto bytes = static_cast<std::uint32_t>(payload.size() - at - kFirstLength);
    copy_bytes(payload.data() + at, payload.device(), &bytes, kCpu, kFirstLength);
  }
}

std::size_t SparseWire::read(Slice<const std::byte> payload, std::size_t n, std::vector<compress::SparseView>& views,
                             std::size_t next) const {
  const auto read_one = [&](Slice<const std::byte> message) {
    if (views.size() <= next) views.resize(next + 1);
    views[next++].read(format, message, n);
  };
  if (!both_signs) {
    read_one(payload);
    return next;
  }
  require<DataError>(payload.size() >= kFirstLength, "two sparse messages: ", payload.size(), " bytes are too few.");
  std::uint32_t bytes = 0;
  copy_bytes(&bytes, kCpu, payload.data(), payload.device(), kFirstLength);
  const Slice<const std::byte> both = payload.sub(kFirstLength, payload.size() - kFirstLength);
  require<DataError>(bytes <= both.size(), "two sparse messages: the first is said to have ", bytes, " bytes where ",
                     both.size(), " follow.");
  read_one(both.first(bytes));
  read_one(both.sub(bytes, both.size() - bytes));
  return next;
}

Carry::Carry(Form form)
    : form_(std::move(form)), packet_(by_nccl() ? form_.device : kCpu), gathered_(by_nccl() ? form_.device : kCpu) {}

Steps Carry::pack(Chosen chosen) {
  chosen_ = chosen;
  packet_.clear();
  if (form_.same_places) co_return;
  Slice<const std::uint32_t> indices = chosen_.indices;
  Slice<const float> values = chosen_.values;
  if (indices.device().kind == Device::Kind::cuda && !by_nccl()) {
    const std::size_t first = indices.size_bytes();
    if (brought_.size() < first + values.size_bytes())
      brought_ = Pinned(first + values.size_bytes(), indices.device());
    std::byte* const there = brought_.data();
    copy_bytes_later(there, kCpu, indices.data(), indices.device(), first);
    copy_bytes_later(there + first, kCpu, values.data(), values.device(), values.size_bytes());
    co_await DeviceComes{form_.device};
    indices = {reinterpret_cast<const std::uint32_t*>(there), indices.size()};
    values = {reinterpret_cast<const float*>(there + first), values.size()};
  }
  const Trace::Span span(form_.parameter, "pack");
  form_.wire.encode(indices, values, form_.elements, packet_);
}

double Carry::sent_bytes() const {
  const double N = form_.workers, header = by_nccl() ? kNcclPartHeader : kPartHeader;
  return form_.same_places ? 2 * (N - 1) / N * 4 * static_cast<double>(chosen_.indices.size())
                           : (N - 1) * (static_cast<double>(packet_.size()) + header);
}

Task<> Carry::run(Communicator& comm) {
  const std::size_t most = form_.wire.max_bytes(chosen_.most, form_.elements);
  if (form_.same_places && by_nccl())
    form_.nccl->allreduce(chosen_.shared);
  else if (form_.same_places)
    co_await ring_allreduce(comm, chosen_.shared);
  else if (by_nccl())
    nccl_allgather(*form_.nccl, packet_.slice(), most, gathered_);
  else
    co_await allgatherv(comm, packet_.slice(), most, gathered_);
}

void Carry::add_to(Slice<float> dense, float factor) {
  if (form_.same_places) {
    GhostWork::tell(dense.device(), Work::scattering, chosen_.count);
    compress::scatter_add(chosen_.indices, chosen_.values, factor, dense);
    return;
  }
  std::size_t views = 0;
  for (int r = 0; r < gathered_.size(); ++r)
    views = reading([&] { return form_.wire.read(gathered_[r], form_.elements, views_, views); }, form_.method,
                    ": what rank ", r, " sent of ", form_.parameter);
  views_.resize(views);
  for (const compress::SparseView& view : views_) GhostWork::tell(dense.device(), Work::scattering, view.size());
  compress::scatter_add(views_, factor, dense);
}

double Carry::most_bytes(std::size_t most) const {
  if (form_.same_places) return 0;
  const auto own = static_cast<double>(form_.wire.max_bytes(most, form_.elements));
  return 1.5 * own + form_.workers * (kPartHeader + own);
}

}  // namespace laconic::dist
