#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/memory.h"
#include "core/shape.h"
#include "core/slice.h"

namespace laconic {

/// bf16: bfloat16, the upper half of a float32, for what products on a CUDA device read and for activations between
/// convolutions there (core/precision.h).
enum class DType : std::uint8_t { f32, i32, i64, u8, bf16 };
struct BFloat16 {
  std::uint16_t bits;
};
/// To the nearest, ties to even; NaN stays NaN.
constexpr BFloat16 rounded(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(nan ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}
constexpr float widened(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
/// Says whether kernels over Real take it (core/dispatch.h).
constexpr bool is_real(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }
std::size_t size_of(DType dtype);  ///< bytes of one element
const char* to_string(DType dtype);
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }
template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
}();

/// How the elements of an activation [N, C, H, W] lie in memory. Shapes are always spoken of as NCHW; only kernels look
/// at the layout, and all of them convert what does not suit them.
///   plain           [N][C][H][W]: images from the data, parameters, everything that is not 4-d
///   channels_last   [N][H][W][C]: convolutions with odd channel counts
///   blocked16       [N][C/16][H][W][16]: C a multiple of 16, processors with AVX-512
enum class Layout : std::uint8_t { plain, channels_last, blocked16 };
const char* to_string(Layout layout);
inline std::ostream& operator<<(std::ostream& out, Layout layout) { return out << to_string(layout); }

class Node;         // core/autograd.h
class TensorWatch;  // below

/// Something that a kernel computed from a tensor's value and may use again while the value has not changed,
/// for example a convolution's weights in the order that the kernel wants.
struct Derived {
  virtual ~Derived() = default;
  std::uint64_t version = 0;  ///< Tensor::version() that it was computed from
};

/// An n-dimensional array: a cheap handle; copies and views share memory. Rows are contiguous (no strides).
/// The handle also remembers which operation made it (core/autograd.h), if anyone may ask for its gradient.
class Tensor {
 public:
  Tensor() = default;  ///< undefined: only defined() and assignment may be called

  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = kCpu,
                      Layout layout = Layout::plain);
  /// Makes one of another's shape, device and layout. It is bf16 if the other is, else float32.
  static Tensor like(const Tensor& other) {
    return empty(other.shape(), other.dtype() == DType::bf16 ? DType::bf16 : DType::f32, other.device(),
                 other.layout());
  }
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
  static Tensor full(const Shape& shape, float value, Device device = kCpu);
  /// Copies host values. Throws ShapeError if there are not shape.elements() of them.
  static Tensor of(const Shape& shape, std::span<const float> values, Device device = kCpu);
  static Tensor of(const Shape& shape, std::span<const std::int64_t> values, Device device = kCpu);
  static Tensor of(const Shape& shape, std::initializer_list<float> values, Device device = kCpu) {
    return of(shape, std::span(values.begin(), values.size()), device);
  }

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const { return impl_->shape; }
  int rank() const { return impl_->shape.rank(); }
  std::int64_t dim(int i) const { return impl_->shape[i < 0 ? i + rank() : i]; }
  std::int64_t elements() const { return impl_->elements; }
  std::size_t bytes() const { return static_cast<std::size_t>(impl_->elements) * size_of(impl_->dtype); }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->storage->device(); }
  Layout layout() const { return impl_->layout; }

  /// First element, for kernels and for host memory. Throws ShapeError if T is not the dtype.
  template <class T>
  T* data() const {
    if (kDTypeOf<std::remove_const_t<T>> != impl_->dtype) [[unlikely]]
      wrong_dtype(kDTypeOf<std::remove_const_t<T>>);
    return reinterpret_cast<T*>(impl_->storage->data() + impl_->offset_bytes);
  }
  void* raw_data() const { return impl_->storage->data() + impl_->offset_bytes; }
  template <class T = float>
  Slice<T> slice() const {
    return {data<T>(), static_cast<std::size_t>(impl_->elements), device()};
  }

  /// This memory under another shape of as many elements (one extent may be -1: what remains). Throws
  /// ShapeError, also for a layout that is not plain: ops::reshape takes those too.
  Tensor view(const Shape& shape) const;
  Tensor view(std::initializer_list<std::int64_t> dims) const { return view(Shape::completed("view", dims, shape())); }
  /// Rows [first, first + count) of the outermost dimension; shares memory.
  Tensor rows(std::int64_t first, std::int64_t count) const;
  /// `count` elements from element `first`, as a 1-d tensor that shares memory.
  Tensor range(std::int64_t first, std::int64_t count) const;

  /// This memory said to be in another layout: only where both orders coincide (raw::to_layout knows).
  Tensor relabelled(Layout layout) const;

  /// Host copies in plain order whatever the layout and device.
  std::vector<float> to_vector() const;  ///< converts integers and bf16
  float item() const;                    ///< the only element
  /// Copies from another tensor of the same shape and dtype (any device, any layout). Throws Error if this one has a
  /// history: a gradient would be of the values that were there.
  void copy_from(const Tensor& other) const;

  /// True if nobody else holds this memory, so that an operation may write its result into it.
  bool sole_owner() const { return impl_.use_count() == 1 && impl_->storage.use_count() == 1; }
  bool same_memory(const Tensor& o) const { return impl_->storage == o.impl_->storage; }

  /// Grows when the value changes: by copy_from() through any view, and otherwise as far as bump_version() was told of
  /// it through this handle or a copy of it (optimisers tell). Parts of an arena (core/parameter.h) have versions of
  /// their own.
  std::uint64_t version() const { return impl_->version + impl_->storage->copies(); }
  void bump_version() const { ++impl_->version; }
  /// From now on a copy into one view does not change the version of the others.
  void keep_versions_apart() const { impl_->storage->stop_counting(); }
  /// One slot for what a kernel derived from the value; dies with the tensor.
  std::shared_ptr<Derived>& derived() const { return impl_->derived; }

  /// This value without its history.
  Tensor value() const {
    Tensor t;
    t.impl_ = impl_;
    return t;
  }
  const std::shared_ptr<Node>& node() const { return node_; }
  Tensor with_node(std::shared_ptr<Node> node) const {
    Tensor t = value();
    t.node_ = std::move(node);
    return t;
  }
  /// Runs autograd from this one-element tensor: see core/autograd.h.
  void backward() const;

 private:
  friend class TensorWatch;
  struct Impl {
    std::shared_ptr<Storage> storage;
    std::size_t offset_bytes = 0;
    Shape shape;
    std::int64_t elements = 0;
    DType dtype = DType::f32;
    Layout layout = Layout::plain;
    std::uint64_t version = 0;
    std::shared_ptr<Derived> derived;
  };
  void count_copy() const;
  [[noreturn]] void wrong_dtype(DType asked) const;
  static Tensor make(std::shared_ptr<Storage> storage, std::size_t offset_bytes, const Shape& shape, DType dtype,
                     Layout layout);

  std::shared_ptr<Impl> impl_;
  std::shared_ptr<Node> node_;
};

/// Tells whether a tensor was written since, without keeping it alive: what nobody holds any more, nobody needs.
class TensorWatch {
 public:
  TensorWatch() = default;
  explicit TensorWatch(const Tensor& x) : impl_(x.impl_), version_(x.defined() ? x.version() : 0) {}
  bool written() const {
    const auto impl = impl_.lock();
    return impl && impl->version + impl->storage->copies() != version_;
  }

 private:
  std::weak_ptr<const Tensor::Impl> impl_;
  std::uint64_t version_ = 0;
};

}  // namespace laconic
