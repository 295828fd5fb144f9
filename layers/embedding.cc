#include "layers/embedding.h"

#include "core/ops/embedding.h"
#include "layers/init.h"

namespace laconic {

Embedding::Embedding(Options o) {
  require<ShapeError>(o.vocabulary >= 1 && o.dim >= 1, "Embedding: vocabulary = ", o.vocabulary, ", dim = ", o.dim,
                      " must be at least 1.");
  w_ = parameter("weight", {o.vocabulary, o.dim}, Role::embedding, o.init ? o.init : init::normal(1));
}

Tensor Embedding::forward(const Tensor& x) { return ops::embedding(x, w_->fresh()); }

}  // namespace laconic
