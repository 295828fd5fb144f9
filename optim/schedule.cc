#include "optim/schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <string_view>

#include "core/base/parse.h"

namespace laconic {
namespace {

constexpr double kMostWhole = 1e15;  // epochs or iterations: an int64_t, and a double without a fraction
constexpr double kThreshold = 1e-4;  // PyTorch's default for plateau, relative

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Schedule::Number number(const std::string& text, const std::string& whole, const char* what) {
  const bool iterations = text.ends_with("it");
  const auto value = number_from<double>(iterations ? text.substr(0, text.size() - 2) : text);
  require<UsageError>(value && *value > 0, "`schedule`: ", whole, ": \"", text, "\" is no ", what,
                      ", a number above 0.");
  return {*value, iterations};
}

const Schedule::Kind& kind_named(const std::string& name, const std::string& whole) {
  std::vector<std::string> names;
  for (const Schedule::Kind& kind : schedules()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  const std::string near = nearest(name, names);
  throw UsageError(concat("`schedule`: ", whole, ": there is no \"", name, "\". ",
                          near.empty() ? "" : concat("Did you mean ", near, "? "), "Known are ", alternatives(names),
                          ", warmup:W+ in front of any."));
}

}  // namespace

std::vector<Schedule::Kind>& schedules() {
  using Moment = Schedule::Moment;
  constexpr std::size_t kMany = 1000000;
  static std::vector<Schedule::Kind> all{
      {"const", "const", "", 0, 0, [](const Moment&) { return 1.0; }},
      {"step", "step:EVERY,FACTOR", "step:30,0.1", 2, 2,
       [](const Moment& m) {
         return std::pow(m.factor.value, std::floor(static_cast<double>(m.iteration) / m.counts[0]));
       }},
      {"multistep", "multistep:A,B,..,FACTOR", "multistep:30,60,0.1", 2, kMany,
       [](const Moment& m) {
         double f = 1;
         for (const double count : m.counts)
           if (count <= static_cast<double>(m.iteration)) f *= m.factor.value;
         return f;
       }},
      {"exp", "exp:F", "exp:0.95", 1, 1,
       [](const Moment& m) {
         const double times = m.factor.iterations ? static_cast<double>(m.iteration) * m.horizon.iterations
                                                  : static_cast<double>(m.iteration / m.horizon.steps_per_epoch);
         return std::pow(m.factor.value, times);
       },
       true},
      {"cosine", "cosine[:LOW]", "cosine:0.1", 0, 1,
       [](const Moment& m) {
         // A run that ends after a number of updates is as far as it has made of them, on whatever workers.
         const double warmup = m.horizon.ahead == 0 ? m.warmup : m.warmup * m.horizon.iterations;
         const double length = static_cast<double>(m.horizon.total_steps - m.horizon.ahead) - warmup;
         const double past = static_cast<double>(m.iteration - m.horizon.ahead) - warmup;
         const double done = length > 0 ? std::clamp(past / length, 0.0, 1.0) : 0.0;
         const double low = m.factor.value;
         return low + (1 - low) * (1 + std::cos(std::numbers::pi * done)) / 2;
       }},
      {"plateau", "plateau:PATIENCE,FACTOR", "plateau:5,0.5", 2, 2,
       [](const Moment& m) { return std::pow(m.factor.value, static_cast<double>(m.reductions)); }, false, true}};
  return all;
}

Schedule Schedule::parse(const std::string& text) {
  Schedule s;
  s.text_ = text;
  std::string rest = text;
  if (rest.starts_with("warmup:")) {
    const std::size_t plus = rest.find('+');
    require<UsageError>(plus != std::string::npos, "`schedule`: ", text,
                        " has nothing behind the warm-up. Example: warmup:5+cosine.");
    s.warmup_ = number(rest.substr(7, plus - 7), text, "length of the warm-up");
    rest.erase(0, plus + 1);
  }
  const std::size_t colon = rest.find(':');
  const Kind& kind = s.kind_ = kind_named(rest.substr(0, colon), text);
  const std::vector<std::string> arguments =
      colon == std::string::npos ? std::vector<std::string>() : split(rest.substr(colon + 1));
  const std::size_t n = arguments.size();
  require<UsageError>(n >= kind.least && n <= kind.most, "`schedule`: ", text, " has ", n,
                      n == 1 ? " number" : " numbers", " behind ", kind.name, ". Write it as ", kind.form,
                      kind.example.empty() ? "." : " (" + kind.example + ").");
  if (n == 0) return s;

  s.factor_ = number(arguments.back(), text, "factor");
  require<UsageError>(!s.factor_.iterations || kind.per_iteration, "`schedule`: ", text, ": the factor ",
                      arguments.back(), " cannot be in iterations. Put 'it' behind a count.");
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const bool none = kind.needs_metric && arguments[i] == "0";  // a patience of 0 epochs makes sense
    const Number c = none ? Number{} : number(arguments[i], text, "count of epochs (or iterations, with 'it')");
    require<UsageError>(!(c.iterations && kind.needs_metric), "`schedule`: ", text,
                        ": the patience of plateau is in epochs, not iterations. Leave out 'it'.");
    const bool whole = kind.needs_metric || c.iterations;
    require<UsageError>(!whole || (c.value == std::floor(c.value) && c.value <= kMostWhole), "`schedule`: ", text, ": ",
                        arguments[i], " must be a whole number of at most 1e15.");
    require<UsageError>(
        s.counts_.empty() || (s.counts_.back().iterations == c.iterations && s.counts_.back().value < c.value),
        "`schedule`: ", text, ": ", arguments[i],
        " does not come after the one before it. Write them in rising order, all with 'it' or none.");
    s.counts_.push_back(c);
  }
  return s;
}

double Schedule::factor(std::int64_t iteration, const Horizon& h) const {
  Moment m{.iteration = iteration,
           .horizon = h,
           .warmup = warmup_.in_steps(h),
           .factor = factor_,
           .reductions = reductions_};
  for (const Number& count : counts_) m.counts.push_back(count.in_steps(h));
  const double t = static_cast<double>(iteration) + 1;
  return (t < m.warmup ? t / m.warmup : 1.0) * kind_.factor(m);
}

void Schedule::end_epoch(double metric) {
  if (!kind_.needs_metric) return;
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
  state.set_numbers("schedule", std::array{std::bit_cast<std::int64_t>(best_), bad_epochs_, reductions_});
}

void Schedule::load(const StateDict& state) {
  const std::vector<std::int64_t> values = state.numbers("schedule", 3, "the state of the schedule");
  const double best = std::bit_cast<double>(values[0]);
  require<DataError>(!std::isnan(best) && values[1] >= 0 && values[2] >= 0,
                     "schedule: the checkpoint says best metric ", best, ", ", values[1], " bad epochs, ", values[2],
                     " reductions, which cannot be. Take an older checkpoint.");
  best_ = best, bad_epochs_ = values[1], reductions_ = values[2];
}

}  // namespace laconic
