#pragma once
#include <string>

#include "data/image_dataset.h"

namespace laconic {

/// Which normalisation belongs to a folder of MNIST-like files: the formats do not differ.
enum class MnistKind {
  by_name,  ///< fashion if the folder's path contains "fashion" in any case, else digits
  digits,   ///< mean 0.1307, std 0.3081
  fashion   ///< mean 0.2860, std 0.3530
};

/// MNIST or Fashion-MNIST, 28 x 28 grey, 10 classes, from the four idx files, plain or gzipped, in `folder` (or below
/// it where torchvision puts them: raw, MNIST/raw, FashionMNIST/raw): train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, the dash before "idx" also as a dot. `folder` may be "synthetic"
/// (data/synthetic.h).
/// throws DataError: a file is missing (says what is expected and where it can be had), damaged, of another image size,
/// without any image; counts of images and labels differ; a label is not 0 … 9 (names the record).
ImageDataset load_mnist(const std::string& folder, MnistKind kind = MnistKind::by_name);

}  // namespace laconic
