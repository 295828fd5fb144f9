#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "compress/codecs/signs.h"
#include "dist/method/exchange.h"

namespace laconic::dist {
namespace {

/// Votes of signs. Each worker sends a bit for each element of its gradient; what most of them say is the sign that all
/// apply. Every worker counts the votes of one N-th of a bucket, and tells all others what came out:
///
///     bit[i] = g[i] < 0, in one N-th to each worker     alltoallv
///     majority of an N-th, to all                       allgatherv
///     g[i] = s or -s, and the ordinary update           s: mean over workers of the mean |g| of a parameter, or 1
///
/// Zero has no sign: on every other worker it counts as above, on the others as below, and in the next step the other
/// way round. So workers without a gradient hardly outvote those who have one. Where votes are even, the worker who
/// counts them has the say.
///
///     message, little-endian  offset 0            4 P
///                                    s : f32 P  | bits, lowest first     P: parameters of the bucket; none if s is 1
///
///   cost     2 (N-1)/N n/8 bytes and (N-1) 4 P sent by each of N ranks for a bucket of n elements
///   source   signSGD with majority vote (Bernstein et al. 2018, 2019, Algorithm 1); settled: no server counts, but
///            everybody a part
///   throws   Error if s is 1 and there is a NaN, which signs would hide
class VotePart final : public Part {
 public:
  VotePart(PartPlace place, bool scaled)
      : Part(std::move(place)), bits_((size() + 7) / 8), scales_(scaled ? this->place().parameters.size() : 0) {}

  std::size_t bytes(int to) const override { return header() + joined_bytes(to); }
  std::size_t joined_bytes(int by) const override { return share(by).size(); }

  Tensor gather(Slice<const float> g, const StepContext& context) override {
    const bool zero = (context.step + place().rank) % 2 == 0;  // the bit of what is neither above nor below
    for (std::size_t k = 0; k < bits_.size(); ++k) {
      unsigned byte = 0;
      for (std::size_t j = 0; j < std::min<std::size_t>(8, g.size() - 8 * k); ++j)
        byte |= (g[8 * k + j] < 0 || (g[8 * k + j] == 0 && zero) ? 1u : 0u) << j;
      bits_[k] = static_cast<std::byte>(byte);
    }
    for (std::size_t i = 0; i < place().parameters.size(); ++i) {
      const Held& held = place().parameters[i];
      const float scale = compress::mean_magnitude(
          g.sub(static_cast<std::size_t>(held.offset), static_cast<std::size_t>(held.elements)));
      // Scales carry NaN to all. Signs alone would hide it.
      require<Error>(!scales_.empty() || !std::isnan(scale), "signsgd: a gradient of ", place().name, " at step ",
                     context.step, " is not a number. Lower `lr`, or clip gradients (`clip` norm:5).");
      if (!scales_.empty()) scales_[i] = scale;
    }
    return {};
  }

  void make(compress::Bytes& out, int to) override {
    const Slice<const std::byte> theirs = share(to);
    std::byte* const at = out.append(header() + theirs.size()).data();
    if (header() > 0) std::memcpy(at, scales_.data(), header());
    std::ranges::copy(theirs, at + header());
  }

  void join(const Theirs& all, compress::Bytes& out) override {
    std::vector<double> scales(scales_.size());
    std::vector<const std::byte*> bits;
    all.each([&](Slice<const std::byte> message, int) {
      for (std::size_t i = 0; i < scales.size(); ++i) {
        float scale;
        std::memcpy(&scale, message.data() + i * sizeof scale, sizeof scale);
        scales[i] += static_cast<double>(scale);
      }
      bits.push_back(message.data() + header());
    });
    const int N = all.size();
    for (std::size_t i = 0; i < scales.size(); ++i) scales_[i] = static_cast<float>(scales[i] / N);
    const std::byte* const own = bits[static_cast<std::size_t>(place().rank)];
    std::size_t k = 0;
    for (std::byte& to : out.append(joined_bytes(place().rank))) {
      std::array<int, 8> below{};
      for (const std::byte* const theirs : bits)
        for (unsigned j = 0; j < 8; ++j) below[j] += static_cast<unsigned>(theirs[k]) >> j & 1;
      unsigned byte = 0;
      const auto mine = static_cast<unsigned>(own[k++]);
      for (unsigned j = 0; j < 8; ++j) byte |= (2 * below[j] == N ? mine >> j & 1 : 2 * below[j] > N ? 1u : 0u) << j;
      to = static_cast<std::byte>(byte);
    }
  }

  void take(const Theirs& counted, Slice<float> g) override {
    auto to = bits_.begin();
    counted.each([&](Slice<const std::byte> share, int) { to = std::ranges::copy(share, to).out; });
    for (std::size_t i = 0; i < place().parameters.size(); ++i) {
      const Held& held = place().parameters[i];
      const float s = scales_.empty() ? 1.0f : scales_[i];
      for (auto k = static_cast<std::size_t>(held.offset), end = k + static_cast<std::size_t>(held.elements); k < end;
           ++k)
        g[k] = static_cast<unsigned>(bits_[k / 8]) >> k % 8 & 1 ? -s : s;
    }
  }

 private:
  std::size_t header() const { return sizeof(float) * scales_.size(); }
  /// The bits that worker r counts.
  Slice<const std::byte> share(int r) const {
    return slice(bits_).part(static_cast<std::size_t>(r), static_cast<std::size_t>(place().workers));
  }

  std::vector<std::byte> bits_;
  std::vector<float> scales_;  // of the bucket's parameters; none: all are 1
};

class SignSgd final : public ExchangeMethod {
 public:
  std::string name() const override { return "signsgd"; }
  std::string summary() const override { return "votes of signs (Bernstein et al. 2018)"; }
  Traits traits() const override { return {.on_ghosts = true}; }
  ExchangeForm form(const TrainingFacts&) const override {
    return {.operation = "vote on",
            .span = "signs",
            .whole = true,
            .joined = "counted",
            .result = ExchangeForm::Result::final,
            .gathers = false};
  }
  std::unique_ptr<Part> part(PartPlace place) const override {
    return std::make_unique<VotePart>(std::move(place), !bare_);
  }
  void measure(WorkCosts&, const TrainingFacts&) const override {}
  LedgerForm ledger() const override { return {}; }

  void settings(Settings& s) override {
    s.group("Signs (`sync` signsgd)", Scope::exchange);
    s.either("sign-scale", bare_, "mean", "none",
             "a vote counts as the mean magnitude of the parameter's\ngradients, or as 1, with a smaller rate [mean]");
  }

  void check(const TrainingFacts& facts) const override {
    refuse_copies(facts);
    if (bare_ && (facts.clip_norm > 0 || facts.clip_value > 0))
      refuse("a vote of signs is 1 or -1, whatever the gradient", "`clip`", "give `clip` none");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "allreduce")
      return Refusal{"every worker of `sync` signsgd counts a part of the votes", "leave it out"};
    if (setting == "reduce") return Refusal{"a vote of signs is neither sum nor mean", "leave it out"};
    return ExchangeMethod::refuses(setting);
  }

 private:
  bool bare_ = false;
};

}  // namespace

std::unique_ptr<Method> make_sign_sgd() { return std::make_unique<SignSgd>(); }

}  // namespace laconic::dist
