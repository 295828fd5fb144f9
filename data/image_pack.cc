#include "data/image_pack.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "data/input_file.h"
#include "data/photo_transform.h"

namespace laconic {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr char kMagic[] = {'L', 'A', 'C', 'P', 'A', 'C', 'K', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kHeadBytes = 16, kEntryBytes = 24, kFootBytes = 56, kFootNumbers = 40;

std::uint32_t crc_of(Bytes bytes) {
  FileSum sum;
  sum.add(bytes.data(), bytes.size());
  return sum.crc32;
}

/// Numbers as they stand in the file.
template <class T>
void put(std::vector<std::uint8_t>& to, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to.push_back(static_cast<std::uint8_t>(std::uint64_t{value} >> 8 * i));
}
template <class T>
T get(const std::uint8_t* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::uint64_t{from[i]} << 8 * i;
  return static_cast<T>(value);
}

/// `bytes` of a file from `offset` on, in `to`.
Bytes read_part(const RandomAccessFile& file, std::uint64_t offset, std::uint64_t bytes,
                std::vector<std::uint8_t>& to) {
  to.resize(bytes);
  file.read(offset, bytes, to.data());
  return to;
}

/// What all splits of a pack share. Every number in it has been checked.
struct Contents {
  explicit Contents(const std::string& path) : file(path) {}
  RandomAccessFile file;
  std::vector<std::uint8_t> index;   // all behind the images
  std::vector<std::uint64_t> names;  // the place where each begins in it, and the end
  std::uint32_t crc = 0;             // the checksum of everything but the images' own bytes

  const std::uint8_t* entry(std::uint64_t i) const { return index.data() + i * kEntryBytes; }
};

class PackedSplit final : public ImageSource {
 public:
  PackedSplit(std::shared_ptr<const Contents> contents, std::uint64_t first, std::uint64_t count)
      : contents_(std::move(contents)), first_(first), count_(count) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(count_); }
  std::int32_t label(std::int64_t i) const override {
    return static_cast<std::int32_t>(get<std::uint32_t>(entry(i) + 16));
  }
  std::string name(std::int64_t i) const override {
    const std::size_t at = static_cast<std::size_t>(first_) + static_cast<std::size_t>(i);
    const auto* text = reinterpret_cast<const char*>(contents_->index.data());
    return contents_->file.path() + ": " + std::string(text + contents_->names[at], text + contents_->names[at + 1]);
  }
  Bytes read(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    const std::uint8_t* e = entry(i);
    const Bytes file = read_part(contents_->file, get<std::uint64_t>(e), get<std::uint32_t>(e + 8), buffer);
    require<DataError>(crc_of(file) == get<std::uint32_t>(e + 12), name(i),
                       " has a wrong checksum. The file is damaged; fetch or pack it again.");
    return file;
  }
  void add_to(Digest& digest) const override {
    const std::uint64_t what[] = {contents_->crc, first_, count_};
    digest.add(what, sizeof what);
  }

 private:
  const std::uint8_t* entry(std::int64_t i) const { return contents_->entry(first_ + static_cast<std::uint64_t>(i)); }
  std::shared_ptr<const Contents> contents_;
  std::uint64_t first_, count_;
};

/// What becomes of one file.
struct Record {
  std::vector<std::uint8_t> file;
  std::int64_t bytes_before = 0;
};

Record record_of(const ImageSource& source, std::int64_t i, const PackOptions& o) {
  Record record;
  std::vector<std::uint8_t> buffer;
  const std::string name = source.name(i);
  const Bytes file = source.read(i, buffer);
  record.bytes_before = static_cast<std::int64_t>(file.size());
  const ImageHeader header = read_image_header(file, name);
  const int shorter = std::min(header.width, header.height);
  if (o.size == 0 || shorter <= o.size) {
    record.file.assign(file.begin(), file.end());
    return record;
  }
  const Image image = decode_image(file, name);
  const auto side = [&](int length) {
    return std::max(1, static_cast<int>(static_cast<double>(length) * o.size / shorter));
  };
  Resizing r{.box = {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)},
             .width = side(image.width),
             .height = side(image.height),
             .window = {}};
  r.window = {0, 0, r.width, r.height};
  constexpr int kMostOfJpeg = 65500;
  require<DataError>(std::max(r.width, r.height) <= kMostOfJpeg, name, " would have ", r.width, " x ", r.height,
                     " pixels, and a JPEG has at most ", kMostOfJpeg,
                     " a side. Leave it out, or pack with another size.");
  ResizeBuffers buffers;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(r.width) * static_cast<std::size_t>(r.height) * 3 +
                                   Image::kSlack);
  resize(image, r, buffers, pixels.data());
  record.file = encode_jpeg(pixels.data(), r.width, r.height, o.quality);
  return record;
}

}  // namespace

