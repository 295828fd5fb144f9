#include "cudnn.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "arithmetic.h"
#include "rounding.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int n, c, h, w;
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  int k, c, h, w;
};
struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "success";
    case CUDNN_STATUS_BAD_PARAM:
      return "bad parameter";
    case CUDNN_STATUS_NOT_SUPPORTED:
      break;
  }
  return "not supported";
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) {
  *d = new cudnnTensorStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
  if (n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  if (static_cast<double>(n) * c * h * w >= 0x1p31) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = {format, type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) {
  *d = new cudnnFilterStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  if (k < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  *d = {type, format, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) {
  *d = new cudnnConvolutionStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  delete d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int u, int v,
                                              int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 || dilation_w < 1) return CUDNN_STATUS_BAD_PARAM;
  *d = {pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute, d->groups, d->math};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  d->groups = groups;
  return groups >= 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  d->math = math;
  return CUDNN_STATUS_SUCCESS;
}

namespace {

constexpr int kRefused = 102, kUsable = 103, kRoomy = 104;  // none of cuDNN's
/// cuDNN has it in plain order alone. Here it computes like the others.
template <class Algorithm>
constexpr Algorithm kWinograd = std::is_same_v<Algorithm, cudnnConvolutionFwdAlgo_t>
                                    ? Algorithm(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED)
                                    : Algorithm(CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED);
static_assert(int{CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED} ==
              int{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED});
constexpr std::size_t kWorkspace = 1000;
std::atomic<std::size_t> roomy{0}, in_plain_order{0};

/// Everything that a convolution is, copied when it is asked for: descriptors may change afterwards.
struct Problem {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct conv;

  bool winograd() const {
    return x.format == CUDNN_TENSOR_NCHW && x.type == CUDNN_DATA_FLOAT && conv.math == CUDNN_FMA_MATH && w.h == 3 &&
           w.w == 3 && conv.stride_h == 1 && conv.dilation_h == 1 && conv.groups == 1;
  }
  bool strides_and_dilates() const { return x.format == CUDNN_TENSOR_NHWC && conv.dilation_h > 1 && conv.stride_h > 1; }
  cudnnStatus_t check() const {
    if (x.format != y.format || x.format != w.format || strides_and_dilates()) return CUDNN_STATUS_NOT_SUPPORTED;
    if (x.type != y.type || x.type != w.type || conv.compute != CUDNN_DATA_FLOAT ||
        conv.mode != CUDNN_CROSS_CORRELATION)
      return CUDNN_STATUS_NOT_SUPPORTED;
    const auto extent = [](int in, int kernel, int pad, int stride, int dilation) {
      return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    };
    if (y.n != x.n || y.c != w.k || w.c * conv.groups != x.c || w.k % conv.groups != 0 ||
        y.h != extent(x.h, w.h, conv.pad_h, conv.stride_h, conv.dilation_h) ||
        y.w != extent(x.w, w.w, conv.pad_w, conv.stride_w, conv.dilation_w))
      return CUDNN_STATUS_BAD_PARAM;
    return CUDNN_STATUS_SUCCESS;
  }

  std::size_t x_size() const { return static_cast<std::size_t>(x.n) * x.h * x.w * x.c; }
  std::size_t y_size() const { return static_cast<std::size_t>(y.n) * y.h * y.w * y.c; }
  std::size_t w_size() const { return static_cast<std::size_t>(w.k) * w.h * w.w * w.c; }

  /// f(first input channel, first output channel, weight of the first output channel) at every place where an input
  /// pixel meets an output pixel, for each group.
  template <class F>
  void each_meeting(F f) const {
    for (int n = 0; n < y.n; ++n)
      for (int i = 0; i < y.h; ++i)
        for (int j = 0; j < y.w; ++j)
          for (int r = 0; r < w.h; ++r)
            for (int s = 0; s < w.w; ++s) {
              const int a = i * conv.stride_h + r * conv.dilation_h - conv.pad_h;
              const int b = j * conv.stride_w + s * conv.dilation_w - conv.pad_w;
              if (a < 0 || a >= x.h || b < 0 || b >= x.w) continue;
              const std::size_t in = (static_cast<std::size_t>(n * x.h + a) * x.w + b) * x.c;
              const std::size_t out = (static_cast<std::size_t>(n * y.h + i) * y.w + j) * y.c;
              for (int g = 0; g < conv.groups; ++g) {
                const int first = g * (w.k / conv.groups);
                f(in + static_cast<std::size_t>(g * w.c), out + static_cast<std::size_t>(first),
                  (static_cast<std::size_t>(first * w.h + r) * w.w + s) * w.c);
              }
            }
  }
  std::size_t outputs() const { return static_cast<std::size_t>(w.k / conv.groups); }  // of a group
  std::size_t inputs() const { return static_cast<std::size_t>(w.c); }
  std::size_t row() const { return static_cast<std::size_t>(w.h) * w.w * w.c; }  // of an output channel's weights

  /// Where element i of a tensor of n x pixels x c, channels last, lies in memory.
  std::size_t place(std::size_t i, std::size_t pixels, std::size_t c) const {
    if (x.format == CUDNN_TENSOR_NHWC) return i;
    return (i / c / pixels * c + i % c) * pixels + i / c % pixels;
  }

  /// Kernels for tensor cores move 16 bytes at once: on a GPU other addresses end the program.
  void require_aligned(const void* p) const {
    if (x.type == CUDNN_DATA_FLOAT || reinterpret_cast<std::uintptr_t>(p) % 16 == 0) return;
    std::fputs("emulated cuDNN: a tensor does not begin on 16 bytes\n", stderr);
    std::abort();
  }
  /// Channels last.
  std::vector<float> read(const void* p, std::size_t n, int h, int width, int c) const {
    require_aligned(p);
    const std::size_t pixels = static_cast<std::size_t>(h) * static_cast<std::size_t>(width);
    const bool tf32 = x.type == CUDNN_DATA_FLOAT && conv.math != CUDNN_FMA_MATH;
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = place(i, pixels, static_cast<std::size_t>(c));
      const float v = x.type == CUDNN_DATA_FLOAT ? static_cast<const float*>(p)[at]
                                                 : emulated_cuda::from_bf16(static_cast<const std::uint16_t*>(p)[at]);
      out[i] = tf32 ? emulated_cuda::to_tf32(v) : v;
    }
    return out;
  }
  void write(void* p, const std::vector<float>& sums, float alpha, float beta, int h, int width, int c) const {
    require_aligned(p);
    const std::size_t pixels = static_cast<std::size_t>(h) * static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::size_t at = place(i, pixels, static_cast<std::size_t>(c));
      if (x.type == CUDNN_DATA_FLOAT) {
        float& to = static_cast<float*>(p)[at];
        to = alpha * sums[i] + (beta == 0.0f ? 0.0f : beta * to);
      } else {
        std::uint16_t& to = static_cast<std::uint16_t*>(p)[at];
        to = emulated_cuda::to_bf16(alpha * sums[i] + (beta == 0.0f ? 0.0f : beta * emulated_cuda::from_bf16(to)));
      }
    }
  }
};

template <class Perf>
cudnnStatus_t offer(const Problem& problem, int asked, int* returned, Perf* results) {
  if (problem.strides_and_dilates()) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t bad = problem.check()) return bad;
  using Algorithm = decltype(results->algo);
  const Perf all[] = {
      {Algorithm(0), CUDNN_STATUS_SUCCESS, -1.0f, 0, CUDNN_NON_DETERMINISTIC, problem.conv.math},
      {Algorithm(1), CUDNN_STATUS_SUCCESS, -1.0f, std::size_t{1} << 40, CUDNN_DETERMINISTIC, problem.conv.math},
      {kWinograd<Algorithm>, problem.winograd() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, -1.0f, kWorkspace,
       CUDNN_DETERMINISTIC, problem.conv.math},
      {Algorithm(kRefused), CUDNN_STATUS_SUCCESS, -1.0f, 0, CUDNN_DETERMINISTIC, problem.conv.math},
      {Algorithm(kRoomy), roomy > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, -1.0f, roomy,
       CUDNN_DETERMINISTIC, problem.conv.math},
      {Algorithm(kUsable), CUDNN_STATUS_SUCCESS, -1.0f, kWorkspace, CUDNN_DETERMINISTIC, problem.conv.math}};
  *returned = 0;
  for (const Perf& p : all)
    if (*returned < asked) results[(*returned)++] = p;
  return CUDNN_STATUS_SUCCESS;
}

template <class Algorithm, class F>
cudnnStatus_t start(cudnnHandle_t handle, const Problem& problem, Algorithm algorithm, const void* workspace,
                    std::size_t bytes, F f) {
  if (const cudnnStatus_t bad = problem.check()) return bad;
  if (algorithm == kRefused) return CUDNN_STATUS_NOT_SUPPORTED;
  const std::size_t wanted = algorithm == kRoomy ? roomy.load() : kWorkspace;
  const bool can = algorithm == kWinograd<Algorithm> ? problem.winograd() : algorithm >= kUsable;
  if (!can || bytes < wanted || !workspace || reinterpret_cast<std::uintptr_t>(workspace) % 16)
    return CUDNN_STATUS_BAD_PARAM;
  in_plain_order += problem.x.format == CUDNN_TENSOR_NCHW;
  emulated_cuda::enqueue(handle->stream, f);
  return CUDNN_STATUS_SUCCESS;
}

float value(const void* p) { return *static_cast<const float*>(p); }

}  // namespace

