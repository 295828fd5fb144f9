#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Validator;
}

// The tools of `laconic`, a function each. A tool's --help says what it does. Each returns the exit code, and throws
// Error.
namespace laconic {

int list_models(const std::vector<std::string>& arguments);         ///< laconic models
int pack(const std::vector<std::string>& arguments);                ///< laconic pack
int inspect(const std::vector<std::string>& arguments);             ///< laconic inspect WHAT
int inspect_codec(const std::vector<std::string>& arguments);       ///< laconic inspect codec
int inspect_checkpoint(const std::vector<std::string>& arguments);  ///< laconic inspect checkpoint
int inspect_flight(const std::vector<std::string>& arguments);      ///< laconic inspect flight
int simulate(const std::vector<std::string>& arguments);            ///< laconic simulate
int calibrate(const std::vector<std::string>& arguments);           ///< laconic calibrate
int doctor(const std::vector<std::string>& arguments);              ///< laconic doctor
int explain(const std::vector<std::string>& arguments);             ///< laconic explain
int report(const std::vector<std::string>& arguments);              ///< laconic report
int bench(const std::vector<std::string>& arguments);               ///< laconic bench WHAT

/// One of the things that a tool does, named by the tool's first argument.
struct Subcommand {
  const char* name;
  const char* what;  ///< nullptr: an inner part of another one, not shown
  int (*run)(const std::vector<std::string>& arguments);
};

/// Runs the one of `all` that the first argument names, on the rest, and returns its exit code. Without arguments and
/// for --help prints a page of those there are. `tool` is its full name, as "laconic bench".
/// throws UsageError: there is none of that name; and what the one throws
int run_subcommand(const std::string& tool, std::span<const Subcommand> all, const std::vector<std::string>& arguments);

/// The check of an option that takes a number from `low` to `high`. CLI11's own lets one pass that is none (NaN).
CLI::Validator number_from_to(double low, double high);

/// Parses what follows a tool's name. Returns the exit code if that was all (--help).
/// Throws UsageError with CLI11's words and the tool's name, which is the app's.
std::optional<int> parse_tool(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace laconic
