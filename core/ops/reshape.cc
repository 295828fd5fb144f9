#include "core/ops/reshape.h"

#include <algorithm>
#include <array>

#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"
#include "core/kernels/rows.h"
#include "core/ops/common.h"
#include "core/ops/functions.h"
#include "core/raw.h"
#include "core/stream.h"

namespace laconic::inline ops {
namespace {

Shape shape_of(const std::vector<std::int64_t>& dims) { return Shape(std::span<const std::int64_t>(dims)); }
std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

/// Elements are copied in words of 32 bits, by kernels for floats: an int64 has two words.
std::int64_t words_of(const char* what, const Tensor& x) {
  const std::size_t bytes = size_of(x.dtype());
  require<ShapeError>(bytes % 4 == 0, what, ": x is ", x.dtype(), "; it takes float32, int32 and int64.");
  return static_cast<std::int64_t>(bytes / 4);
}
/// x's value in plain order. bf16 is widened.
Tensor plain(const Tensor& x) {
  return raw::to_layout(x.dtype() == DType::bf16 ? raw::cast(x, DType::f32) : x.value(), Layout::plain);
}

/// x's elements as a walk over `shape` takes them, by strides of its own, from element `first` on.
Tensor reordered(const char* what, const Tensor& x, const Shape& shape, StridedWalk::Strides strides,
                 std::int64_t first = 0) {
  const std::int64_t size = words_of(what, x);
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  std::vector<std::int64_t> dims = dims_of(shape);
  if (size > 1) {
    for (std::int64_t& s : strides) s *= size;
    require<ShapeError>(shape.rank() < Shape::kMaxRank, what, ": x ", x.shape(), " has too many dimensions for ",
                        x.dtype(), ".");
    strides[dims.size()] = 1;
    dims.push_back(size);
  }
  LACONIC_KERNEL(x.device(),
                 gather_strided(words(y), words(x) + first * size, StridedWalk(shape_of(dims), {&strides, 1})));
  return y;
}

/// x in another order of its dimensions, where that exchanges two groups of neighbours: many transpositions of one
/// matrix, which have a kernel of their own. Undefined if it is not that.
Tensor transposed(const Tensor& x, const std::vector<int>& order, const Shape& shape) {
  std::size_t first = 0;
  while (first < order.size() && order[first] == static_cast<int>(first)) ++first;
  if (first == order.size() || x.dtype() != DType::f32) return {};
  const std::size_t second = static_cast<std::size_t>(order[first]), size = order.size();
  for (std::size_t i = first; i < size; ++i)
    if (static_cast<std::size_t>(order[i]) != first + (i - first + second - first) % (size - first)) return {};
  std::int64_t matrices = 1, rows = 1, columns = 1;
  for (int d = 0; d < x.rank(); ++d)
    (d < static_cast<int>(first) ? matrices : d < static_cast<int>(second) ? rows : columns) *= x.dim(d);
  const Tensor y = Tensor::empty(shape, DType::f32, x.device());
  if (y.elements() > 0)
    LACONIC_KERNEL(x.device(), convert_layout(y.data<float>(), Layout::channels_last, x.data<float>(), Layout::plain,
                                              matrices, rows, columns));
  return y;
}

/// In host memory.
std::vector<std::int64_t> numbers_of(const char* what, const Tensor& index) {
  require<ShapeError>(index.dtype() == DType::i64, what, ": the indices are ", index.dtype(), ", not int64.");
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(index.elements()));
  if (index.device() != kGhost)
    copy_bytes(numbers.data(), kCpu, index.data<std::int64_t>(), index.device(), index.bytes());
  return numbers;
}

/// A dimension in the middle: [outer, n, inner], inner in words.
struct Along {
  std::int64_t outer = 1, inner;
  Along(const Shape& shape, int dim, std::int64_t words) : inner(words) {
    for (int d = 0; d < shape.rank(); ++d)
      if (d != dim) (d < dim ? outer : inner) *= shape[d];
  }
};

}  // namespace

int dimension(const char* what, const Tensor& x, int dim) {
  const int d = dim < 0 ? dim + x.rank() : dim;
  require<ShapeError>(d >= 0 && d < x.rank(), what, ": x ", x.shape(), " has no dimension ", dim, ".");
  return d;
}

