#include "apps/bench/bench.h"

#include "apps/subcommand.h"

namespace laconic {
namespace {

constexpr Subcommand kBenchmarks[] = {
    {"step", "training steps per second, alone or paired with PyTorch", bench_step},
    {"step-child", nullptr, bench_step_child},
    {"layers", "time of each layer in a training step", bench_layers},
    {"allreduce", "our allreduces and MPI's in turns, over threads or MPI", bench_allreduce},
    {"select", "choosing what to send, and packing it, in passes over the tensor", bench_select},
    {"union", "how sparse traffic grows with the number of workers", bench_union},
    {"codec", "speed of codecs on one core, beside memcpy and general compressors", bench_codec},
    {"pipeline", "photographs decoded and augmented per second, beside torchvision", bench_pipeline},
    {"link", "how well the emulated link keeps its times", bench_link},
};

}  // namespace

int bench(const std::vector<std::string>& arguments) { return run_subcommand("laconic bench", kBenchmarks, arguments); }

}  // namespace laconic
