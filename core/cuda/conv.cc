#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/cuda/libraries.h"
#include "core/base/kept.h"
#include "core/kernels/products.h"
#include "core/precision.h"
#include "core/raw.h"

namespace laconic::cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

struct Geometry : ConvSizes {
  int device;
  DType type;
  bool tf32;
  Layout layout = Layout::channels_last;  ///< the layout of activations; that of weights goes with it
  auto operator<=>(const Geometry&) const = default;

  std::int64_t pixels() const { return n * oh * ow; }
  std::int64_t kernel() const { return kh * kw; }
  /// A product of matrices, one row per pixel.
  bool pointwise() const { return kernel() == 1 && stride == 1 && pad == 0 && groups == 1; }
  /// This geometry in plain order and float32.
  Geometry plain() const {
    Geometry g = *this;
    g.type = DType::f32;
    g.tf32 = matmul_precision() != Precision::fp32;
    g.layout = Layout::plain;
    return g;
  }
  /// Whether plain weights are also in the order that goes with channels_last.
  bool plain_fits() const { return kernel() == 1 || c == groups; }

  /// Whether plain order may be worth the way there and back, of 8 bytes an element. Float32 without tensor cores is
  /// bound by arithmetic: 18 c operations a pixel and output channel of a 3x3 kernel. Where an algorithm of plain order
  /// saves half of them, and a GPU does some 14 operations in the time of a byte (H200: 67 TFLOP/s, 4.8 TB/s), that is
  /// more than the way from about 25 channels on.
  bool may_save_in_plain_order() const {
    constexpr std::int64_t kLeastChannels = 32;
    return type == DType::f32 && !tf32 && kernel() > 1 && std::min(c, out) / groups >= kLeastChannels;
  }
};
Geometry geometry(const Tensor& x, const Tensor& y, const Shape& w, const ops::Conv2dOptions& o, DType type) {
  return {conv_sizes(x, y, w, o), x.device().index, type, type == DType::f32 && matmul_precision() == Precision::tf32};
}

/// Weights in cuDNN's order and type.
struct ConvWeights final : Derived {
  Tensor values;
};

Tensor packed_weights(const Tensor& w, const Geometry& g) {
  if (g.plain_fits()) return raw::rounded_parameter(w, g.type);
  auto* cache = dynamic_cast<ConvWeights*>(w.derived().get());
  if (cache && cache->version == w.version() && cache->values.dtype() == g.type) return cache->values;
  const auto made = std::make_shared<ConvWeights>();
  made->version = w.version();
  made->values = Tensor::empty(w.shape(), g.type, w.device());
  if (g.type == DType::bf16)
    pack_weights(made->values.data<BFloat16>(), w.data<float>(), g.out, g.c / g.groups, g.kernel());
  else
    pack_weights(made->values.data<float>(), w.data<float>(), g.out, g.c / g.groups, g.kernel());
  w.derived() = made;
  return made->values;
}

