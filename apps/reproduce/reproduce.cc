// laconic reproduce: tables of the five papers beside ours.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "apps/launch/child_process.h"
#include "apps/reproduce/tables.h"
#include "apps/compare/result_table.h"
#include "apps/common/subcommand.h"
#include "apps/common/terminal.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parse.h"
#include "core/base/scratch_folder.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t stop_signal = 0;

/// What is to be run for a table.
std::vector<std::string> command_of(const PaperTable& table, bool full, const std::string& data) {
  std::vector<std::string> words{"compare"};
  for (const std::string& word : shell_words(full ? table.full : table.small, table.name)) words.push_back(word);
  if (!data.empty()) words.insert(words.end(), {"--data", data});
  for (const PaperRow& row : table.rows) words.insert(words.end(), {"--vs", row.label + ": " + row.options});
  return words;
}

/// A figure of a set, or of its median; nothing where there is none.
std::optional<double> figure(const nlohmann::json& set, const char* key) {
  if (!set.contains(key)) return std::nullopt;
  const nlohmann::json& value = set[key].is_object() ? set[key].value("median", nlohmann::json()) : set[key];
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string text_of(std::optional<double> value, const char* form) {
  return value ? fmt::format(fmt::runtime(form), *value) : "–";
}

/// Rows of the paper with ours beside them.   sets : of `laconic compare --json`, one for each row
ResultTable side_by_side(const PaperTable& paper, const nlohmann::json& sets, bool markdown) {
  ResultTable table(markdown, "–");
  table.title("");
  const std::optional<double> first = figure(sets.at(0), "exposed_ms");
  for (std::size_t i = 0; i < paper.rows.size(); ++i) {
    const nlohmann::json& set = sets.at(i);
    Cells row{{"what", "", paper.rows[i].label}};
    for (std::size_t c = 0; c < paper.columns.size(); ++c)
      row.emplace_back("paper: " + paper.columns[c], "", paper.rows[i].printed[c]);
    const auto exposed = figure(set, "exposed_ms"), accuracy = figure(set, "accuracy"),
               bytes = figure(set, "bytes_sent");
    row.emplace_back("ours: ms a step", "", text_of(figure(set, "step_ms"), "{:.1f}"));
    row.emplace_back("to the first", "", i == 0 ? "1" : text_of(figure(set, "ratio"), "{:.2f}"));
    row.emplace_back("communication exposed, ms", "", text_of(exposed, "{:.1f}"));
    row.emplace_back("saved %", "",
                     exposed && first && *first > 0 ? fmt::format("{:.0f}", 100 * (1 - *exposed / *first)) : "–");
    row.emplace_back("MB sent", "", text_of(bytes ? std::optional(*bytes * 1e-6) : bytes, "{:.3f}"));
    if (accuracy) row.emplace_back("test error %", "", fmt::format("{:.2f}", 100 - *accuracy));
    table.add(row);
  }
  return table;
}

/// Runs a table, and returns its text for Markdown. throws Error: the comparison failed
std::string reproduce(const PaperTable& table, bool full, const std::string& data, const std::string& self,
                      StatusLine& status) {
  const std::vector<std::string> words = command_of(table, full, data);
  std::vector<std::string> command{self};
  command.insert(command.end(), words.begin(), words.end());
  command.push_back("--json");
  const ScratchFolder folder("laconic-reproduce");
  const std::string out = folder.path() + "/out", err = folder.path() + "/err";
  const int code = run_to_files(command, out, err, [&] {
    if (const std::string now = last_line_of(err); !now.empty()) status.show("laconic: " + now);
    return stop_signal == 0;
  });
  status.clear();
  if (stop_signal != 0) return "";
  const nlohmann::json result = json_or_discarded(last_line_of(out));
  require<Error>(
      code == 0 && result.is_object() && result.contains("sets") && result["sets"].size() == table.rows.size(),
      "reproduce: ", table.paper, " ", table.name, " failed: ", last_words(err).text, " It ran: laconic ",
      shell_line(words));
  std::string text = fmt::format("# {}: {}\n\n{}.\n\n", table.paper, table.name, table.title);
  text += side_by_side(table, result["sets"], true).text();
  text += "\nWhat differs:\n\n";
  for (const std::string& thought : split(table.differs, '\n')) text += "* " + thought + "\n";
  text += "\n" + result.value("where", "") + "\n\n    laconic " + shell_line(words) + "\n";
  return text;
}

void write(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

int reproduce(const std::vector<std::string>& arguments) {
  std::string paper, name, scale = "small", data, out;
  bool list = false, dry_run = false;
  CLI::App app("Makes tables of the five papers again, and prints them beside the papers' own.", "laconic reproduce");
  app.add_option("PAPER", paper, "redsync, layer-dropping, hybrid-allreduce, slim-dp or inceptionn [all]");
  app.add_option("TABLE", name, "one of its tables [all of them]");
  app.add_option("--scale", scale, "small: minutes on two cores; full: the paper's own size, hours to weeks [small]")
      ->check(CLI::IsMember({"small", "full"}));
  app.add_option("--data", data, "data of the training program instead of its own");
  app.add_option("--out", out, "a folder that exists, for PAPER-TABLE.md");
  app.add_flag("--list", list, "say which tables there are");
  app.add_flag("--dry-run", dry_run, "print the commands that would run");
  app.footer("Example: laconic reproduce inceptionn");
  if (const auto done = parse_tool(app, arguments)) return *done;

  std::vector<const PaperTable*> chosen;
  std::vector<std::string> papers, names;
  for (const PaperTable& table : paper_tables()) {
    if (papers.empty() || papers.back() != table.paper) papers.push_back(table.paper);
    if (table.paper == paper) names.push_back(table.name);
    if ((paper.empty() || table.paper == paper) && (name.empty() || table.name == name)) chosen.push_back(&table);
  }
  if (!paper.empty() && names.empty())
    refuse("there is no paper " + paper, "laconic reproduce", "name one of " + join(papers, ", "));
  if (chosen.empty())
    refuse("there is no table " + name + " of " + paper, "laconic reproduce", "name one of " + join(names, ", "));
  if (!out.empty() && !fs::is_directory(out))
    refuse("there is no folder " + out, "--out", "make it, or name another one");
  if (list) {
    for (const PaperTable* table : chosen) fmt::print("{} {}: {}\n", table->paper, table->name, table->title);
    return 0;
  }
  const bool full = scale == "full";
  if (dry_run) {
    for (const PaperTable* table : chosen) fmt::print("laconic {}\n", shell_line(command_of(*table, full, data)));
    return 0;
  }
  std::signal(SIGINT, [](int signal) { stop_signal = signal; });
  std::signal(SIGTERM, [](int signal) { stop_signal = signal; });
  const std::string self = fs::read_symlink("/proc/self/exe").parent_path() / "laconic";
  StatusLine status(/*quiet=*/false);
  for (const PaperTable* table : chosen) {
    status.line(fmt::format("laconic: {} {} runs …", table->paper, table->name));
    const std::string text = reproduce(*table, full, data, self, status);
    if (stop_signal != 0) return 128 + stop_signal;
    fmt::print("{}\n", text);
    std::fflush(stdout);
    if (!out.empty()) write(out + "/" + table->paper + "-" + table->name + ".md", text);
  }
  return 0;
}

}  // namespace laconic
