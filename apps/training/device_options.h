#pragma once
#include <string>

#include "core/device.h"
#include "core/precision.h"

namespace laconic {

/// `text` if it names a device that there is: cpu, cuda, or cuda:I. Throws UsageError in the name of `option`.
std::string checked_device(const std::string& text, const std::string& option);

/// The device of this process by such a name. cuda is, of processes that MPI has started, the one whose number is the
/// local rank modulo the number of devices, so that each has its own where there are enough; else cuda:0, which the
/// workers of one process share.
Device device_named(const std::string& text);

/// fp32, tf32 or bf16. Throws UsageError in the name of `option` for another, and for all but fp32 on the CPU.
Precision checked_precision(const std::string& text, const std::string& device, const std::string& option);

}  // namespace laconic
