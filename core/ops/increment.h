#pragma once
#include "core/tensor.h"

namespace laconic::ops {

/// counter += 1, where it lies.   counter : int64 [1] or scalar.   Recorded nowhere.
void increment(const Tensor& counter);

}  // namespace laconic::ops