Shape without(const Shape& shape, const std::vector<int>& dims) {
  std::vector<std::int64_t> left;
  for (int d = 0; d < shape.rank(); ++d)
    if (!std::binary_search(dims.begin(), dims.end(), d)) left.push_back(shape[d]);
  return shape_of(left);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  require<ShapeError>(shape.elements() == x.elements(), "reshape: x ", x.shape(), " has ", x.elements(), " elements, ",
                      shape, " has ", shape.elements(), ".");
  return record("reshape", raw::to_layout(x.value(), Layout::plain).view(shape), {x},
                [from = x.shape()](const Tensor& dy, Grads& grads) {
                  grads.put(0, raw::to_layout(dy, Layout::plain).view(from));
                });
}

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> shape) {
  return reshape(x, Shape::completed("reshape", shape, x.shape()));
}

Tensor flatten(const Tensor& x) {
  require<ShapeError>(x.rank() >= 1, "flatten: x has no dimension to keep.");
  const std::int64_t n = x.dim(0);
  if (x.rank() == 2 && x.layout() == Layout::plain) return x;
  return reshape(x, {n, n ? x.elements() / n : 0});
}

Tensor unsqueeze(const Tensor& x, int dim) {
  std::vector<std::int64_t> dims = dims_of(x.shape());
  const int at = dim < 0 ? dim + x.rank() + 1 : dim;
  require<ShapeError>(at >= 0 && at <= x.rank(), "unsqueeze: x ", x.shape(), " has no place ", dim, ".");
  dims.insert(dims.begin() + at, 1);
  return reshape(x, shape_of(dims));
}

Tensor squeeze(const Tensor& x, int dim) {
  const int d = dimension("squeeze", x, dim);
  require<ShapeError>(x.dim(d) == 1, "squeeze: dimension ", dim, " of x ", x.shape(), " is not 1.");
  return reshape(x, without(x.shape(), {d}));
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  const auto refuse_unless = [&](bool good) {
    require<ShapeError>(good, "permute: every dimension of x ", x.shape(), " must be named once.");
  };
  refuse_unless(static_cast<int>(order.size()) == x.rank());
  std::vector<int> back(order.size(), -1), normal;  // order with dimensions from the front
  std::vector<std::int64_t> dims;
  const StridedWalk::Strides own = strides_of(x.shape());
  StridedWalk::Strides strides{};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(dimension("permute", x, order[i]));
    back[d] = static_cast<int>(i);
    normal.push_back(static_cast<int>(d));
    dims.push_back(x.dim(static_cast<int>(d)));
    strides[i] = own[d];
  }
  refuse_unless(std::count(back.begin(), back.end(), -1) == 0);
  const Tensor from = plain(x);
  Tensor y = transposed(from, normal, shape_of(dims));
  if (!y.defined()) y = reordered("permute", from, shape_of(dims), strides);
  return record("permute", y, {x}, [back](const Tensor& dy, Grads& grads) { grads.put(0, permute(dy, back)); });
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::swap(order[static_cast<std::size_t>(dimension("transpose", x, a))],
            order[static_cast<std::size_t>(dimension("transpose", x, b))]);
  return permute(x, order);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require<ShapeError>(broadcast_shape("expand", x.shape(), shape) == shape, "expand: x ", x.shape(),
                      " does not broadcast to ", shape, ".");
  const Tensor y = reordered("expand", plain(x), shape, broadcast_strides(x.shape(), shape));
  return record("expand", y, {x}, [of = x.shape()](const Tensor& dy, Grads& grads) { grads.put(0, sum_to(dy, of)); });
}

Tensor slice(const Tensor& x, int named, std::int64_t first, std::int64_t last) {
  const int dim = dimension("slice", x, named);
  require<ShapeError>(first >= 0 && first <= last && last <= x.dim(dim), "slice: [", first, ", ", last,
                      ") is not inside dimension ", named, " of x ", x.shape(), ".");
  const Tensor from = plain(x);
  const Along a(x.shape(), dim, words_of("slice", from));
  const std::int64_t count = (last - first) * a.inner, pitch = x.dim(dim) * a.inner, begin = first * a.inner;
  const Tensor y = Tensor::empty(x.shape().with(dim, last - first), from.dtype(), x.device());
  LACONIC_KERNEL(x.device(), copy_rows(words(y), count, words(from) + begin, pitch, a.outer, count));
  return record("slice", y, {x}, [=, of = x.shape()](const Tensor& gradient, Grads& grads) {
    const Tensor dy = raw::to_layout(gradient, Layout::plain);
    const Grads::Target dx = grads.into(0, of, dy.device());
    if (!dx.add) raw::fill(dx.tensor, 0);
    LACONIC_KERNEL(dy.device(),
                   add_rows(dx.tensor.data<float>() + begin, pitch, dy.data<float>(), count, a.outer, count));
  });
}

