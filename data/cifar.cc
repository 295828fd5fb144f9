#include "data/cifar.h"

#include <filesystem>

#include "core/base/error.h"
#include "data/image_source.h"
#include "data/input_file.h"
#include "data/synthetic.h"

namespace laconic {
namespace {

constexpr int kSide = 32, kPixels = 3 * kSide * kSide;
constexpr std::uint64_t kRecordsAtOnce = 1000;
constexpr std::uint64_t kMostRecords = 100'000;  // per file, twice what any has; a gzip bomb stops here

struct Variant {
  const char* name;
  const char* subfolder;
  const char* names;  ///< the file of the classes' names
  int classes;
  int label_bytes;  ///< the last of them is the label
  std::vector<std::string> train, test;
  std::vector<float> mean, std;
};

Variant cifar10() {
  return {.name = "cifar10",
          .subfolder = "cifar-10-batches-bin",
          .names = "batches.meta.txt",
          .classes = 10,
          .label_bytes = 1,
          .train = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
          .test = {"test_batch"},
          .mean = {0.4914f, 0.4822f, 0.4465f},
          .std = {0.2470f, 0.2435f, 0.2616f}};
}

Variant cifar100() {
  return {.name = "cifar100",
          .subfolder = "cifar-100-binary",
          .names = "fine_label_names.txt",
          .classes = 100,
          .label_bytes = 2,
          .train = {"train"},
          .test = {"test"},
          .mean = {0.5071f, 0.4865f, 0.4409f},
          .std = {0.2673f, 0.2564f, 0.2762f}};
}

void append_file(const std::string& path, const Variant& v, ImageSplit& split) {
  const std::size_t record = static_cast<std::size_t>(v.label_bytes) + kPixels;
  InputFile file(path);
  for (std::uint64_t i = 0;;) {
    const std::vector<std::uint8_t> bytes = file.read(kRecordsAtOnce * record);
    // A pickle of protocol 2 starts so; as a record it would have label 128.
    require<DataError>(i > 0 || !(bytes.size() > 2 && bytes[0] == 0x80 && bytes[1] == 0x02), v.name, ": ", path,
                       " is of the Python version of the data set (a pickle). Fetch the binary version.");
    require<DataError>(bytes.size() % record == 0, v.name, ": ", path, " has ", grouped(file.bytes_read()),
                       " bytes, not a whole number of records of ", grouped(record),
                       ". The download was cut; fetch it again.");
    for (std::size_t at = 0; at < bytes.size(); at += record, ++i) {
      const std::uint8_t* labels = bytes.data() + at;
      const std::uint8_t* pixels = labels + v.label_bytes;
      const int label = pixels[-1];
      require<DataError>(label < v.classes, v.name, ": ", path, " has label ", label, " in record ", grouped(i),
                         ", expected 0 to ", v.classes - 1, ". The file is damaged; fetch it again.");
      require<DataError>(v.label_bytes == 1 || labels[0] < 20, v.name, ": ", path, " has coarse label ", int{labels[0]},
                         " in record ", grouped(i), ", expected 0 to 19. The file is damaged; fetch it again.");
      split.pixels.insert(split.pixels.end(), pixels, pixels + kPixels);
      split.labels.push_back(label);
    }
    require<DataError>(i > 0, v.name, ": ", path, " is empty. The download was cut; fetch it again.");
    require<DataError>(i <= kMostRecords, v.name, ": ", path, " has more than ", grouped(kMostRecords),
                       " records. It is another file than its name says; fetch it again.");
    if (bytes.size() < kRecordsAtOnce * record) return;
  }
}

ImageSplit load_split(const std::string& folder, const std::vector<std::string>& stems, const Variant& v) {
  ImageSplit split;
  for (const std::string& stem : stems) {
    const std::string path = find_file({folder, folder + "/" + v.subfolder}, {stem + ".bin", stem});
    if (!path.empty()) append_file(path, v, split);
  }
  if (split.size() > 0) return split;

  std::string archive = std::string("cifar-") + (v.classes == 10 ? "10" : "100") + "-binary.tar.gz";
  const bool packed = !find_file({folder}, {archive}).empty();
  throw DataError(concat(
      v.name, ": ", folder, " has no ", stems[0], ".bin (or .gz). ",
      packed
          ? concat("Unpack the archive there first: tar -xzf ", folder, "/", archive, " -C ", folder, ".")
          : concat(
                "`data` wants the folder with ", stems[0], ".bin",
                stems.size() > 1 ? " (to 5, as many as you have)" : "", " and ", v.test[0],
                ".bin, gzipped or not: unpack the binary version, ", archive,
                ", from the data set's page, https://www.cs.toronto.edu/~kriz/cifar.html; or give synthetic, which is "
                "generated.")));
}

/// From the text file of the archive, where that lies beside the images.
std::vector<std::string> class_names(const std::string& folder, const Variant& v) {
  const std::string path = find_file({folder, folder + "/" + v.subfolder}, {v.names});
  if (path.empty()) return {};
  std::vector<std::string> names = read_labels(path);
  while (!names.empty() && names.back().empty()) names.pop_back();
  require<DataError>(names.size() == static_cast<std::size_t>(v.classes), "cifar: ", path, " names ", names.size(),
                     " classes, expected ", v.classes, ". The file is damaged; fetch it again, or delete it.");
  return names;
}

ImageDataset load(const std::string& folder, const Variant& v) {
  ImageDataset data;
  data.name = v.classes == 10 ? "cifar-10" : "cifar-100";
  data.channels = 3, data.height = data.width = kSide, data.classes = v.classes;
  data.mean = v.mean, data.std = v.std;
  data.class_names = class_names(folder, v);
  data.train = load_split(folder, v.train, v);
  data.test = load_split(folder, v.test, v);
  return data;
}

}  // namespace

ImageDataset load_cifar10(const std::string& folder) {
  if (is_synthetic(folder)) return synthetic_cifar10(synthetic_sizes(folder, {50000, 10000}));
  return load(folder, cifar10());
}

ImageDataset load_cifar100(const std::string& folder) {
  if (is_synthetic(folder)) return synthetic_cifar100(synthetic_sizes(folder, {50000, 10000}));
  return load(folder, cifar100());
}

}  // namespace laconic
