// Every codec of the catalogue keeps the promises of compress/codec.h. One that is new is tested here without a line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/codecs.h"
#include "compress/conformance.h"
#include "tests/error_of.h"

namespace laconic::compress {
namespace {

TEST(Codecs, KeepTheirPromises) {
  for (const CodecKind& kind : codecs()) {
    SCOPED_TRACE(kind.name);
    try {
      make_codec(kind.example);
    } catch (const UsageError&) {  // not in this build
      continue;
    }
    EXPECT_NO_THROW(check_codec(kind.example));
  }
}

/// Breaks one promise.
class Broken final : public Codec {
 public:
  explicit Broken(std::string how) : how_(std::move(how)) {}
  std::size_t max_bytes(std::size_t n) const override { return how_ == "is longer" ? n : 4 * n; }
  double expected_bytes(std::size_t n) const override { return 4.0 * static_cast<double>(n); }
  void encode(Slice<const float> x, const Key& key, Bytes& payload) const override {
    if (how_ == "begins anew") payload.clear();
    std::vector<float> values(x.begin(), x.end());
    if (how_ == "sends zeros") std::fill(values.begin(), values.end(), 0.0f);
    if (how_ == "has a memory" && !values.empty()) values[0] += static_cast<float>(++calls_);
    identity_->encode(slice(std::as_const(values)), key, payload);
  }
  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    if (how_ == "takes anything" && payload.size() != x.size_bytes()) return;
    identity_->decode(payload, x);
    if (how_ == "overflows")
      for (float& v : x) v = std::abs(v) > 65504 ? std::copysign(std::numeric_limits<float>::infinity(), v) : v;
  }

 private:
  const std::unique_ptr<const Codec> identity_ = make_codec("identity");
  std::string how_;
  mutable int calls_ = 0;
};

TEST(CheckCodec, FindsAPromiseThatIsBroken) {
  for (const auto& [how, sentence] : {std::pair{"is longer", "longer than max_bytes"},
                                      {"begins anew", "encode does not append"},
                                      {"sends zeros", "hardly anything of the values comes back"},
                                      {"has a memory", "give other bytes"},
                                      {"takes anything", "cut short, or too long"},
                              {"overflows", "a finite value comes back as none"}}) {
    codecs().push_back(plain_codec(how, {}, [name = std::string(how)] { return std::make_unique<Broken>(name); }));
    expect_error<Error>([&, name = std::string(how)] { check_codec(name); }, {sentence});
    codecs().pop_back();
  }
}

}  // namespace
}  // namespace laconic::compress
