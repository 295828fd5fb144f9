#include "apps/compare/options.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "apps/presets.h"
#include "apps/text.h"
#include "core/error.h"

namespace laconic {
namespace {

constexpr const char* kUsage =
    "as laconic compare mnist --workers 4 --steps 200 --vs \"--allreduce ring\" --vs \"--allreduce butterfly\"";

template <class T>
T number(const std::string& text, const std::string& option, T least) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  require<UsageError>(result.ec == std::errc() && result.ptr == text.data() + text.size() && value >= least, "'", text,
                      "' is not a number of at least ", least, " (", option, "): give one, as ", option, " 4");
  return value;
}

/// What presets stand for, in front of the other words.
std::vector<std::string> with_presets(const std::vector<std::string>& words) {
  std::vector<std::string> all, others;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool apart = words[i] == "--preset" && i + 1 < words.size();
    if (!apart && words[i].rfind("--preset=", 0) != 0) {
      others.push_back(words[i]);
      continue;
    }
    for (const Preset* preset : presets_named(apart ? words[++i] : words[i].substr(9), "--preset"))
      all.insert(all.end(), preset->words.begin(), preset->words.end());
  }
  const auto steps = std::find(all.begin(), all.end(), "--steps");
  if (steps != all.end() && value_of(others, "--epochs")) all.erase(steps, steps + 2);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

/// "label: --options", where the part before the colon has no option in it.
OptionSet option_set(const std::string& text) {
  const auto colon = text.find(':');
  const bool labelled =
      colon != std::string::npos && colon > 0 && text[0] != '-' && (colon + 1 == text.size() || text[colon + 1] == ' ');
  OptionSet set{labelled ? text.substr(0, colon) : text,
                with_presets(shell_words(labelled ? text.substr(colon + 1) : text, "--vs"))};
  if (set.label.find_first_not_of(' ') == std::string::npos) set.label = "as is";
  require<UsageError>(set.words.empty() || set.words[0].rfind('-', 0) == 0, "'", set.words.empty() ? "" : set.words[0],
                      "' belongs to no option (--vs ", shell_word(text),
                      "): write --vs \"label: --options of the app\"");
  return set;
}

void refuse(const std::vector<std::string>& words, const std::string& where) {
  for (const char* option :
       {"--log", "--seed", "--repeat", "--resume", "--eval-only", "--dry-run", "--json", "--quiet"}) {
    const bool common_seed = std::string(option) == "--seed" && where == "command line";
    for (const auto& word : words)
      require<UsageError>(common_seed || word.substr(0, word.find('=')) != option, option, " has no place here (",
                          where, "): compare sets it for every run; ",
                          std::string(option) == "--log" ? "--keep DIR keeps the logs" : "leave it out");
  }
}

}  // namespace

std::vector<std::string> values_of(const std::vector<std::string>& words, const std::string& option) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) values.push_back(words[i + 1]);
    if (words[i].rfind(option + "=", 0) == 0) values.push_back(words[i].substr(option.size() + 1));
  }
  return values;
}

std::optional<std::string> value_of(const std::vector<std::string>& words, const std::string& option) {
  const auto values = values_of(words, option);
  return values.empty() ? std::nullopt : std::optional(values.back());
}

CompareOptions parse_compare(const std::vector<std::string>& arguments) {
  CompareOptions o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto equals = arguments[i].find('=');
    const std::string option = arguments[i].substr(0, equals);
    const auto value = [&] {
      if (equals != std::string::npos) return arguments[i].substr(equals + 1);
      require<UsageError>(i + 1 < arguments.size(), "a value is missing (", option, "): give one, ", kUsage);
      return arguments[++i];
    };
    if (option == "--vs") {
      o.sets.push_back(option_set(value()));
    } else if (option == "--preset") {
      for (const Preset* preset : presets_named(value(), option))
        if (preset->exchange)
          o.sets.push_back({preset->name, preset->words});
        else
          o.common.insert(o.common.begin(), {"--preset", preset->name});
    } else if (option == "--repeat") {
      o.repeat = number<int>(value(), option, 1);
    } else if (option == "--launch") {
      o.launch = number<int>(value(), option, 1);
    } else if (option == "--through") {
      o.through = shell_words(value(), option);
    } else if (option == "--target-accuracy") {
      o.target_accuracy = number<double>(value(), option, 0);
    } else if (option == "--warm-up") {
      o.warm_up = number<int>(value(), option, 0);
    } else if (option == "--rate") {
      const std::string text = value();
      o.rate = dist::LinkSpec::parse(text.find(',') == std::string::npos ? text + ",0s" : text, option);
    } else if (option == "--keep") {
      o.keep = value();
    } else if (option == "--no-bound") {
      o.bound = false;
    } else if (option == "--markdown") {
      o.markdown = true;
    } else if (option == "--json") {
      o.json = true;
    } else if (option == "--quiet") {
      o.quiet = true;
    } else if (option == "--dry-run") {
      o.dry_run = true;
    } else if (option == "--help" || option == "-h") {
      o.help = true;
      return o;
    } else if (!o.app.empty()) {
      o.common.push_back(arguments[i]);
    } else {
      require<UsageError>(option.rfind('-', 0) != 0, "unknown option '", option,
                          "' (compare): options of the app come after its name, ", kUsage);
      o.app = arguments[i];
    }
  }
  require<UsageError>(!o.app.empty(), "the program is missing (compare): give it, ", kUsage);
  require<UsageError>(!o.sets.empty(), "there is nothing to compare (compare): name sets of options, ", kUsage);
  refuse(o.common, "command line");
  for (const auto& set : o.sets) refuse(set.words, "--vs " + shell_word(set.label));
  for (std::size_t i = 0; i < o.sets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      require<UsageError>(o.sets[i].label != o.sets[j].label, "two sets are called '", o.sets[i].label,
                          "' (--vs): give them labels, as --vs \"first: --allreduce ring\"");
  o.typed = std::exchange(o.common, with_presets(o.common));
  if (const auto seed = value_of(o.common, "--seed")) o.seed = number<std::uint64_t>(*seed, "--seed", 0);
  return o;
}

std::vector<std::string> command_of(const CompareOptions& o, const OptionSet& set, const std::string& app_path,
                                    const std::string& self, std::uint64_t seed, const std::string& log) {
  std::vector<std::string> words = o.through;
  if (o.launch > 0) words.insert(words.end(), {self, "launch", "-n", std::to_string(o.launch)});
  words.push_back(app_path);
  words.insert(words.end(), o.typed.begin(), o.typed.end());
  words.insert(words.end(), set.words.begin(), set.words.end());
  if (o.repeat > 1)
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      for (const char* option : {"--save", "--trace", "--dump-gradients"})
        if (words[i] == option) words[i + 1] = with_seed(words[i + 1], seed);
  words.insert(words.end(), {"--seed", std::to_string(seed), "--log", log, "--quiet", "--json"});
  return words;
}

}  // namespace laconic
