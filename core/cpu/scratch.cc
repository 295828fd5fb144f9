#include "core/cpu/scratch.h"

#include "core/tensor.h"

namespace laconic::cpu {

void* kernel_scratch_bytes(std::size_t bytes) {
  thread_local Tensor scratch;  // one for all kernels of a worker: they run one after another
  if (!scratch.defined() || scratch.bytes() < bytes) {
    scratch = {};
    scratch = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8);
  }
  return scratch.raw_data();
}

}  // namespace laconic::cpu
