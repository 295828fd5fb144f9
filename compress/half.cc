#include "compress/half.h"

#include "compress/cpu/half.h"
#include "compress/cuda/codecs.h"
#include "core/dispatch.h"

namespace laconic::compress {

CodecKind Half::fp16() {
  return plain_codec("fp16", {}, [] { return std::make_unique<Half>(Format::fp16); });
}

CodecKind Half::bf16() {
  return plain_codec("bf16", {}, [] { return std::make_unique<Half>(Format::bf16); });
}

void Half::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  std::byte* const to = payload.append(max_bytes(x.size())).data();
  if (x.empty()) return;
  on_device(
      x.device(), [&] { (format_ == Format::fp16 ? cpu::to_fp16 : cpu::to_bf16)(x.data(), x.size(), to); },
      [&] { (format_ == Format::fp16 ? cuda::to_fp16 : cuda::to_bf16)(x.data(), x.size(), to); });
}

void Half::decode(Slice<const std::byte> payload, Slice<float> x) const {
  require<DataError>(payload.size() == max_bytes(x.size()), format_ == Format::fp16 ? "fp16" : "bf16",
                     " codec: ", payload.size(), " bytes do not hold ", x.size(),
                     " elements of 2 bytes. Do all ranks use the same codec?");
  if (x.empty()) return;
  on_device(
      x.device(),
      [&] { (format_ == Format::fp16 ? cpu::from_fp16 : cpu::from_bf16)(payload.data(), x.size(), x.data()); },
      [&] { (format_ == Format::fp16 ? cuda::from_fp16 : cuda::from_bf16)(payload.data(), x.size(), x.data()); });
}

}  // namespace laconic::compress