void emulated_cuda::offer_workspace(std::size_t bytes) { roomy = bytes; }
std::size_t emulated_cuda::convolutions_in_plain_order() { return in_plain_order; }

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t conv,
                                                     const cudnnTensorDescriptor_t y, const int asked, int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return offer({*x, *y, *w, *conv}, asked, returned, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t dy,
                                                          const cudnnConvolutionDescriptor_t conv,
                                                          const cudnnTensorDescriptor_t dx, const int asked,
                                                          int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return offer({*dx, *dy, *w, *conv}, asked, returned, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t dy,
                                                            const cudnnConvolutionDescriptor_t conv,
                                                            const cudnnFilterDescriptor_t dw, const int asked,
                                                            int* returned,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return offer({*x, *dy, *dw, *conv}, asked, returned, results);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc,
                                      const void* x, const cudnnFilterDescriptor_t wDesc, const void* w,
                                      const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
                                      void* workSpace, std::size_t workSpaceSizeInBytes, const void* beta,
                                      const cudnnTensorDescriptor_t yDesc, void* y) {
  const Problem p{*xDesc, *yDesc, *wDesc, *convDesc};
  return start(handle, p, algo, workSpace, workSpaceSizeInBytes, [=, a = value(alpha), b = value(beta)] {
    const std::vector<float> in = p.read(x, p.x_size(), p.x.h, p.x.w, p.x.c),
                             weights = p.read(w, p.w_size(), p.w.h, p.w.w, p.w.c);
    std::vector<float> sums(p.y_size());
    p.each_meeting([&](std::size_t from, std::size_t to, std::size_t weight) {
      emulated_cuda::add_products(&sums[to], &in[from], &weights[weight], p.outputs(), p.row(), p.inputs());
    });
    p.write(y, sums, a, b, p.y.h, p.y.w, p.y.c);
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t wDesc,
                                           const void* w, const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workSpace,
                                           std::size_t workSpaceSizeInBytes, const void* beta,
                                           const cudnnTensorDescriptor_t dxDesc, void* dx) {
  const Problem p{*dxDesc, *dyDesc, *wDesc, *convDesc};
  return start(handle, p, algo, workSpace, workSpaceSizeInBytes, [=, a = value(alpha), b = value(beta)] {
    const std::vector<float> out = p.read(dy, p.y_size(), p.y.h, p.y.w, p.y.c),
                             weights = p.read(w, p.w_size(), p.w.h, p.w.w, p.w.c);
    std::vector<float> sums(p.x_size());
    p.each_meeting([&](std::size_t from, std::size_t to, std::size_t weight) {
      emulated_cuda::add_rows(&sums[from], &out[to], &weights[weight], p.outputs(), p.row(), p.inputs());
    });
    p.write(dx, sums, a, b, p.x.h, p.x.w, p.x.c);
  });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t xDesc, const void* x,
                                             const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                             const cudnnConvolutionDescriptor_t convDesc,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workSpace,
                                             std::size_t workSpaceSizeInBytes, const void* beta,
                                             const cudnnFilterDescriptor_t dwDesc, void* dw) {
  const Problem p{*xDesc, *dyDesc, *dwDesc, *convDesc};
  return start(handle, p, algo, workSpace, workSpaceSizeInBytes, [=, a = value(alpha), b = value(beta)] {
    const std::vector<float> in = p.read(x, p.x_size(), p.x.h, p.x.w, p.x.c),
                             out = p.read(dy, p.y_size(), p.y.h, p.y.w, p.y.c);
    std::vector<float> sums(p.w_size());
    p.each_meeting([&](std::size_t from, std::size_t to, std::size_t weight) {
      emulated_cuda::add_outer(&sums[weight], &out[to], &in[from], p.outputs(), p.row(), p.inputs());
    });
    p.write(dw, sums, a, b, p.w.h, p.w.w, p.w.c);
  });
}
