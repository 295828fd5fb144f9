#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/bench/bench.h"
#include "apps/bench/select.h"
#include "apps/bench/select_data.h"
#include "apps/inspect.h"
#include "compress/inceptionn.h"
#include "core/error.h"

namespace laconic {
namespace {

using compress::InceptionnMode;

struct Account {
  double ratio = 0, worst = 0, mean = 0;
  double shares[4] = {};  // of values of 2, 10, 18, 34 bits
};

Account account_of(InceptionnMode mode, int exponent, Slice<const float> x) {
  const compress::Inceptionn codec(mode, exponent);
  compress::Bytes payload;
  codec.encode(x, {}, payload);
  const Tensor decoded = Tensor::empty({static_cast<std::int64_t>(x.size())});
  codec.decode(payload.slice(), decoded.slice());
  Account a;
  a.ratio = static_cast<double>(x.size_bytes()) / static_cast<double>(payload.size());
  const compress::cpu::InceptionnRule rule = compress::inceptionn_rule(mode, exponent);
  std::size_t finite = 0, counts[4] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFF;
    ++counts[int{magnitude >= rule.skip} + int{magnitude >= rule.eight} + int{magnitude >= rule.sixteen}];
    if (!std::isfinite(x[i])) continue;
    const double error = std::abs(static_cast<double>(x[i]) - decoded.slice()[i]);
    a.worst = std::max(a.worst, error), a.mean += error, ++finite;
  }
  if (finite > 0) a.mean /= static_cast<double>(finite);
  for (int c = 0; c < 4; ++c) a.shares[c] = static_cast<double>(counts[c]) / static_cast<double>(x.size());
  return a;
}

}  // namespace

int inspect_codec(const std::vector<std::string>& arguments) {
  ValuesFile file;
  std::vector<std::string> modes{"bounded", "published"};
  std::vector<int> exponents{-6, -8, -10, -12};
  bool json = false, markdown = false;
  CLI::App app("What INCEPTIONN's codec makes of the values in a file: how much smaller, how far off, in what classes.",
               "laconic inspect codec");
  file.add_options(app);
  app.add_option("--mode", modes, "bounded, published [both]")
      ->delimiter(',')
      ->check(CLI::IsMember({"bounded", "published"}))
      ->type_name("M,..");
  app.add_option("--bound-exp", exponents, "bounds are 2^E [-6,-8,-10,-12]")->delimiter(',')->type_name("E,..");
  app.add_flag("--json", json, "one object");
  app.add_flag("--markdown", markdown, "a table for docs");
  if (const auto done = parse_bench(app, arguments)) return *done;
  const Tensor x = file.read();
  const BenchTable table({"mode and bound", "ratio", "largest error", "of the bound", "mean error", "2 bits %",
                          "10 bits %", "18 bits %", "34 bits %"},
                         markdown);
  if (!json) table.title(fmt::format("{}, {} values", file.path, x.elements()));
  auto list = nlohmann::ordered_json::array();
  for (const std::string& mode : modes)
    for (const int exponent : exponents) {
      const Account a =
          account_of(mode == "bounded" ? InceptionnMode::bounded : InceptionnMode::published, exponent, x.slice());
      const double of_bound = a.worst / std::ldexp(1.0, exponent);
      list.push_back({{"mode", mode},
                      {"bound_exp", exponent},
                      {"ratio", a.ratio},
                      {"max_error", a.worst},
                      {"max_error_of_bound", of_bound},
                      {"mean_error", a.mean},
                      {"shares", a.shares}});
      if (json) continue;
      std::vector<std::string> cells{fmt::format("{}, 2^{}", mode, exponent), fmt::format("{:.2f}", a.ratio),
                                     fmt::format("{:.3g}", a.worst), fmt::format("{:.2f}", of_bound),
                                     fmt::format("{:.3g}", a.mean)};
      for (const double share : a.shares) cells.push_back(fmt::format("{:.1f}", 100 * share));
      table.row(cells);
    }
  if (json) fmt::print("{}\n", nlohmann::ordered_json{{"elements", x.elements()}, {"results", list}}.dump());
  return 0;
}

}  // namespace laconic
