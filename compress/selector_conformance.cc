#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compress/conformance.h"
#include "compress/selector.h"
#include "core/parallel.h"
#include "core/random.h"

namespace laconic::compress {
namespace {

using Values = std::vector<float>;
constexpr std::size_t kCounts[] = {0, 1, 2, 17, 1000, 40'003};
constexpr SelectorOptions kOptions{.threshold = 0.5f};

class SelectorCheck {
 public:
  explicit SelectorCheck(const std::string& name) : kind_(selector_kind(name)) {}

  void all() {
    for (const std::size_t n : kCounts)
      for (const Sign sign : {Sign::any, Sign::positive, Sign::negative}) {
        if (sign != Sign::any && !kind_.traits.by_sign) continue;
        for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 100, n / 3, n})
          if (k <= n) one(n, k, sign);
      }
    refusals();
    for (const std::size_t k : {40, 4000}) steps(40'003, k);
  }

 private:
  void require_that(bool ok, const std::string& promise, std::size_t n, std::size_t k) const {
    require<Error>(ok, "selector ", kind_.name, ": ", promise, " (", k, " of ", n, ").");
  }

  static Values drawn(std::size_t n, std::uint64_t seed) {
    Random random(seed, Purpose::synthetic, n);
    Values x(n);
    for (float& v : x) v = random.below(9) == 0 ? 0 : random.normal();
    return x;
  }

  SelectionInput input(const Values& x, const Values& latest, std::size_t k, Sign sign = Sign::any) const {
    SelectionInput in{.values = slice(x), .k = k, .sign = sign};
    if (kind_.traits.needs_latest) in.latest = slice(latest);
    return in;
  }

  void one(std::size_t n, std::size_t k, Sign sign) const {
    const Values x = drawn(n, 1), latest = drawn(n, 2);
    const auto selector = kind_.make(kOptions);
    const Selection s = selector->select(input(x, latest, k, sign));
    well_formed(s, x, sign, k);
    require_that(s.size() <= selector->most(k, n), "more is chosen than most() says", n, k);
    if (kind_.traits.by_k) {
      require_that(k > 0 || s.size() == 0, "something is chosen where nothing was asked for", n, k);
      require_that(s.size() > 0 || k == 0 || n < 100 || sign != Sign::any, "nothing is chosen", n, k);
    }
    const int before = kernel_threads();
    set_kernel_threads(before == 1 ? 3 : 1);
    const Selection threads = kind_.make(kOptions)->select(input(x, latest, k, sign));
    set_kernel_threads(before);
    require_that(s.indices == threads.indices && s.threshold == threads.threshold,
                 "another number of threads makes another choice", n, k);
  }

  void well_formed(const Selection& s, const Values& x, Sign sign, std::size_t k) const {
    const std::size_t n = x.size();
    require_that(s.indices.size() == s.values.size(), "there are not as many values as indices", n, k);
    for (std::size_t j = 0; j < s.size(); ++j) {
      const std::uint32_t i = s.indices[j];
      require_that(i < n && (j == 0 || s.indices[j - 1] < i), "indices do not ascend, or are too large", n, k);
      require_that(s.values[j] == x[i], "a value is not the one at its index", n, k);
      require_that(sign == Sign::any || (sign == Sign::positive ? x[i] > 0 : x[i] < 0), "a value has the other sign", n,
                   k);
    }
  }

  void refusals() const {
    const std::size_t n = 1000;
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      Values x = drawn(n, 3), latest = x;
      x[at] = std::numeric_limits<float>::quiet_NaN();
      bool refused = false;
      try {
        kind_.make(kOptions)->select(input(x, latest, 1));
      } catch (const NotANumber&) {
        refused = true;
      }
      require_that(refused, "a value that is no number is taken", n, 1);
    }
  }

  /// Step after step: what was chosen leaves the residual. One selector goes on, gets candidates of the residual pass
  /// where it asks for them, and is saved and loaded half way; the other never gets any.
  void steps(std::size_t n, std::size_t k) const {
    auto one = kind_.make(kOptions), other = kind_.make(kOptions);
    Values v(n);
    for (std::uint64_t step = 0; step < 8; ++step) {
      const Values g = drawn(n, 10 + step);
      Candidates candidates;
      one->prepare(candidates, k);
      const ResidualStats stats = accumulate_residual({slice(g), {}, {}, slice(v), 0}, {}, 1.0f, &candidates);
      SelectionInput in = input(v, g, k);
      in.key.step = step;
      const Selection plain = other->select(in);
      in.stats = &stats, in.candidates = &candidates;
      const Selection s = one->select(in);
      require_that(s.indices == plain.indices && s.values == plain.values && s.threshold == plain.threshold,
                   "candidates, or a state that was saved and loaded, make another choice", n, k);
      clear_sent({}, slice(v), slice(s.indices), false);
      if (step != 3) continue;
      StateDict saved;
      one->save(saved);
      one = kind_.make(kOptions);
      one->load(saved);
    }
  }

  const SelectorKind& kind_;
};

}  // namespace

void check_selector(const std::string& selector) { SelectorCheck(selector).all(); }

}  // namespace laconic::compress
