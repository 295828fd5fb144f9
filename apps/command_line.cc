#include "apps/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "apps/common/terminal.h"
#include "apps/common/text.h"

namespace laconic {

void bind(CLI::App& app, const Settings& settings, Texts& texts) {
  using Takes = Setting::Takes;
  for (const Setting& s : settings.all()) {
    const std::string name = "--" + s.name, help = Settings::as_options(s.help);
    const auto take = [&texts, its = s.name](const std::string& text) { texts.emplace_back(its, text); };
    const auto take_all = [take](const std::vector<std::string>& all) {
      for (const std::string& text : all) take(text);
    };
    CLI::Option* option = nullptr;
    if (s.takes == Takes::nothing)
      option = app.add_flag_callback(
          name, [take] { take(""); }, help);
    else if (s.takes == Takes::repeated || s.takes == Takes::words)
      option = app.add_option_function<std::vector<std::string>>(name, take_all, help);
    else
      option = app.add_option_function<std::string>(name, take, help);
    option->group(s.hidden ? "" : Settings::as_options(s.group));
    if (s.takes != Takes::nothing) option->type_name(s.type);
    if (s.takes == Takes::repeated) option->allow_extra_args(false);
    if (s.takes == Takes::one || s.takes == Takes::maybe) option->take_last();
    if (s.takes == Takes::maybe) option->expected(0, 1);
  }
}

namespace {

constexpr const char* kName = "--config";

/// CLI11's reader crashes at an empty list, takes the last of several values, and knows only flags that are true.
class Toml final : public CLI::ConfigTOML {
 public:
  explicit Toml(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> items;
    std::set<std::string> names;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(in)) {
      const CLI::Option* option = item.parents.empty() ? app_.get_option_no_throw("--" + item.name) : nullptr;
      if (option == nullptr || keep(item, *option, names)) items.push_back(std::move(item));
    }
    return items;
  }

 private:
  static bool keep(CLI::ConfigItem& item, const CLI::Option& option, std::set<std::string>& names) {
    const std::string name = "'" + item.name + "'";
    if (!option.get_configurable()) refuse(name + " belongs on the command line", kName, "leave it out of the file");
    if (!names.insert(item.name).second) refuse(name + " stands twice", kName, "leave one of them out");
    if (item.inputs.empty()) refuse(name + " has an empty list", kName, "give a value, or leave the line out");
    for (const std::string& value : item.inputs)
      if (value.find('\0') != std::string::npos) refuse(name + " has a byte 0 in its value", kName, "take it out");
    const int most = option.get_items_expected_max();
    if (item.inputs.size() > 1 && most <= 1)
      refuse(fmt::format("{} has {} values, '{}' and '{}'{}", name, item.inputs.size(), item.inputs[0], item.inputs[1],
                         item.inputs.size() > 2 ? " first" : ""),
             kName, "give one, once, in quotes if it has commas or blanks");
    if (most == 0 || option.get_expected_min() > 0) return true;  // not one whose value may be left out
    if (item.inputs[0] == "true") item.inputs[0].clear();
    return item.inputs[0] != "false";
  }

  const CLI::App& app_;
};

}  // namespace

void add_config_file(CLI::App& app, const char* group) {
  app.set_config(kName, "", "options from a TOML file, by the same names")->type_name("FILE")->group(group);
  app.config_formatter(std::make_shared<Toml>(app));
}

void refuse_option(const CLI::App& app, const std::string& word, const std::string& where) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string name = word.substr(0, word.find('='));
  const std::string close = nearest(name, names);
  refuse("unknown option '" + name + "'", where,
         close.empty() ? "see --help" : "did you mean " + close + "? See --help");
}

namespace {

constexpr std::size_t kWritten = 100;  // columns that lines of descriptions are broken for by whoever writes them

/// Such a description for other columns: its lines are one, but for those with columns of their own.
std::string joined_lines(const std::string& text) {
  const auto has_columns = [](const std::string& line) { return line.find("  ") != std::string::npos; };
  const std::vector<std::string> lines = split(text, '\n');
  std::string joined = lines[0];
  for (std::size_t i = 1; i < lines.size(); ++i)
    joined += (has_columns(lines[i - 1]) || has_columns(lines[i]) ? "\n" : " ") + lines[i];
  return joined;
}

}  // namespace

void format_help(CLI::App& app, int column_width) {
  struct Plain final : CLI::Formatter {
    // As CLI11 2.4 does. Later versions give long names a column of their own.
    std::string make_option(const CLI::Option* option, bool positional) const override {
      const std::string names = "  " + make_option_name(option, positional) + make_option_opts(option);
      const std::size_t width = get_column_width();
      const std::string beside = "\n" + std::string(width, ' '), about = make_option_desc(option);
      std::string text = names + std::string(width - std::min(width, names.size()), ' ');
      if (names.size() >= width && !about.empty()) text += beside;
      for (const char c : about) text += c == '\n' ? beside : std::string(1, c);
      return text + "\n";
    }
    std::string make_option_opts(const CLI::Option* option) const override {
      if (option->get_type_size() == 0) return "";
      std::string type = option->get_type_name();
      for (const char* check : {":INT in", ":FLOAT in", ":POSITIVE", ":{"}) type = type.substr(0, type.find(check));
      return type.empty() ? "" : " " + type;
    }
    std::string make_option_desc(const CLI::Option* option) const override {
      const bool required = option->get_required() && !option->get_positional();
      const std::string text = option->get_description() + (required ? " (required)" : "");
      return fitted(help_columns() < kWritten ? joined_lines(text) : text, help_columns() - get_column_width(), 0);
    }
    std::string make_description(const CLI::App* app) const override {
      return broken(CLI::Formatter::make_description(app), help_columns());
    }
  };
  const auto formatter = std::make_shared<Plain>();
  formatter->column_width(static_cast<std::size_t>(column_width));
  app.formatter(formatter);
}

std::string help_text(const CLI::App& app, const std::string& footer) {
  std::string help = app.help();
  if (!footer.empty()) help += "\n" + footer + "\n";
  for (std::size_t at; (at = help.find(" \n")) != std::string::npos;) help.erase(at, 1);
  for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  // CLI11 2.6 leaves the word out.
  const std::size_t line = help.find("\n" + app.get_name() + " ");
  if (help.find("Usage: ") == std::string::npos && line != std::string::npos) help.insert(line + 1, "Usage: ");
  return fitted(help, help_columns(), 6);
}

}  // namespace laconic
