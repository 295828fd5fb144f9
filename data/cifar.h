#pragma once
#include <string>

#include "data/image_dataset.h"

namespace laconic {

/// CIFAR-10 in its binary version, 3 x 32 x 32, 10 classes, from `folder` or its cifar-10-batches-bin: as many of
/// data_batch_1.bin … data_batch_5.bin as are there, in this order, and test_batch.bin; plain or gzipped, with or
/// without ".bin"; any whole number of records each.
///
///   record of 3,073 bytes    label : u8 | red : u8[32][32] | green : u8[32][32] | blue : u8[32][32]
///
/// mean (0.4914, 0.4822, 0.4465), std (0.2470, 0.2435, 0.2616). `folder` may be "synthetic" (data/synthetic.h).
/// source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009, and the data set's page.
/// throws DataError: no training or no test file (says what is expected and where it can be had), not a whole number of
/// records, empty, a label out of range (names the record).
ImageDataset load_cifar10(const std::string& folder);

/// CIFAR-100 in its binary version, 100 classes (the fine labels), from train.bin and test.bin in `folder` or its
/// cifar-100-binary. Otherwise as load_cifar10.
///
///   record of 3,074 bytes    coarse label : u8 (0 … 19) | fine label : u8 | red | green | blue
///
/// mean (0.5071, 0.4865, 0.4409), std (0.2673, 0.2564, 0.2762).
ImageDataset load_cifar100(const std::string& folder);

}  // namespace laconic
