#include "core/memory.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "core/cuda/device.h"
#include "core/dispatch.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

namespace laconic {
namespace {

// A pool would hide reads past the end and after the release from the address sanitizer.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kUnpooled = true;
#else
constexpr bool kUnpooled = false;
#endif
/// Where ghosts lie: not in memory, but their parts have different addresses.
std::byte* const kNowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 46);

constexpr std::size_t kAlign = 64, kSlab = std::size_t{32} << 20, kHugePage = std::size_t{2} << 20;
constexpr std::size_t kTrapReserve = std::size_t{4} << 30;

std::byte* map(std::size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(p);
}

/// Size-keyed pool over large slabs in huge pages. The most recently freed block of a size is handed out first: its
/// lines are the likeliest to be in cache.
class Pool {
 public:
  explicit Pool(bool trap) : trap_(trap) {}

  struct Block {
    std::byte* data;
    std::size_t size;
  };

  Block take(std::size_t bytes) {
    const std::size_t size = size_class(bytes, kAlign);
    std::lock_guard lock(mutex_);
    // A larger free block serves too, if not more than half of it is wasted: fewer pages in all, warmer ones.
    for (auto it = free_.lower_bound(size); it != free_.end() && it->first <= size + size / 2; ++it) {
      if (it->second.empty()) continue;
      const Block block{it->second.back(), it->first};
      it->second.pop_back();
      stats_.count(block.size);
      return block;
    }
    ++stats_.from_system;
    stats_.count(size);
    return {carve(size), size};
  }

  void give_back(Block block) {
    std::lock_guard lock(mutex_);
    stats_.in_use_bytes -= block.size;
    free_[block.size].push_back(block.data);
  }

  void release_unused() {
    std::lock_guard lock(mutex_);
    if (trap_) return;
    for (auto& [size, blocks] : free_)
      if (size >= kHugePage / 2)
        for (std::byte* p : blocks) {
          // Whole pages only: what lies beside the block is in use.
          const auto begin = (reinterpret_cast<std::uintptr_t>(p) + 4095) & ~std::uintptr_t{4095};
          const auto end = (reinterpret_cast<std::uintptr_t>(p) + size) & ~std::uintptr_t{4095};
          if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
        }
  }

  /// Memory that is counted and not there: of ghosts.
  void count_ghost(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    stats_.count(bytes);
  }
  void forget_ghost(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    stats_.in_use_bytes -= bytes;
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.in_use_bytes;
  }

  void open() {
    std::lock_guard lock(mutex_);
    if (depth_++ == 0 && begin_) mprotect(begin_, kTrapReserve, PROT_READ | PROT_WRITE);
  }
  void close() {
    std::lock_guard lock(mutex_);
    if (--depth_ == 0 && begin_) mprotect(begin_, kTrapReserve, PROT_NONE);
  }

 private:
  std::byte* carve(std::size_t size) {
    if (trap_ && !begin_) {
      begin_ = next_ = map(kTrapReserve, depth_ ? PROT_READ | PROT_WRITE : PROT_NONE);
      end_ = begin_ + kTrapReserve;
    }
    if (static_cast<std::size_t>(end_ - next_) < size) {
      if (trap_) throw std::bad_alloc();
      if (size > kSlab / 8) return huge(size);  // what a new slab leaves unused of the old one stays small
      next_ = huge(kSlab);
      end_ = next_ + kSlab;
    }
    std::byte* p = next_;
    next_ += size;
    return p;
  }

  std::byte* huge(std::size_t size) {
    const std::size_t whole = (size + kHugePage - 1) / kHugePage * kHugePage;
    std::byte* p = map(whole + kHugePage, PROT_READ | PROT_WRITE);
    p += -reinterpret_cast<std::uintptr_t>(p) & (kHugePage - 1);
    madvise(p, whole, MADV_HUGEPAGE);
    stats_.reserved_bytes += whole;
    return p;
  }

  const bool trap_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::byte *next_ = nullptr, *end_ = nullptr;
  std::byte* begin_ = nullptr;  // trap only: the reserved range
  int depth_ = 0;               // trap only: HostAccess objects alive
  MemoryStats stats_;
};

/// The one pool of a device. Deliberately never destroyed: tensors may outlive main.
Pool& pool(Device device) {
  static Pool& cpu = *new Pool(false);
  static Pool& trap = *new Pool(true);
  static Pool& ghost = *new Pool(false);
  switch (device.kind) {
    case Device::Kind::trap: return trap;
    case Device::Kind::ghost: return ghost;
    default: return cpu;
  }
}

thread_local std::ptrdiff_t made_here = 0;

}  // namespace

std::ptrdiff_t bytes_made_here() { return made_here; }

std::size_t size_class(std::size_t bytes, std::size_t align) {
  const std::size_t step = bytes <= 8 * align ? align : std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

std::string to_string(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu: return "cpu";
    case Device::Kind::trap: return "trap";
    case Device::Kind::ghost: return "ghost";
    case Device::Kind::cuda: break;
  }
  return concat("cuda:", device.index);
}

Storage::Storage(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  if (device.kind == Device::Kind::cuda) {
    if constexpr (!kCudaBuilt) detail::no_cuda(device);
    cuda_only([&] {
      cuda::select(device.index);
      const cuda::Block block = cuda::allocate(bytes);
      data_ = block.data, capacity_ = block.capacity, pool_ = block.pool;
    });
  } else if (device.kind == Device::Kind::ghost) {
    pool(device).count_ghost(bytes);
    data_ = kNowhere;
  } else if (kUnpooled && device.kind == Device::Kind::cpu) {
    data_ = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t{kAlign}));
  } else {
    const Pool::Block block = pool(device).take(bytes);
    data_ = block.data, capacity_ = block.size;
  }
  made_here += static_cast<std::ptrdiff_t>(bytes);
}

Storage::~Storage() {
  made_here -= static_cast<std::ptrdiff_t>(bytes_);
  if (device_.kind == Device::Kind::cuda)
    cuda_only([&] { cuda::give_back({data_, capacity_, pool_}); });
  else if (device_.kind == Device::Kind::ghost)
    pool(device_).forget_ghost(bytes_);
  else if (kUnpooled && device_.kind == Device::Kind::cpu)
    ::operator delete(data_, std::align_val_t{kAlign});
  else
    pool(device_).give_back({data_, capacity_});
}

/// Where a device's memory is asked of: a CUDA device itself, else the host.
static Device pooled(Device device) { return device.kind == Device::Kind::cuda ? device : kCpu; }

MemoryStats memory_stats(Device device) {
  return on_device(
      pooled(device), [&] { return pool(device).stats(); }, [] { return cuda::memory_stats(); });
}
void reset_peak(Device device) {
  on_device(
      pooled(device), [&] { pool(device).reset_peak(); }, [] { cuda::reset_peak(); });
}
void release_unused_memory(Device device) {
  on_device(
      pooled(device), [&] { pool(device).release_unused(); }, [] { cuda::release_unused(); });
}

HostAccess::HostAccess(Device device) : trap_(device.kind == Device::Kind::trap) {
  if (trap_) pool(device).open();
}
HostAccess::~HostAccess() {
  if (trap_) pool(kTrap).close();
}

}  // namespace laconic
