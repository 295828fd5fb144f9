#include "races.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

// The compiler's view of static memory: the __shared__ variables of all kernels lie there.
extern "C" char __data_start[], _end[];

namespace emulated_cuda {
namespace {

enum class Kind { read, write, atomic };

/// Who reached a byte last in this way, in this launch; several threads are joined as far as one barrier orders them.
struct Access {
  bool any = false, other_blocks = false, other_warps = false, other_threads = false;
  std::uint16_t thread = 0, barriers = 0, warp_barriers = 0;
  std::uint32_t block = 0;
  const void* code = nullptr;

  int warp() const { return thread / 32; }
  bool same_warp() const { return warp() == standing.thread / 32; }
  bool same_warp_barrier() const { return warp_barriers == standing.warp_barriers[warp()]; }

  /// Nothing of it can come at the same time as, or after, what the thread does that runs now.
  bool before_now() const {
    if (!any) return true;
    if (other_blocks || block != standing.block) return false;
    if (barriers != standing.barriers) return true;
    if (other_warps || !same_warp()) return false;
    return !same_warp_barrier() || (!other_threads && thread == standing.thread);
  }
  void add_now(const void* from) {
    const bool same_block = any && block == standing.block, unordered = same_block && barriers == standing.barriers,
               near = unordered && same_warp() && same_warp_barrier();
    *this = {.any = true,
             .other_blocks = other_blocks || (any && !same_block),
             .other_warps = unordered && (other_warps || !same_warp()),
             .other_threads = near && (other_threads || thread != standing.thread),
             .thread = standing.thread,
             .barriers = standing.barriers,
             .warp_barriers = standing.warp_barriers[standing.thread / 32],
             .block = standing.block,
             .code = from};
  }
};

struct Byte {
  Access reads, writes, atomics;
};

struct Page {
  static constexpr std::size_t kBytes = 1024;
  std::uint32_t launch = 0, block = 0;  // of which it tells; block: if it is __shared__ memory
  Byte bytes[kBytes];
};

std::unordered_map<std::uintptr_t, std::unique_ptr<Page>>& pages() {
  static auto& all = *new std::unordered_map<std::uintptr_t, std::unique_ptr<Page>>;
  return all;
}

bool is_shared(std::uintptr_t at) {
  return at >= reinterpret_cast<std::uintptr_t>(__data_start) && at < reinterpret_cast<std::uintptr_t>(_end);
}

Byte& byte_at(std::uintptr_t at) {
  static std::uintptr_t last = 0;
  static Page* page = nullptr;
  const std::uintptr_t number = at / Page::kBytes;
  if (page == nullptr || number != last) {
    constexpr std::size_t kMost = 20000;  // of 64 KB
    if (pages().size() > kMost) pages().clear();
    std::unique_ptr<Page>& found = pages()[number];
    if (!found) found = std::make_unique<Page>();
    page = found.get(), last = number;
  }
  const std::uint32_t block = is_shared(at) ? standing.block + 1 : 0;
  if (page->launch != standing.launch || page->block != block) {
    std::memset(static_cast<void*>(page->bytes), 0, sizeof page->bytes);
    page->launch = standing.launch, page->block = block;
  }
  return page->bytes[at % Page::kBytes];
}

/// "core/cuda/pool.cu:63", as far as the program can be asked.
std::string line_of(const void* code) {
  Dl_info info{};
  if (dladdr(code, &info) == 0) return "?";
  char command[512];
  const auto place = static_cast<std::size_t>(static_cast<const char*>(code) - static_cast<const char*>(info.dli_fbase));
  std::snprintf(command, sizeof command, "addr2line -se '%s' %#zx 2>/dev/null", info.dli_fname, place - 1);
  std::string line;
  if (std::FILE* out = popen(command, "r")) {
    for (int c; (c = std::fgetc(out)) != EOF && c != '\n' && c != ' ';) line += static_cast<char>(c);
    pclose(out);
  }
  return line;
}

[[noreturn]] void tell(std::uintptr_t at, Kind kind, const void* code, const Access& other, const char* did) {
  static const char* const does[] = {"reads", "writes", "changes by an atomic operation"};
  std::fprintf(stderr,
               "emulated CUDA device: a race. Thread %u of block %u %s %s memory (%s) that thread %u of block %u %s "
               "(%s), and nothing orders the two.\n",
               standing.thread, standing.block, does[static_cast<int>(kind)], is_shared(at) ? "shared" : "global",
               line_of(code).c_str(), other.thread, other.block, did, line_of(other.code).c_str());
  std::abort();
}

void note(const volatile void* p, std::size_t bytes, Kind kind, const void* code) {
  if (!in_kernel) return;
  in_kernel = false;  // what is called from here may have been compiled with calls too
  const auto first = reinterpret_cast<std::uintptr_t>(p), stack = reinterpret_cast<std::uintptr_t>(standing.stack);
  for (std::uintptr_t at = first; at < first + bytes && first - stack >= kStack; ++at) {
    Byte& b = byte_at(at);
    if (!b.writes.before_now()) tell(at, kind, code, b.writes, "has written");
    if (kind != Kind::atomic && !b.atomics.before_now()) tell(at, kind, code, b.atomics, "has changed by an atomic one");
    if (kind != Kind::read && !b.reads.before_now()) tell(at, kind, code, b.reads, "has read");
    (kind == Kind::read ? b.reads : kind == Kind::write ? b.writes : b.atomics).add_now(code);
  }
  in_kernel = true;
}

/// The type has this size and lies on a multiple of it, or of 8 if it is larger. A GPU reads it in one piece, or
/// faults.
void note_aligned(const void* p, std::size_t bytes, Kind kind, const void* code) {
  if (in_kernel && reinterpret_cast<std::uintptr_t>(p) % std::min<std::size_t>(bytes, 8) != 0) {
    std::fprintf(stderr, "emulated CUDA device: thread %u of block %u reaches %zu bytes that are not aligned (%s).\n",
                 standing.thread, standing.block, bytes, line_of(code).c_str());
    std::abort();
  }
  note(p, bytes, kind, code);
}

}  // namespace
}  // namespace emulated_cuda

