#pragma once
#include <laconic/dist/method/exchange.h>

#include <algorithm>

namespace own {
using namespace laconic;
using namespace laconic::dist;

/// Sends the largest of every B neighbours in the residual, as place and value. The others stay, and grow on.
class Peaks final : public ExchangeMethod {
 public:
  std::string name() const override { return "peaks"; }
  std::string summary() const override { return "of some neighbours the largest"; }
  void settings(Settings& s) override {
    s.group("Peaks (`sync` peaks)", Scope::exchange);
    s.whole_number<std::size_t>("peaks-of", "B", neighbours_, 1, "neighbours of which one is sent");
  }
  std::unique_ptr<Part> part(PartPlace place) const override { return std::make_unique<Own>(place, neighbours_); }

 private:
  using Peak = std::pair<std::uint32_t, float>;
  struct Own final : Part {
    Own(PartPlace place, std::size_t neighbours) : Part(std::move(place)), B(neighbours) {}
    std::size_t bytes(int) const override { return sizeof(Peak) * ((size() + B - 1) / B); }
    void make(compress::Bytes& out, int) override {
      float* const x = state(0).data();
      auto* to = reinterpret_cast<Peak*>(out.append(bytes(0)).data());
      for (std::size_t i = 0; i < size(); i += B) {
        const auto smaller = [](float a, float b) { return a * a < b * b; };
        float* const peak = std::max_element(x + i, x + std::min(i + B, size()), smaller);
        *to++ = {peak - x, std::exchange(*peak, 0.0f)};
      }
    }
    void take(const Theirs& all, Slice<float> gradient) override {
      std::ranges::fill(gradient, 0.0f);
      all.each([&](Slice<const std::byte> message, int) {
        for (const auto& [place, value] : values_in<Peak>(message)) gradient.sub(place, 1)[0] += value;
      });
    }
    const std::size_t B;
  };
  std::size_t neighbours_ = 64;
};
}  // namespace own
