#pragma once
#include "core/cpu/layout.h"

namespace laconic::cpu {

struct LrnShape {
  int size;
  float alpha, beta, k;
};
/// y[c] = x[c] d[c]^-beta,  d[c] = k + alpha / size * sum of x^2 over channels c - size / 2 … c + (size - 1) / 2
void lrn_forward(float* y, const float* x, const ChannelView& v, const LrnShape& s);
/// dx[c] = dy[c] d[c]^-beta - 2 alpha beta / size x[c] sum_c' dy[c'] x[c'] d[c']^(-beta - 1), over c' whose window
/// holds c
void lrn_backward(float* dx, const float* dy, const float* x, const ChannelView& v, const LrnShape& s);

}  // namespace laconic::cpu
