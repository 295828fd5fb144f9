#pragma once
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/autograd.h"

/// Shapes. Dimensions count from the back if they are negative. What only says another shape is free; what changes the
/// order of elements copies them, so that every tensor is contiguous. Gradients go back the way the elements came.
/// Names and meanings are PyTorch's. All throw ShapeError naming x's shape and what was asked.
namespace laconic::inline ops {

/// x's elements, in plain order, under another shape of as many elements. One copy if x is not in plain layout and
/// has more than one pixel, else free.
Tensor reshape(const Tensor& x, const Shape& shape);
/// One extent may be -1: what remains.
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> shape);

/// [N, C, H, W] -> [N, C H W], the order of PyTorch's weights; any rank of 1 or more.
Tensor flatten(const Tensor& x);

Tensor unsqueeze(const Tensor& x, int dim);  ///< an extent of 1 in front of dimension `dim`; rank: behind all
Tensor squeeze(const Tensor& x, int dim);    ///< without that extent, which must be 1

Tensor permute(const Tensor& x, const std::vector<int>& order);  ///< dimension i of y is dimension order[i] of x
Tensor transpose(const Tensor& x, int a, int b);
Tensor expand(const Tensor& x, const Shape& shape);  ///< broadcast to a shape

Tensor slice(const Tensor& x, int dim, std::int64_t first, std::int64_t last);  ///< [first, last) along a dimension
Tensor select(const Tensor& x, int dim, std::int64_t index);                    ///< one place; the dimension goes
Tensor cat(const std::vector<Tensor>& parts, int dim = 0);
Tensor stack(const std::vector<Tensor>& parts, int dim = 0);  ///< along a new dimension
/// In parts of `size` along a dimension, the last one perhaps smaller.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim = 0);

Tensor flip(const Tensor& x, int dim);  ///< the reverse order along a dimension
/// Places along a dimension in any order, any number of times: y[i, j, k] = x[i, index[j], k] for dim 1.
///   index : i64 [n]   Throws DataError if one is outside
Tensor index_select(const Tensor& x, int dim, const Tensor& index);
/// y[i, j, k] = x[i, index[i, j, k], k] for dim 1. Waits for the device.
///   index : i64, of x's rank, and no longer than x but along dim   ->   y : of index's shape
///   Throws DataError if one is outside
Tensor gather(const Tensor& x, int dim, const Tensor& index);

/// index i64 [...] -> [..., classes], 1 at the index, else 0. Throws DataError if an index is outside.
Tensor one_hot(const Tensor& index, std::int64_t classes);

/// A dimension from the front. throws ShapeError, in the name of `what`, if x has it not
int dimension(const char* what, const Tensor& x, int dim);
/// A shape without some of its dimensions, which are sorted.
Shape without(const Shape& shape, const std::vector<int>& dims);

/// y[..., :] = w[index[...], :]: one row of w per index.
///   index : i64, [T, B] or [n]   w : [vocabulary, dim]   ->   y : [T, B, dim] or [n, dim]
///   dw[r] = sum of dy[i] over index[i] = r, zero elsewhere: dense, added in the order of i for any number of threads;
///   handed over by Grads::chunk_rows. Where another use has written it before (a tied weight), only rows that occur in
///   index are visited
/// Throws ShapeError if the shapes or types do not fit, DataError naming the first index outside of the vocabulary (on
/// a CUDA device any of them, by the next synchronize()).
Tensor embedding(const Tensor& index, const Tensor& w);

}  // namespace laconic::inline ops
