#pragma once
#include <initializer_list>

#include "core/tensor.h"

namespace laconic::ops {

struct NamedOperand {
  const char* name;
  const Tensor& tensor;
};

/// Throws ShapeError if one operand is on a CUDA device and another is not there: a kernel would follow a pointer that
/// means nothing to it. Undefined operands are left out, and where one is a ghost, so is the result, and no kernel runs.
inline void require_one_device(const char* what, std::initializer_list<NamedOperand> operands) {
  const NamedOperand& first = *operands.begin();
  const Device device = first.tensor.device();
  for (const NamedOperand& o : operands) {
    if (!o.tensor.defined() || o.tensor.device() == device) [[likely]]
      continue;
    if (device == kGhost || o.tensor.device() == kGhost) continue;
    require<ShapeError>(device.kind != Device::Kind::cuda && o.tensor.device().kind != Device::Kind::cuda, what, ": ",
                        first.name, " is on ", device, " but ", o.name, " is on ", o.tensor.device(),
                        ". Move the model and the data to one device.");
  }
}

}  // namespace laconic::ops
