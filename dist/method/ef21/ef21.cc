#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compress/select/selector.h"
#include "compress/sparse_message.h"
#include "core/base/parse.h"
#include "dist/method/exchange.h"

namespace laconic::dist {
namespace {

constexpr compress::SparseFormat kEf21Format{.coding = compress::IndexCoding::rice};

/// What can be set of it.
struct Ef21Rules {
  double density = 1e-3;           // share of a parameter's elements that is sent: k = max(1, ceil(density n)) of n
  std::string selector = "exact";  // the compressor C
  double eta = 0.1;                // weight of the newest gradient in v, (0, 1]; 1: EF21 without momentum
};

/// Error feedback of 2021 with momentum. Each worker keeps an estimate h of its own momentum v, and sends how it
/// changes: the largest elements of v - h. All workers add up what all send, and so hold the mean of all h:
///
///     v = (1 - eta) v + eta gradient          each worker's own
///     c = the k largest of v - h,   h += c    of each parameter
///     g += mean over workers of c             allgatherv, added in rank order; g is equal on all workers
///     x by the ordinary update, with g for its gradient
///
/// The first step is dense: v = h = gradient, and g is their mean, by a ring. Afterwards g is the mean of h but for
/// roundings, and h comes nearer to v wherever v rests: unlike a residual, v - h is an error and no sum of gradients.
///
///     message   sparse message, its indices Rice-coded
///
///   cost    (N-1) D n (4 + 12/8) bytes, or about that, sent by each of N ranks; selecting from n elements
///   source  EF21-SGDM (Fatkhullin, Tyurin, Richtarik 2023), Algorithm 1, whose g_i is h here; EF21 (Richtarik, Sokolov
///           and Fatkhullin 2021). Settled: B_init is the batch of the first step, and C looks at each parameter by
///           itself
///   throws  Error naming the parameter if there is a NaN
class Ef21Part final : public Part {
 public:
  Ef21Part(PartPlace place, const Ef21Rules& rules)
      : Part(std::move(place)),
        eta_(static_cast<float>(rules.eta)),
        kept_(static_cast<float>(1 - rules.eta)),
        k_(static_cast<std::size_t>(elements_to_send(this->place().elements, rules.density))),
        most_(std::min(size(), 2 * k_)),
        selector_(compress::make_selector(rules.selector)) {
    require<UsageError>(size() < std::numeric_limits<std::uint32_t>::max(), this->place().name, " has ", size(),
                        " elements: their indices have 32 bits. Let it travel in chunks (`chunk`).");
  }

  std::size_t bytes(int) const override { return max_sparse_bytes(kEf21Format, most_, size()); }
  double expected_bytes() const override {
    return compress::expected_rice_bytes(k_, size()) + 4 * static_cast<double>(k_);
  }
  /// The allocator keeps a block of each size for what v - h is.
  double working_bytes() const override {
    return selector_->bytes(k_, size()) + static_cast<double>(sizeof(float) * size());
  }
  std::size_t scattered() const override { return static_cast<std::size_t>(place().workers) * k_; }

  Tensor gather(Slice<const float> gradient, const StepContext& context) override {
    const Slice<float> v = state(kV), h = state(kH);
    step_ = context.step;
    if (context.update() == 1) {
      std::ranges::copy(gradient, v.begin());
      std::ranges::copy(gradient, h.begin());
      return {};
    }
    difference_ = Tensor::empty({place().elements});
    const Slice<float> d = difference_.slice();
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = kept_ * v[i] + eta_ * gradient[i];
      d[i] = v[i] - h[i];
    }
    return difference_;
  }

  void make(compress::Bytes& out, int) override {
    const Slice<float> d = difference_.slice(), h = state(kH);
    try {
      selector_->select({.values = d,
                         .k = k_,
                         .key = {.seed = place().seed,
                                 .step = static_cast<std::uint64_t>(step_),
                                 .operation = static_cast<std::uint32_t>(place().number)}},
                        chosen_);
    } catch (const compress::NotANumber& e) {
      throw Error(concat("the momentum of ", place().name, " at step ", step_, ": ", e.what(),
                         " Lower `lr`, or clip gradients (`clip` norm:5)."));
    }
    chosen_.shorten(most_);
    for (std::size_t i = 0; i < chosen_.indices.size(); ++i) {
      h[chosen_.indices[i]] += chosen_.values[i];
      d[chosen_.indices[i]] = 0;
    }
    encode_sparse(kEf21Format, chosen(), std::as_const(chosen_).all_values(), size(), out);
    difference_ = {};
  }

