#include "compress/sparse_message.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compress/cpu/scatter.h"
#include "compress/cpu/unpack.h"
#include "compress/cuda/scatter.h"
#include "compress/mirrored.h"
#include "core/dispatch.h"
#include "core/host_copy.h"
#include "core/base/parallel.h"
#include "core/stream.h"

namespace laconic::compress {
namespace {

using cpu::kBlock;

constexpr const char* kAnotherLength = "are not as long as they announce";

std::size_t blocks_of(std::size_t count) { return (count + kBlock - 1) / kBlock; }
std::size_t length_of(std::size_t block, std::size_t count) { return std::min(kBlock, count - block * kBlock); }
std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

/// How many 0 bits Rice's code of these gaps has with p low bits.
std::uint64_t quotients(const std::uint32_t* gaps, std::size_t count, unsigned p) {
  std::uint64_t sum = 0;
  for (std::size_t j = 0; j < count; ++j) sum += gaps[j] >> p;
  return sum;
}

/// The p with which they take the fewest bits, the smallest of equal ones. From p to p + 1 each gap gains a bit and the
/// quotients shrink by less and less, so that there is one valley.
unsigned best_rice(const std::uint32_t* gaps, std::size_t count) {
  const auto bits = [&](unsigned p) { return quotients(gaps, count, p) + count * p; };
  unsigned p = static_cast<unsigned>(std::bit_width(quotients(gaps, count, 0) / count));
  std::uint64_t best = bits(p = std::min(p, 31u));
  for (std::uint64_t next; p < 31 && (next = bits(p + 1)) < best; ++p) best = next;
  for (std::uint64_t next; p > 0 && (next = bits(p - 1)) <= best; --p) best = next;
  return p;
}

void put_gaps(IndexCoding coding, Slice<const std::uint32_t> indices, Bytes& payload) {
  const std::size_t count = indices.size(), blocks = blocks_of(count);
  std::vector<std::uint32_t> gaps(count);
  gaps[0] = indices[0];
  for (std::size_t j = 1; j < count; ++j) gaps[j] = indices[j] - indices[j - 1] - 1;
  std::vector<std::uint8_t> widths(blocks);
  std::size_t bytes = blocks;
  std::uint64_t unary = coding == IndexCoding::rice ? count : 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::uint32_t* const block = gaps.data() + b * kBlock;
    const std::size_t length = length_of(b, count);
    if (coding == IndexCoding::packed) {
      std::uint32_t all = 0;
      for (std::size_t j = 0; j < length; ++j) all |= block[j];
      widths[b] = static_cast<std::uint8_t>(std::bit_width(all));
    } else {
      widths[b] = static_cast<std::uint8_t>(best_rice(block, length));
      unary += quotients(block, length, widths[b]);
    }
    bytes += (length * widths[b] + 7) / 8;
  }
  const auto unary_bytes = static_cast<std::size_t>((unary + 7) / 8);
  const Slice<std::byte> out = payload.append(padded(bytes + unary_bytes));
  std::memcpy(out.data(), widths.data(), blocks);
  std::byte* to = out.data() + blocks;
  for (std::size_t b = 0; b < blocks; ++b) to = cpu::pack(gaps.data() + b * kBlock, length_of(b, count), widths[b], to);
  std::memset(to, 0, static_cast<std::size_t>(out.end() - to));
  if (coding == IndexCoding::packed) return;
  std::uint64_t at = 0;
  for (std::size_t j = 0; j < count; ++j, ++at) {
    at += gaps[j] >> widths[j / kBlock];
    to[at / 8] |= static_cast<std::byte>(1u << (at % 8));
  }
}

/// Reads gaps from [from, end) into `indices`, which has room for whole blocks. nullptr, or what is wrong.
const char* get_gaps(IndexCoding coding, const std::byte* from, const std::byte* end, std::size_t count, std::size_t n,
                     std::uint32_t* indices) {
  constexpr const char* kShort = "end before their indices";
  constexpr const char* kOutside = "have an index outside";
  const std::size_t blocks = blocks_of(count);
  const bool rice = coding == IndexCoding::rice;
  if (static_cast<std::size_t>(end - from) < blocks) return kShort;
  const std::byte* const widths = from;
  const auto width_of = [&](std::size_t b) { return static_cast<unsigned>(widths[b]); };
  std::uint64_t low_bytes = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    if (width_of(b) > 32) return "have a block of more than 32 bits";
    low_bytes += (length_of(b, count) * width_of(b) + 7) / 8;
  }
  from += blocks;
  if (static_cast<std::uint64_t>(end - from) < low_bytes) return kShort;
  std::uint64_t next = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t length = length_of(b, count);
    if (rice)
      cpu::unpack(from, end, width_of(b), length, indices + b * kBlock);
    else
      next = cpu::unpack_indices(from, end, width_of(b), length, next, indices + b * kBlock);
    from += (length * width_of(b) + 7) / 8;
  }
  if (rice) {
    const auto bytes = static_cast<std::size_t>(end - from);
    std::size_t j = 0, at = 0;  // of the bytes, those before `at` have been read
    std::uint64_t before = 0;   // bits up to the last 1, with it
    for (; j < count && at < bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + at, std::min<std::size_t>(8, bytes - at));
      for (; word != 0 && j < count; word &= word - 1, ++j) {
        const std::uint64_t position =
            8 * static_cast<std::uint64_t>(at) + static_cast<unsigned>(std::countr_zero(word));
        const std::uint64_t quotient = position - before;
        before = position + 1;
        if (quotient >= n) return kOutside;
        const std::uint64_t index = next + (quotient << width_of(j / kBlock)) + indices[j];
        if (index >= n) return kOutside;
        indices[j] = static_cast<std::uint32_t>(index);
        next = index + 1;
      }
    }
    if (j < count) return kShort;
    from += (before + 7) / 8;
  }
  if (next > n) return kOutside;
  return padded(static_cast<std::size_t>(from - widths)) == static_cast<std::size_t>(end - widths) ? nullptr
                                                                                                   : kAnotherLength;
}