/// One shape's descriptions, and for each direction the algorithms that may be used, the fastest first. Belongs to a
/// thread.
class Convolution {
 public:
  explicit Convolution(const Geometry& g) : g_(g) {
    const Cudnn& c = cudnn();
    const auto extent = [](std::int64_t n) { return static_cast<int>(n); };
    const cudnnDataType_t type = g.type == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const cudnnTensorFormat_t format = g.layout == Layout::plain ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
    const char* what = "describing a convolution";
    check(c.cudnnCreateTensorDescriptor(&x_), what);
    check(c.cudnnCreateTensorDescriptor(&y_), what);
    check(c.cudnnCreateFilterDescriptor(&w_), what);
    check(c.cudnnCreateConvolutionDescriptor(&conv_), what);
    check(c.cudnnSetTensor4dDescriptor(x_, format, type, extent(g.n), extent(g.c), extent(g.h), extent(g.w)), what);
    check(c.cudnnSetTensor4dDescriptor(y_, format, type, extent(g.n), extent(g.out), extent(g.oh), extent(g.ow)), what);
    check(c.cudnnSetFilter4dDescriptor(w_, type, format, extent(g.out), extent(g.c / g.groups), extent(g.kh),
                                       extent(g.kw)),
          what);
    check(c.cudnnSetConvolution2dDescriptor(conv_, g.pad, g.pad, g.stride, g.stride, g.dilation, g.dilation,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          what);
    check(c.cudnnSetConvolutionGroupCount(conv_, g.groups), what);
    // CUDNN_FMA_MATH keeps cuDNN from rounding float32 to TF32.
    math_ = g.type == DType::bf16 ? CUDNN_TENSOR_OP_MATH : g.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    check(c.cudnnSetConvolutionMathType(conv_, math_), what);
  }
  ~Convolution() {
    const Cudnn& c = cudnn();
    c.cudnnDestroyTensorDescriptor(x_);
    c.cudnnDestroyTensorDescriptor(y_);
    c.cudnnDestroyFilterDescriptor(w_);
    c.cudnnDestroyConvolutionDescriptor(conv_);
  }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  // Each false if cuDNN has no algorithm for it in this layout.
  bool forward(void* y, const void* x, const void* w) {
    return run("convolution", forward_algorithms(), cudnn().cudnnConvolutionForward, x_, x, w_, w, y_, y);
  }
  bool backward_data(void* dx, const void* dy, const void* w) {
    return run("convolution's data gradient", data_algorithms(), cudnn().cudnnConvolutionBackwardData, w_, w, y_, dy,
               x_, dx);
  }
  bool backward_weights(void* dw, bool add, const void* x, const void* dy) {
    return run("convolution's weight gradient", weight_algorithms(), cudnn().cudnnConvolutionBackwardFilter, x_, x, y_,
               dy, w_, dw, add);
  }

  // Whether the algorithm that cuDNN expects to be the fastest multiplies less than the sum of products does.
  bool forward_saves() {
    return saves(forward_algorithms(),
                 {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_FFT,
                  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING});
  }
  bool backward_data_saves() {
    return saves(data_algorithms(),
                 {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT,
                  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING});
  }
  bool backward_weights_saves() {
    return saves(weight_algorithms(),
                 {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT,
                  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING});
  }

 private:
  static constexpr float kOne = 1.0f, kZero = 0.0f;

  /// Those that may be used, the fastest first; nothing: not asked for yet.
  template <class Perf>
  using Algorithms = std::optional<std::vector<Perf>>;

  std::vector<cudnnConvolutionFwdAlgoPerf_t>& forward_algorithms() {
    return asked("convolution", forward_, cudnn().cudnnGetConvolutionForwardAlgorithm_v7, x_, w_, y_);
  }
  std::vector<cudnnConvolutionBwdDataAlgoPerf_t>& data_algorithms() {
    return asked("convolution's data gradient", data_, cudnn().cudnnGetConvolutionBackwardDataAlgorithm_v7, w_, y_, x_);
  }
  std::vector<cudnnConvolutionBwdFilterAlgoPerf_t>& weight_algorithms() {
    return asked("convolution's weight gradient", weights_, cudnn().cudnnGetConvolutionBackwardFilterAlgorithm_v7, x_,
                 y_, w_);
  }
  template <class Perf, class Algorithm>
  static bool saves(const std::vector<Perf>& usable, std::initializer_list<Algorithm> few_products) {
    return !usable.empty() &&
           std::find(few_products.begin(), few_products.end(), usable.front().algo) != few_products.end();
  }
  // cuDNN 9 has several codes of each kind, a thousand apart.
  static bool is(cudnnStatus_t kind, cudnnStatus_t status) { return status / 1000 == kind / 1000; }
  static bool refused(cudnnStatus_t status) { return is(CUDNN_STATUS_NOT_SUPPORTED, status); }
  static bool failed(cudnnStatus_t status) { return status / 1000 > CUDNN_STATUS_NOT_SUPPORTED / 1000; }

  /// A direction makes `to` of two others. `get` is cuDNN's function that ranks its algorithms.
  template <class Perf, class Get, class A, class B, class To>
  std::vector<Perf>& asked(const char* what, Algorithms<Perf>& algorithms, Get get, A a, B b, To to) {
    if (algorithms) return *algorithms;
    Perf found[16];
    int count = 0;
    check(cudnn().cudnnSetConvolutionMathType(conv_, math_), what);
    const cudnnStatus_t status = get(cudnn_handle(), a, b, conv_, to, 16, &count, found);
    // Asked for a layout that it has nothing for it may also find a parameter bad.
    if (!refused(status) && !is(CUDNN_STATUS_BAD_PARAM, status)) check(status, what);
    if (status != CUDNN_STATUS_SUCCESS) count = 0;
    std::vector<Perf>& usable = algorithms.emplace();
    for (int i = 0; i < count; ++i)
      if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].determinism == CUDNN_DETERMINISTIC &&
          found[i].memory <= kMostWorkspace)
        usable.push_back(found[i]);
    return usable;
  }

  /// Runs the first algorithm that cuDNN does not refuse after all, and keeps to it. One that fails, or whose workspace
  /// cannot be had, is left if there is another.
  template <class Perf, class Function, class A, class B, class To>
  bool run(const char* what, std::vector<Perf>& usable, Function function, A a, const void* first, B b,
           const void* second, To to, void* result, bool add = false) {
    for (; !usable.empty(); usable.erase(usable.begin())) {
      const Perf& best = usable.front();
      if (math_ != CUDNN_FMA_MATH) check(cudnn().cudnnSetConvolutionMathType(conv_, best.mathType), what);
      void* const memory = workspace(best.memory);
      if (memory == nullptr && best.memory > 0) continue;
      const cudnnStatus_t status = function(cudnn_handle(), &kOne, a, first, b, second, conv_, best.algo, memory,
                                            best.memory, add ? &kOne : &kZero, to, result);
      if (refused(status) || (failed(status) && usable.size() > 1)) continue;
      check(status, what);
      return true;
    }
    return false;
  }

  Geometry g_;
  cudnnMathType_t math_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  Algorithms<cudnnConvolutionFwdAlgoPerf_t> forward_;
  Algorithms<cudnnConvolutionBwdDataAlgoPerf_t> data_;
  Algorithms<cudnnConvolutionBwdFilterAlgoPerf_t> weights_;
};

