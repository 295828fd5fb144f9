// laconic-tools: what `laconic NAME` runs for every NAME below.
#include "apps/bench/bench.h"
#include "apps/main.h"
#include "apps/subcommand.h"
#include "apps/tools.h"

namespace {

// `laconic --help` tells what they are for.
constexpr laconic::Subcommand kTools[] = {
    {"bench", "see laconic bench --help", laconic::bench},
    {"models", "see laconic models --help", laconic::list_models},
    {"codec", "see laconic codec --help", laconic::codec},
    {"pack", "see laconic pack --help", laconic::pack},
    {"inspect", "see laconic inspect --help", laconic::inspect},
    {"simulate", "see laconic simulate --help", laconic::simulate},
    {"calibrate", "see laconic calibrate --help", laconic::calibrate},
    {"chaos", "see laconic chaos --help", laconic::chaos},
    {"doctor", "see laconic doctor --help", laconic::doctor},
    {"explain", "see laconic explain --help", laconic::explain},
    {"reproduce", "see laconic reproduce --help", laconic::reproduce},
    {"report", "see laconic report --help", laconic::report},
    {"plot", "see laconic plot --help", laconic::plot},
};

}  // namespace

int main(int argc, char** argv) {
  return laconic::run_main([&] { return laconic::run_subcommand("laconic-tools", kTools, {argv + 1, argv + argc}); });
}
