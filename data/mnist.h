#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/image_dataset.h"

namespace laconic {

/// MNIST or Fashion-MNIST, 28 x 28 grey, 10 classes, from the four idx files, plain or gzipped, in `folder` (or below
/// it where torchvision puts them: raw, MNIST/raw, FashionMNIST/raw): train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, the dash before "idx" also as a dot. `folder` may be "synthetic"
/// (data/synthetic.h).
///   fashion   the files do not differ, but mean and std do: 0.2860, 0.3530; of digits 0.1307, 0.3081. Not given:
///             names_fashion() says
/// throws DataError: a file is missing (says what is expected and where it can be had), damaged, of another image size,
/// without any image; counts of images and labels differ; a label is not 0 … 9 (names the record).
ImageDataset load_mnist(const std::string& folder, std::optional<bool> fashion = {});

/// Guesses by the path whether a folder holds Fashion-MNIST: its last name that has "fashion" or "mnist" in it, in any
/// case, has "fashion".
bool names_fashion(const std::string& folder);

/// An array of bytes with its extents, outermost first.
struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> values;
};

/// Reads an idx file of unsigned bytes with `rank` dimensions; gzip is recognised by content.
///
///   offset 0    0 : u8 | 0 : u8 | type : u8 = 0x08 | rank : u8 | extent : u32 big-endian, rank times | values : u8
///
/// source: LeCun, Cortes, Burges, "The MNIST database", file formats.
/// throws DataError: wrong magic number (says expected and found), more or fewer bytes than the header promises
/// (nothing is allocated on a header's word), unreadable.
IdxArray read_idx(const std::string& path, int rank);

}  // namespace laconic
