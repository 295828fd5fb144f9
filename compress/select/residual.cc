#include "compress/select/residual.h"

#include <algorithm>
#include <memory>

#include "compress/cpu/residual.h"
#include "compress/cpu/scatter.h"
#include "compress/cuda/residual.h"
#include "compress/cuda/scatter.h"
#include "compress/select/selection.h"
#include "compress/mirrored.h"
#include "compress/ordered_sum.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"
#include "core/base/parallel.h"
#include "core/stream.h"
#include "core/base/trace.h"

namespace laconic::compress {
namespace {

void require_same(const char* what, std::size_t size, Device device, const Slice<float>& residual) {
  require<ShapeError>(size == residual.size(), "residual: ", what, " has ", size, " elements, the residual ",
                      residual.size(), ".");
  require<ShapeError>(size == 0 || device == residual.device(), "residual: ", what, " is on ", device,
                      ", the residual on ", residual.device(), ".");
}

LACONIC_MULTIVERSION void keep_left_loop(float* left, const float* x, const float* sent, std::size_t n) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    const float rest = x[i] - sent[i];
    left[i] = rest - rest == 0.0f ? rest : 0.0f;
  }
}

/// Runs the pass chunk after chunk, on kernel_threads() threads. The first of them puts what it finds where it stays.
ResidualStats run(const cpu::ResidualPass& pass, std::size_t n, std::uint32_t first, Candidates* candidates) {
  const std::size_t chunks = (n + cpu::kChunk - 1) / cpu::kChunk;
  if (candidates && !candidates->active()) candidates = nullptr;
  struct Part {  // what a thread finds, by its first chunk
    std::uint64_t elements = 0, count = 0;
    std::size_t kept = 0;
  };
  std::vector<Part> parts(candidates ? chunks : 0);
  if (candidates && candidates->scratch().size() < chunks) candidates->scratch().resize(chunks);
  std::vector<ResidualStats> stats(chunks);
  parallel_for(static_cast<std::int64_t>(chunks), 1, [&](std::int64_t begin, std::int64_t end) {
    const auto b = static_cast<std::size_t>(begin);
    Elements* const found = !candidates ? nullptr : b == 0 ? &candidates->found() : &candidates->scratch()[b];
    const std::size_t before = found && b == 0 ? found->size() : 0;
    if (found) found->resize(before);
    for (auto c = b; c < static_cast<std::size_t>(end); ++c) {
      const std::size_t at = c * cpu::kChunk, length = std::min(cpu::kChunk, n - at);
      const auto from = [&](auto* p) { return p ? p + at : nullptr; };
      cpu::ResidualPass part = pass;
      part.gradient = from(pass.gradient), part.weight = from(pass.weight), part.velocity = from(pass.velocity);
      part.residual = pass.residual + at;
      cpu::Emission e;
      if (found) {
        found->reserve(found->size() + length + 16);
        e = {.sign = candidates->sign(),
             .floor = key_from(candidates->floor(), candidates->sign()),
             .first = first + static_cast<std::uint32_t>(at),
             .indices = found->indices() + found->size(),
             .values = found->values() + found->size()};
      }
      stats[c] = cpu::residual_chunk(part, length, e);
      if (!found) continue;
      parts[b].elements += length, parts[b].count += e.count;
      if (found->size() + e.count <= candidates->most()) found->resize(found->size() + e.count);
    }
    if (found) parts[b].kept = found->size() - before;
  });
  ResidualStats all;
  for (const ResidualStats& s : stats) all += s;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b].elements == 0) continue;
    if (b > 0) candidates->found().append(candidates->scratch()[b]);
    candidates->note(first + static_cast<std::uint32_t>(b * cpu::kChunk), parts[b].elements, parts[b].count,
                     parts[b].kept);
  }
  return all;
}

