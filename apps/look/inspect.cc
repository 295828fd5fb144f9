#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/bench/published_selectors.h"
#include "apps/common/statistics.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "apps/common/values.h"
#include "compress/select/selector.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/raw.h"
#include "dist/plan/choice.h"

namespace laconic {
namespace {

constexpr int kTimed = 5;  // selections; the median is told

int inspect_select(const std::vector<std::string>& arguments) {
  std::string file, tensor;
  std::string method = "search", sign = "any";
  std::optional<std::int64_t> k;
  std::optional<double> density;
  compress::SelectorOptions options;
  int threads = 1;
  bool json = false;
  CLI::App app("What a selector chooses of the values in a file, and how much of them that is.",
               "laconic inspect select");
  app.add_option("file", file, "float32 values as they lie in memory, or a .safetensors file")
      ->required()
      ->type_name("FILE");
  app.add_option("--tensor", tensor, "which one of a .safetensors file")->type_name("NAME");
  app.add_option("--method", method,
                 "radix, trimmed, search, sampled, exact, fixed, dropping, dgc, random; as published, step by step:\n"
                 "nth-element, radix-histogram, trimmed-steps, search-steps [search]")
      ->type_name("M");
  const auto count = app.add_option("--k", k, "how many to choose")->check(CLI::NonNegativeNumber)->type_name("K");
  app.add_option("--density", density, "instead: the share, k = max(1, ceil(D n)) [0.001]")
      ->check(number_from_to(0, 1))
      ->type_name("D")
      ->excludes(count);
  app.add_option("--threshold", options.threshold, "of fixed")->check(number_from_to(0, 1e30))->type_name("X");
  app.add_option("--sign", sign, "any, positive, negative [any]")
      ->check(CLI::IsMember({"any", "positive", "negative"}))
      ->type_name("S");
  app.add_option("--threads", threads, "kernel threads [1]")->check(CLI::Range(1, 1024))->type_name("T");
  app.add_flag("--json", json, "one object");
  if (const auto done = parse_tool(app, arguments)) return *done;
  const auto& published = compress::published_selectors();
  compress::selectors().insert(compress::selectors().end(), published.begin(), published.end());
  const compress::SelectorKind& kind = compress::selector_kind(method, "--method");
  require<UsageError>(!kind.traits.needs_latest, method,
                      " goes by the last gradient besides (--method): choose another");
  set_kernel_threads(threads);
  const Tensor x = read_values(file, tensor);
  const auto n = x.elements();
  if (!k) k = dist::elements_to_send(n, density.value_or(0.001));
  require<UsageError>(*k <= n, "there are ", n, " values (--k): choose no more of them than that, not ", *k);
  require<UsageError>(kind.traits.by_sign || sign == "any", method, " does not choose by sign (--sign): leave it out");

  const compress::SelectionInput input{.values = x.slice(),
                                       .k = static_cast<std::size_t>(*k),
                                       .sign = sign == "any"        ? compress::Sign::any
                                               : sign == "positive" ? compress::Sign::positive
                                                                    : compress::Sign::negative};
  compress::Selection s;
  std::vector<double> ms;
  for (int i = 0; i < kTimed; ++i) {
    const auto selector = kind.make(options);  // one that knows nothing yet
    const auto begin = Clock::now();
    selector->select(input, s);
    ms.push_back(1e3 * seconds_since(begin));
  }
  double chosen = 0;
  for (const float v : s.values) chosen += static_cast<double>(v) * v;
  const double all = raw::sum_of_squares(x);
  const double captured = all > 0 ? std::sqrt(chosen / all) : 0;
  const double time = median(ms).value;
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"method", method},
                                              {"elements", n},
                                              {"k", *k},
                                              {"nnz", s.size()},
                                              {"threshold", s.threshold},
                                              {"passes", s.passes},
                                              {"ms", time},
                                              {"captured_l2", captured}}
                           .dump());
    return 0;
  }
  fmt::print(
      "{} of {} values\n  k          {:<14} asked for\n  nnz        {:<14} chosen\n"
      "  threshold  {:<14.6g} the smallest magnitude let in\n  passes     {:<14} over all values\n"
      "  time       {:<14} ms, nothing known before, {}\n  captured   {:<14} of the L2 norm\n",
      method, n, *k, s.size(), s.threshold, s.passes, fmt::format("{:.3f}", time), plural(threads, "thread"),
      fmt::format("{:.2f} %", 100 * captured));
  return 0;
}

constexpr Subcommand kInspections[] = {
    {"select", "what a selector chooses of given values", inspect_select},
    {"codec", "what INCEPTIONN's codec makes of them", inspect_codec},
    {"checkpoint", "whether what --save wrote is whole", inspect_checkpoint},
    {"flight", "what each rank was at when a training broke off", inspect_flight},
};

}  // namespace

int inspect(const std::vector<std::string>& arguments) {
  return run_subcommand("laconic inspect", kInspections, arguments);
}

}  // namespace laconic