/// What scatter_add reads of a message: a value for each index, or a single one.
struct Addend {
  Slice<const std::uint32_t> indices;
  Slice<const float> values;
  float factor;
  bool single;
};

void add_all(const std::vector<Addend>& addends, Slice<float> dense) {
  std::size_t count = 0;
  for (const auto& [indices, values, factor, single] : addends) {
    const std::size_t length = indices.size();
    if (indices.device().kind != Device::Kind::cuda && length > 0)
      require<ShapeError>(indices[length - 1] < dense.size(), "scatter_add: index ", indices[length - 1], " of ",
                          dense.size(), " elements.");
    count += length;
  }
  if (count == 0) return;
  constexpr std::size_t kWorthAThread = 8192;
  const auto n = static_cast<std::int64_t>(dense.size());
  const auto parts = static_cast<std::int64_t>(count / kWorthAThread);
  const auto on_host = [&] {
    parallel_for(n, parts > 1 ? n / parts : n, [&](std::int64_t begin, std::int64_t end) {
      for (const auto& [indices, values, factor, single] : addends) {
        const std::uint32_t *first = indices.begin(), *last = indices.end();
        if (begin > 0) first = std::lower_bound(first, last, static_cast<std::uint64_t>(begin));
        if (end < n) last = std::lower_bound(first, last, static_cast<std::uint64_t>(end));
        const auto length = static_cast<std::size_t>(last - first);
        const float* const from = values.data() + (single ? 0 : first - indices.data());
        if (length > 0) cpu::add_at(dense.data(), first, length, factor, from, single);
      }
    });
  };
  on_device(dense.device(), on_host, [&] {
    for (const auto& [indices, values, factor, single] : addends) {
      const Mirrored<std::uint32_t> at(indices, dense.device());
      const Mirrored<float> there(values, dense.device());
      cuda::add_at(dense.data(), at.data(), indices.size(), dense.size(), factor, there.data(), single);
    }
  });
}

Addend addend_of(const SparseView& m, float factor) { return {m.indices(), m.values(), factor, m.one_value()}; }

}  // namespace

