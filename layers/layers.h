#pragma once

/// Every layer and loss: what a program that defines its own model includes.
#include "layers/loss.h"
#include "layers/recurrent.h"
#include "layers/sequential.h"
#include "layers/stateless.h"
#include "layers/weighted.h"
