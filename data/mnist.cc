#include "data/mnist.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "data/idx.h"
#include "data/input_file.h"
#include "data/synthetic.h"

namespace laconic {
namespace {

constexpr int kDigitSide = 28, kClasses = 10;

bool names_fashion(const std::string& folder) {
  std::error_code failed;
  const auto absolute = std::filesystem::weakly_canonical(folder, failed);
  std::string text = folder + (failed ? "" : absolute.string());
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find("fashion") != std::string::npos;
}

std::string find_part(const std::string& folder, const std::string& stem, const std::string& type) {
  const std::string sub[] = {"", "/raw", "/MNIST/raw", "/FashionMNIST/raw"};
  std::vector<std::string> folders;
  for (const std::string& s : sub) folders.push_back(folder + s);
  const std::string found = find_file(folders, {stem + "-" + type, stem + "." + type});
  require<DataError>(!found.empty(), "mnist: ", folder, " has no ", stem, "-", type,
                     " (or .gz). --data wants the folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                     "t10k-images-idx3-ubyte "
                     "and t10k-labels-idx1-ubyte, gzipped or not: for Fashion-MNIST install the Debian package "
                     "dataset-fashion-mnist and "
                     "give /usr/share/datasets/fashion-mnist; or give synthetic, which is generated.");
  return found;
}

ImageSplit load_split(const std::string& folder, const std::string& prefix) {
  const std::string images_path = find_part(folder, prefix + "-images", "idx3-ubyte");
  const std::string labels_path = find_part(folder, prefix + "-labels", "idx1-ubyte");
  const IdxArray labels = read_idx(labels_path, 1);
  IdxArray images = read_idx(images_path, 3);
  require<DataError>(images.dims[0] > 0, "mnist: ", images_path, " holds no image. Fetch it again.");
  require<DataError>(images.dims[1] == kDigitSide && images.dims[2] == kDigitSide, "mnist: ", images_path,
                     " holds images of ", images.dims[1], " x ", images.dims[2], ", expected ", kDigitSide, " x ",
                     kDigitSide, ". Give the folder of MNIST or Fashion-MNIST.");
  require<DataError>(images.dims[0] == labels.dims[0], "mnist: ", images_path, " holds ",
                     grouped(static_cast<std::uint64_t>(images.dims[0])), " images, but ", labels_path, " ",
                     grouped(static_cast<std::uint64_t>(labels.dims[0])),
                     " labels. They are of different data sets; fetch both again.");
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    require<DataError>(labels.values[i] < kClasses, "mnist: ", labels_path, " has label ", int{labels.values[i]},
                       " in record ", grouped(i), ", expected 0 to ", kClasses - 1,
                       ". The file is damaged; fetch it again.");
  ImageSplit split;
  split.pixels = std::move(images.values);
  split.labels.assign(labels.values.begin(), labels.values.end());
  return split;
}

}  // namespace

ImageDataset load_mnist(const std::string& folder, MnistKind kind) {
  if (is_synthetic(folder)) return synthetic_mnist(synthetic_sizes(folder, {60000, 10000}));
  const bool fashion = kind == MnistKind::fashion || (kind == MnistKind::by_name && names_fashion(folder));
  ImageDataset data;
  data.name = fashion ? "fashion-mnist" : "mnist";
  data.channels = 1, data.height = data.width = kDigitSide, data.classes = kClasses;
  data.mean = {fashion ? 0.2860f : 0.1307f};
  data.std = {fashion ? 0.3530f : 0.3081f};
  data.train = load_split(folder, "train");
  data.test = load_split(folder, "t10k");
  return data;
}

}  // namespace laconic
