#pragma once
#include <cstdint>
#include <string>

#include "data/image_dataset.h"

namespace laconic {

/// How much to generate, and from which key. The same options give the same bytes on every machine.
struct SyntheticOptions {
  std::int64_t train = 60000, test = 10000;  ///< images
  std::uint64_t seed = 1;                    ///< not a run's --seed: repeats of a run see the same data
  std::int64_t classes = 10;                 ///< of photographs
};

/// Generated images that a network can learn: each class has a smooth pattern of its own per channel (a few cosines of
/// low frequency with keyed phases); an image is its class's pattern at a keyed shift and contrast, plus noise. Train
/// and test share the patterns and nothing else. A pure function of the options.
ImageDataset synthetic_mnist(const SyntheticOptions& options = {60000, 10000});     ///< 1 x 28 x 28, 10 classes
ImageDataset synthetic_cifar10(const SyntheticOptions& options = {50000, 10000});   ///< 3 x 32 x 32, 10 classes
ImageDataset synthetic_cifar100(const SyntheticOptions& options = {50000, 10000});  ///< 3 x 32 x 32, 100 classes
ImageDataset synthetic_photos(const SyntheticOptions& options = {2000, 500});       ///< 3 x 64 x 64

/// True for "synthetic" and "synthetic:TRAIN,TEST", what --data takes instead of a folder.
bool is_synthetic(const std::string& data);

/// The sizes that `data` asks for: `whole` for "synthetic", TRAIN and TEST for "synthetic:TRAIN,TEST".
/// throws UsageError unless both are numbers from 1 to 1,000,000
SyntheticOptions synthetic_sizes(const std::string& data, const SyntheticOptions& whole);
/// The same with a third number that may follow: "synthetic:TRAIN,TEST,CLASSES".   throws UsageError also unless it is
/// one from 1 to 10,000
SyntheticOptions synthetic_photo_sizes(const std::string& data, const SyntheticOptions& whole);

}  // namespace laconic
