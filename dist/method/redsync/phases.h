#pragma once
#include "dist/method/method.h"
#include "dist/method/redsync/residual_tensor.h"

namespace laconic::dist {

/// The border between a sparse phase and a dense one, in which all of every gradient travels with common momentum.
/// Nothing is lost there:
///
///     to sparse   U is what every worker would hold if it had seen the mean of all gradients so far
///     to dense    V is sent at once, and the common velocity is made of all U. Without momentum correction V goes with
///                 the next gradient instead
void begin_sparse_phase(const WorkerSide& side, const ResidualTensor& tensor);
void begin_dense_phase(const WorkerSide& side, const ResidualTensor& tensor, Parameter& parameter,
                       const StepContext& context);
/// V of these rows goes with their gradient.
void send_along(const ResidualTensor& tensor, Parameter& parameter, Rows rows);

}  // namespace laconic::dist