Tensor select(const Tensor& x, int named, std::int64_t index) {
  const int dim = dimension("select", x, named);
  const std::int64_t at = index < 0 ? index + x.dim(dim) : index;
  require<ShapeError>(at >= 0 && at < x.dim(dim), "select: dimension ", named, " of x ", x.shape(), " has no place ",
                      index, ".");
  return squeeze(slice(x, dim, at, at + 1), dim);
}

Tensor cat(const std::vector<Tensor>& parts, int named) {
  require<ShapeError>(!parts.empty(), "cat: nothing to join.");
  const Tensor& first = parts.front();
  const int dim = dimension("cat", first, named);
  std::vector<Tensor> froms;
  Device device = first.device();
  std::int64_t all = 0;
  for (const Tensor& part : parts) {
    require<ShapeError>(part.rank() == first.rank() && part.shape().with(dim, 0) == first.shape().with(dim, 0),
                        "cat: ", first.shape(), " and ", part.shape(), " differ in more than dimension ", named, ".");
    froms.push_back(plain(part));
    require<ShapeError>(froms.back().dtype() == froms.front().dtype(), "cat: ", first.dtype(), " and ", part.dtype(),
                        " cannot stand in one tensor.");
    if (require_one_device("cat", {{"the first", first}, {"another", part}}) == kGhost) device = kGhost;
    all += part.dim(dim);
  }
  const Along a(first.shape(), dim, words_of("cat", froms.front()));
  const Tensor y = Tensor::empty(first.shape().with(dim, all), froms.front().dtype(), device);
  std::vector<std::int64_t> begins{0};
  for (const Tensor& from : froms) {
    const std::int64_t count = from.dim(dim) * a.inner, begin = begins.back() * a.inner;
    LACONIC_KERNEL(y.device(), copy_rows(words(y) + begin, all * a.inner, words(from), count, a.outer, count));
    begins.push_back(begins.back() + from.dim(dim));
  }
  return record("cat", y, parts, [=](const Tensor& dy, Grads& grads) {
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      if (grads.wants(static_cast<int>(i))) grads.put(static_cast<int>(i), slice(dy, dim, begins[i], begins[i + 1]));
  });
}

Tensor stack(const std::vector<Tensor>& parts, int dim) {
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) rows.push_back(unsqueeze(part, dim));
  return cat(rows, dim);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, int named) {
  const int dim = dimension("split", x, named);
  require<ShapeError>(size > 0, "split: parts of ", size, " of x ", x.shape(), ".");
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < x.dim(dim); first += size)
    parts.push_back(slice(x, dim, first, std::min(first + size, x.dim(dim))));
  return parts;
}

Tensor flip(const Tensor& x, int named) {
  const int dim = dimension("flip", x, named);
  StridedWalk::Strides strides = strides_of(x.shape());
  std::int64_t& stride = strides[static_cast<std::size_t>(dim)];
  const std::int64_t last = x.elements() > 0 ? (x.dim(dim) - 1) * stride : 0;
  stride = -stride;
  const Tensor y = reordered("flip", plain(x), x.shape(), strides, last);
  return record("flip", y, {x}, [dim](const Tensor& dy, Grads& grads) { grads.put(0, flip(dy, dim)); });
}

Tensor index_select(const Tensor& x, int named, const Tensor& index) {
  const int dim = dimension("index_select", x, named);
  require<ShapeError>(index.dtype() == DType::i64 && index.rank() == 1, "index_select: the indices are ", index.dtype(),
                      " ", index.shape(), ", not int64 [n].");
  if (dim != 0) return transpose(index_select(transpose(x, 0, dim), 0, index), 0, dim);
  const std::int64_t places = x.dim(0), bad = first_wrong(index, places);
  require<DataError>(bad < 0, "index_select: index ", bad < 0 ? 0 : index.data<std::int64_t>()[bad], " is outside of ",
                     places, " places of x ", x.shape(), ".");
  const std::int64_t rest = places > 0 ? x.elements() / places : 0;
  return reshape(embedding(index, reshape(x, {places, rest})), x.shape().with(0, index.dim(0)));
}

