#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/trainer/supervised.h"

namespace laconic {

class Settings;
struct TrainOptions;

/// What a command line tells a program's own task: batch, shuffle, data_threads, and the seed of this run.
struct OwnTaskOptions : Supervised::Options {
  std::string data{};  ///< --data, a path or whatever the task takes
};

/// A training program: what it has of its own.
struct Program {
  enum class Reads : std::uint8_t { images, photographs, text, blocks };

  std::string name;        ///< "cifar10"
  std::string summary;     ///< the first line of --help
  std::string examples{};  ///< the last lines of --help
  std::string options{};   ///< where its options start from, as on a command line: "--epochs 10 --lr 0.05"
  std::vector<std::string> models{"lenet"};      ///< of models_of_zoo(); the first one unless options name another
  std::map<std::string, std::string> aliases{};  ///< other names of models, as the program takes them
  /// Images are in memory, photographs in files (data/image_source.h); a text is read from its beginning to its end, or
  /// in blocks from anywhere.
  Reads reads = Reads::images;
  std::string images = "fashion-mnist";          ///< of image_datasets(): what lies in the folder that --data names
  std::function<void(TrainOptions&)> of_model{};  ///< sets what else options start from, by options.model

  /// A task of one's own, a worker's part of it (dist/trainer/supervised.h trains any model on any data). It is made by
  /// every worker on its own thread. `models`, `reads` and `images` have no use then.
  std::function<std::unique_ptr<Workload>(OwnTaskOptions, const dist::Worker&)> task{};
  /// Adds options of one's own (core/base/settings.h), by names that no other option has. It may be called several times,
  /// and what is given may be read several times: to be assigned, not added. Ranks and resumed runs must have the same.
  std::function<void(Settings&)> settings{};
};

/// Runs such a program: the whole command line, --help, files of options, training over threads or MPI, log, trace,
/// checkpoints, `laconic compare`. It offers everything that was added to methods(), codecs(), models_of_zoo() and the
/// other tables before. Returns the exit code, and throws nothing.
///
///   int main(int argc, char** argv) {
///     laconic::dist::methods().add<MyMethod>("mine");
///     return laconic::run_program(argc, argv, {.name = "own", .summary = "Trains LeNet by a method of its own."});
///   }
/// With a task of its own: apps/examples/own_models/sequences.cc.
int run_program(int argc, char** argv, const Program& program);

/// `mnist` and `cifar10`, which train on small images, and `imagenet`, on photographs.
Program mnist_program();
Program cifar10_program();
Program imagenet_program();
/// `ptb`, which trains language models: its options start from what lstm-small was published with.
Program language_program();
/// `gpt`, which trains transformers: its options start from nanoGPT's for a computer without GPU.
Program gpt_program();
/// All of these, which come with laconic.
std::vector<Program> programs();

}  // namespace laconic
