#include "data/image_dataset.h"

#include "core/base/catalogue.h"
#include "data/cifar.h"
#include "data/digest.h"
#include "data/mnist.h"

namespace laconic {

std::uint64_t fingerprint(const ImageDataset& data) {
  Digest digest;
  const int shape[] = {data.channels, data.height, data.width, data.classes};
  digest.add(data.name.data(), data.name.size());
  digest.add(shape, sizeof shape);
  digest.add(data.mean);
  digest.add(data.std);
  for (const ImageSplit* split : {&data.train, &data.test}) {
    digest.add(split->pixels);
    digest.add(split->labels);
  }
  return digest.value();
}

std::vector<ImageDatasetKind>& image_datasets() {
  static std::vector<ImageDatasetKind> all{
      {"mnist", "data/mnist", false, [](const std::string& folder) { return load_mnist(folder, false); }},
      {"fashion-mnist", "/usr/share/datasets/fashion-mnist", false,
       [](const std::string& folder) { return load_mnist(folder, true); }},
      {"cifar-10", "data/cifar-10-batches-bin", true, load_cifar10},
      {"cifar-100", "data/cifar-100-binary", true, load_cifar100},
  };
  return all;
}

const ImageDatasetKind& image_dataset(const std::string& name) {
  return row_named(image_datasets(), name, "data set", "`data`");
}

}  // namespace laconic
