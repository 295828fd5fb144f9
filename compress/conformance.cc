#include "compress/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compress/codecs.h"
#include "compress/select/selector.h"
#include "core/base/parallel.h"
#include "core/base/random.h"

namespace laconic::compress {
namespace {

using Values = std::vector<float>;

/// Values as gradients are (most are small), and hostile ones.
struct Case {
  const char* name;
  Values values;
  bool ordinary;  // finite, and neither all zero nor denormal
};
std::vector<Case> cases(std::size_t n) {
  Random random(11, Purpose::synthetic, n);
  const auto draw = [&](auto f) {
    Values x(n);
    for (float& v : x) v = f();
    return x;
  };
  const auto gradient = [&] {
    const float u = 2 * random.uniform() - 1;
    return u * u * u;
  };
  std::vector<Case> all{{"gradients", draw(gradient), true},
                        {"small gradients", draw([&] { return 1e-6f * gradient(); }), false},
                        {"zeros", Values(n), false},
                        {"one value", Values(n, 0.25f), true},
                        {"denormals", Values(n, std::numeric_limits<float>::denorm_min()), false},
                        {"large values", draw([&] { return 1e30f * gradient(); }), false}};
  all.push_back({"infinity and no number", all[0].values, false});
  if (n > 0) all.back().values[n / 2] = std::numeric_limits<float>::quiet_NaN();
  if (n > 1) all.back().values[n / 2 - 1] = -std::numeric_limits<float>::infinity();
  return all;
}

bool same(const Values& a, const Values& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
}
std::vector<std::byte> bytes_of(const Bytes& payload) { return {payload.data(), payload.data() + payload.size()}; }
Slice<const std::byte> view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

class CodecCheck {
 public:
  explicit CodecCheck(const std::string& name)
      : name_(name), traits_(traits_of(name)), owned_(make_codec(name)), codec_(*owned_) {}

