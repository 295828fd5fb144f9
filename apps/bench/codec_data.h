#pragma once
#include <string>

#include "core/tensor.h"

namespace laconic {

/// What codecs are measured on, by name:
///   alexnet, hdc   gradients whose magnitudes fall into INCEPTIONN's classes at 2^-10 as often as its Table III says:
///                  below 2^-10, to 2^-5, to 1, above; within a class evenly by exponent
///   whole          from 1 to 2: nothing of it shrinks
///   a path         as select_data has it, all of its values
/// Drawn values depend on (name, elements) alone.
/// throws UsageError: unknown name; DataError: the file cannot be read
Tensor codec_data(const std::string& name, std::int64_t elements);

}  // namespace laconic
