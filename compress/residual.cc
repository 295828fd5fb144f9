#include "compress/residual.h"

#include <algorithm>
#include <memory>

#include "compress/cpu/residual.h"
#include "compress/cpu/scatter.h"
#include "compress/magnitude.h"
#include "core/dispatch.h"
#include "core/parallel.h"
#include "core/trace.h"

namespace laconic::compress {
namespace {

void require_same(const char* what, std::size_t size, Device device, const Slice<float>& residual) {
  require<ShapeError>(size == residual.size(), "residual: ", what, " has ", size, " elements, the residual ",
                      residual.size(), ".");
  require<ShapeError>(size == 0 || device == residual.device(), "residual: ", what, " is on ", device,
                      ", the residual on ", residual.device(), ".");
}

/// Runs the pass chunk after chunk, on kernel_threads() threads. Each gathers what it emits; put together in order.
ResidualStats run(const cpu::ResidualPass& pass, std::size_t n, std::uint32_t first, Candidates* candidates) {
  const std::size_t chunks = (n + cpu::kChunk - 1) / cpu::kChunk;
  const bool emits = candidates && candidates->active();
  struct Found {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
  };
  std::vector<ResidualStats> stats(chunks);
  std::vector<Found> found(emits ? chunks : 0);
  parallel_for(static_cast<std::int64_t>(chunks), 1, [&](std::int64_t begin, std::int64_t end) {
    cpu::Emission e;
    // A thread keeps its memory for what it finds in a chunk: mapping it anew would cost as much as small tensors do.
    thread_local std::unique_ptr<std::uint32_t[]> indices;
    thread_local std::unique_ptr<float[]> values;
    if (emits) {
      if (!indices) {
        indices = std::make_unique_for_overwrite<std::uint32_t[]>(cpu::kChunk + 16);
        values = std::make_unique_for_overwrite<float[]>(cpu::kChunk + 16);
      }
      e.sign = candidates->sign(), e.floor = key_from(candidates->floor(), e.sign);
      e.indices = indices.get(), e.values = values.get();
    }
    for (auto c = static_cast<std::size_t>(begin); c < static_cast<std::size_t>(end); ++c) {
      const std::size_t at = c * cpu::kChunk;
      const auto from = [&](auto* p) { return p ? p + at : nullptr; };
      cpu::ResidualPass part = pass;
      part.gradient = from(pass.gradient), part.weight = from(pass.weight), part.velocity = from(pass.velocity);
      part.residual = pass.residual + at;
      e.first = first + static_cast<std::uint32_t>(at), e.count = 0;
      stats[c] = cpu::residual_chunk(part, std::min(cpu::kChunk, n - at), e);
      if (!emits) continue;
      found[c].count = e.count;
      if (e.count > candidates->room()) continue;  // they could not be kept anyway
      found[c].indices.assign(e.indices, e.indices + e.count);
      found[c].values.assign(e.values, e.values + e.count);
    }
  });
  ResidualStats all;
  for (const ResidualStats& s : stats) all += s;
  for (std::size_t c = 0; c < found.size(); ++c) {
    const Found& f = found[c];
    const std::size_t at = c * cpu::kChunk;
    candidates->add(first + static_cast<std::uint32_t>(at), std::min(cpu::kChunk, n - at), f.count, f.indices.data(),
                    f.values.data(), f.indices.size());
  }
  return all;
}

/// Checks what the three ways of taking away share, then calls f(velocity or nullptr) where the memory lies.
template <class F>
void take_away(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices, bool mask, F&& f) {
  if (indices.empty()) return;
  require<ShapeError>(indices[indices.size() - 1] < residual.size(), "residual: index ", indices[indices.size() - 1],
                      " is outside of ", residual.size(), " elements.");
  const bool both = mask && !velocity.empty();
  if (both) require_same("the momentum", velocity.size(), velocity.device(), residual);
  on_device(residual.device(), [&] { f(both ? velocity.data() : nullptr); });
}

}  // namespace

ResidualStats& ResidualStats::operator+=(const ResidualStats& other) {
  elements += other.elements;
  sum_positive += other.sum_positive, sum_negative += other.sum_negative;
  max_positive = std::max(max_positive, other.max_positive);
  max_negative = std::max(max_negative, other.max_negative);
  nan = nan || other.nan;
  return *this;
}

ResidualStats accumulate_residual(const ResidualPart& part, const MomentumRule& rule, float gradient_factor,
                                  Candidates* candidates) {
  const Slice<float>&v = part.residual, &u = part.velocity;
  require_same("the gradient", part.gradient.size(), part.gradient.device(), v);
  if (!u.empty()) require_same("the momentum", u.size(), u.device(), v);
  require<ShapeError>(rule.momentum == 0 || !u.empty() || v.empty(), "residual: momentum ", rule.momentum,
                      " needs a velocity.");
  const bool decays = rule.weight_decay != 0;
  if (decays) require_same("the weight", part.weight.size(), part.weight.device(), v);
  if (v.empty()) return {};
  const Trace::Span span("residual", "select", static_cast<std::int64_t>(v.size_bytes()));
  return on_device(v.device(), [&] {
    return run({.gradient = part.gradient.data(),
                .weight = decays ? part.weight.data() : nullptr,
                .velocity = u.empty() ? nullptr : u.data(),
                .residual = v.data(),
                .factor = gradient_factor,
                .decay = rule.weight_decay,
                .momentum = rule.momentum,
                .nesterov = rule.nesterov},
               v.size(), part.first, candidates);
  });
}

ResidualStats residual_stats(Slice<const float> values) {
  if (values.empty()) return {};
  // Without a gradient the pass writes nothing.
  return on_device(values.device(),
                   [&] { return run({.residual = const_cast<float*>(values.data())}, values.size(), 0, nullptr); });
}

void clear_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices, bool mask) {
  take_away(velocity, residual, indices, mask,
            [&](float* u) { cpu::clear_at(u, residual.data(), indices.data(), indices.size()); });
}

void subtract_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices, float value,
                   bool mask) {
  take_away(velocity, residual, indices, mask,
            [&](float* u) { cpu::subtract_at(u, residual.data(), indices.data(), indices.size(), value); });
}

void subtract_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices,
                   Slice<const float> values, bool mask) {
  require<ShapeError>(values.size() == indices.size(), "residual: ", values.size(), " values for ", indices.size(),
                      " indices.");
  take_away(velocity, residual, indices, mask,
            [&](float* u) { cpu::subtract_at(u, residual.data(), indices.data(), indices.size(), values.data()); });
}

}  // namespace laconic::compress