  void all() {
    for (const std::size_t n : {0, 1, 2, 7, 128, 511, 512, 1000, 4099, 8193, 12'500})
      for (const Case& c : cases(n)) one(c);
  }

 private:
  void require_that(bool ok, const Case& c, const std::string& promise) const {
    require<Error>(ok, "codec ", name_, ": ", promise, " (", c.values.size(), " ", c.name, ").");
  }

  std::vector<std::byte> encoded(const Values& x, Key key) const {
    Bytes payload;
    codec_.encode(slice(x), key, payload);
    return bytes_of(payload);
  }
  Values decoded(const std::vector<std::byte>& payload, std::size_t n) const {
    Values x(n, 77.0f);  // decode writes all of it
    codec_.decode(view(payload), slice(x));
    return x;
  }

  void one(const Case& c) const {
    const std::size_t n = c.values.size();
    const Key key{.seed = 3, .step = 5, .operation = 2, .hop = 1, .rank = 4};
    const std::vector<std::byte> payload = encoded(c.values, key);
    require_that(payload.size() <= codec_.max_bytes(n), c, "a payload is longer than max_bytes");
    require_that(payload == encoded(c.values, key), c, "the same values and key give other bytes");
    Bytes behind;
    behind.append(3);
    std::memset(behind.data(), 0x5a, 3);
    codec_.encode(slice(c.values), key, behind);
    std::vector<std::byte> expected(3, std::byte{0x5a});
    expected.insert(expected.end(), payload.begin(), payload.end());
    require_that(bytes_of(behind) == expected, c, "encode does not append");

    if (codec_.shares_scale()) {
      Key shared = key;
      shared.scale = codec_.scale_of(slice(c.values));
      require_that(payload == encoded(c.values, shared), c, "its own scale as the shared one gives other bytes");
    }

    const Values x = decoded(payload, n);
    const auto within = [&](float v) { return std::abs(v) <= std::min(codec_.largest(), 1e30f); };
    const auto finite = [](float v) { return std::isfinite(v); };
    require_that(!std::ranges::all_of(c.values, within) || std::ranges::all_of(x, finite), c,
                 "a finite value comes back as none");
    for (const bool in_place : {false, true}) {
      Values values = c.values, read(n, 77.0f);
      Bytes again;
      codec_.encode_and_decode(slice(values), key, again, slice(in_place ? values : read));
      require_that(bytes_of(again) == payload && same(in_place ? values : read, x), c,
                   "encode_and_decode is not encode and decode");
    }
    require_that(same(x, decoded(payload, n)), c, "the same payload gives other values");
    feedback(c, key);
    if (!traits_.loses) require_that(same(x, c.values), c, "it says that it loses nothing, and other values come back");
    if (c.ordinary && n >= 128 && traits_.loses) {
      double along = 0, length = 0;
      for (std::size_t i = 0; i < n; ++i)
        along += double{x[i]} * c.values[i], length += double{c.values[i]} * c.values[i];
      require_that(along > 0.2 * length, c, "hardly anything of the values comes back");
      const double expects = codec_.expected_bytes(n), bytes = static_cast<double>(payload.size());
      require_that(expects > 0 && bytes < 4 * expects + 64, c, "payloads are much longer than expected_bytes");
    }
    sums(c, payload, x, key);
    if (n <= 512) hostile(c, payload);
  }

  void feedback(const Case& c, Key key) const {
    if (!c.ordinary) return;
    const std::size_t n = c.values.size();
    Values whole = c.values;
    for (float& v : whole) v += 0.125f;
    const std::vector<std::byte> payload = encoded(whole, key);
    const Values sent = decoded(payload, n);
    for (const bool settle : {false, true}) {
      Values x = c.values, lost(n, 0.125f);
      Bytes message;
      codec_.encode_with_feedback(slice(x), slice(lost), key, message, settle);
      bool left = true;
      for (std::size_t i = 0; i < n; ++i) left &= lost[i] == whole[i] - sent[i];
      require_that(bytes_of(message) == payload && left && (!settle || same(x, sent)), c,
                   "encode_with_feedback is not encode, decode and a subtraction");
    }
  }

  void sums(const Case& c, const std::vector<std::byte>& payload, const Values& x, Key key) const {
    if (!c.ordinary) return;
    Values sum(x.size(), 0.5f), alike = sum;
    codec_.decode_add(view(payload), slice(sum));
    for (std::size_t i = 0; i < x.size(); ++i) alike[i] += x[i];
    require_that(same(sum, alike), c, "decode_add is not decode and an addition");
    Values addend(x.size(), 0.5f);
    Bytes both;
    codec_.decode_add_encode(view(payload), slice(addend), key, both);
    require_that(bytes_of(both) == encoded(alike, key), c, "decode_add_encode is not decode_add and encode");
  }

  /// What is no payload of that number of values is an error, or decodes to something; nothing else.
  void hostile(const Case& c, const std::vector<std::byte>& payload) const {
    Random random(13, Purpose::synthetic, payload.size());
    const auto try_it = [&](const std::vector<std::byte>& damaged, bool must_fail) {
      bool failed = false;
      try {
        decoded(damaged, c.values.size());
      } catch (const DataError&) {
        failed = true;
      }
      require_that(failed || !must_fail, c, "a payload that is cut short, or too long, is taken");
    };
    std::vector<std::byte> other = payload;
    other.push_back(std::byte{0});
    try_it(other, true);
    for (std::size_t length = 0; length < payload.size(); length += 1 + payload.size() / 40)
      try_it({payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length)}, true);
    for (int i = 0; i < 40 && !payload.empty(); ++i) {
      other = payload;
      other[random.below(static_cast<std::uint32_t>(other.size()))] ^= static_cast<std::byte>(1 + random.below(255));
      try_it(other, false);
    }
  }

  const std::string name_;
  const CodecTraits traits_;
  const std::unique_ptr<const Codec> owned_;
  const Codec& codec_;
};

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

void check_codec(const std::string& codec) { CodecCheck(codec).all(); }

void check_selector(const std::string& selector) { SelectorCheck(selector).all(); }

}  // namespace laconic::compress
