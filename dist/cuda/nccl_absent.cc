#include "core/base/error.h"
#include "dist/cuda/nccl.h"

namespace laconic::dist {

std::shared_ptr<Nccl> Nccl::make(Engine&, Device device) {
  throw UsageError(concat("NCCL joins GPUs, and this model is on ", device,
                          " (`allreduce` nccl): this program was built without CUDA; take `allreduce` ring"));
}

}  // namespace laconic::dist