bool ImagePack::is_one(const std::string& path) {
  char start[sizeof kMagic] = {};
  std::ifstream(path, std::ios::binary).read(start, sizeof start);
  return std::memcmp(start, kMagic, sizeof kMagic) == 0;
}

ImagePack::ImagePack(const std::string& path) {
  const auto contents = std::make_shared<Contents>(path);
  const RandomAccessFile& file = contents->file;
  constexpr const char* kCut = ". The file was cut or not completely copied; copy or pack it again.";
  constexpr const char* kDamaged = ". The file is damaged; copy or pack it again.";
  require<DataError>(is_one(path), path, " is no pack of images. Make one with laconic pack.");
  const std::uint64_t most = file.size();
  require<DataError>(most >= kHeadBytes + kFootBytes, path, " has ", most, " bytes", kCut);
  std::vector<std::uint8_t> head, foot;
  read_part(file, 0, kHeadBytes, head);
  read_part(file, most - kFootBytes, kFootBytes, foot);
  require<DataError>(std::memcmp(foot.data() + kFootBytes - sizeof kMagic, kMagic, sizeof kMagic) == 0, path,
                     " has no end of a pack of images", kCut);
  for (const std::uint8_t* at : {head.data() + sizeof kMagic, foot.data() + kFootNumbers + 4})
    require<DataError>(get<std::uint32_t>(at) == kVersion, path, " is of version ", get<std::uint32_t>(at),
                       " of the format, this program reads ", kVersion, ". Pack it again.");
  const std::uint8_t* number = foot.data();
  const auto index = get<std::uint64_t>(number), name_bytes = get<std::uint64_t>(number + 8),
             class_bytes = get<std::uint64_t>(number + 16), train = get<std::uint64_t>(number + 24),
             validation = get<std::uint64_t>(number + 32);
  require<DataError>(index >= kHeadBytes && index <= most && name_bytes <= most && class_bytes <= most &&
                         train <= most / kEntryBytes && validation <= most / kEntryBytes &&
                         index + (train + validation) * kEntryBytes + name_bytes + class_bytes + kFootBytes == most,
                     path, " has lengths in its end that do not add up to its ", most, " bytes", kDamaged);
  contents->crc = crc_of(read_part(file, index, most - index - kFootBytes + kFootNumbers, contents->index));
  require<DataError>(contents->crc == get<std::uint32_t>(number + kFootNumbers), path,
                     " has a wrong checksum of its index", kDamaged);
  std::uint64_t name = (train + validation) * kEntryBytes;
  const std::uint64_t names_end = name + name_bytes;
  for (std::uint64_t i = 0; i < train + validation; ++i) {
    const std::uint8_t* e = contents->entry(i);
    const auto offset = get<std::uint64_t>(e);
    require<DataError>(offset >= kHeadBytes && offset <= index && get<std::uint32_t>(e + 8) <= index - offset, path,
                       " has image ", i, " outside of the file", kDamaged);
    contents->names.push_back(name);
    name += std::min<std::uint64_t>(get<std::uint32_t>(e + 20), names_end + 1 - name);
  }
  contents->names.push_back(name);
  require<DataError>(name == names_end, path, " has names that do not add up", kDamaged);
  const auto* text = reinterpret_cast<const char*>(contents->index.data() + names_end);
  for (const char *at = text, *end = text + class_bytes; at != end;) {
    const char* line = std::find(at, end, '\n');
    classes_.emplace_back(at, line);
    at = line == end ? end : line + 1;
  }
  for (std::uint64_t i = 0; i < train + validation; ++i)
    require<DataError>(get<std::uint32_t>(contents->entry(i) + 16) < classes_.size(), path, " has image ", i,
                       " with label ", get<std::uint32_t>(contents->entry(i) + 16), ", but ", classes_.size(),
                       " classes", kDamaged);
  require<DataError>(train > 0, path, " has no images", kDamaged);
  train_ = std::make_shared<PackedSplit>(contents, 0, train);
  if (validation > 0) validation_ = std::make_shared<PackedSplit>(contents, train, validation);
}

