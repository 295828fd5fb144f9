#include "data/image_dataset.h"

#include <zlib.h>

#include "core/random.h"

namespace laconic {
namespace {

class Digest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  void add(const void* data, std::size_t bytes) {
    // Two 32-bit checks of each piece, folded so that their order counts.
    const auto* p = static_cast<const Bytef*>(data);
    const auto crc = static_cast<std::uint32_t>(crc32_z(0, p, bytes));
    const auto adler = static_cast<std::uint32_t>(adler32_z(1, p, bytes));
    const auto mixed = philox({crc, adler, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes >> 32)},
                              {static_cast<std::uint32_t>(value_), static_cast<std::uint32_t>(value_ >> 32)});
    value_ = std::uint64_t{mixed[0]} << 32 | mixed[1];
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace

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

}  // namespace laconic