std::size_t max_sparse_bytes(SparseFormat format, std::size_t count, std::size_t n) {
  count = std::min(count, n);
  const std::size_t head = 4 + (format.one_value ? 4 : 4 * count);
  if (count == 0 || format.coding == IndexCoding::raw) return head + 4 * count;
  const auto blocks = static_cast<double>(blocks_of(count)), k = static_cast<double>(count),
             all = static_cast<double>(n);
  // The gaps sum up to less than n. packed: a sum of logarithms is largest where the largest gaps of all blocks are
  // equal. rice: no worse than one p for all.
  double bits = 0;
  if (format.coding == IndexCoding::packed) {
    bits = std::min(k * std::bit_width(n - 1), 128 * blocks * (std::log2(all / blocks + 1) + 1));
  } else {
    const double p = std::floor(std::log2(all / k));
    bits = k * (p + 1) + all / std::exp2(p);
  }
  return head + padded(2 * blocks_of(count) + static_cast<std::size_t>(bits) / 8 + 2);
}

double expected_rice_bytes(std::size_t count, std::size_t n) {
  const auto k = static_cast<double>(count);
  const double gap = static_cast<double>(n) / k - 1, p = std::floor(std::log2(std::max(1.0, gap)));
  return 4 + std::ceil(k / 128) + k * (p + 1 + gap / std::exp2(p)) / 8;
}

void encode_sparse(SparseFormat format, Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
                   Bytes& payload) {
  const std::size_t count = indices.size();
  require<ShapeError>(format.one_value ? values.size() == 1 || (count == 0 && values.empty()) : values.size() == count,
                      "sparse message: ", values.size(), " values for ", count, " indices.");
  if (indices.device().kind != Device::Kind::cuda)
    require<ShapeError>(count == 0 || indices[count - 1] < n, "sparse message: index ", count ? indices[count - 1] : 0,
                        " of ", n, " elements.");
  const auto is_cuda = [](Device device) { return device.kind == Device::Kind::cuda; };
  if (!is_cuda(payload.device()) && (is_cuda(indices.device()) || is_cuda(values.device()))) {
    Bytes made(is_cuda(indices.device()) ? indices.device() : values.device());
    encode_sparse(format, indices, values, n, made);
    copy_bytes(payload.append(made.size()).data(), payload.device(), made.data(), made.device(), made.size());
    return;
  }
  const Device device = payload.device();
  const auto put = [&](const void* from, Device from_device, std::size_t bytes) {
    copy_bytes(payload.append(bytes).data(), device, from, from_device, bytes);
  };
  const auto put_number = [&](std::uint32_t number) {
    std::byte* const to = payload.append(4).data();
    on_device(
        device, [&] { std::memcpy(to, &number, 4); }, [&] { cuda::put_number(to, number); });
  };
  put_number(static_cast<std::uint32_t>(count));
  if (format.one_value && values.empty()) put_number(0);
  if (format.one_value && !values.empty()) put(values.data(), values.device(), 4);
  if (count == 0) return;
  if (format.coding == IndexCoding::raw) {
    put(indices.data(), indices.device(), indices.size_bytes());
  } else {
    const HostAccess access(device);
    const HostCopy<std::uint32_t> host(indices);
    Bytes gaps;
    put_gaps(format.coding, host.slice(), is_cuda(device) ? gaps : payload);
    if (is_cuda(device)) put(gaps.data(), kCpu, gaps.size());
  }
  if (!format.one_value) put(values.data(), values.device(), values.size_bytes());
}

