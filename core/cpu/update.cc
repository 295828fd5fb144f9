#include "core/cpu/each.h"
#include "core/kernels/elementwise.h"
// Below the others, since its kernels are made of each().
#include "core/kernels/update.cuh"