PackReport write_pack(const PhotoDataset& photos, const std::string& path, const PackOptions& o, BadFiles& bad,
                      const std::function<void(std::int64_t)>& progress) {
  PackReport report;
  AtomicFile out(path);
  std::vector<std::uint8_t> head(kMagic, kMagic + sizeof kMagic), index, names;
  put(head, kVersion);
  put(head, std::uint32_t{0});
  out.write(head.data(), head.size());
  std::uint64_t at = head.size();
  std::vector<std::int64_t> counts;  // training, validation

  constexpr std::int64_t kPerThread = 64;
  const std::int64_t together = kPerThread * std::max(1, o.threads);
  for (const auto& source : {photos.train, photos.validation}) {
    counts.push_back(0);
    for (std::int64_t begin = 0; source && begin < source->size(); begin += together) {
      const std::int64_t count = std::min(together, source->size() - begin);
      std::vector<Record> records(static_cast<std::size_t>(count));
      std::vector<std::string> wrong(static_cast<std::size_t>(count));
      std::vector<std::jthread> threads;  // joined where one cannot be started, too
      const auto make = [&](std::int64_t first) {
        for (std::int64_t i = first; i < count; i += std::max(1, o.threads)) try {
            records[static_cast<std::size_t>(i)] = record_of(*source, begin + i, o);
          } catch (const std::exception& e) {
            wrong[static_cast<std::size_t>(i)] = e.what();
          }
      };
      for (int t = 1; t < o.threads; ++t) threads.emplace_back(make, t);
      make(0);
      threads.clear();
      for (std::int64_t i = 0; i < count; ++i) {
        const Record& record = records[static_cast<std::size_t>(i)];
        std::string name = source->name(begin + i);
        if (const std::string& what = wrong[static_cast<std::size_t>(i)]; !what.empty()) {
          bad.add(name, what);
          continue;
        }
        const std::filesystem::path whole(name);  // the class's folder and the file's name are enough to find it
        name = (whole.parent_path().filename() / whole.filename()).string();
        put(index, at);
        put(index, static_cast<std::uint32_t>(record.file.size()));
        put(index, crc_of(record.file));
        put(index, static_cast<std::uint32_t>(source->label(begin + i)));
        put(index, static_cast<std::uint32_t>(name.size()));
        names.insert(names.end(), name.begin(), name.end());
        out.write(record.file.data(), record.file.size());
        at += record.file.size();
        report.bytes_before += record.bytes_before;
        ++counts.back();
      }
      progress(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    }
  }
  require<DataError>(counts[0] > 0, path, " would have no training images: every file is bad. Check the data.");
  std::vector<std::uint8_t> classes;
  for (const std::string& name : photos.classes) {
    classes.insert(classes.end(), name.begin(), name.end());
    classes.push_back('\n');
  }
  std::vector<std::uint8_t> tail = std::move(index);
  for (const auto* part : {&names, &classes}) tail.insert(tail.end(), part->begin(), part->end());
  for (const std::uint64_t number : {at, std::uint64_t{names.size()}, std::uint64_t{classes.size()},
                                     static_cast<std::uint64_t>(counts[0]), static_cast<std::uint64_t>(counts[1])})
    put(tail, number);
  put(tail, crc_of(tail));
  put(tail, kVersion);
  tail.insert(tail.end(), kMagic, kMagic + sizeof kMagic);
  out.write(tail.data(), tail.size());
  out.commit();
  report.train = counts[0], report.validation = counts[1];
  report.bytes_after = static_cast<std::int64_t>(at + tail.size());
  return report;
}

}  // namespace laconic
