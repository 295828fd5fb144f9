#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/common/result_table.h"
#include "apps/common/tools.h"
#include "apps/common/values.h"
#include "compress/inceptionn/inceptionn.h"
#include "core/base/error.h"

namespace laconic {
namespace {

using compress::InceptionnMode;

struct Account {
  double ratio = 0, worst = 0, mean = 0;
  double shares[4] = {};  // of values by their bits
};
constexpr const char* kClasses[] = {"2 bits %", "10 bits %", "18 bits %", "34 bits %"};

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
  ResultTable table(markdown, "histogram");
  const auto row = [&](const std::string& name, auto share) {
    Cells figures{{"magnitude, % of the values", "", name}};
    for (std::size_t i = 0; i < files.size(); ++i) figures.emplace_back(files[i], "", 100 * share(all[i]), "{:.2f}");
    table.add(figures);
  };
  for (std::size_t b = 0; b < kBins; ++b) row(bin_name(b), [b](const Histogram& h) { return h.bins[b]; });
  row("of these 0", [](const Histogram& h) { return h.zero; });
  row("negative", [](const Histogram& h) { return h.negative; });
  fmt::print("{}", table.text());
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
                 "float32 values as they lie in memory, a .safetensors file, or a folder that --dump-gradients has "
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
    ResultTable table(markdown, fmt::format("{}, {} values", file, x.elements()));
    for (const std::string& mode : modes)
      for (const int exponent : exponents) {
        const Account a =
            account_of(mode == "bounded" ? InceptionnMode::bounded : InceptionnMode::published, exponent, x.slice());
        Cells row{{"", "mode", mode},
                  {"", "bound_exp", exponent},
                  {"mode and bound", "", fmt::format("{}, 2^{}", mode, exponent)},
                  {"ratio", "ratio", a.ratio, "{:.2f}"},
                  {"largest error", "max_error", a.worst, "{:.3g}"},
                  {"of the bound", "max_error_of_bound", a.worst / std::ldexp(1.0, exponent), "{:.2f}"},
                  {"mean error", "mean_error", a.mean, "{:.3g}"},
                  {"", "shares", a.shares, ""}};
        for (int c = 0; c < 4; ++c) row.emplace_back(kClasses[c], "", 100 * a.shares[c], "{:.1f}");
        table.add(row);
      }
    if (!json) {
      fmt::print("{}", table.text());
      continue;
    }
    nlohmann::ordered_json all{{"elements", x.elements()}, {"results", table.objects()}};
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
