// Faults at random moments of a training, and whether it goes on to the same weights: chaos [options] PROGRAM ...
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>

#include "tests/chaos/faults.h"
#include "apps/launch/launch.h"
#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/tools.h"
#include "apps/common/text.h"
#include "apps/main.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "core/base/atomic_file.h"
#include "dist/method/method.h"

namespace laconic {
namespace {

constexpr const char* kAll = "all";
constexpr int kAttempts = 10;  // at a fault that comes too late

std::atomic<int> chaos_interrupted{0};  // the signal that came, or 0
extern "C" void on_chaos_interrupt(int signal_number) { chaos_interrupted = signal_number; }

struct ChaosOptions {
  int faults = 20, launch = 0;
  std::uint64_t seed = 0;
  double timeout = 0;
  std::string program, kinds, methods, keep;
  bool markdown = false, json = false;
};

std::vector<FaultKind> kinds_named(const std::string& text, bool several) {
  std::vector<FaultKind> chosen;
  std::vector<std::string> names;
  for (const FaultKind& kind : fault_kinds()) names.emplace_back(kind.name);
  for (const std::string& word : text.empty() ? names : split(text, ',')) {
    const auto found = std::find(names.begin(), names.end(), word);
    require<UsageError>(found != names.end(), "there is no fault '", word, "' (--kinds): ", did_you_mean(word, names),
                        "There are ", join(names, ", "));
    const FaultKind& kind = fault_kinds()[static_cast<std::size_t>(found - names.begin())];
    require<UsageError>(!kind.of_ranks || several || text.empty(), word,
                        " needs other processes that notice it (--kinds): add --launch N");
    if (!kind.of_ranks || several) chosen.push_back(kind);
  }
  return chosen;
}

std::vector<std::string> methods_named(const std::string& text) {
  if (text.empty()) return {""};
  if (text == kAll) return dist::methods().names();
  for (const std::string& name : split(text, ',')) dist::methods().make(name);  // or it says which there are
  return split(text, ',');
}

/// The path of a program: as given, or by its name where the programs lie that were built with this one.
std::string program(const std::string& name) {
  if (name.find('/') != std::string::npos) return find_app(name, "chaos");
  return find_app(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../apps" / name, "chaos");
}

/// A method and its training without a fault.
struct Subject {
  std::string label;
  Victim victim;
  Undisturbed undisturbed{};
};

struct Tally {
  int faults = 0, same = 0, differ = 0, hung = 0, failed = 0;
  int lost = 0, named = 0;  // ranks, and those of them that what was said names
  std::vector<double> again;
};

void add(Tally& tally, const Outcome& outcome) {
  ++tally.faults;
  ++(outcome.hung ? tally.hung : outcome.differs ? tally.differ : outcome.problem.empty() ? tally.same : tally.failed);
  if (outcome.named) ++tally.lost, tally.named += *outcome.named;
  if (outcome.again_seconds >= 0) tally.again.push_back(outcome.again_seconds);
}

class Chaos {
 public:
  Chaos(ChaosOptions options, const std::vector<std::string>& words)
      : o_(std::move(options)), kinds_(kinds_named(o_.kinds, o_.launch > 1)) {
    for (const std::string& method : methods_named(o_.methods)) {
      Subject subject{method.empty() ? "as given" : method,
                      {program("laconic"), program(o_.program), words, o_.launch, o_.timeout}};
      std::vector<std::string>& all = subject.victim.words;
      if (!method.empty()) all.insert(all.end(), {"--sync", method});
      const std::string of = method.empty() ? "" : dist::methods().make(method)->traits().optimizer;
      if (!of.empty() && std::find(words.begin(), words.end(), "--optimizer") == words.end())
        all.insert(all.end(), {"--optimizer", of});
      subjects_.push_back(std::move(subject));
    }
    folder_ = o_.keep.empty() ? scratch_.emplace("chaos", ", or give --keep DIR").path() : o_.keep;
  }

  /// Returns the exit code. A signal ends it after the fault that is under way.
  int run() {
    for (const int s : {SIGINT, SIGTERM}) std::signal(s, on_chaos_interrupt);
    train_all_undisturbed();
    for (int i = 0; i < o_.faults && !chaos_interrupted; ++i) {
      Subject& subject = subjects_[static_cast<std::size_t>(i) % subjects_.size()];
      const FaultKind& kind = kinds_[static_cast<std::size_t>(i) / subjects_.size() % kinds_.size()];
      strike_until_struck(i, subject, kind);
    }
    print();
    if (chaos_interrupted) {
      fmt::print(stderr, "laconic: error: chaos was interrupted: the table has the faults until then\n");
      return 128 + chaos_interrupted;
    }
    return problems_ > 0 ? 1 : 0;
  }

 private:
  /// Where all methods were asked for, those are left out that refuse the program's options.
  void train_all_undisturbed() {
    std::erase_if(subjects_, [&](Subject& subject) {
      try {
        if (!chaos_interrupted)
          subject.undisturbed = train_undisturbed(subject.victim, folder_ + "/" + subject.label + "-undisturbed",
                                                  [] { return chaos_interrupted == 0; });
        return false;
      } catch (const UsageError& e) {
        if (o_.methods != kAll) throw;
        fmt::print(stderr, "laconic: note: without {}: {}\n", subject.label, e.what());
        return true;
      }
    });
    require<UsageError>(!subjects_.empty(), "no method takes these options (--methods): see the notes above");
  }

  void strike_until_struck(int number, Subject& subject, const FaultKind& kind) {
    const std::string folder = folder_ + "/" + subject.label;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      Random random(o_.seed, Purpose::faults, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(attempt));
      const std::string here = fmt::format("{}-{}", folder, number);
      const Outcome outcome = strike(subject.victim, kind.fault, subject.undisturbed, here, random);
      if (chaos_interrupted) return;  // the training may have ended by the signal
      if (outcome.problem.empty()) std::filesystem::remove_all(here);
      if (!outcome.struck) {  // where the machine was busy with something else the undisturbed one took too long
        double& longest = subject.undisturbed.seconds;
        if (outcome.after_seconds > 0) longest = std::min(longest, outcome.after_seconds);
        continue;
      }
      add(tallies_[{subject.label, kind.name}], outcome);
      fmt::print(stderr, "[{}/{}] {}: {} after {:.2f} s: {}\n", number + 1, o_.faults, subject.label, kind.name,
                 outcome.after_seconds, outcome.problem.empty() ? "the same weights" : outcome.problem);
      problems_ += !outcome.problem.empty();
      return;
    }
    fmt::print(stderr, "[{}/{}] {}: {} came too late {} times, or found nothing to damage\n", number + 1, o_.faults,
               subject.label, kind.name, kAttempts);
  }

  /// An object for each method and fault; of the table a row for each method.
  void print() const {
    ResultTable objects(false), table(o_.markdown, std::nullopt, "-");
    for (const Subject& subject : subjects_) {
      Cells row{{"method", "", subject.label}};
      Tally all;
      for (const FaultKind& kind : kinds_) {
        const auto found = tallies_.find({subject.label, kind.name});
        if (found == tallies_.end()) continue;
        const Tally& t = found->second;
        Cells object{{"", "method", subject.label}, {"", "fault", kind.name}, {"", "faults", t.faults},
                     {"", "same", t.same},          {"", "differ", t.differ}, {"", "hung", t.hung},
                     {"", "failed", t.failed}};
        if (t.lost > 0) object.push_back({"", "lost", t.lost}), object.push_back({"", "named", t.named});
        if (!t.again.empty()) object.push_back({"", "again_seconds", median(t.again)});
        objects.add(std::move(object));
        row.push_back({kind.name, "", t.faults, t.same == t.faults ? std::to_string(t.same)
                                                                    : fmt::format("{} of {}", t.same, t.faults)});
        all.differ += t.differ, all.hung += t.hung, all.failed += t.failed;
        all.lost += t.lost, all.named += t.named;
        all.again.insert(all.again.end(), t.again.begin(), t.again.end());
      }
      if (row.size() == 1) continue;
      row.push_back({"other weights", "", all.differ});
      row.push_back({"hung", "", all.hung});
      row.push_back({"failed", "", all.failed});
      if (all.lost > 0) row.push_back({"lost rank named", "", fmt::format("{} of {}", all.named, all.lost)});
      if (!all.again.empty()) row.push_back({"began again after, s", "", median(all.again)});
      table.add(std::move(row));
    }
    if (o_.json) return fmt::print("{}\n", objects.objects().dump());
    fmt::print("{}\nFaults after which the training went on to the same weights; N of M where not after all.\n",
               table.text());
  }

  const ChaosOptions o_;
  const std::vector<FaultKind> kinds_;
  std::vector<Subject> subjects_;
  std::optional<ScratchFolder> scratch_;  // without --keep
  std::string folder_;
  std::map<std::pair<std::string, std::string>, Tally> tallies_;
  int problems_ = 0;
};

int chaos(const std::vector<std::string>& arguments) {
  ChaosOptions o;
  std::string kinds = "faults, with commas:";
  for (const FaultKind& kind : fault_kinds()) kinds += fmt::format("\n{}: {}", kind.name, kind.what);
  CLI::App app(
      "Trains again and again with PROGRAM, does something to it at a random moment, lets it go on, and holds its "
      "weights against those of an undisturbed training. Exit code 1: they differed, or it did not go on.",
      "chaos");
  app.add_option("program", o.program, "a training program; what follows it are its own options")
      ->required()
      ->type_name("PROGRAM ...");
  app.add_option("--faults", o.faults, "how many [20]")->type_name("N")->check(CLI::Range(1, 1'000'000));
  app.add_option("--kinds", o.kinds, kinds + "\n[all of them]")->type_name("LIST");
  app.add_option("--methods", o.methods,
                 "all, or names with commas: in turns with each --sync [as PROGRAM's options say]")
      ->type_name("LIST");
  app.add_option("--launch", o.launch, "processes, over MPI, with --restarts 5 [threads of one process]")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--moments", o.seed, "another number gives other moments [0]")->type_name("SEED");
  app.add_option("--timeout", o.timeout, "a training that takes longer hangs [20 and ten times as long as undisturbed]")
      ->type_name("SECONDS")
      ->check(number_from_to(1e-3, 1e9));
  app.add_option("--keep", o.keep, "a folder for what went wrong [thrown away]")->type_name("DIR");
  app.add_flag("--markdown", o.markdown, "the table for documents");
  app.add_flag("--json", o.json, "its rows as JSON");
  // Options behind the program's name are the program's own.
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with('-')) {
    const CLI::Option* option = app.get_option_no_throw(arguments[at]);
    at += option != nullptr && option->get_items_expected_max() > 0 ? 2 : 1;
  }
  const auto words = arguments.begin() + static_cast<std::ptrdiff_t>(std::min(at + 1, arguments.size()));
  if (const auto done = parse_tool(app, {arguments.begin(), words})) return *done;
  for (auto word = words; word != arguments.end(); ++word)
    for (const std::string own : {"--save", "--resume", "--overwrite", "--sync"})
      require<UsageError>((*word != own && !word->starts_with(own + "=")) || (own == "--sync" && o.methods.empty()),
                          "chaos has ", own, " of its own (", own, "): leave it out");
  return Chaos(o, {words, arguments.end()}).run();
}

}  // namespace

}  // namespace laconic

int main(int argc, char** argv) {
  return laconic::run_main([&] { return laconic::chaos({argv + 1, argv + argc}); });
}
