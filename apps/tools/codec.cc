#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/common/subcommand.h"
#include "apps/common/tools.h"
#include "apps/common/values.h"
#include "compress/inceptionn/lacc.h"
#include "core/base/atomic_file.h"
#include "data/input_file.h"

namespace laconic {
namespace {

using compress::InceptionnMode;

void write(const std::string& path, const void* data, std::size_t bytes) {
  AtomicFile file(path);
  file.write(data, bytes);
  file.commit();
}

int encode(const std::vector<std::string>& arguments) {
  std::string mode = "bounded", out;
  ValuesFile in;
  int exponent = -10;
  CLI::App app("Writes the float32 values of a file with few bits each, no further off than a bound.",
               "laconic codec encode");
  app.add_option("--mode", mode,
                 "bounded: keeps the bound; published: the paper's, which does not below 2^-7 [bounded]")
      ->check(CLI::IsMember({"published", "bounded"}))
      ->type_name("M");
  app.add_option("--bound-exp", exponent, "the bound is 2^E [-10]")->type_name("E");
  in.add_options(app, "IN");
  app.add_option("out", out, "the file to write")->required()->type_name("OUT");
  if (const auto done = parse_tool(app, arguments)) return *done;
  const compress::Inceptionn codec(mode == "bounded" ? InceptionnMode::bounded : InceptionnMode::published, exponent);
  const Tensor x = in.read();
  compress::Bytes file;
  compress::encode_lacc(codec, x.slice(), file);
  write(out, file.data(), file.size());
  const double ratio = static_cast<double>(x.bytes()) / static_cast<double>(file.size());
  fmt::print("{}: {} values in {} bytes, {:.2f} times {}\n", out, x.elements(), file.size(),
             ratio < 1 ? 1 / ratio : ratio, ratio < 1 ? "larger" : "smaller");
  return 0;
}

int decode(const std::vector<std::string>& arguments) {
  std::string in, out;
  CLI::App app("Writes the values of a file of codec encode as float32.", "laconic codec decode");
  app.add_option("in", in, "a file of codec encode")->required()->type_name("IN");
  app.add_option("out", out, "the file to write")->required()->type_name("OUT");
  if (const auto done = parse_tool(app, arguments)) return *done;
  const std::vector<std::byte> file = read_file(in);
  const compress::LaccHeader header = compress::lacc_header(slice(file), in);
  std::vector<float> x(header.count);
  compress::decode_lacc(slice(file), slice(x), in);
  write(out, x.data(), x.size() * sizeof(float));
  fmt::print("{}: {} values, {} with a bound of 2^{}\n", out, x.size(), to_string(header.mode), header.exponent);
  return 0;
}

constexpr Subcommand kActions[] = {
    {"encode", "IN OUT: float32 values, with few bits each", encode},
    {"decode", "IN OUT: and back", decode},
};

}  // namespace

int codec(const std::vector<std::string>& arguments) { return run_subcommand("laconic codec", kActions, arguments); }

}  // namespace laconic
