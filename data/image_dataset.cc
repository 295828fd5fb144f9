#include "data/image_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>

#include "core/base/catalogue.h"
#include "core/base/random.h"
#include "data/archive_file.h"
#include "data/image_listing.h"
#include "data/input_file.h"
#include "data/synthetic.h"

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

IdxArray read_idx(const std::string& path, int rank) {
  InputFile file(path);
  const std::uint64_t header_bytes = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::vector<std::uint8_t> header = file.read(header_bytes);
  require<DataError>(!header.empty(), "idx: ", path, " is empty. The download was cut; fetch it again.");
  const auto number = [&](int at) {
    std::uint32_t value = 0;
    for (int i = at; i < at + 4; ++i) value = value << 8 | header[static_cast<std::size_t>(i)];
    return value;
  };
  const std::uint32_t expected_magic = 0x0800u | static_cast<std::uint32_t>(rank);
  if (header.size() >= 4) {
    const std::uint32_t magic = number(0);
    require<DataError>(magic == expected_magic, "idx: ", path, " starts with magic number ",
                       fmt::format("{:#010x}", magic), ", not ", fmt::format("{:#010x}", expected_magic),
                       " (unsigned bytes in ", rank, rank == 1 ? " dimension" : " dimensions",
                       "). It is another file than its name says; fetch it again.");
  }
  require<DataError>(header.size() == header_bytes, "idx: ", path, " has ", grouped(header.size()),
                     " bytes, less than its header of ", header_bytes, ". The download was cut; fetch it again.");

  IdxArray array;
  std::uint64_t promised = 1;
  bool absurd = false;  // more than 2^40 bytes
  for (int i = 0; i < rank; ++i) {
    const std::uint32_t extent = number(4 + 4 * i);
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
  const std::string found = find_file({folder, folder + "/raw", folder + "/MNIST/raw", folder + "/FashionMNIST/raw"},
                                      {stem + "-" + type, stem + "." + type});
  require<DataError>(!found.empty(), "mnist: ", folder, " has no ", stem, "-", type,
                     " (or .gz). `data` wants the folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                     "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, gzipped or not: for Fashion-MNIST install the "
                     "Debian package dataset-fashion-mnist and give /usr/share/datasets/fashion-mnist; or give "
                     "synthetic, which is generated.");
  return found;
}

ImageSplit load_digits(const std::string& folder, const std::string& prefix) {
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

constexpr int kSide = 32, kPixels = 3 * kSide * kSide;
constexpr std::uint64_t kRecordsAtOnce = 1000;
constexpr std::uint64_t kMostRecords = 100'000;  // per file, twice what any has; a gzip bomb stops here

struct Variant {
  const char *name, *subfolder, *names;  ///< names: the file of the classes' names
  int classes, label_bytes;              ///< the last of the bytes is the label
  std::vector<std::string> train, test;
  std::vector<float> mean, std;
};

const Variant kCifar10{"cifar10",
                       "cifar-10-batches-bin",
                       "batches.meta.txt",
                       10,
                       1,
                       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
                       {"test_batch"},
                       {0.4914f, 0.4822f, 0.4465f},
                       {0.2470f, 0.2435f, 0.2616f}};
const Variant kCifar100{"cifar100", "cifar-100-binary",          "fine_label_names.txt",     100, 2, {"train"},
                        {"test"},   {0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}};

/// A file of the data set, in a folder or in an archive.
struct CifarFile {
  std::string path;
  std::function<std::vector<std::uint8_t>(std::uint64_t)> read;  ///< the next so many bytes, fewer where it ends
};

/// Where the files of a data set lie: a folder, or an archive.
class CifarFiles {
 public:
  CifarFiles(const std::string& path, const Variant& v) : path_(path), variant_(v) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored) && is_archive(path)) archive_.emplace(path);
  }

  const std::string& path() const { return path_; }
  bool archived() const { return archive_.has_value(); }
  /// The first of `names` that is there, or nothing.
  std::optional<CifarFile> find(const std::vector<std::string>& names) const {
    if (!archive_) {
      const std::string path = find_file({path_, path_ + "/" + variant_.subfolder}, names);
      if (path.empty()) return std::nullopt;
      return CifarFile{path, [file = std::make_shared<InputFile>(path)](auto bytes) { return file->read(bytes); }};
    }
    for (const std::string& name : names)
      if (const auto place = place_in_archive(name)) {
        std::vector<std::uint8_t> all;
        archive_->read(*place, all);
        return CifarFile{archive_->full_name(*place), [all = std::move(all), at = std::size_t{0}](auto bytes) mutable {
                           const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
                           at = std::min<std::size_t>(at + bytes, all.size());
                           return std::vector(begin, all.begin() + static_cast<std::ptrdiff_t>(at));
                         }};
      }
    return std::nullopt;
  }

 private:
  std::optional<std::size_t> place_in_archive(const std::string& name) const {
    std::optional<std::size_t> place;
    for (std::size_t i = 0; i < archive_->size(); ++i) {
      if (std::filesystem::path(archive_->name(i)).filename() != name) continue;
      require<DataError>(!place, archive_->path(), " has ", name, " twice. Write it again.");
      place = i;
    }
    return place;
  }
  std::string path_;
  const Variant& variant_;
  std::optional<Archive> archive_;
};

std::string archive_of(const Variant& v) { return concat("cifar-", v.classes, "-binary.tar.gz"); }
constexpr const char* kCifarPage = "the data set's page, https://www.cs.toronto.edu/~kriz/cifar.html";

