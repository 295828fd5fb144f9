#include "data/mnist.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "data/input_file.h"
#include "data/synthetic.h"

namespace laconic {
namespace {

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

}  // namespace

IdxArray read_idx(const std::string& path, int rank) {
  InputFile file(path);
  const std::uint64_t header_bytes = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::vector<std::uint8_t> header = file.read(header_bytes);
  require<DataError>(!header.empty(), "idx: ", path, " is empty. The download was cut; fetch it again.");
  const std::uint32_t expected_magic = 0x0800u | static_cast<std::uint32_t>(rank);
  if (header.size() >= 4) {
    const std::uint32_t magic = big_endian(header.data());
    require<DataError>(magic == expected_magic, "idx: ", path, " starts with magic number ", hex(magic), ", not ",
                       hex(expected_magic), " (unsigned bytes in ", rank, rank == 1 ? " dimension" : " dimensions",
                       "). It is another file than its name says; fetch it again.");
  }
  require<DataError>(header.size() == header_bytes, "idx: ", path, " has ", grouped(header.size()),
                     " bytes, less than its header of ", header_bytes, ". The download was cut; fetch it again.");

  IdxArray array;
  std::uint64_t promised = 1;
  bool absurd = false;  // more than 2^40 bytes
  for (int i = 0; i < rank; ++i) {
    const std::uint32_t extent = big_endian(header.data() + 4 + 4 * i);
    array.dims.push_back(extent);
    absurd = absurd || (extent != 0 && promised > (std::uint64_t{1} << 40) / extent);
    if (!absurd) promised *= extent;
  }
  std::string extents;
  for (const std::int64_t d : array.dims)
    extents += (extents.empty() ? "" : " x ") + grouped(static_cast<std::uint64_t>(d));
  require<DataError>(!absurd, "idx: ", path, " promises ", extents,
                     " values in its header, more than any file holds. The file is damaged; fetch it again.");

  array.values = file.read(promised);
  require<DataError>(array.values.size() == promised, "idx: ", path, " has ", grouped(array.values.size()),
                     " values, but its header promises ", extents, " = ", grouped(promised),
                     ". The download was cut; fetch it again.");
  require<DataError>(file.read(1).empty(), "idx: ", path, " goes on after the ", extents, " = ", grouped(promised),
                     " values that its header promises. The file is damaged; fetch it again.");
  return array;
}

namespace {

constexpr int kDigitSide = 28, kClasses = 10;

std::string find_part(const std::string& folder, const std::string& stem, const std::string& type) {
  const std::string sub[] = {"", "/raw", "/MNIST/raw", "/FashionMNIST/raw"};
  std::vector<std::string> folders;
  for (const std::string& s : sub) folders.push_back(folder + s);
  const std::string found = find_file(folders, {stem + "-" + type, stem + "." + type});
  require<DataError>(!found.empty(), "mnist: ", folder, " has no ", stem, "-", type,
                     " (or .gz). `data` wants the folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
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

bool names_fashion(const std::string& folder) {
  std::error_code failed;
  for (std::filesystem::path path : {std::filesystem::path(folder), std::filesystem::weakly_canonical(folder, failed)})
    for (; path.has_relative_path(); path = path.parent_path()) {
      std::string name = path.filename().string();
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      if (name.find("fashion") != std::string::npos) return true;
      if (name.find("mnist") != std::string::npos) return false;
    }
  return false;
}

ImageDataset load_mnist(const std::string& folder, std::optional<bool> is_fashion) {
  if (is_synthetic(folder)) return synthetic_mnist(synthetic_sizes(folder, {60000, 10000}));
  const bool fashion = is_fashion.value_or(names_fashion(folder));
  ImageDataset data;
  data.name = fashion ? "fashion-mnist" : "mnist";
  data.channels = 1, data.height = data.width = kDigitSide, data.classes = kClasses;
  data.mean = {fashion ? 0.2860f : 0.1307f};
  data.std = {fashion ? 0.3530f : 0.3081f};
  if (fashion)
    data.class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                        "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  else
    data.class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  data.train = load_split(folder, "train");
  data.test = load_split(folder, "t10k");
  return data;
}

}  // namespace laconic
