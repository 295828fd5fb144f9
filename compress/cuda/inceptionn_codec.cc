#include "compress/inceptionn_on_cuda.h"
#include "core/stream.h"

namespace laconic::compress {
namespace {

/// Where a device tells of one message.
class Found {
 public:
  explicit Found(Device device) : device_(device), memory_(sizeof(cuda::InceptionnFound), device) {
    zero_bytes(memory_.data(), device, sizeof(cuda::InceptionnFound));
  }
  cuda::InceptionnFound* there() const { return reinterpret_cast<cuda::InceptionnFound*>(memory_.data()); }
  cuda::InceptionnFound wait() const {
    cuda::InceptionnFound found{};
    copy_bytes(&found, kCpu, memory_.data(), device_, sizeof found);
    return found;
  }

 private:
  Device device_;
  Storage memory_;
};

}  // namespace

void encode_inceptionn_on_cuda(const cpu::InceptionnRule& rule, Slice<const float> x, std::size_t h, std::size_t most,
                               Bytes& payload) {
  const std::size_t before = payload.size();
  std::byte* const to = payload.append(most).data();
  const Found found(x.device());
  cuda::encode_inceptionn(rule, x.data(), x.size(), h, to, found.there());
  payload.resize(before + found.wait().bytes);
}

bool decode_inceptionn_on_cuda(const cpu::InceptionnRule& rule, Slice<const std::byte> payload, const float* addend,
                               Slice<float> x, std::size_t h, std::size_t most) {
  if (payload.size() > most || payload.size() < (h > 0 ? 4u : 0u)) return false;
  if (x.empty()) return payload.empty();
  const Found found(x.device());
  cuda::decode_inceptionn(rule, payload.data(), payload.size(), x.size(), h, addend, x.data(), found.there());
  return found.wait().wrong == 0;
}

}  // namespace laconic::compress
