#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "apps/common/result_table.h"
#include "apps/common/terminal.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "data/input_file.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

/// 61100840 -> "61,100,840"
std::string with_commas(std::int64_t number) { return grouped(static_cast<std::uint64_t>(number)); }

/// "3x224x224"
std::string sizes(std::span<const std::int64_t> extents) {
  std::string text;
  for (const std::int64_t e : extents) text += (text.empty() ? "" : "x") + std::to_string(e);
  return text;
}

Json list(std::span<const std::int64_t> extents) { return std::vector<std::int64_t>(extents.begin(), extents.end()); }

double sum_of_flop(const std::vector<LayerSummary>& layers) {
  double flop = 0;
  for (const LayerSummary& l : layers) flop += l.flop;
  return flop;
}

/// Returns the FLOP of one image, or of one word of a text.
double flop_per_sample(const ModelInfo& info, const std::vector<LayerSummary>& layers) {
  return sum_of_flop(layers) / (info.reads_text() ? static_cast<double>(info.input[0]) : 1);
}

constexpr const char* kConvention =
    "MB are 10^6 bytes of float32; FLOP are of one image, or one word, forward: two for each\n"
    "multiply-add with a weight.";

void print_zoo(bool json, bool markdown) {
  ResultTable table(markdown, "");
  for (const ModelInfo& info : models_of_zoo()) {
    const auto model = make_model(info.name);
    const std::int64_t parameters = model->parameter_count();
    const double flop = flop_per_sample(info, summarize(*model, ghost_batch(info.input, 1).x));
    table.add({{"model", "model", info.name},
               {"input", "input", list(info.input.dims()), info.reads_text() ? "words" : sizes(info.input.dims())},
               {"classes", "classes", info.classes, with_commas(info.classes)},
               {"parameters", "parameters", parameters, with_commas(parameters)},
               {"MB", "bytes", 4 * parameters, "{:.1f}", 1e-6},
               {"GFLOP forward", "flop", flop, "{:.4g}", 1e-9}});
  }
  if (json) return fmt::print("{}\n", Json{{"models", table.objects()}}.dump());
  fmt::print("{}\n{}\n", table.text(), for_terminal(kConvention));
}

std::string mflop(double flop) { return fmt::format("{:.4g}", flop * 1e-6); }

void print_layers(const ModelInfo& info, const ModelOptions& options, bool json, bool markdown) {
  const auto model = make_model(info.name, options);
  const std::vector<LayerSummary> layers = summarize(*model, ghost_batch(info.input, 1).x);
  ResultTable table(markdown, "");
  for (const LayerSummary& l : layers) {
    // Rows of a text are words; of images the batch of one is left out.
    const std::span<const std::int64_t> output = l.output.dims().subspan(info.reads_text() ? 0 : 1);
    table.add({{"layer", "name", l.name},
               {"kind", "kind", l.kind},
               {"output", "output", list(output), sizes(output)},
               {"parameters", "parameters", l.parameters, l.parameters ? with_commas(l.parameters) : ""},
               {"MFLOP", "flop", l.flop, l.flop > 0 ? mflop(l.flop) : ""}});
  }
  const std::int64_t parameters = model->parameter_count();
  const double flop = sum_of_flop(layers);
  if (json) {
    const Json whole{{"model", info.name}, {"parameters", parameters}, {"flop", flop}, {"layers", table.objects()}};
    return fmt::print("{}\n", whole.dump());
  }
  table.add({{"layer", "", "sum"},
             {"parameters", "", parameters, with_commas(parameters)},
             {"MFLOP", "", flop, mflop(flop)}});
  fmt::print("{}\nFLOP are of {}, forward: two for each multiply-add with a weight.\n", table.text(),
             info.reads_text() ? fmt::format("{} words", info.input[0]) : "one image");
}

}  // namespace

int list_models(const std::vector<std::string>& arguments) {
  std::string layers;
  ModelOptions options;
  bool json = false, markdown = false;
  CLI::App app(std::string("The zoo: parameters and work of every model, or the layers of one.\n") + kConvention,
               "laconic models");
  app.add_option("--layers", layers, "the layers of this one of the zoo, in the order of forward")->type_name("NAME");
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