/// Where the pass over a part on a CUDA device, from its element `first`, leaves what it finds by tiles.
cuda::TileCandidates tiles_of(Candidates* candidates, Device device, std::size_t n, std::uint32_t first) {
  cuda::TileCandidates found;
  // Where their number has no limit the selector looks at all values anyway.
  if (!candidates || !candidates->active() || candidates->most() == SIZE_MAX) return found;
  Candidates::Tiles& t = candidates->tiles();
  const std::size_t tiles = (n + cuda::kTile - 1) / cuda::kTile, before = t.tiles;
  t.tiles += tiles;
  const auto room = [&]<class T>(Bytes& bytes, std::size_t each, T*& to) {
    if (bytes.device() != device) bytes = Bytes(device);
    bytes.resize(before * each * sizeof(T));
    to = reinterpret_cast<T*>(bytes.append(tiles * each * sizeof(T)).data());
  };
  room(t.counts, 1, found.counts), room(t.slots, cuda::kSlots, found.slots);
  t.parts.push_back({first, n, before});
  candidates->note_tiles(n);
  found.sign = candidates->sign();
  found.floor = key_from(candidates->floor(), candidates->sign());
  found.first = first;
  return found;
}

void run_anywhere(const cpu::ResidualPass& pass, Device device, std::size_t n, std::uint32_t first,
                  Candidates* candidates, StatsSum& stats) {
  on_device(
      device, [&] { stats.add(run(pass, n, first, candidates)); },
      [&] { cuda::accumulate(pass, n, tiles_of(candidates, device, n, first), stats.add_on_device(device)); });
}

/// Checks what the three ways of taking away share, then calls one of the two, where the memory lies:
/// on_host(velocity or nullptr, indices), on_cuda(the same).
template <class Host, class Cuda>
void take_away(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices, bool mask,
               Host&& on_host, Cuda&& on_cuda) {
  if (indices.empty()) return;
  if (indices.device().kind != Device::Kind::cuda)
    require<ShapeError>(indices[indices.size() - 1] < residual.size(), "residual: index ", indices[indices.size() - 1],
                        " is outside of ", residual.size(), " elements.");
  const bool both = mask && !velocity.empty();
  if (both) require_same("the momentum", velocity.size(), velocity.device(), residual);
  float* const u = both ? velocity.data() : nullptr;
  on_device(
      residual.device(), [&] { on_host(u, indices.data()); },
      [&] {
        const Mirrored<std::uint32_t> there(indices, residual.device());
        on_cuda(u, there.data());
      });
}

}  // namespace

void Candidates::disable() {
  begin(0, Sign::any, 0);
  active_ = false;
}

void Candidates::begin(float floor, Sign sign, std::size_t most) {
  active_ = true, sign_ = sign, floor_ = floor, most_ = most;
  elements_ = count_ = 0;
  found_.resize(0);
  runs_.clear();
  tiles_.tiles = 0;
  tiles_.parts.clear();
}

void Candidates::note(std::uint32_t first, std::uint64_t elements, std::uint64_t count, std::size_t kept) {
  elements_ += elements, count_ += count;
  if (kept > 0) runs_.push_back({first, found_.size() - kept, found_.size()});
}

Slice<const std::uint32_t> Candidates::indices() {
  order();
  return {found_.indices(), found_.size()};
}

Slice<const float> Candidates::values() {
  order();
  return {found_.values(), found_.size()};
}

void Candidates::order() {
  const auto before = [](const Run& a, const Run& b) { return a.first < b.first; };
  if (std::is_sorted(runs_.begin(), runs_.end(), before)) return;
  std::sort(runs_.begin(), runs_.end(), before);
  Elements ordered;
  ordered.reserve(found_.size());
  for (Run& r : runs_) {
    const std::size_t count = r.end - r.begin;
    ordered.append(found_.indices() + r.begin, found_.values() + r.begin, count);
    r.begin = ordered.size() - count, r.end = ordered.size();
  }
  std::swap(found_, ordered);
}

void StatsSum::clear() {
  host_ = {};
  pending_ = false;
}

ResidualStats* StatsSum::add_on_device(Device device) {
  if (!there_ || there_->device() != device) there_ = std::make_unique<Storage>(sizeof(ResidualStats), device);
  if (!pending_) zero_bytes(there_->data(), device, sizeof(ResidualStats));
  pending_ = true;
  return there();
}

