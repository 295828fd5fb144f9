#include "compress/selector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "compress/cuda/select.h"
#include "compress/magnitude.h"
#include "compress/random_subset.h"
#include "compress/select_fast.h"
#include "compress/select_steps.h"
#include "core/dispatch.h"
#include "core/random.h"
#include "core/trace.h"

namespace laconic::compress {
namespace {

struct Name {
  SelectorKind method;
  const char* name;
};
constexpr Name kNames[] = {
    {SelectorKind::exact, "exact"},
    {SelectorKind::radix, "radix"},
    {SelectorKind::radix_histogram, "radix-histogram"},
    {SelectorKind::nth_element, "nth-element"},
    {SelectorKind::trimmed, "trimmed"},
    {SelectorKind::trimmed_steps, "trimmed-steps"},
    {SelectorKind::search, "search"},
    {SelectorKind::search_steps, "search-steps"},
    {SelectorKind::sampled, "sampled"},
    {SelectorKind::fixed, "fixed"},
    {SelectorKind::dropping, "dropping"},
    {SelectorKind::dgc, "dgc"},
    {SelectorKind::adacomp, "adacomp"},
    {SelectorKind::random, "random"},
};

/// Of about `share` of the values, spread evenly and shifted by `turn`, the magnitude that the share k/n of them has.
std::int32_t sampled_key(Slice<const float> values, std::size_t k, Sign sign, double share, std::uint64_t turn) {
  const auto [size, rank] = sample_of(values.size(), k, share);
  const std::size_t n = values.size(), stride = n / size;
  std::vector<std::int32_t> keys(size);
  for (std::size_t j = 0; j < size; ++j) {
    const std::size_t first = static_cast<std::size_t>(static_cast<unsigned __int128>(j) * n / size);
    const auto bits = philox({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(turn)}, {})[0];
    keys[j] = key_of(values[first + bits % stride], sign);
  }
  const auto at = keys.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(keys.begin(), at, keys.end(), std::greater<>());
  return std::max(*at, 1);  // zeros are not worth sending
}

/// source: Chen et al. 2018, AdaComp, Algorithm 2: H = G + dW with G the residue including dW; sent where |H| reaches
/// the largest |G| of the bin.
void adacomp(Slice<const float> values, Slice<const float> latest, std::size_t bin, Selection& out) {
  ++out.passes;
  for (std::size_t first = 0; first < values.size(); first += bin) {
    const std::size_t end = std::min(values.size(), first + bin);
    std::int32_t largest = 1;  // a bin of zeros sends nothing
    for (std::size_t i = first; i < end; ++i) largest = std::max(largest, key_of(values[i], Sign::any));
    for (std::size_t i = first; i < end; ++i) {
      if (key_of(values[i] + latest[i], Sign::any) < largest) continue;
      out.indices.push_back(static_cast<std::uint32_t>(i));
      out.values.push_back(values[i]);
    }
  }
}

}  // namespace

void elements_of_sign(Slice<const std::uint32_t> indices, Slice<const float> values, Sign sign, Selection& out) {
  out.clear();
  if (values.empty()) return;
  on_device(
      values.device(),
      [&] {
        for (std::size_t j = 0; j < indices.size(); ++j) {
          if (!(sign == Sign::positive ? values[j] > 0 : values[j] < 0)) continue;
          out.indices.push_back(indices[j]), out.values.push_back(values[j]);
        }
      },
      [&] { cuda::elements_of_sign(indices, values, sign, out); });
}

void keep_signs(Slice<float> values, float magnitude) {
  on_device(
      values.device(),
      [&] {
        for (float& value : values) value = value > 0 ? magnitude : -magnitude;
      },
      [&] { cuda::keep_signs(values.data(), values.size(), magnitude); });
}

Sample sample_of(std::size_t n, std::size_t k, double share) {
  const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(n)));
  const std::size_t size = std::min(n, std::max<std::size_t>(wanted, 1024));
  const auto rank =
      static_cast<std::size_t>(std::ceil(static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(n)));
  return {size, std::max<std::size_t>(rank, 1)};
}

const char* to_string(SelectorKind method) {
  for (const Name& n : kNames)
    if (n.method == method) return n.name;
  return "";
}

SelectorKind selector_kind(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Name& n : kNames) {
    if (name == n.name) return n.method;
    names.push_back(n.name);
  }
  const std::string close = nearest(name, names);
  std::string all;
  for (const auto& n : names) all += (all.empty() ? "" : ", ") + n;
  throw UsageError(concat("unknown selector '", name, "' (", where,
                          "): ", close.empty() ? "there are " + all : "did you mean " + close + "?"));
}

