#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/common/terminal.h"
#include "apps/compare/compare.h"
#include "apps/training/options.h"
#include "apps/common/text.h"
#include "apps/launch/child_process.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/parse.h"
#include "core/base/atomic_file.h"
#include "dist/method/method.h"

namespace laconic {
namespace {

constexpr const char* kCompareUsage =
    "as laconic compare mnist --workers 4 --steps 200 --vs \"--allreduce ring\" --vs \"--allreduce butterfly\"";

constexpr const char* kRanks = "{ranks}";

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
  if (steps != all.end() && GivenOptions(others).value("epochs")) all.erase(steps, steps + 2);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

/// "label: --options", where the part before the colon has no option in it.
OptionSet option_set(const std::string& text) {
  const auto [label, options] = labelled(text);
  OptionSet set{label, with_presets(shell_words(options, "--vs"))};
  if (set.label.find_first_not_of(' ') == std::string::npos) set.label = "as is";
  require<UsageError>(set.words.empty() || set.words[0].rfind('-', 0) == 0, "'", set.words.empty() ? "" : set.words[0],
                      "' belongs to no option (--vs ", shell_word(text),
                      "): write --vs \"label: --options of the app\"");
  return set;
}

/// "label: command"
OptionSet peer_set(const std::string& text) {
  const auto colon = text.find(':');
  require<UsageError>(colon != std::string::npos && colon > 0, "'", text,
                      "' has no label (--peer): write --peer \"label: command\"");
  OptionSet set{text.substr(0, colon), {}, shell_words(text.substr(colon + 1), "--peer")};
  require<UsageError>(!set.peer.empty(), "'", text, "' has no command (--peer): write --peer \"label: command\"");
  return set;
}

/// An option of compare itself.
struct Own {
  std::string name, type, help;  ///< without a type it takes no value
  std::function<void(const std::string&)> read;
};

std::vector<Own> own_options(CompareOptions& o) {
  const auto flag = [](bool& target, bool value) { return [&target, value](const std::string&) { target = value; }; };
  const auto count = [](auto& target, const char* name, int least) {
    return [&target, name, least](const std::string& text) { target = whole<int>(text, name, least); };
  };
  return {
      {"--vs", "\"LABEL: OPTIONS\"",
       "a set: options of APP after the common ones; the first is what others are compared with",
       [&o](const std::string& text) { o.sets.push_back(option_set(text)); }},
      {"--peer", "\"LABEL: COMMAND\"",
       "a set that another program trains, as PyTorch in tests/netns/ddp_train.py: it takes the common "
       "options and writes a log as APP does",
       [&o](const std::string& text) { o.sets.push_back(peer_set(text)); }},
      {"--preset", "NAME,..",
       "a set for each of WA, WA+C, INC, INC+C (INCEPTIONN's Fig. 12); the hyper-parameters of "
       "inceptionn-alexnet, -hdc, -resnet, -vgg (its Table I) and redsync-alexnet are options for all",
       [&o](const std::string& text) {
         for (const Preset* preset : presets_named(text, "--preset"))
           if (preset->exchange)
             o.sets.push_back({preset->name, preset->words});
           else
             o.common.insert(o.common.begin(), {"--preset", preset->name});
       }},
      {"--repeat", "R", "runs of every set, with seeds S, S+1, ... (S: --seed of APP) [1]",
       count(o.repeat, "--repeat", 1)},
      {"--warm-up", "K", "steps of each run that do not count [a fifth, at most 20]", count(o.warm_up, "--warm-up", 0)},
      {"--target-accuracy", "X", "also: seconds until the test accuracy is X %",
       [&o](const std::string& text) { o.target_accuracy = real(text, "--target-accuracy", 0, 100, "90"); }},
      {"--launch", "N", "run APP as N processes under laconic launch, instead of --workers N of APP",
       count(o.launch, "--launch", 1)},
      {"--learn", "K",
       "time to the first set's accuracy: train each set without --launch, --through and --link, then "
       "time it with them in epochs of K steps",
       count(o.learn, "--learn", 2)},
      {"--through", "\"WORDS\"",
       "put these in front of every command, such as a script that shapes a network; {ranks} in them "
       "stands for the workers and servers of the set",
       [&o](const std::string& text) { o.through = shell_words(text, "--through"); }},
      {"--rate", "RATE[,LATENCY]", "of the workers' link where --link of APP does not say it, for the bound",
       [&o](const std::string& text) {
         o.rate = dist::LinkSpec::parse(text.find(',') == std::string::npos ? text + ",0s" : text, "--rate");
       }},
      {"--no-bound", "", "do not measure computing alone and the layers, which the bound needs", flag(o.bound, false)},
      {"--keep", "DIR", "keep the log of every run there", [&o](const std::string& text) { o.keep = text; }},
      {"--report", "FILE.html", "a page about the sets, side by side",
       [&o](const std::string& text) { o.report = text; }},
      {"--markdown", "", "the table for docs", flag(o.markdown, true)},
      {"--json", "", "one object on the last line", flag(o.json, true)},
      {"--quiet", "", "no progress", flag(o.quiet, true)},
      {"--dry-run", "", "print the commands, and leave", flag(o.dry_run, true)},
  };
}

/// Replaces kRanks in the word.
std::string with_ranks(std::string word, int ranks) {
  if (const auto at = word.find(kRanks); at != std::string::npos)
    word.replace(at, std::strlen(kRanks), std::to_string(ranks));
  return word;
}

void refuse(const std::vector<std::string>& words, const std::string& where) {
  for (const char* option :
       {"--log", "--report", "--seed", "--repeat", "--resume", "--eval-only", "--dry-run", "--json", "--quiet"}) {
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

CompareOptions parse_compare(const std::vector<std::string>& arguments) {
  CompareOptions o;
  const std::vector<Own> own = own_options(o);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto equals = arguments[i].find('=');
    const std::string option = arguments[i].substr(0, equals);
    const auto found = std::find_if(own.begin(), own.end(), [&](const Own& one) { return one.name == option; });
    if (option == "--help" || option == "-h") {
      o.help = true;
      return o;
    }
    if (found != own.end() && found->type.empty()) {
      require<UsageError>(equals == std::string::npos, "'", arguments[i], "' has a value, and ", option,
                          " takes none (compare): leave it out");
      found->read("");
    } else if (found != own.end()) {
      require<UsageError>(equals != std::string::npos || i + 1 < arguments.size(), "a value is missing (", option,
                          "): give one, ", kCompareUsage);
      found->read(equals != std::string::npos ? arguments[i].substr(equals + 1) : arguments[++i]);
    } else if (!o.app.empty()) {
      o.common.push_back(arguments[i]);
    } else {
      std::vector<std::string> names;
      for (const Own& one : own) names.push_back(one.name);
      require<UsageError>(option.rfind('-', 0) != 0, "unknown option '", option,
                          "' (compare): ", did_you_mean(option, names), "Options of the app come after its name, ",
                          kCompareUsage);
      o.app = arguments[i];
    }
  }
  require<UsageError>(!o.app.empty(), "the program is missing (compare): give it, ", kCompareUsage);
  require<UsageError>(!o.sets.empty(), "there is nothing to compare (compare): name sets of options, ", kCompareUsage);
  refuse(o.common, "command line");
  require<UsageError>(o.learn == 0 || !o.target_accuracy,
                      "--learn has a target of its own (--target-accuracy): leave one of them out");
  require<UsageError>(o.learn == 0 || (!o.warm_up && !o.rate && o.bound),
                      "--learn times whole epochs and tells no bound (--warm-up, --rate, --no-bound): leave them out");
  require<UsageError>(o.learn == 0 || o.launch == 0 || GivenOptions(o.common).value("workers"),
                      "--learn trains without --launch and does not know how many workers learn: give --workers too");
  for (const auto& set : o.sets) refuse(set.words, "--vs " + shell_word(set.label));
  for (std::size_t i = 0; i < o.sets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      require<UsageError>(o.sets[i].label != o.sets[j].label, "two sets are called '", o.sets[i].label,
                          "' (--vs): give them labels, as --vs \"first: --allreduce ring\"");
  o.typed = std::exchange(o.common, with_presets(o.common));
  if (const auto seed = GivenOptions(o.common).value("seed")) o.seed = whole<std::uint64_t>(*seed, "--seed", 0);
  return o;
}

std::string compare_help() {
  std::string text =
      "Trains with several option sets on the same data and seeds, in turns, and prints one table.\n\n"
      "Usage: laconic compare APP [options of APP for all] --vs \"[LABEL: ]OPTIONS\" --vs ... [options]\n\n";
  CompareOptions unused;
  for (const Own& own : own_options(unused)) text += help_line(own.name + " " + own.type, own.help, 29);
  text += help_line("-h,--help", "this text", 29) +
          "\nExample:\n  laconic compare mnist --workers 4 --epochs 2 --repeat 3 \\\n"
          "    --vs \"ring: --allreduce ring\" --vs \"butterfly: --allreduce butterfly\"\n";
  return fitted(text, help_columns(), 6);
}

std::vector<std::string> words_of(const CompareOptions& o, const OptionSet& set) {
  return joined(set.peer.empty() ? o.typed : o.common, set.words);
}

void ask_app(CompareOptions& o, const std::string& app, const std::function<bool()>& goes_on) {
  bool seed_is_known = GivenOptions(o.common).value("seed").has_value();
  const bool wants_ranks =
      std::ranges::any_of(o.through, [](const std::string& w) { return w.find(kRanks) != std::string::npos; });
  const ScratchFolder folder("compare");
  const std::string out = folder.path() + "/out", err = folder.path() + "/err";
  for (OptionSet& set : o.sets) {
    const std::vector<std::string> words = words_of(o, set);
    if (!wants_ranks && values_of(words, "--config").empty()) continue;
    if (run_to_files(joined(joined({app}, words), {"--dry-run", "--json"}), out, err, goes_on) != 0) continue;
    const auto described = json_or_discarded(last_line_of(out));
    if (!described.is_object()) continue;
    const int ranks = described.value("workers", 1) + described.value("servers", 0);
    require<UsageError>(o.learn == 0 || o.launch == 0 || ranks == o.launch, "--learn trains without --launch, with ",
                        ranks, " of its ", o.launch, " ranks ('", set.label, "'): give --workers too");
    set.ranks = o.launch > 0 ? o.launch : ranks;
    if (!std::exchange(seed_is_known, true)) o.seed = described.value("seed", o.seed);
  }
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::string> command_of(const CompareOptions& o, const OptionSet& set, const std::string& app_path,
                                    const std::string& self, std::uint64_t seed, const std::string& log, RunKind run) {
  std::vector<std::string> app = words_of(o, set), words;
  if (run != RunKind::learning) {
    for (std::string word : o.through) words.push_back(with_ranks(std::move(word), set.ranks));
    if (o.launch > 0) words.insert(words.end(), {self, "launch", "-n", std::to_string(o.launch)});
  } else if (set.peer.empty() && GivenOptions(app).value("link")) {
    app.insert(app.end(), {"--link", "none"});
  }
  if (set.peer.empty())
    words.push_back(app_path);
  else
    words.insert(words.end(), set.peer.begin(), set.peer.end());
  words.insert(words.end(), app.begin(), app.end());
  if (run == RunKind::timing)
    words.insert(words.end(), {"--epoch-steps", std::to_string(o.learn), "--eval-every", "0"});
  if (o.repeat > 1) {
    for (std::size_t i = 0; i < words.size(); ++i)
      for (const std::string option : {"--save", "--trace", "--dump-gradients", "--export"}) {
        if (words[i] == option && i + 1 < words.size()) words[i + 1] = with_seed(words[i + 1], seed);
        if (words[i].starts_with(option + "="))
          words[i] = option + "=" + with_seed(words[i].substr(option.size() + 1), seed);
      }
  }
  words.insert(words.end(), {"--seed", std::to_string(seed), "--log", log, "--quiet", "--json"});
  return words;
}

}  // namespace laconic
