#include "data/image_dataset.h"

#include "data/digest.h"

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

}  // namespace laconic
