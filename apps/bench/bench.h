#pragma once
#include <string>
#include <vector>

namespace laconic {

/// `laconic bench WHAT ...`: measurements, paired with a peer where there is one. Returns the exit code.
int bench(const std::vector<std::string>& arguments);

/// `laconic bench step`: training throughput of a model of the zoo; see its --help.
int bench_step(const std::vector<std::string>& arguments);

/// `laconic bench allreduce`: collectives over threads or MPI; see its --help.
int bench_allreduce(const std::vector<std::string>& arguments);
/// `laconic bench layers`: where the time of a training step goes; see its --help.
int bench_layers(const std::vector<std::string>& arguments);
/// `laconic bench codec`: how fast numbers become bytes and back; see its --help.
int bench_codec(const std::vector<std::string>& arguments);
/// `laconic bench pipeline`: how fast photographs become batches; see its --help.
int bench_pipeline(const std::vector<std::string>& arguments);
/// `laconic bench link`: how well the emulated link keeps its times; see its --help.
int bench_link(const std::vector<std::string>& arguments);

/// `laconic bench select`: choosing and packing what RedSync sends; see its --help.
int bench_select(const std::vector<std::string>& arguments);

/// `laconic bench union`: what workers choose together, and how sparse traffic grows with them; see its --help.
int bench_union(const std::vector<std::string>& arguments);

/// What bench_step runs beside the peer: `MODEL BATCH THREADS`, then the commands of torch_peer.py on standard input.
int bench_step_child(const std::vector<std::string>& arguments);

}  // namespace laconic
