#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/image_dataset.h"

namespace laconic {

/// Says what a program that classifies images has of its own.
struct ImageProgram {
  std::string name;        ///< "cifar10"
  std::string summary;     ///< the first line of --help
  std::string examples{};  ///< the last lines of --help
  std::string options{};   ///< where its options start from, as on a command line: "--epochs 10 --lr 0.05"
  std::vector<std::string> models{"lenet"};      ///< of the zoo; the first one unless --model names another
  std::map<std::string, std::string> aliases{};  ///< other names of models, as the program takes them
  std::string data = "synthetic";                ///< unless --data says otherwise
  std::function<ImageDataset(const std::string& data)> load{};  ///< reads what --data names
  bool crops_and_flips = false;                                 ///< augmentation, unless --no-augment
};

/// Runs such a program: the whole command line, --help, files of options, training over threads or MPI, log, trace,
/// checkpoints, `laconic compare`. It offers everything that was added to methods() and codecs() before. Returns the
/// exit code, and throws nothing.
///
///   int main(int argc, char** argv) {
///     laconic::dist::methods().add<MyMethod>("mine");
///     return laconic::image_classification(argc, argv, {.name = "own", .load = [](const std::string& data) {
///       return laconic::load_mnist(data);
///     }});
///   }
int image_classification(int argc, char** argv, const ImageProgram& program);

}  // namespace laconic
