#include "core/cpu/each.h"
#include "core/kernels/elementwise.h"
#include "core/raw.h"
// Below the others, since its kernels are made of each().
#include "core/kernels/update.cuh"
