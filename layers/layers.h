#pragma once

/// Every layer, loss and operation: what a program that defines its own model includes.
#include "core/function.h"
#include "core/ops/attention.h"
#include "core/ops/functions.h"
#include "core/ops/linear.h"
#include "core/ops/losses.h"
#include "core/ops/normalize.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "layers/loss.h"
#include "layers/recurrent.h"
#include "layers/sequential.h"
#include "layers/stateless.h"
#include "layers/summary.h"
#include "layers/weighted.h"
