#include "dist/collective/reduce.h"

#include "core/raw.h"

namespace laconic::dist {

void add_in_place(Slice<float> sum, Slice<const float> addend) {
  if (sum.data() == nullptr || addend.data() == nullptr) return;
  raw::add_into(sum, addend);
}

}  // namespace laconic::dist
