#pragma once
#include <cstdint>
#include <string>

#include "data/image_dataset.h"
#include "data/text.h"

namespace laconic {

/// How much to generate, and from which key. Equal options give the same bytes on every machine.
struct SyntheticOptions {
  std::int64_t train = 60000, test = 10000;  ///< images
  std::uint64_t seed = 1;                    ///< a seed apart from a run's --seed: repeats of a run see the same data
  std::int64_t classes = 10;                 ///< classes of photographs
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

/// The sizes that `data` asks for: `whole` for "synthetic", TRAIN and TEST for "synthetic:TRAIN,TEST"; with_classes: a
/// third number may follow.   throws UsageError unless they are numbers from 1 to 1,000,000, of classes to 10,000
SyntheticOptions synthetic_sizes(const std::string& data, const SyntheticOptions& whole, bool with_classes = false);

/// A generated language that a network can learn: of each word four others may follow, with chances 1/2, 1/4, 1/8 and
/// 1/8, in sentences of 3 to 15 words. A pure function of the two sizes, the same on every machine.
///   train : tokens, 100 to 10,000,000; valid and test have a tenth of it each
///   words : 4 to 10,000, besides <eos> and <unk>
/// throws UsageError if a size is out of range
TextDataset synthetic_text(std::int64_t train = 100000, std::int64_t words = 200);

/// synthetic_text() as --data names it: "synthetic" or "synthetic:TRAIN,WORDS".   throws UsageError
TextDataset synthetic_text_named(const std::string& data);

}  // namespace laconic