// The compiler calls these.
extern "C" {

using emulated_cuda::Kind;
using emulated_cuda::note;
using emulated_cuda::note_aligned;
#define HERE __builtin_return_address(0)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(void* p, std::size_t bytes) { note(p, bytes, Kind::read, HERE); }
void __tsan_write_range(void* p, std::size_t bytes) { note(p, bytes, Kind::write, HERE); }
#define ACCESS(bytes)                                                               \
  void __tsan_read##bytes(void* p) { note_aligned(p, bytes, Kind::read, HERE); }    \
  void __tsan_write##bytes(void* p) { note_aligned(p, bytes, Kind::write, HERE); }  \
  void __tsan_unaligned_read##bytes(void* p) { note(p, bytes, Kind::read, HERE); }  \
  void __tsan_unaligned_write##bytes(void* p) { note(p, bytes, Kind::write, HERE); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

#define UPDATE(bits, operation)                                                            \
  std::uint##bits##_t __tsan_atomic##bits##_##operation(volatile std::uint##bits##_t* p, \
                                                        std::uint##bits##_t v, int) {      \
    note(p, bits / 8, Kind::atomic, HERE);                                                 \
    return __atomic_##operation(p, v, __ATOMIC_SEQ_CST);                                   \
  }
#define COMPARE(bits, name)                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile std::uint##bits##_t* p, std::uint##bits##_t* expected, \
                                                    std::uint##bits##_t v, int, int) {                            \
    note(p, bits / 8, Kind::atomic, HERE);                                                                        \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
  }
#define ATOMIC(bits)                                                                            \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* p, int) {  \
    note(p, bits / 8, Kind::atomic, HERE);                                                      \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                \
  }                                                                                             \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* p, std::uint##bits##_t v, int) { \
    note(p, bits / 8, Kind::atomic, HERE);                                                      \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                             \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* p,           \
                                                     std::uint##bits##_t v, int) {              \
    note(p, bits / 8, Kind::atomic, HERE);                                                      \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                         \
  }                                                                                             \
  UPDATE(bits, fetch_add)                                                                       \
  UPDATE(bits, fetch_sub)                                                                       \
  UPDATE(bits, fetch_and)                                                                       \
  UPDATE(bits, fetch_or)                                                                        \
  UPDATE(bits, fetch_xor)                                                                       \
  COMPARE(bits, strong)                                                                         \
  COMPARE(bits, weak)
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
