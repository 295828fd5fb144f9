#pragma once

namespace laconic::cuda {

/// Makes a device the calling thread's: what it launches and allocates goes there. Free where it is already.
/// Throws Error if there is no such device.
void select(int index);

}  // namespace laconic::cuda
