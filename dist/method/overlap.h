#pragma once
#include <cstdint>
#include <string>

namespace laconic::dist {

/// When gradients travel and updates are made. It changes no bit: the messages are the plan's.
///   none      all after the whole backward
///   backward  each as soon as it is ready, all waited for at the end of the step (as PyTorch's DDP does)
///   forward   each as soon as it is ready, waited for before its parameters' next forward (HybridAR)
enum class Overlap : std::uint8_t { none, backward, forward };
const char* to_string(Overlap overlap);
/// throws UsageError (suggests the nearest)
Overlap overlap_named(const std::string& name);

}  // namespace laconic::dist
