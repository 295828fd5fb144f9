#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "compress/select/selector.h"
#include "dist/method/rounds/rounds.h"

namespace laconic::dist {
namespace {

class TopKPart final : public Part {
 public:
  TopKPart(PartPlace place, const TopK& rules)
      : Part(std::move(place)), wire_(rules.wire), beta_(static_cast<float>(rules.beta)) {
    require<UsageError>(size() < std::numeric_limits<std::uint32_t>::max(), this->place().name, " has ", size(),
                        " elements: places have 32 bits. Let it travel in parts (`chunk`)");
    for (const Held& held : this->place().parameters) {
      const std::vector<std::size_t> of_run = wire_.counts(held.elements);
      counts_.insert(counts_.end(), of_run.begin(), of_run.end());
    }
    chosen_ = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
  }

  std::size_t bytes(int) const override { return wire_.max_bytes(chosen_, counts_.size(), size()); }
  double expected_bytes() const override { return wire_.expected_bytes(chosen_, counts_.size(), size()); }
  std::size_t scattered() const override { return static_cast<std::size_t>(place().workers) * chosen_; }

  Tensor gather(Slice<const float> d, const StepContext& context) override {
    const Slice<float> e = state(0);
    step_ = context.step;
    for (const Held& held : place().parameters)
      for (auto i = static_cast<std::size_t>(held.offset), end = i + static_cast<std::size_t>(held.elements); i < end;
           ++i)
        e[i] = beta_ * e[i] + d[i];
    return {};
  }

  void make(compress::Bytes& out, int) override {
    const Slice<float> e = state(0);
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    compress::Selection chosen;
    std::size_t chunk = 0;
    for (const Held& held : place().parameters) {
      const auto end = static_cast<std::size_t>(held.offset + held.elements);
      for (auto i = static_cast<std::size_t>(held.offset); i < end; i += compress::TopKWire::kChunk) {
        try {
          selector_->select(
              {.values = e.sub(i, std::min<std::size_t>(compress::TopKWire::kChunk, end - i)), .k = counts_[chunk++]},
              chosen);
        } catch (const compress::NotANumber& error) {
          throw Error(concat("what was changed of ", held.name, " until step ", step_, ": ", error.what(),
                             " Lower `lr`, or clip gradients (`clip` norm:5)."));
        }
        for (const std::uint32_t j : chosen.indices) indices.push_back(static_cast<std::uint32_t>(i) + j);
        values.insert(values.end(), chosen.values.begin(), chosen.values.end());
      }
    }
    wire_.encode(slice(std::as_const(indices)), slice(values), counts_, size(), out);
    compress::scatter_add(slice(std::as_const(indices)), slice(std::as_const(values)), -1.0f, e);
  }

  void take(const Theirs& all, Slice<float> sum) override {
    std::ranges::fill(sum, 0.0f);
    all.each([&](Slice<const std::byte> message, int) { wire_.decode_add(message, counts_, 1.0f, sum); });
  }

 private:
  const compress::TopKWire wire_;
  const float beta_;
  const std::unique_ptr<compress::Selector> selector_ = compress::make_selector("exact");
  std::vector<std::size_t> counts_;  // by chunk
  std::size_t chosen_ = 0;           // their sum
  std::int64_t step_ = 0;
};

}  // namespace

ExchangeForm TopK::form(const TrainingFacts& facts) {
  return {.name = "rounds",
          .state = {{"feedback", facts.put_by(), "what was not sent yet"}},
          .operation = "allgather",
          .whole = true,
          .varies = true};
}

std::unique_ptr<Part> TopK::part(PartPlace place) const { return std::make_unique<TopKPart>(std::move(place), *this); }

}  // namespace laconic::dist