const std::vector<SelectorKind>& selector_kinds() {
  static const std::vector<SelectorKind> methods = [] {
    std::vector<SelectorKind> m;
    for (const Name& n : kNames) m.push_back(n.method);
    return m;
  }();
  return methods;
}

std::size_t Selector::most(std::size_t k, std::size_t n) const {
  switch (options_.method) {
    case SelectorKind::search:
    case SelectorKind::search_steps:
    case SelectorKind::sampled:
      return std::min(2 * k, n);
    case SelectorKind::fixed:
    case SelectorKind::dropping:
    case SelectorKind::adacomp:
      return n;
    default:
      return std::min(k, n);
  }
}

Selector::Selector(const SelectorOptions& options) : options_(options), scratch_(std::make_unique<fast::Scratch>()) {}
Selector::~Selector() = default;
Selector::Selector(Selector&&) noexcept = default;
Selector& Selector::operator=(Selector&&) noexcept = default;

bool Selector::searches(std::uint64_t turn) const {
  return method() == SelectorKind::search || (method() == SelectorKind::sampled && turn % options_.interval == 0);
}

std::size_t Selector::needed(std::size_t k, std::uint64_t turn) const { return searches(turn) ? 2 * k + 1 : k; }

std::size_t Selector::target_for(std::size_t need, std::size_t k) {
  // Somewhat more elements than are needed, so that the next step still finds enough above the floor.
  return need + k / 2 + static_cast<std::size_t>(3 * std::sqrt(static_cast<double>(need))) + 16;
}

void Selector::remember(Memory& memory, float floor, const Selection& out) {
  // While a residual gathers more than is sent, thresholds rise, in each step by at least half of the factor of the one
  // before; the floor goes along, or in the first steps far too many would reach it.
  const bool rises = memory.last > 0 && out.threshold > memory.last;
  memory.floor = rises ? floor * std::min(2.0f, 0.5f + 0.5f * (out.threshold / memory.last)) : floor;
  memory.last = out.threshold;
}

void Selector::prepare(Candidates& candidates, std::size_t k, Sign sign) const {
  const Memory& memory = memory_[static_cast<int>(sign)];
  float floor = -1;
  if (method() == SelectorKind::fixed)
    floor = options_.threshold;
  else if (method() == SelectorKind::sampled && !searches(memory.turn))
    floor = memory.threshold;
  else if (method() == SelectorKind::exact || method() == SelectorKind::trimmed || searches(memory.turn))
    floor = memory.floor;
  if (floor < 0 || (k == 0 && method() != SelectorKind::fixed)) return candidates.disable();
  const std::size_t most = method() == SelectorKind::fixed ? SIZE_MAX : 8 * needed(k, memory.turn) + 4096;
  candidates.begin(floor, sign, most);
}

void Selector::select(const SelectionInput& in, Selection& out) {
  const std::size_t n = in.values.size(), k = in.k;
  require<ShapeError>(n >> 32 == 0, "selection: ", n, " elements are too many: an index has 32 bits.");
  require<ShapeError>(k <= n, "selection: ", k, " of ", n, " elements.");
  const bool any_only = method() == SelectorKind::adacomp || method() == SelectorKind::random;
  require<ShapeError>(!any_only || in.sign == Sign::any, "selection: ", to_string(method()),
                      " does not choose by sign.");
  require<ShapeError>(method() != SelectorKind::adacomp || in.latest.size() == n,
                      "selection: adacomp needs what was added to ", n, " elements, not ", in.latest.size(), ".");
  out.clear();
  Memory& memory = memory_[static_cast<int>(in.sign)];
  const std::uint64_t turn = memory.turn++;
  const bool takes_k = method() != SelectorKind::fixed && method() != SelectorKind::adacomp;
  if (n == 0 || (k == 0 && takes_k)) return;
  const Trace::Span span("select", "select", static_cast<std::int64_t>(in.values.size_bytes()));
  on_device(
      in.values.device(), [&] { select_on_host(in, turn, memory, out); },
      [&] { select_on_cuda(in, turn, memory, out); });
}