void SparseView::read(SparseFormat format, Slice<const std::byte> payload, std::size_t n) {
  const HostAccess access(payload.device());
  const auto check = [&](const char* wrong) {
    require<DataError>(wrong == nullptr, "sparse message: ", payload.size(), " bytes about ", n, " elements ",
                       wrong ? wrong : "", ". Do all ranks use the same options?");
  };
  const bool there = payload.device().kind == Device::Kind::cuda, raw = format.coding == IndexCoding::raw;
  const std::size_t head = format.one_value ? 8 : 4, value_bytes = format.one_value ? 0 : 4;
  size_ = 0, device_ = there ? payload.device() : kCpu, one_value_ = format.one_value;
  check(payload.size() >= head && payload.size() % 4 == 0 ? nullptr : "are no whole message");
  const std::size_t rest = payload.size() - head;
  // The length of a raw message tells the count. On a device the announcement is compared with it there.
  std::size_t count = rest / (4 + value_bytes);
  if (!raw || !there) {
    std::uint32_t announced;
    copy_bytes(&announced, kCpu, payload.data(), payload.device(), 4);
    count = announced;
  }
  check(count <= n && rest >= value_bytes * count ? nullptr : "cannot hold what they announce");
  const std::size_t coded = rest - value_bytes * count;
  // In place where it can be: indices and values of 4 bytes.
  const auto kept = [&](const std::byte* from, std::size_t bytes, std::unique_ptr<Storage>& own) {
    if (bytes == 0 || reinterpret_cast<std::uintptr_t>(from) % 4 == 0) return from;
    own = std::make_unique<Storage>(bytes, device_);
    copy_bytes(own->data(), device_, from, payload.device(), bytes);
    return static_cast<const std::byte*>(own->data());
  };
  if (raw || count == 0) {
    check(coded == 4 * count ? nullptr : kAnotherLength);
    indices_ = reinterpret_cast<const std::uint32_t*>(kept(payload.data() + head, 4 * count, own_indices_));
    const auto on_host = [&] { return count == 0 || (cpu::ascend(indices_, count) && indices_[count - 1] < n); };
    const bool ascend = on_device(device_, on_host, [&] {
      if (!raw) return true;
      const Storage found(4, device_);
      zero_bytes(found.data(), device_, 4);
      auto* const flag = reinterpret_cast<std::uint32_t*>(found.data());
      cuda::check_number(payload.data(), static_cast<std::uint32_t>(count), flag);
      cuda::check_indices(indices_, count, n, flag);
      std::uint32_t wrong = 0;
      copy_bytes(&wrong, kCpu, flag, device_, 4);
      return wrong == 0;
    });
    check(ascend ? nullptr : "have indices that do not ascend or are outside");
  } else {
    // Each block takes a byte at least, so that a short message gets no large memory.
    check(coded >= blocks_of(count) ? nullptr : kAnotherLength);
    decoded_.resize(blocks_of(count) * kBlock);
    const HostCopy<std::byte> gaps(payload.sub(head, coded));
    check(get_gaps(format.coding, gaps.begin(), gaps.end(), count, n, decoded_.data()));
    indices_ = decoded_.data();
    if (there) {
      own_indices_ = std::make_unique<Storage>(4 * count, device_);
      copy_bytes(own_indices_->data(), device_, decoded_.data(), kCpu, 4 * count);
      indices_ = reinterpret_cast<const std::uint32_t*>(own_indices_->data());
    }
  }
  const std::byte* const values = format.one_value ? payload.data() + 4 : payload.end() - 4 * count;
  values_ = reinterpret_cast<const float*>(kept(values, format.one_value ? 4 : 4 * count, own_values_));
  size_ = count;
}

std::size_t united(const std::vector<SparseView>& messages) {
  std::vector<std::uint32_t> all;
  for (const SparseView& m : messages) {
    const HostCopy<std::uint32_t> indices(m.indices());
    all.insert(all.end(), indices.begin(), indices.end());
  }
  std::sort(all.begin(), all.end());
  return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

void scatter_add(const SparseView& message, float factor, Slice<float> dense) {
  add_all({addend_of(message, factor)}, dense);
}

void scatter_add(const std::vector<SparseView>& messages, float factor, Slice<float> dense) {
  std::vector<Addend> addends;
  for (const SparseView& m : messages) addends.push_back(addend_of(m, factor));
  add_all(addends, dense);
}

void scatter_add(Slice<const std::uint32_t> indices, Slice<const float> values, float factor, Slice<float> dense) {
  require<ShapeError>(values.size() == indices.size(), "scatter_add: ", values.size(), " values for ", indices.size(),
                      " indices.");
  add_all({{indices, values, factor, false}}, dense);
}

}  // namespace laconic::compress
