// laconic: the tools that go with the training programs.
#include <cstdio>
#include <string>
#include <vector>

#include "apps/common/terminal.h"
#include "apps/common/tools.h"
#include "apps/compare/compare.h"
#include "apps/launch/launch.h"
#include "apps/main.h"
#include "apps/programs.h"
#include "apps/common/text.h"
#include "apps/common/version.h"
#include "core/base/error.h"

namespace {

struct Tool {
  const char* name;
  const char* usage;
  const char* what;
  int (*run)(const std::vector<std::string>& arguments);
};

constexpr Tool kTools[] = {
    {"launch", "launch -n N [--hosts A,B] APP ...", "run N processes of APP that train together, over MPI",
     laconic::launch},
    {"compare", "compare APP --vs \"...\" --vs \"...\"", "train with several option sets in turns; one table",
     laconic::compare},
    {"bench", "bench NAME ...", "measurements, beside PyTorch or MPI where there is one", laconic::bench},
    {"models", "models [--layers NAME]", "the zoo: parameters and work of each model, or of its layers",
     laconic::list_models},
    {"pack", "pack DATA OUT [--size S]", "photographs of a data set in one file", laconic::pack},
    {"inspect", "inspect NAME ...",
     "what a method makes of values, whether checkpoints are whole, at what a training broke off", laconic::inspect},
    {"simulate", "simulate --model M --workers N,..", "a training step on a network that is not there",
     laconic::simulate},
    {"calibrate", "calibrate --workers N", "what ranks, network, codecs and layers take here, for plans",
     laconic::calibrate},
    {"doctor", "doctor [--hosts A,B]", "what this machine has, what is slow or missing for training, and the mend",
     laconic::doctor},
    {"explain", "explain LOG", "where a training's time went, and what would shorten a step", laconic::explain},
    {"report", "report LOG... -o PAGE.html", "curves, tables and a timeline of trainings, in one page",
     laconic::report},
};

void print_line(const char* head, const char* what) { std::printf("%s", laconic::help_line(head, what, 39).c_str()); }

int help() {
  std::printf("laconic %s: tools for training together.\n\nUsage: laconic TOOL ...\n\n", laconic::version());
  for (const Tool& tool : kTools) print_line(tool.usage, tool.what);
  std::printf("\nlaunch:\n");
  print_line("-n N", "processes in all");
  print_line("--hosts A,B", "machines, filled one after the other, as many ranks on each [this one]");
  print_line("--hosts A:4,B:2", "so many ranks on each");
  print_line("--hostfile FILE", "the same from a file, with a line NAME slots=K for each");
  print_line("--mca NAME VALUE", "a setting of Open MPI");
  print_line("--restarts R", "begin again from the last checkpoint when a rank is lost, R times");
  print_line("--min-workers M", "then with at least M processes, if hosts are gone [all]");
  print_line("--dry-run", "print the command that would run, and leave");
  print_line("-h,--help", "this text");
  std::printf("\nExit codes:\n");
  print_line("0", "done");
  print_line("1", "an error");
  print_line("2", "a wrong command line");
  print_line("3", "a rank was lost");
  print_line("130, 143, 129", "SIGINT, SIGTERM or SIGHUP ended the training, after it had saved what there was");
  std::vector<std::string> names;
  for (const laconic::Program& program : laconic::programs()) names.push_back(program.name);
  const std::string programs = laconic::join(names, ", ");
  std::printf(
      "\n%s\n",
      laconic::for_terminal("The training programs: " + programs + "; each tells its options with --help.").c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return laconic::run_main([&] {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") return help();
    if (arguments[0] == "--version") {
      std::printf("%s\n", laconic::version_text().c_str());
      return 0;
    }
    std::vector<std::string> names;
    for (const Tool& tool : kTools) {
      if (arguments[0] == tool.name) {
        if (arguments.size() > 1 && tool.run == laconic::launch && (arguments[1] == "--help" || arguments[1] == "-h"))
          return help();
        return tool.run({arguments.begin() + 1, arguments.end()});
      }
      names.push_back(tool.name);
    }
    const std::string close = laconic::nearest(arguments[0], names);
    throw laconic::UsageError("unknown tool '" + arguments[0] + "' (command line): " +
                              (close.empty() ? "see laconic --help" : "did you mean " + close + "?"));
  });
}
