#include "core/tensor.h"

#include <algorithm>

#include "core/autograd.h"
#include "core/dispatch.h"
#include "core/raw.h"
#include "core/stream.h"

namespace laconic {

namespace {
struct {
  std::size_t bytes;
  const char* name;
} constexpr kDTypes[] = {{4, "float32"}, {4, "int32"}, {8, "int64"}, {1, "uint8"}, {2, "bfloat16"}};
constexpr const char* kLayouts[] = {"plain", "channels_last", "blocked16"};
}  // namespace

std::size_t size_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }
const char* to_string(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }
const char* to_string(Layout layout) { return kLayouts[static_cast<std::size_t>(layout)]; }

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  require<ShapeError>(dims.size() <= kMaxRank, "shape: ", dims.size(), " extents, but at most ", kMaxRank,
                      " are possible.");
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (std::int64_t d : dims) require<ShapeError>(d >= 0, "shape: extent ", d, " in ", *this, " is negative.");
}

Shape Shape::completed(const char* what, std::initializer_list<std::int64_t> dims, const Shape& from) {
  std::vector<std::int64_t> extents(dims);
  std::int64_t known = 1;
  for (const std::int64_t d : extents) known *= d == -1 ? 1 : d;
  const auto open = std::find(extents.begin(), extents.end(), -1);
  if (open != extents.end()) {
    require<ShapeError>(
        known > 0 && from.elements() % known == 0 && std::find(open + 1, extents.end(), -1) == extents.end(), what,
        ": x ", from, " has ", from.elements(), " elements, which leave nothing whole for -1.");
    *open = from.elements() / known;
  }
  return Shape(std::span<const std::int64_t>(extents));
}