Convolution& convolution(const Geometry& g) {
  thread_local std::map<Geometry, Convolution> made;
  return kept(made, g, g);
}

// Where cuDNN has nothing for channels_last (some groups, strides and dilations), it has for plain order. What is bf16
// is widened for it: exact, and such shapes are rare. In float32 plain order comes first for groups, and where cuDNN
// expects an algorithm to be the fastest there that saves products. Its predictions carry no times by which the two
// orders could be compared.

/// f(in channels_last), or first f(in plain order) where that `saves`, and the other one if there is no algorithm.
template <class Saves, class Last, class Plain>
void in_the_better_order(const Geometry& g, Saves&& saves, Last&& last, Plain&& plain) {
  const bool groups = g.type == DType::f32 && !g.tf32 && g.groups > 1;
  const bool plain_first = groups || (g.may_save_in_plain_order() && saves(convolution(g.plain())));
  const bool done = plain_first ? plain() || last() : last() || plain();
  require<Error>(done, "cudnn: no deterministic algorithm for a convolution of ", Shape{g.n, g.c, g.h, g.w}, " with ",
                 Shape{g.out, g.c / g.groups, g.kh, g.kw}, ", stride ", g.stride, ", pad ", g.pad, ", dilation ",
                 g.dilation, ", groups ", g.groups, " in at most ", kMostWorkspace,
                 " bytes of workspace. Try a smaller batch.");
}

Tensor in_plain_order(const Tensor& x) { return raw::to_layout(raw::cast(x, DType::f32), Layout::plain); }

/// run(result) with memory in plain order, from which y is made, unless it says that there is nothing.
template <class F>
bool through_plain_order(const Tensor& y, F run) {
  const Tensor plain = Tensor::empty(y.shape(), DType::f32, y.device());
  if (!run(plain)) return false;
  y.copy_from(raw::cast(plain, y.dtype()));
  return true;
}

/// Such a batch goes in two.
bool too_large(const Geometry& g, std::int64_t most) {
  return g.n > 1 && std::max(g.n * g.c * g.h * g.w, g.n * g.out * g.oh * g.ow) > most;
}
/// f(first image, how many) for each half of a batch.
template <class F>
void halves(const Geometry& g, F f) {
  const std::int64_t first = g.n < 16 ? g.n / 2 : g.n / 16 * 8;  // eight images end on 16 bytes, whatever their size
  f(std::int64_t{0}, first);
  f(first, g.n - first);
}

