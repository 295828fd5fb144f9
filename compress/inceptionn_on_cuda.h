#pragma once
#include "compress/bytes.h"
#include "compress/cuda/inceptionn.h"
#include "core/slice.h"

/// What both codecs of INCEPTIONN do on a CUDA device, in builds with CUDA. h: as compress/cuda/inceptionn.h has it.
namespace laconic::compress {

/// Appends; `most`: bytes that the message has at most. The host waits for its length.
void encode_inceptionn_on_cuda(const cpu::InceptionnRule& rule, Slice<const float> x, std::size_t h, std::size_t most,
                               Bytes& payload);
/// Whether it is a message of so many values, for which the host waits; x = it, or addend + it.
bool decode_inceptionn_on_cuda(const cpu::InceptionnRule& rule, Slice<const std::byte> payload, const float* addend,
                               Slice<float> x, std::size_t h, std::size_t most);

}  // namespace laconic::compress