Tensor gather(const Tensor& x, int named, const Tensor& index) {
  const int dim = dimension("gather", x, named);
  bool fits = index.rank() == x.rank();
  for (int d = 0; d < x.rank() && fits; ++d) fits = d == dim || index.dim(d) <= x.dim(d);
  require<ShapeError>(fits, "gather: x ", x.shape(), " has no place for indices ", index.shape(), ".");
  require_one_device("gather", {{"x", x}, {"index", index}});
  std::vector<std::int64_t> places = numbers_of("gather", index);
  const StridedWalk::Strides of_x = strides_of(x.shape()), of_index = strides_of(index.shape());
  for (std::size_t i = 0; i < places.size(); ++i) {
    require<DataError>(places[i] >= 0 && places[i] < x.dim(dim), "gather: index ", places[i],
                       " is outside of dimension ", named, " of x ", x.shape(), ".");
    std::int64_t rest = static_cast<std::int64_t>(i), place = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(x.rank()); rest %= of_index[d++])
      place += (static_cast<int>(d) == dim ? places[i] : rest / of_index[d]) * of_x[d];
    places[i] = place;
  }
  const Tensor flat = Tensor::of({index.elements()}, places, index.device());
  return reshape(embedding(flat, reshape(x, {x.elements(), 1})), index.shape());
}

Tensor one_hot(const Tensor& index, std::int64_t classes) {
  const std::int64_t n = index.elements();
  const std::vector<std::int64_t> places = numbers_of("one_hot", index);
  std::vector<std::int64_t> dims = dims_of(index.shape());
  std::vector<float> values(static_cast<std::size_t>(n * classes));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = places[static_cast<std::size_t>(i)];
    require<DataError>(at >= 0 && at < classes, "one_hot: index ", at, " is outside of ", classes, " classes.");
    values[static_cast<std::size_t>(i * classes + at)] = 1;
  }
  dims.push_back(classes);
  return Tensor::of(shape_of(dims), values, index.device());
}

Tensor embedding(const Tensor& index, const Tensor& w) {
  require<ShapeError>(index.dtype() == DType::i64 && (index.rank() == 1 || index.rank() == 2),
                      "embedding: the indices are ", index.dtype(), " ", index.shape(), ", not i64 [T, B] or [n].");
  require<ShapeError>(w.rank() == 2, "embedding: w is ", w.shape(), ", not [vocabulary, dim].");
  const std::int64_t n = index.elements(), vocabulary = w.dim(0), dim = w.dim(1);
  const Device device = require_one_device("embedding", {{"w", w}, {"index", index}});
  const std::int64_t bad = first_wrong(index, vocabulary);
  require<DataError>(bad < 0, "embedding: index ", bad < 0 ? 0 : index.data<std::int64_t>()[bad], " at position ", bad,
                     " of ", index.shape(), " is not in [0, ", vocabulary,
                     "). Was the text coded with this model's vocabulary?");
  std::vector<std::int64_t> extents(index.shape().dims().begin(), index.shape().dims().end());
  extents.push_back(dim);
  const Tensor y = Tensor::empty(Shape(extents), DType::f32, device);
  LACONIC_KERNEL(device, embedding_forward(y.data<float>(), floats("embedding", w).data<float>(),
                                           index.data<std::int64_t>(), n, vocabulary, dim));
  return record("embedding", y, {w}, [index = index.value(), n, shape = w.shape()](const Tensor& dy, Grads& grads) {
    each_chunk(grads, 0, shape, dy.device(), [&](const Grads::Target& dw, std::int64_t first, std::int64_t rows) {
      const Tensor part = dw.tensor.rows(first, rows);
      if (!dw.add) raw::fill(part, 0);
      LACONIC_KERNEL(dy.device(), embedding_backward(part.data<float>(), dy.data<float>(), index.data<std::int64_t>(),
                                                     n, first, rows, shape[1]));
    });
  });
}

}  // namespace laconic::inline ops