/// x in memory that begins on 16 bytes, as cuDNN's kernels for tensor cores want it. Rows of a tensor may not.
Tensor aligned(const Tensor& x) {
  if (reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 == 0) return x;
  const Tensor copy = Tensor::like(x);
  copy.copy_from(x);
  return copy;
}

}  // namespace

void conv2d_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const ops::Conv2dOptions& o,
                    std::int64_t most_elements) {
  const Geometry g = geometry(x, y, w.shape(), o, x.dtype());
  const float* bias = b.defined() ? b.data<float>() : nullptr;
  if (g.pointwise())
    return linear_forward(Product(y), false, Factor(x), Factor(packed_weights(w, g)), bias, g.pixels(), g.c, g.out,
                          g.out, o.relu);
  if (too_large(g, most_elements))
    return halves(g, [&](std::int64_t first, std::int64_t count) {
      conv2d_forward(y.rows(first, count), x.rows(first, count), w, b, o, most_elements);
    });
  in_the_better_order(
      g, [](Convolution& plain) { return plain.forward_saves(); },
      [&] { return convolution(g).forward(y.raw_data(), aligned(x).raw_data(), packed_weights(w, g).raw_data()); },
      [&] {
        return through_plain_order(y, [&](const Tensor& plain) {
          return convolution(g.plain()).forward(plain.raw_data(), in_plain_order(x).raw_data(), w.raw_data());
        });
      });
  if (bias || o.relu) add_bias(Product(y), Factor(y), bias, g.pixels(), g.out, g.out, o.relu);
}

void conv2d_backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::Conv2dOptions& o,
                          std::int64_t most_elements) {
  if (dx.elements() == 0) return;
  const Geometry g = geometry(dx, dy, w.shape(), o, dy.dtype());
  if (g.pointwise())
    return linear_backward_data(Product(dx), false, Factor(dy), Factor(packed_weights(w, g)), g.pixels(), g.c, g.out);
  if (too_large(g, most_elements))
    return halves(g, [&](std::int64_t first, std::int64_t count) {
      conv2d_backward_data(dx.rows(first, count), dy.rows(first, count), w, o, most_elements);
    });
  in_the_better_order(
      g, [](Convolution& plain) { return plain.backward_data_saves(); },
      [&] {
        return convolution(g).backward_data(dx.raw_data(), aligned(dy).raw_data(), packed_weights(w, g).raw_data());
      },
      [&] {
        return through_plain_order(dx, [&](const Tensor& plain) {
          return convolution(g.plain()).backward_data(plain.raw_data(), in_plain_order(dy).raw_data(), w.raw_data());
        });
      });
}

void conv2d_backward_weights(const Tensor& dw, bool add, const Tensor& x, const Tensor& dy, const ops::Conv2dOptions& o,
                             std::int64_t most_elements) {
  if (dy.elements() == 0) {
    if (!add) raw::fill(dw, 0.0f);
    return;
  }
  const Geometry g = geometry(x, dy, dw.shape(), o, x.dtype());
  if (g.pointwise())
    return linear_backward_weights(dw.data<float>(), add, Factor(x), Factor(dy), g.pixels(), g.c, g.out, g.out);
  if (too_large(g, most_elements))
    return halves(g, [&](std::int64_t first, std::int64_t count) {
      conv2d_backward_weights(dw, add || first > 0, x.rows(first, count), dy.rows(first, count), o, most_elements);
    });
  in_the_better_order(
      g, [](Convolution& plain) { return plain.backward_weights_saves(); },
      [&] {
        const bool direct = g.type == DType::f32 && g.plain_fits();
        const Tensor packed = direct ? dw : Tensor::empty(dw.shape(), g.type, dw.device());
        if (!convolution(g).backward_weights(packed.raw_data(), direct && add, aligned(x).raw_data(),
                                             aligned(dy).raw_data()))
          return false;
        if (g.type == DType::bf16)
          unpack_weights(dw.data<float>(), packed.data<BFloat16>(), g.out, g.c / g.groups, g.kernel(), add);
        else if (!direct)
          unpack_weights(dw.data<float>(), packed.data<float>(), g.out, g.c / g.groups, g.kernel(), add);
        return true;
      },
      [&] {
        return convolution(g.plain()).backward_weights(dw.raw_data(), add, in_plain_order(x).raw_data(),
                                                       in_plain_order(dy).raw_data());
      });
}

}  // namespace laconic::cuda