Shape Shape::batch(std::int64_t samples) const {
  std::vector<std::int64_t> extents = {samples};
  extents.insert(extents.end(), dims().begin(), dims().end());
  return Shape(std::span<const std::int64_t>(extents));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

Tensor Tensor::make(std::shared_ptr<Storage> storage, std::size_t offset_bytes, const Shape& shape, DType dtype,
                    Layout layout) {
  Tensor t;
  t.impl_ = std::make_shared<Impl>();
  t.impl_->storage = std::move(storage);
  t.impl_->offset_bytes = offset_bytes;
  t.impl_->shape = shape;
  t.impl_->elements = shape.elements();
  t.impl_->dtype = dtype;
  t.impl_->layout = layout;
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device, Layout layout) {
  return make(std::make_shared<Storage>(static_cast<std::size_t>(shape.elements()) * size_of(dtype), device), 0, shape,
              dtype, layout);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  zero_bytes(t.raw_data(), device, t.bytes());
  return t;
}

Tensor Tensor::full(const Shape& shape, float value, Device device) {
  Tensor t = empty(shape, DType::f32, device);
  raw::fill(t, value);
  return t;
}

template <class T>
static Tensor from_host(const Shape& shape, std::span<const T> values, Device device) {
  require<ShapeError>(static_cast<std::int64_t>(values.size()) == shape.elements(), "tensor: ", values.size(),
                      " values do not fill shape ", shape, ".");
  Tensor t = Tensor::empty(shape, kDTypeOf<T>, device);
  copy_bytes(t.raw_data(), device, values.data(), kCpu, values.size_bytes());
  return t;
}
Tensor Tensor::of(const Shape& shape, std::span<const float> values, Device device) {
  return from_host(shape, values, device);
}
Tensor Tensor::of(const Shape& shape, std::span<const std::int64_t> values, Device device) {
  return from_host(shape, values, device);
}

Tensor Tensor::view(const Shape& shape) const {
  require<ShapeError>(layout() == Layout::plain, "view: the tensor is in layout ", layout(),
                      "; convert it with raw::to_layout first.");
  require<ShapeError>(shape.elements() == elements(), "view: ", this->shape(), " has ", elements(), " elements, ",
                      shape, " has ", shape.elements(), ".");
  const Tensor y = make(impl_->storage, impl_->offset_bytes, shape, dtype(), layout());
  return record("view", y, {*this}, [from = this->shape()](const Tensor& dy, Grads& grads) {
    grads.put(0, raw::to_layout(dy, Layout::plain).view(from));
  });
}

Tensor Tensor::rows(std::int64_t first, std::int64_t count) const {
  require<ShapeError>(rank() >= 1 && first >= 0 && count >= 0 && first + count <= dim(0), "rows: [", first, ", ", first,
                      " + ", count, ") is not inside ", shape(), ".");
  const std::size_t row_bytes = dim(0) ? bytes() / static_cast<std::size_t>(dim(0)) : 0;
  const Tensor y = make(impl_->storage, impl_->offset_bytes + static_cast<std::size_t>(first) * row_bytes,
                        shape().with(0, count), dtype(), layout());
  return record("rows", y, {*this}, [=, from = shape()](const Tensor& dy, Grads& grads) {
    const Grads::Target dx = grads.into(0, from, dy.device());
    if (!dx.add) raw::fill(dx.tensor, 0);
    raw::add_into(dx.tensor.rows(first, count), dy);
  });
}

Tensor Tensor::range(std::int64_t first, std::int64_t count) const {
  require<ShapeError>(first >= 0 && count >= 0 && first + count <= elements(), "range: [", first, ", ", first, " + ",
                      count, ") is not inside ", elements(), " elements.");
  const Tensor y = make(impl_->storage, impl_->offset_bytes + static_cast<std::size_t>(first) * size_of(dtype()),
                        {count}, dtype(), Layout::plain);
  require<ShapeError>(!node_ || layout() == Layout::plain, "range: the tensor is in layout ", layout(),
                      ", where a gradient has no place for it; reshape it first.");
  return record("range", y, {*this}, [=, from = shape()](const Tensor& dy, Grads& grads) {
    const Grads::Target dx = grads.into(0, from, dy.device());
    if (!dx.add) raw::fill(dx.tensor, 0);
    raw::add_into(dx.tensor.range(first, count), dy);
  });
}

Tensor Tensor::relabelled(Layout layout) const {
  return make(impl_->storage, impl_->offset_bytes, shape(), dtype(), layout);
}

std::vector<float> Tensor::to_vector() const {
  if (device() == kGhost) return std::vector<float>(static_cast<std::size_t>(elements()));
  const Tensor plain = layout() == Layout::plain ? value() : raw::to_layout(value(), Layout::plain);
  if (device().kind == Device::Kind::cuda) {
    const Tensor host = empty(shape(), dtype());
    host.copy_from(plain);
    return host.to_vector();
  }
  std::vector<float> out;
  on_device(device(), [&] {
    const auto convert = [&](auto* p) { out.assign(p, p + elements()); };
    switch (dtype()) {
      case DType::f32: return convert(plain.data<float>());
      case DType::i32: return convert(plain.data<std::int32_t>());
      case DType::i64: return convert(plain.data<std::int64_t>());
      case DType::u8: return convert(plain.data<std::uint8_t>());
      case DType::bf16: {
        const BFloat16* from = plain.data<BFloat16>();
        out.resize(static_cast<std::size_t>(elements()));
        std::transform(from, from + elements(), out.begin(), widened);
      }
    }
  });
  return out;
}

float Tensor::item() const {
  require<ShapeError>(elements() == 1, "item: the tensor has shape ", shape(), ", not one element.");
  return to_vector()[0];
}

void Tensor::copy_from(const Tensor& other) const {
  require<Error>(!node_, "copy: the tensor ", shape(), " was made by '", node_ ? node_->operation() : "",
                 "', whose gradient would be of other values. Write into its value(), or into a copy.");
  require<ShapeError>(other.shape() == shape() && other.dtype() == dtype(), "copy: ", other.shape(), " ", other.dtype(),
                      " into ", shape(), " ", dtype(), ".");
  if (device() == kGhost || other.device() == kGhost) return count_copy();
  const Tensor source = other.layout() == layout() ? other.value() : raw::to_layout(other, layout());
  copy_bytes(raw_data(), device(), source.raw_data(), source.device(), bytes());
  count_copy();
}

void Tensor::count_copy() const {
  bump_version();
  impl_->storage->count_copy();
}

void Tensor::wrong_dtype(DType asked) const {
  throw ShapeError(concat("tensor: holds ", dtype(), " but was read as ", asked, "."));
}

}  // namespace laconic
