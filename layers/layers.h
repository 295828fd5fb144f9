#pragma once

/// Every layer and loss: what a program that defines its own model includes.
#include "layers/activation.h"
#include "layers/batch_norm.h"
#include "layers/branches.h"
#include "layers/conv2d.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/flatten.h"
#include "layers/gru.h"
#include "layers/linear.h"
#include "layers/local_response_norm.h"
#include "layers/loss.h"
#include "layers/lstm.h"
#include "layers/lstm_cell.h"
#include "layers/pool.h"
#include "layers/rnn.h"
#include "layers/sequential.h"