const ResidualStats& StatsSum::get() {
  if (!pending_) return host_;
  ResidualStats found;
  copy_bytes(&found, kCpu, there(), there_->device(), sizeof found);
  pending_ = false;
  return host_ += found;
}

void accumulate_residual(const ResidualPart& part, const MomentumRule& rule, float gradient_factor,
                         Candidates* candidates, StatsSum& stats) {
  const Slice<float>&v = part.residual, &u = part.velocity;
  require_same("the gradient", part.gradient.size(), part.gradient.device(), v);
  if (!u.empty()) require_same("the momentum", u.size(), u.device(), v);
  require<ShapeError>(rule.momentum == 0 || !u.empty() || v.empty(), "residual: momentum ", rule.momentum,
                      " needs a velocity.");
  const bool decays = rule.weight_decay != 0;
  if (decays) require_same("the weight", part.weight.size(), part.weight.device(), v);
  if (v.empty()) return;
  const Trace::Span span("residual", "gather", static_cast<std::int64_t>(v.size_bytes()));
  run_anywhere({.gradient = part.gradient.data(),
                .weight = decays ? part.weight.data() : nullptr,
                .velocity = u.empty() ? nullptr : u.data(),
                .residual = v.data(),
                .factor = gradient_factor,
                .decay = rule.weight_decay,
                .momentum = rule.momentum,
                .nesterov = rule.nesterov},
               v.device(), v.size(), part.first, candidates, stats);
}

ResidualStats accumulate_residual(const ResidualPart& part, const MomentumRule& rule, float gradient_factor,
                                  Candidates* candidates) {
  StatsSum stats;
  accumulate_residual(part, rule, gradient_factor, candidates, stats);
  return stats.get();
}

ResidualStats residual_stats(Slice<const float> values) {
  if (values.empty()) return {};
  // Without a gradient the pass writes nothing.
  StatsSum stats;
  run_anywhere({.residual = const_cast<float*>(values.data())}, values.device(), values.size(), 0, nullptr, stats);
  return stats.get();
}

void clear_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices, bool mask) {
  const std::size_t count = indices.size(), n = residual.size();
  float* const v = residual.data();
  take_away(
      velocity, residual, indices, mask, [&](float* u, const std::uint32_t* at) { cpu::clear_at(u, v, at, count); },
      [&](float* u, const std::uint32_t* at) { cuda::clear_at(u, v, at, count, n); });
}

void subtract_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices,
                   Slice<const float> values, bool mask) {
  const std::size_t count = indices.size(), n = residual.size();
  require<ShapeError>(values.size() == count || (values.size() == 1 && count > 0), "residual: ", values.size(),
                      " values for ", count, " indices.");
  const bool one = values.size() == 1;
  float* const v = residual.data();
  take_away(
      velocity, residual, indices, mask,
      [&](float* u, const std::uint32_t* at) { cpu::subtract_at(u, v, at, count, values.data(), one); },
      [&](float* u, const std::uint32_t* at) {
        const Mirrored<float> there(values, residual.device());
        cuda::subtract_at(u, v, at, count, n, there.data(), one);
      });
}

void keep_left(Slice<float> left, Slice<const float> x, Slice<const float> sent) {
  const std::size_t n = left.size();
  require<ShapeError>(x.size() == n && sent.size() == n, "keep_left: ", n, ", ", x.size(), " and ", sent.size(),
                      " elements.");
  on_device(
      left.device(), [&] { keep_left_loop(left.data(), x.data(), sent.data(), n); },
      [&] { cuda::keep_left(left.data(), x.data(), sent.data(), n); });
}

void mean_of(Slice<const float> values, Slice<float> mean) {
  const std::size_t n = values.size();
  on_device(
      values.device(),
      [&] {
        const double sum = ordered_sums<1>(n, [&](std::size_t i, std::size_t lane, auto& sums) {
          sums[0][lane] += static_cast<double>(values[i]);
        })[0];
        mean[0] = n > 0 ? static_cast<float>(sum / static_cast<double>(n)) : 0.0f;
      },
      [&] { cuda::mean_of(values.data(), n, mean.data()); });
}

}  // namespace laconic::compress
