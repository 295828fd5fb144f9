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

/// Runs the pass chunk after chunk, on kernel_threads() threads. The first of them puts what it finds where it stays.
ResidualStats run(const cpu::ResidualPass& pass, std::size_t n, std::uint32_t first, Candidates* candidates) {
  const std::size_t chunks = (n + cpu::kChunk - 1) / cpu::kChunk;
  if (candidates && !candidates->active()) candidates = nullptr;
  struct Part {  // by its first chunk
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
  const Trace::Span span("residual", "gather", static_cast<std::int64_t>(v.size_bytes()));
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
