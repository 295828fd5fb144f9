#pragma once
#include <cstdint>

#include "core/dispatch.h"

/// Kernels over rows: logits, embeddings, and the cells of recurrent layers.
namespace laconic {

// Logits [rows, classes] against labels [rows]; losses in natural logarithms. log-sum-exp with the row's largest taken
// out, so that no logit overflows. On a CUDA device a label that is no class is told to the host (core/cuda/runtime.h);
// its row's loss is NaN.
//   loss of a row = -(1 - smoothing) log p[label] - smoothing mean_k log p[k],   p = softmax(x)
//   dx = scale (p - target),   target = (1 - smoothing) at the label + smoothing / classes everywhere

/// Rows whose label is among the k largest logits (of equals the lower class counts as larger; NaN is never right).
/// Waits for the device.
LACONIC_DECLARE(std::int64_t count_correct(const float* x, const std::int64_t* labels, std::int64_t rows,
                                           std::int64_t classes, int k));
namespace cpu {
/// First row whose label is outside 0 … classes - 1, or -1.
std::int64_t first_bad_label(const std::int64_t* labels, std::int64_t rows, std::int64_t classes);
/// loss[i] of each row. If not null, e (which may be x) receives p times a factor of its row, and inverse[i] one over
/// that factor.
void softmax_cross_entropy(double* loss, float* e, float* inverse, const float* x, const std::int64_t* labels,
                           std::int64_t rows, std::int64_t classes, float smoothing);
/// dx may be e.
void softmax_cross_entropy_backward(float* dx, const float* e, const float* inverse, const std::int64_t* labels,
                                    std::int64_t rows, std::int64_t classes, float smoothing, float scale);
}  // namespace cpu
namespace cuda {
/// loss[0] = the mean of the rows' losses. If not null, stats [rows, 2] receives what backward needs besides x: the
/// row's largest logit and one over the sum of e^(x - largest).
void softmax_cross_entropy(float* loss, float* stats, const float* x, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t classes, float smoothing);
/// scale = dy[0] / rows. dx may be x.
void softmax_cross_entropy_backward(float* dx, const float* x, const float* stats, const std::int64_t* labels,
                                    std::int64_t rows, std::int64_t classes, float smoothing, const float* dy);
/// Waits for the device.
double sum_of_cross_entropy(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes);
}  // namespace cuda

// Reductions over the middle of x [outer, n, inner]: any reduction over neighbouring dimensions is one.

/// y[o, i] = scale * sum of x[o, :, i]; added as sum() of core/kernels/elementwise.h does.
LACONIC_DECLARE(void sum_middle(float* y, const float* x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                                float scale));
/// y[o, i] = the largest (smallest) of x[o, :, i], index[o, i] its place: of equals the first; NaN counts as the
/// extreme one. n >= 1
LACONIC_DECLARE(void extreme_middle(float* y, std::int64_t* index, const float* x, std::int64_t outer, std::int64_t n,
                                    std::int64_t inner, bool largest));
/// dx = 0, but dx[o, index[o, i], i] = dy[o, i].
LACONIC_DECLARE(void put_middle(float* dx, const float* dy, const std::int64_t* index, std::int64_t outer,
                                std::int64_t n, std::int64_t inner));
/// y = softmax of each row, or its logarithm.
LACONIC_DECLARE(void softmax_rows(float* y, const float* x, std::int64_t rows, std::int64_t classes, bool logarithm));
/// dx = y (dy - sum dy y), or dy - e^y sum dy. dx may be dy.
LACONIC_DECLARE(void softmax_rows_backward(float* dx, const float* dy, const float* y, std::int64_t rows,
                                           std::int64_t classes, bool logarithm));

/// Each row of x [rows, dim] less its mean, divided by its deviation sqrt(var + epsilon), times gamma plus beta.
/// With beta null the mean is not taken out: divided by sqrt(mean of squares + epsilon), times gamma.
/// stats [2, rows] = the means (0), and one over what was divided by. y may be x.
LACONIC_DECLARE(void normalize_rows(float* y, float* stats, const float* x, const float* gamma, const float* beta,
                                    std::int64_t rows, std::int64_t dim, float epsilon));
struct NormalizeGradients {
  float* dx;                       ///< it may be dy
  float *dgamma, *dbeta;           ///< [dim]; null: not wanted
  bool add_to_gamma, add_to_beta;  ///< true: the sum with what is there
};
/// centred: the mean was taken out. Sums over rows go by fixed chunks of them, floats within a chunk and doubles
/// across.
LACONIC_DECLARE(void normalize_rows_backward(const NormalizeGradients& to, const float* dy, const float* x,
                                             const float* stats, const float* gamma, std::int64_t rows,
                                             std::int64_t dim, bool centred));

/// y[i] = w[index[i]] for n indices into `vocabulary` rows of `dim` floats. On the CPU all are inside; on a CUDA device
/// one that is not is told to the host (core/cuda/runtime.h) and gives zeros.
LACONIC_DECLARE(void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n,
                                       std::int64_t vocabulary, std::int64_t dim));
/// dw[index[i] - first] += dy[i] for the indices in [first, first + rows), in the order of i whatever the number of
/// threads.   dw : [rows, dim]
LACONIC_DECLARE(void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n,
                                        std::int64_t first, std::int64_t rows, std::int64_t dim));

// What is between the matrix products of an LSTM: gate arithmetic, one pass over memory per time step. Gates lie as
// PyTorch's [B][i f g o][H].   source: Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000

/// gates: sums in, but for their bias [4 H]; activated out (i, f, o by the sigmoid, g by tanh).
///   c = f c_before + i g      h = o tanh(c)       all [B, H]
LACONIC_DECLARE(void lstm_cell_forward(float* gates, float* c, float* h, const float* bias, const float* c_before,
                                       std::int64_t batch, std::int64_t hidden));
/// gates: activated in, the gradient of their sums out. dy + dh is the gradient of h, from outside and from the later
/// step; dc arrives as c's gradient from the later step and leaves as the gradient for the earlier one.
LACONIC_DECLARE(void lstm_cell_backward(float* gates, float* dc, const float* dy, const float* dh, const float* c,
                                        const float* c_before, std::int64_t batch, std::int64_t hidden));

// What is between the products of a GRU. Gates lie as PyTorch's [B][r z n][H].   source: Cho et al. 2014, with the
// reset gate after the recurrent product and its bias, as in PyTorch and cuDNN

/// gates: input part in, activated out (r, z by the sigmoid, n by tanh). recurrent: h_before W_hh'. Both without their
/// biases [3 H].
///   n = tanh(gates_n + bias_n + r q), q = recurrent_n + recurrent_bias_n    h = (1 - z) n + z h_before   q, h : [B, H]
LACONIC_DECLARE(void gru_cell_forward(float* gates, float* q, float* h, const float* recurrent, const float* bias,
                                      const float* recurrent_bias, const float* h_before, std::int64_t batch,
                                      std::int64_t hidden));
/// gates: activated in, the gradient of the input part out; drecurrent: the gradient of the recurrent part, which
/// differs in n only. dh arrives as the gradient of h. It leaves as the part of h_before's gradient that does not go
/// through W_hh.
LACONIC_DECLARE(void gru_cell_backward(float* gates, float* drecurrent, float* dh, const float* q,
                                       const float* h_before, std::int64_t batch, std::int64_t hidden));

}  // namespace laconic