  void take(const Theirs& all, Slice<float> gradient) override {
    views_.resize(static_cast<std::size_t>(all.size()));
    all.each([&](Slice<const std::byte> message, int r) {
      views_[static_cast<std::size_t>(r)].read(kEf21Format, message, size());
    });
    scatter_add(views_, 1.0f / static_cast<float>(all.size()), state(kG));
    std::ranges::copy(state(kG), gradient.begin());
  }

  void take_sum(Slice<float> gradient) override {
    for (float& v : gradient) v *= 1.0f / static_cast<float>(place().workers);
    std::ranges::copy(gradient, state(kG).begin());
  }

  Slice<const std::uint32_t> chosen() const override { return chosen_.all_indices(); }
  std::size_t united() const override { return compress::united(views_); }
  void save(StateDict& state) const override { selector_->save(state); }
  void load(const StateDict& state) override { selector_->load(state); }

 private:
  enum : std::size_t { kV, kH, kG };
  const float eta_, kept_;
  const std::size_t k_, most_;  // elements; a selector may choose more than k: what is above `most` waits
  const std::unique_ptr<compress::Selector> selector_;
  std::int64_t step_ = 0;
  Tensor difference_;  // v - h, from gather() to make()
  compress::Selection chosen_;
  std::vector<compress::SparseView> views_;  // by rank
};

class Ef21 final : public ExchangeMethod {
 public:
  std::string name() const override { return "ef21"; }
  std::string summary() const override { return "largest changes of momentum (Fatkhullin et al. 2023)"; }
  Traits traits() const override { return {.on_ghosts = true, .keeps = "momentum and estimates"}; }
  ExchangeForm form(const TrainingFacts&) const override {
    return {.state = {{"v", Join::mean, "v of ef21"}, {"h", Join::mean, "h of ef21"}, {"g", Join::equal, "g of ef21"}},
            .operation = "changes of",
            .choice = rules_.selector,
            .varies = true,
            .result = ExchangeForm::Result::mean,
            .dense_first = true,
            .by_choice = true};
  }
  std::unique_ptr<Part> part(PartPlace place) const override {
    return std::make_unique<Ef21Part>(std::move(place), rules_);
  }
  void measure(WorkCosts&, const TrainingFacts&) const override {}  // the residual's, by that selector

  void settings(Settings& s) override {
    s.group("Error feedback of momentum (`sync` ef21)", Scope::exchange);
    s.real_number("density", "D", rules_.density, 0, 1, "0.001", "share of a tensor's elements that is sent");
    s.choice("selector", rules_.selector, compressors(), "how they are chosen");
    s.real_number("ef21-eta", "ETA", rules_.eta, 0, 1, "0.1", "weight of the newest gradient in the momentum");
  }

  void check(const TrainingFacts& facts) const override {
    refuse_copies(facts);
    if (rules_.density == 0) refuse("nothing would ever be sent", "`density` 0", "give more, as 0.001");
    if (rules_.eta == 0) refuse("no gradient would ever count but the first", "`ef21-eta` 0", "give more, as 0.1");
  }

  LedgerForm ledger() const override { return LedgerAccount::of_choices(); }

  std::string describe(const TrainingFacts&) const override {
    return fmt::format("ef21, {:g} % by {}, eta {:g}", 100 * rules_.density, rules_.selector, rules_.eta);
  }

 private:
  /// What a selector has to be for C: it needs nothing but the values, and k.
  static std::vector<std::string> compressors() {
    std::vector<std::string> names;
    for (const compress::SelectorKind& kind : compress::selectors())
      if (kind.traits.by_name && kind.traits.by_k && !kind.traits.needs_latest) names.push_back(kind.name);
    return names;
  }

  Ef21Rules rules_{};
};

}  // namespace

std::unique_ptr<Method> make_ef21() { return std::make_unique<Ef21>(); }

}  // namespace laconic::dist
