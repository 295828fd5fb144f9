#include "core/cuda/each.cuh"
#include "core/kernels/rows.h"
// Below the others, since its kernels are made of each_cell().
#include "core/kernels/cells.cuh"
