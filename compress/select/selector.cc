#include "compress/select/selector.h"

#include <algorithm>
#include <cmath>
#include <bit>

#include "compress/cpu/residual.h"
#include "compress/cuda/choosing.h"
#include "compress/select/filter.h"
#include "core/base/catalogue.h"
#include "core/dispatch.h"
#include "core/base/trace.h"

namespace laconic::compress {

/// The selectors of laconic, in the order of --help. NAME_selector() is in the selector's file; a new one adds a line.
#define LACONIC_SELECTORS(ROW) \
  ROW(radix)                   \
  ROW(trimmed)                 \
  ROW(search)                  \
  ROW(sampled)                 \
  ROW(exact)                   \
  ROW(fixed)                   \
  ROW(dropping)                \
  ROW(dgc)                     \
  ROW(adacomp)                 \
  ROW(random)
#define LACONIC_DECLARE_SELECTOR(name) SelectorKind name##_selector();
LACONIC_SELECTORS(LACONIC_DECLARE_SELECTOR)

namespace {

constexpr std::int64_t kStateVersion = 2;

/// k of n elements that are not there: as far from each other as can be, with values of 0.
void choose_evenly(std::size_t k, std::size_t n, Selection& out) {
  out.indices.resize(k), out.values.assign(k, 0.0f);
  for (std::size_t j = 0; j < k; ++j) out.indices[j] = static_cast<std::uint32_t>(j * n / k);
}

}  // namespace

std::vector<SelectorKind>& selectors() {
#define LACONIC_ROW(name) name##_selector(),
  static std::vector<SelectorKind> all{LACONIC_SELECTORS(LACONIC_ROW)};
#undef LACONIC_ROW
  return all;
}

const SelectorKind& selector_kind(std::string_view name, std::string_view where) {
  return row_named(selectors(), std::string(name), "selector", std::string(where));
}

std::unique_ptr<Selector> SelectorKind::make(const SelectorOptions& options) const {
  std::unique_ptr<Selector> made = make_bare(options);
  made->name_ = name, made->traits_ = traits;
  return made;
}

std::unique_ptr<Selector> make_selector(const std::string& name, const SelectorOptions& options) {
  return selector_kind(name).make(options);
}

Selector::~Selector() = default;

double Selector::bytes(std::size_t k, std::size_t n, double times) const {
  constexpr double kElement = sizeof(std::uint32_t) + sizeof(float), kGrown = 1.1;
  if (traits_.same_everywhere) return 3 * kElement * static_cast<double>(k);  // drawn, sorted, and with values
  const double chosen = kElement * static_cast<double>(traits_.by_k ? std::min(most(k, n), 2 * k) : k),
               kept = times * traits_.keeps * static_cast<double>(k);
  if (traits_.keeps == 0) return chosen;
  const auto chunk = static_cast<double>(std::min(n, cpu::kChunk));
  return chosen + 2 * kGrown * kElement * (kept + chunk) + sizeof(std::int32_t) * kept;
}

void Selector::prepare(Candidates& candidates, std::size_t, Sign) const { candidates.disable(); }

void Selector::keep_from(Candidates& candidates, float floor, Sign sign, std::size_t need) {
  if (floor < 0 || need == 0) return candidates.disable();
  candidates.begin(floor, sign, need < SIZE_MAX / 16 ? 8 * need + 4096 : SIZE_MAX);
}

void Selector::Offer::remember(float floor, const Selection& out) const {
  // While a residual gathers more than is sent, thresholds rise, in each step by at least half of the factor of the one
  // before; the floor goes along, or in the first steps far too many would reach it.
  const bool rises = memory.last > 0 && out.threshold > memory.last;
  memory.floor = rises ? floor * std::min(2.0f, 0.5f + 0.5f * (out.threshold / memory.last)) : floor;
  memory.last = out.threshold;
}

Steps Selector::choose_on_cuda(Offer offer, Selection&) {
  throw Error(concat("the selector ", name_, " has no kernel for ", offer.in.values.device(), ". Use cpu."));
}

void Selector::select(const SelectionInput& in, Selection& out) {
  const Trace::Span span("select", "select", static_cast<std::int64_t>(in.values.size_bytes()));
  select_in_steps(in, out).run(in.values.device());
}

Steps Selector::select_in_steps(const SelectionInput& in, Selection& out) {
  const std::size_t n = in.values.size(), k = in.k;
  require<ShapeError>(n >> 32 == 0, "selection: ", n, " elements are too many: an index has 32 bits.");
  require<ShapeError>(k <= n, "selection: ", k, " of ", n, " elements.");
  require<ShapeError>(traits_.by_sign || in.sign == Sign::any, "selection: ", name_, " does not choose by sign.");
  require<ShapeError>(!traits_.needs_latest || in.latest.size() == n, "selection: ", name_, " needs what was added to ",
                      n, " elements, not ", in.latest.size(), ".");
  out.clear();
  Memory& memory = memory_[static_cast<int>(in.sign)];
  Offer offer{.in = in, .stats = {}, .turn = memory.turn++, .memory = memory};
  if (n == 0 || (k == 0 && traits_.by_k)) return {};
  if (in.values.device() == kGhost) {
    require<Error>(traits_.by_k, "selection: how many elements ", name_,
                   " chooses depends on values; ghosts have none.");
    choose_evenly(k, n, out);
    return {};
  }
  return on_device(
      in.values.device(),
      [&] {
        if (in.stats) {
          offer.stats = *in.stats;
        } else if (in.sums) {
          offer.stats = in.sums->get();
        } else if (!meets_nan(in.sign)) {
          offer.stats = residual_stats(in.values);
          ++out.passes;
        }
        require<NotANumber>(!offer.stats.nan, kNaNSentence);
        choose(offer, out);
        return Steps();
      },
      [&] { return choose_on_cuda(offer, out); });
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
      [&] {
        const SelectionInput in{.values = values, .sign = sign};
        std::shared_ptr<cuda::SelectScratch> scratch;
        cuda::Choosing choosing(in, scratch, out, false);
        choosing.take_all({values.data(), indices.data(), values.size(), nullptr}, {.key = lowest_key(sign)})
            .run(values.device());
      });
}

void keep_signs(Slice<float> values, float magnitude) {
  on_device(
      values.device(),
      [&] {
        for (float& value : values) value = value > 0 ? magnitude : -magnitude;
      },
      [&] { cuda::keep_signs(values.data(), values.size(), magnitude); });
}

std::int64_t elements_to_send(std::int64_t n, double density) {
  const double k = std::ceil(density * static_cast<double>(n) * (1 - 1e-12));  // 0.07 * 100 is a little more than 7
  return std::min(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(k)));
}

}  // namespace laconic::compress
