#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/inspect.h"
#include "apps/result_table.h"
#include "apps/subcommand.h"
#include "apps/values.h"
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

/// Magnitudes, as INCEPTIONN's Fig. 5 shows that most are small: limits 2^E, and what lies below the first and above
/// the last.
constexpr int kLimits[] = {-20, -16, -14, -12, -10, -8, -6, -4, -2, 0};
constexpr std::size_t kBins = std::size(kLimits) + 1;

struct Histogram {
  double bins[kBins] = {}, zero = 0, negative = 0;  // shares; zeros are in the first bin too
};

Histogram histogram_of(Slice<const float> x) {
  Histogram h;
  for (const float v : x) {
    std::size_t bin = 0;
    while (bin < std::size(kLimits) && !(std::abs(v) < std::ldexp(1.0f, kLimits[bin]))) ++bin;
    h.bins[bin] += 1, h.zero += v == 0, h.negative += v < 0;
  }
  const auto n = static_cast<double>(x.size());
  for (double& b : h.bins) b /= n;
  h.zero /= n, h.negative /= n;
  return h;
}

std::string bin_name(std::size_t bin) {
  if (bin == 0) return fmt::format("below 2^{}", kLimits[0]);
  const auto limit = [](int exponent) { return exponent == 0 ? std::string("1") : fmt::format("2^{}", exponent); };
  return bin + 1 == kBins ? "1 and above" : limit(kLimits[bin - 1]) + " to " + limit(kLimits[bin]);
}

void print_histograms(const std::vector<std::string>& files, const std::vector<Histogram>& all, bool markdown) {
  std::vector<std::string> heads{"magnitude, % of the values"};
  heads.insert(heads.end(), files.begin(), files.end());
  const ResultTable table(heads, markdown);
  table.title("histogram");
  const auto row = [&](const std::string& name, auto share) {
    std::vector<std::string> cells{name};
    for (const Histogram& h : all) cells.push_back(fmt::format("{:.2f}", 100 * share(h)));
    table.row(cells);
  };
  for (std::size_t b = 0; b < kBins; ++b) row(bin_name(b), [b](const Histogram& h) { return h.bins[b]; });
  row("of these 0", [](const Histogram& h) { return h.zero; });
  row("negative", [](const Histogram& h) { return h.negative; });
}

}  // namespace

int inspect_codec(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  std::string tensor;
  std::vector<std::string> modes{"bounded", "published"};
  std::vector<int> exponents{-6, -8, -10, -12};
  bool histogram = false, json = false, markdown = false;
  CLI::App app("What INCEPTIONN's codec makes of values: how much smaller, how far off, in what classes.",
               "laconic inspect codec");
  app.add_option("file", files,
                 "float32 values as they lie in memory, a .safetensors file, or a folder that --dump-gradients has\n"
                 "written, as DIR/step-000100; a table for each")
      ->required()
      ->type_name("FILE..");
  app.add_option("--tensor", tensor, "which one of a .safetensors file")->type_name("NAME");
  app.add_option("--mode", modes, "bounded, published [both]")
      ->delimiter(',')
      ->check(CLI::IsMember({"bounded", "published"}))
      ->type_name("M,..");
  app.add_option("--bound-exp", exponents, "bounds are 2^E [-6,-8,-10,-12]")->delimiter(',')->type_name("E,..");
  app.add_flag("--histogram", histogram, "also the shares of values by magnitude, a column for each FILE");
  app.add_flag("--json", json, "one object for each FILE");
  app.add_flag("--markdown", markdown, "tables for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  std::vector<Histogram> histograms;
  for (const std::string& file : files) {
    const Tensor x = read_values(file, tensor);
    if (histogram) histograms.push_back(histogram_of(x.slice()));
    const ResultTable table({"mode and bound", "ratio", "largest error", "of the bound", "mean error", "2 bits %",
                             "10 bits %", "18 bits %", "34 bits %"},
                            markdown);
    if (!json) table.title(fmt::format("{}, {} values", file, x.elements()));
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
    if (!json) continue;
    nlohmann::ordered_json all{{"elements", x.elements()}, {"results", list}};
    if (histogram) {
      all["below_exponent"] = kLimits;
      all["magnitude_shares"] = histograms.back().bins;
      all["negative"] = histograms.back().negative;
    }
    fmt::print("{}\n", all.dump());
  }
  if (histogram && !json) print_histograms(files, histograms, markdown);
  return 0;
}

}  // namespace laconic
