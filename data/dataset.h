#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "core/base/random.h"
#include "core/tensor.h"

namespace laconic {

/// One sample in host memory: what a model reads, and what it is to say. float32 or int64, and of one shape and type in
/// all samples of a data set.
struct Example {
  Tensor x, y;
};

/// Samples by number: derive from it to train on data of your own.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// Sample i, 0 <= i < size(). Called by several threads at once.
  ///   random : for augmentation; depends on the seed, the epoch and i alone, so that any number of workers and threads
  ///            draws alike
  virtual Example get(std::int64_t i, Random& random) const = 0;
};
using SharedDataset = std::shared_ptr<const Dataset>;

/// Sample i is row i of x and of y, which lie in host memory and are shared.
/// throws ShapeError if they have not as many rows, or a dtype other than float32 and int64
SharedDataset tensor_dataset(const Tensor& x, const Tensor& y);

/// The samples as f makes them, when they are asked for: scaling, augmentation, another type.
///   f : called by several threads at once
SharedDataset mapped(SharedDataset data, std::function<Example(Example sample, Random& random)> f);

/// The samples in two parts, drawn at random: `first_share` of them, and the rest.
///   throws UsageError unless 0 <= first_share <= 1
std::pair<SharedDataset, SharedDataset> split(const SharedDataset& data, double first_share, std::uint64_t seed = 0);

/// A number that differs (but for chance, 2^-64) between data sets of different content: of all samples if they have
/// 64 MiB at most, else of 64 MiB from all over it.
std::uint64_t fingerprint(const Dataset& data);

}  // namespace laconic