void Selector::select_on_host(const SelectionInput& in, std::uint64_t turn, Memory& memory, Selection& out) {
  const std::size_t n = in.values.size(), k = in.k;
  const bool exact = in.sign == Sign::any && (method() == SelectorKind::exact || method() == SelectorKind::trimmed);
  ResidualStats stats;
  if (in.stats) {
    stats = *in.stats;
  } else if (in.sums) {
    stats = in.sums->get();
  } else if (!exact) {  // the largest of all is among the top k, and so would be a NaN
    stats = residual_stats(in.values);
    ++out.passes;
  }
  require<NotANumber>(!stats.nan, fast::kNaNSentence);
  const fast::Request request{.values = in.values,
                              .sign = in.sign,
                              .need = std::min(n, needed(k, turn)),
                              .candidates = in.candidates,
                              .floor = memory.floor};
  const std::size_t target = target_for(request.need, k);
  const auto remember = [&](float floor) { Selector::remember(memory, floor, out); };
  const auto all_above = [&](float threshold, std::size_t most) {
    const std::int32_t key = key_above(threshold, in.sign);
    if (!fast::from_candidates(in.candidates, n, in.sign, key, most, out))
      fast::collect(in.values, in.sign, key, most, *scratch_, out);
    out.threshold = threshold;
  };
  switch (method()) {
    case SelectorKind::exact:
    case SelectorKind::trimmed:
      return remember(fast::top(request, k, target, *scratch_, out));
    case SelectorKind::nth_element:
      return steps::nth_element(in.values, k, in.sign, out);
    case SelectorKind::radix:
      return steps::radix(in.values, k, in.sign, out);
    case SelectorKind::radix_histogram:
      return steps::radix_histogram(in.values, k, in.sign, out);
    case SelectorKind::trimmed_steps:
      return steps::trimmed(in.values, k, in.sign, stats, out);
    case SelectorKind::search_steps:
      return steps::search(in.values, k, in.sign, stats, out);
    case SelectorKind::search:
    case SelectorKind::sampled:
      if (!searches(turn)) return all_above(memory.threshold, 2 * k);
      remember(fast::search(request, k, target, stats, *scratch_, out));
      memory.threshold = out.threshold;
      return;
    case SelectorKind::fixed:
      return all_above(options_.threshold, n);
    case SelectorKind::dropping:
    case SelectorKind::dgc: {
      const std::int32_t key = sampled_key(in.values, k, in.sign, options_.sample, turn);
      fast::collect(in.values, in.sign, key, n, *scratch_, out);
      out.threshold = magnitude_of(key);
      if (method() == SelectorKind::dgc) fast::keep_top(k, in.sign, key, *scratch_, out);
      return;
    }
    case SelectorKind::adacomp:
      return adacomp(in.values, in.latest, options_.bin, out);
    case SelectorKind::random:
      random_subset(n, k, {}, Random(in.key.seed, Purpose::selection, in.key.step, in.key.operation), out.indices);
      for (const std::uint32_t i : out.indices) out.values.push_back(in.values[i]);
      return;
  }
}

namespace {
constexpr std::int64_t kStateVersion = 2;
}

void Selector::save(StateDict& state) const {
  std::vector<std::int64_t> words{kStateVersion};
  for (const Memory& m : memory_) {
    words.push_back(std::bit_cast<std::int32_t>(m.floor));
    words.push_back(std::bit_cast<std::int32_t>(m.threshold));
    words.push_back(std::bit_cast<std::int32_t>(m.last));
    words.push_back(static_cast<std::int64_t>(m.turn));
  }
  const auto size = static_cast<std::int64_t>(words.size());
  state.set("selector", Tensor::of({size}, std::span<const std::int64_t>(words)));
}

void Selector::load(const StateDict& state) {
  const Tensor& saved = state.at("selector");
  require<DataError>(
      saved.dtype() == DType::i64 && saved.elements() == 13 && saved.data<std::int64_t>()[0] == kStateVersion,
      "selector: its saved state ", saved.shape(), " ", saved.dtype(),
      " is not one of this version. Resume with the version that saved it.");
  const std::int64_t* word = saved.data<std::int64_t>() + 1;
  for (Memory& m : memory_) {
    m.floor = std::bit_cast<float>(static_cast<std::int32_t>(*word++));
    m.threshold = std::bit_cast<float>(static_cast<std::int32_t>(*word++));
    m.last = std::bit_cast<float>(static_cast<std::int32_t>(*word++));
    m.turn = static_cast<std::uint64_t>(*word++);
  }
}

}  // namespace laconic::compress
