#include "optim/schedule.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/error.h"

namespace laconic {
namespace {

constexpr double kThreshold = 1e-4;  // PyTorch's default for plateau, relative

constexpr const char* kNames[] = {"const", "step", "multistep", "exp", "cosine", "plateau"};
constexpr const char* kForms[] = {"const",
                                  "step:EVERY,FACTOR (step:30,0.1)",
                                  "multistep:A,B,..,FACTOR (multistep:30,60,0.1)",
                                  "exp:F (exp:0.95)",
                                  "cosine",
                                  "plateau:PATIENCE,FACTOR (plateau:5,0.5)"};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

struct Number {
  double value;
  bool iterations;
};

/// A finite number above 0, with "it" behind it or not.
Number number(std::string_view text, const std::string& whole, const char* what) {
  Number n{0, text.ends_with("it")};
  const std::string_view digits = n.iterations ? text.substr(0, text.size() - 2) : text;
  const auto [next, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n.value);
  require<UsageError>(!digits.empty() && error == std::errc() && next == digits.data() + digits.size() && n.value > 0 &&
                          std::isfinite(n.value),
                      "--schedule: ", whole, ": \"", text, "\" is no ", what, ", a number above 0.");
  return n;
}

}  // namespace

Schedule Schedule::parse(const std::string& text) {
  Schedule s;
  s.text_ = text;
  std::string_view rest = text;
  if (rest.starts_with("warmup:")) {
    const std::size_t plus = rest.find('+');
    require<UsageError>(plus != std::string_view::npos, "--schedule: ", text,
                        " has nothing behind the warm-up. Example: warmup:5+cosine.");
    const Number w = number(rest.substr(7, plus - 7), text, "length of the warm-up");
    s.warmup_ = {w.value, w.iterations};
    rest.remove_prefix(plus + 1);
  }

  const std::size_t colon = rest.find(':');
  const std::string name(rest.substr(0, colon));
  std::size_t kind = 0;
  while (kind < std::size(kNames) && name != kNames[kind]) ++kind;
  const std::string near = nearest(name, kNames, std::size(kNames));
  require<UsageError>(kind < std::size(kNames), "--schedule: ", text, ": there is no \"", name, "\". ",
                      near.empty() ? "" : concat("Did you mean ", near, "? "),
                      "Known are const, step, multistep, exp, cosine and plateau, warmup:W+ in front of any.");
  s.kind_ = static_cast<Kind>(kind);

  std::vector<std::string_view> arguments;
  if (colon != std::string_view::npos) arguments = split(rest.substr(colon + 1));
  const std::size_t n = arguments.size();
  bool fits = false;
  switch (s.kind_) {
    case Kind::constant:
    case Kind::cosine:
      fits = colon == std::string_view::npos;
      break;
    case Kind::step:
    case Kind::plateau:
      fits = n == 2;
      break;
    case Kind::multistep:
      fits = n >= 2;
      break;
    case Kind::exponential:
      fits = n == 1;
      break;
  }
  require<UsageError>(fits, "--schedule: ", text, " has ", n, n == 1 ? " number" : " numbers", " behind ", name,
                      ". Write it as ", kForms[kind], ".");
  if (n == 0) return s;

  const Number last = number(arguments.back(), text, "factor");
  s.base_ = last.value;
  s.per_iteration_ = last.iterations;
  require<UsageError>(!last.iterations || s.kind_ == Kind::exponential, "--schedule: ", text, ": the factor ",
                      arguments.back(), " cannot be in iterations. Put 'it' behind a count.");
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const bool none = s.kind_ == Kind::plateau && arguments[i] == "0";  // a patience of 0 epochs makes sense
    const Number c = none ? Number{0, false} : number(arguments[i], text, "count of epochs (or iterations, with 'it')");
    require<UsageError>(!(c.iterations && s.kind_ == Kind::plateau), "--schedule: ", text,
                        ": the patience of plateau is in epochs, not iterations. Leave out 'it'.");
    const bool whole = s.kind_ == Kind::plateau || c.iterations;
    require<UsageError>(!whole || c.value == std::floor(c.value), "--schedule: ", text, ": ", arguments[i],
                        " must be a whole number.");
    require<UsageError>(
        s.counts_.empty() || (s.counts_.back().iterations == c.iterations && s.counts_.back().value < c.value),
        "--schedule: ", text, ": ", arguments[i],
        " does not come after the one before it. Write them in rising order, all with 'it' or none.");
    s.counts_.push_back({c.value, c.iterations});
  }
  return s;
}

double Schedule::factor(std::int64_t iteration, const Horizon& h) const {
  const auto t = static_cast<double>(iteration);
  const double warmup = warmup_.in_steps(h);
  const double ramp = t + 1 < warmup ? (t + 1) / warmup : 1.0;
  double f = 1;
  switch (kind_) {
    case Kind::constant:
      break;
    case Kind::step:
      f = std::pow(base_, std::floor(t / counts_[0].in_steps(h)));
      break;
    case Kind::multistep:
      for (const Count& c : counts_)
        if (c.in_steps(h) <= t) f *= base_;
      break;
    case Kind::exponential:
      f = std::pow(base_, per_iteration_ ? t : static_cast<double>(iteration / h.steps_per_epoch));
      break;
    case Kind::cosine: {
      const double length = static_cast<double>(h.total_steps) - warmup;
      const double done = length > 0 ? std::clamp((t - warmup) / length, 0.0, 1.0) : 0.0;
      f = (1 + std::cos(std::numbers::pi * done)) / 2;
      break;
    }
    case Kind::plateau:
      f = std::pow(base_, static_cast<double>(reductions_));
      break;
  }
  return ramp * f;
}

void Schedule::end_epoch(double metric) {
  if (kind_ != Kind::plateau) return;
  // PyTorch's min mode, threshold 1e-4 relative: better means below best (1 - 1e-4). NaN never is.
  if (metric < best_ * (1 - kThreshold)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else if (++bad_epochs_ > static_cast<std::int64_t>(counts_[0].value)) {
    ++reductions_;
    bad_epochs_ = 0;
  }
}

void Schedule::save(StateDict& state) const {
  state.set("schedule",
            Tensor::of({3}, std::vector<std::int64_t>{std::bit_cast<std::int64_t>(best_), bad_epochs_, reductions_}));
}

void Schedule::load(const StateDict& state) {
  const Tensor& t = state.at("schedule");
  require<DataError>(t.dtype() == DType::i64 && t.shape() == Shape{3}, "schedule: the checkpoint's state is ",
                     t.shape(), " ", t.dtype(),
                     ", expected [3] int64. It is of another version or damaged; take an older checkpoint.");
  const Slice<std::int64_t> values = t.slice<std::int64_t>();
  const double best = std::bit_cast<double>(values[0]);
  require<DataError>(!std::isnan(best) && values[1] >= 0 && values[2] >= 0,
                     "schedule: the checkpoint says best metric ", best, ", ", values[1], " bad epochs, ", values[2],
                     " reductions, which cannot be. Take an older checkpoint.");
  best_ = best, bad_epochs_ = values[1], reductions_ = values[2];
}

}  // namespace laconic