void append_records(const CifarFile& file, const Variant& v, ImageSplit& split) {
  const std::size_t record = static_cast<std::size_t>(v.label_bytes) + kPixels;
  const std::string& path = file.path;
  std::uint64_t bytes_read = 0;
  for (std::uint64_t i = 0;;) {
    const std::vector<std::uint8_t> bytes = file.read(kRecordsAtOnce * record);
    bytes_read += bytes.size();
    // A pickle of protocol 2 starts so; as a record it would have label 128.
    require<DataError>(i > 0 || !(bytes.size() > 2 && bytes[0] == 0x80 && bytes[1] == 0x02), v.name, ": ", path,
                       " is of the Python version of the data set (a pickle). Fetch the binary version, ",
                       archive_of(v), ", from ", kCifarPage, ".");
    require<DataError>(bytes.size() % record == 0, v.name, ": ", path, " has ", grouped(bytes_read),
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

ImageSplit load_split(const CifarFiles& files, const std::vector<std::string>& stems, const Variant& v) {
  ImageSplit split;
  for (const std::string& stem : stems)
    if (const auto file = files.find({stem + ".bin", stem})) append_records(*file, v, split);
  if (split.size() > 0) return split;

  const std::string none =
      concat(v.name, ": ", files.path(), " has no ", stems[0], ".bin", files.archived() ? "" : " (or .gz)");
  const std::string archive = archive_of(v);
  require<DataError>(find_file({files.path()}, {archive}).empty(), none, ". Give the archive itself, ", files.path(),
                     "/", archive, ", or unpack it there: tar -xzf ", files.path(), "/", archive, " -C ", files.path(),
                     ".");
  throw DataError(concat(none, ". `data` wants the folder with ", stems[0], ".bin",
                         stems.size() > 1 ? " (to 5, as many as you have)" : "", " and ", v.test[0],
                         ".bin, gzipped or not, or the archive of the binary version, ", archive, ", from ", kCifarPage,
                         "; or give synthetic, which is generated."));
}

/// From the text file of the archive, where that lies beside the images.
std::vector<std::string> class_names(const CifarFiles& files, const Variant& v) {
  const auto file = files.find({v.names});
  if (!file) return {};
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const std::vector<std::uint8_t> text = file->read(kMostBytes);
  const std::vector<std::string> names = labels_in({text.begin(), text.end()}, file->path);
  require<DataError>(names.size() == static_cast<std::size_t>(v.classes), "cifar: ", file->path, " names ",
                     names.size(), " classes, expected ", v.classes,
                     ". The file is damaged; fetch it again, or delete it.");
  return names;
}

ImageDataset load_cifar(const std::string& folder, const Variant& v) {
  if (is_synthetic(folder)) {
    const SyntheticOptions sizes = synthetic_sizes(folder, {50000, 10000});
    return v.classes == 10 ? synthetic_cifar10(sizes) : synthetic_cifar100(sizes);
  }
  ImageDataset data;
  data.name = concat("cifar-", v.classes);
  data.channels = 3, data.height = data.width = kSide, data.classes = v.classes;
  data.mean = v.mean, data.std = v.std;
  const CifarFiles files(folder, v);
  data.class_names = class_names(files, v);
  data.train = load_split(files, v.train, v), data.test = load_split(files, v.test, v);
  return data;
}

}  // namespace

ImageDataset load_cifar10(const std::string& folder) { return load_cifar(folder, kCifar10); }
ImageDataset load_cifar100(const std::string& folder) { return load_cifar(folder, kCifar100); }

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
  data.train = load_digits(folder, "train");
  data.test = load_digits(folder, "t10k");
  return data;
}

ImageTransform::ImageTransform(const ImageDataset& shape, const Augment& augment, std::uint64_t seed)
    : channels_(shape.channels), height_(shape.height), width_(shape.width), augment_(augment), seed_(seed) {
  const auto channels = static_cast<std::size_t>(channels_);
  require<ShapeError>(shape.mean.size() == channels && shape.std.size() == channels, "augment: ", shape.name, " has ",
                      channels, " channels, but ", shape.mean.size(), " means and ", shape.std.size(),
                      " standard deviations.");
  require<UsageError>(augment.pad >= 0, "augment: pad is ", augment.pad, ", at least 0 is needed.");
  table_.resize(channels * 256);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t v = 0; v < 256; ++v)
      table_[c * 256 + v] = (static_cast<float>(v) / 255.0f - shape.mean[c]) / shape.std[c];
}

void ImageTransform::operator()(const std::uint8_t* image, std::int64_t epoch, std::int64_t sample, float* out) const {
  int dy = 0, dx = 0;  // the output's pixel (y, x) is the image's (y + dy, x + dx)
  bool flip = false;
  if (augment_.pad > 0 || augment_.flip) {
    Random random(seed_, Purpose::augment, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample));
    const auto places = static_cast<std::uint32_t>(2 * augment_.pad + 1);
    dy = static_cast<int>(random.below(places)) - augment_.pad;
    dx = static_cast<int>(random.below(places)) - augment_.pad;
    flip = augment_.flip && random.bits() >> 31;
  }
  // Columns [from, to) of the crop lie inside the image.
  const int from = std::clamp(-dx, 0, width_), to = std::clamp(width_ - dx, from, width_);
  for (int c = 0; c < channels_; ++c, image += height_ * width_) {
    const float* table = table_.data() + c * 256;
    const float black = table[0];
    for (int y = 0; y < height_; ++y, out += width_) {
      if (y + dy < 0 || y + dy >= height_) {
        std::fill_n(out, width_, black);
        continue;
      }
      const std::uint8_t* row = image + (y + dy) * width_;
      for (int x = 0; x < from; ++x) out[x] = black;
      for (int x = from; x < to; ++x) out[x] = table[row[x + dx]];
      for (int x = to; x < width_; ++x) out[x] = black;
      if (flip) std::reverse(out, out + width_);
    }
  }
}

}  // namespace laconic
