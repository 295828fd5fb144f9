#include "apps/models.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "apps/subcommand.h"
#include "core/error.h"
#include "layers/models/summary.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of cells, as text in columns or as a table for documents. The first `left` columns are words, the others
/// numbers.
class Table {
 public:
  Table(std::vector<std::string> head, std::size_t left) : rows_{std::move(head)}, left_(left) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void print(bool markdown) const {
    std::vector<std::size_t> widths(rows_[0].size());
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i)
        line += markdown    ? "| " + row[i] + " "
                : i < left_ ? fmt::format("{:<{}}  ", row[i], widths[i])
                            : fmt::format("{:>{}}  ", row[i], widths[i]);
      line = markdown ? line + "|" : line.substr(0, line.find_last_not_of(' ') + 1);
      fmt::print("{}\n", line);
      if (markdown && &row == &rows_[0]) {
        for (std::size_t i = 0; i < row.size(); ++i) fmt::print("{}", i < left_ ? "|---" : "|---:");
        fmt::print("|\n");
      }
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_;
};

/// 61100840 -> "61,100,840"
std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

/// "3x224x224"
std::string sizes(std::span<const std::int64_t> extents) {
  std::string text;
  for (const std::int64_t e : extents) text += (text.empty() ? "" : "x") + std::to_string(e);
  return text;
}

std::vector<std::int64_t> list(std::span<const std::int64_t> extents) { return {extents.begin(), extents.end()}; }

double sum_of_flop(const std::vector<LayerSummary>& layers) {
  double flop = 0;
  for (const LayerSummary& l : layers) flop += l.flop;
  return flop;
}

/// Of an image, or of one word of a text.
double flop_per_sample(const ModelInfo& info, const std::vector<LayerSummary>& layers) {
  return sum_of_flop(layers) / (info.reads_text() ? static_cast<double>(info.input[0]) : 1);
}

constexpr const char* kConvention =
    "MB are 10^6 bytes of float32; FLOP are of one image, or one word, forward: two for each multiply-add with\n"
    "a weight.";

void print_zoo(bool json, bool markdown) {
  Table table({"model", "input", "classes", "parameters", "MB", "GFLOP forward"}, 2);
  Json all = Json::array();
  for (const ModelInfo& info : models_of_zoo()) {
    const auto model = make_model(info.name);
    const std::int64_t parameters = model->parameter_count();
    const double flop = flop_per_sample(info, summarize(*model, info.input));
    all.push_back({{"model", info.name},
                   {"input", list(info.input.dims())},
                   {"classes", info.classes},
                   {"parameters", parameters},
                   {"bytes", 4 * parameters},
                   {"flop", flop}});
    table.add({info.name, info.reads_text() ? "words" : sizes(info.input.dims()), with_commas(info.classes),
               with_commas(parameters), fmt::format("{:.1f}", 4e-6 * static_cast<double>(parameters)),
               fmt::format("{:.4g}", flop * 1e-9)});
  }
  if (json) return fmt::print("{}\n", Json{{"models", all}}.dump());
  table.print(markdown);
  fmt::print("\n{}\n", kConvention);
}

void print_layers(const ModelInfo& info, const ModelOptions& options, bool json, bool markdown) {
  const auto model = make_model(info.name, options);
  const std::vector<LayerSummary> layers = summarize(*model, info.input);
  Table table({"layer", "kind", "output", "parameters", "MFLOP"}, 3);
  Json all = Json::array();
  for (const LayerSummary& l : layers) {
    // Rows of a text are words; of images the batch of one is left out.
    const std::span<const std::int64_t> output = l.output.dims().subspan(info.reads_text() ? 0 : 1);
    all.push_back({{"name", l.name},
                   {"kind", l.kind},
                   {"output", list(output)},
                   {"parameters", l.parameters},
                   {"flop", l.flop}});
    table.add({l.name, l.kind, sizes(output), l.parameters ? with_commas(l.parameters) : "",
               l.flop > 0 ? fmt::format("{:.4g}", l.flop * 1e-6) : ""});
  }
  const std::int64_t parameters = model->parameter_count();
  const double flop = sum_of_flop(layers);
  if (json) {
    const Json whole{{"model", info.name}, {"parameters", parameters}, {"flop", flop}, {"layers", all}};
    return fmt::print("{}\n", whole.dump());
  }
  table.add({"sum", "", "", with_commas(parameters), fmt::format("{:.4g}", flop * 1e-6)});
  table.print(markdown);
  fmt::print("\nFLOP are of {}, forward: two for each multiply-add with a weight.\n",
             info.reads_text() ? fmt::format("{} words", info.input[0]) : "one image");
}

}  // namespace

int list_models(const std::vector<std::string>& arguments) {
  std::string layers;
  ModelOptions options;
  bool json = false, markdown = false;
  CLI::App app(std::string("The zoo: parameters and work of every model, or the layers of one.\n") + kConvention,
               "laconic models");
  app.add_option("--layers", layers, "the layers of this model, in the order of forward")->type_name("NAME");
  app.add_option("--classes", options.classes, "with this many outputs; of a language model words [the model's own]")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("K")
      ->needs("--layers");
  app.add_flag("--resnet-v1", options.resnet_v1, "the stride of bottlenecks in their first convolution")
      ->needs("--layers");
  app.add_flag("--auxiliary-heads", options.auxiliary_heads, "GoogLeNet's, which training alone uses")
      ->needs("--layers");
  app.add_flag("--json", json, "one object, on the last line");
  app.add_flag("--markdown", markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  if (layers.empty())
    print_zoo(json, markdown);
  else
    print_layers(model_info(layers), options, json, markdown);
  return 0;
}

}  // namespace laconic
