#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "races.h"
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(UNDER_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Saves what a call must preserve on the stack, changes stacks, restores.
extern "C" void emulated_cuda_switch(void** save, void* load);
asm(R"(
.text
.globl emulated_cuda_switch
.type emulated_cuda_switch, @function
emulated_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_cuda_switch, .-emulated_cuda_switch
.section .note.GNU-stack,"",@progbits
.text
)");
#endif

namespace emulated_cuda {
namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulated CUDA device: %s.\n", what);
  std::abort();
}

enum class Order { ascending, reversed, shuffled };
Order order() {
  static const Order order = [] {
    const char* const name = std::getenv("EMULATED_CUDA_ORDER");
    if (name == nullptr || std::strcmp(name, "ascending") == 0) return Order::ascending;
    if (std::strcmp(name, "reversed") == 0) return Order::reversed;
    if (std::strcmp(name, "shuffled") == 0) return Order::shuffled;
    fail("EMULATED_CUDA_ORDER is ascending, reversed or shuffled");
  }();
  return order;
}
/// Which of n comes as the i-th.   round : one shuffle or another
std::uint64_t coming(std::uint64_t i, std::uint64_t n, std::uint64_t round) {
  constexpr std::uint64_t kStride = 0x9E3779B1;  // a prime: of less than so many it reaches all
  switch (order()) {
    case Order::ascending:
      break;
    case Order::reversed:
      return n - 1 - i;
    case Order::shuffled:
      return (kStride * i + round * 0x85EBCA77 % n) % n;
  }
  return i;
}

struct Fiber {
  int thread = -1;
  std::byte* stack = nullptr;
#if defined(__x86_64__)
  void* sp = nullptr;
#else
  ucontext_t context{};
#endif
  void* tsan = nullptr;
};

/// What a thread of a round came with is overwritten two rounds later: then all have read it.
struct Warp {
  int arrived = 0, round = 0, ended = 0;
  unsigned votes[2] = {};
  std::uint64_t slots[2][32];
  Fiber* waiting[31];
};

/// Fibers that can go on. Nothing is allocated while a block runs: a sanitizer takes long to.
class Ready {
 public:
  bool empty() const { return count_ == 0; }
  void push_back(Fiber* f) { ring_[(first_ + count_++) % kMost] = f; }
  void push_front(Fiber* f) {
    first_ = (first_ + kMost - 1) % kMost;
    ring_[first_] = f, ++count_;
  }
  Fiber* pop_front() {
    Fiber* const f = ring_[first_];
    first_ = (first_ + 1) % kMost, --count_;
    return f;
  }

 private:
  static constexpr std::size_t kMost = 2048;  // a block has 1,024 threads at most
  Fiber* ring_[kMost];
  std::size_t first_ = 0, count_ = 0;
};

/// What runs blocks. Its fibers are kept for later ones, whichever host thread does them: a sanitizer takes long to make
/// and forget a thousand.
struct Machine {
  Fiber host;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  Fiber* current = nullptr;

  const std::function<void()>* body = nullptr;
  int threads = 0, next = 0, ended = 0;
  std::uint64_t blocks = 0;  // that have run
  Ready ready;
  std::vector<Fiber*> at_barrier;
  int votes = 0, result = 0;
  std::vector<Warp> warps;

  void place(int thread) {
    const unsigned t = static_cast<unsigned>(thread);
    threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
    standing.thread = static_cast<std::uint16_t>(thread), standing.stack = current->stack;
  }

  // The address sanitizer is not told: it would take half of the time. A kernel throws nothing, and allocates nothing;
  // what it reads or writes is checked all the same, and shown with its line.
  void change(Fiber& from, Fiber& to) {
#if defined(UNDER_THREAD_SANITIZER)
    if (&from == &host) host.tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
#if defined(__x86_64__)
    emulated_cuda_switch(&from.sp, to.sp);
#else
    swapcontext(&from.context, &to.context);
#endif
  }

  static void enter();

  Fiber& fresh() {
    if (!idle.empty()) {
      Fiber* f = idle.back();
      idle.pop_back();
      return *f;
    }
    fibers.push_back(std::make_unique<Fiber>());
    Fiber& f = *fibers.back();
    void* p = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("no memory for a stack");
    f.stack = static_cast<std::byte*>(p);
#if defined(UNDER_THREAD_SANITIZER)
    f.tsan = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
    // The tops of stacks differ in their last bits: otherwise all of them would share a few lines of the cache.
    const std::size_t stagger = fibers.size() % 128 * 192;
    // As emulated_cuda_switch leaves a stack: six registers, then where to go on; aligned as at a function's entry.
    auto* top = reinterpret_cast<void**>(f.stack + kStack - 64 - stagger);
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(&Machine::enter);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    f.sp = top;
#else
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    makecontext(&f.context, &Machine::enter, 0);
#endif
    return f;
  }

  /// Goes on from `from` with what can: a fiber that waits no longer, one for threads that have not begun, or the host.
  void go_on(Fiber& from) {
    Fiber* to = &host;
    if (!ready.empty()) {
      to = ready.pop_front();
    } else if (next < threads) {
      to = &fresh();
    }
    current = to;
    if (to->thread >= 0) place(to->thread);
    if (to != &from) change(from, *to);
  }
  void suspend() { go_on(*current); }

  /// All started threads that have not ended wait at the block's barrier: they go on.
  void look_at_barrier() {
    if (next < threads || at_barrier.empty() || static_cast<int>(at_barrier.size()) + ended < threads) return;
    result = std::exchange(votes, 0);
    ++standing.barriers;
    for (Fiber* f : at_barrier) ready.push_back(f);
    at_barrier.clear();
  }

  void run_block(const std::function<void()>& thread) {
    body = &thread;
    threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    next = ended = votes = 0;
    if (threads > 1024) fail("a block has more than 1,024 threads");
    warps.assign(static_cast<std::size_t>((threads + 31) / 32), Warp{});
    standing.barriers = 0;
    std::fill(std::begin(standing.warp_barriers), std::end(standing.warp_barriers), std::uint16_t{0});
    in_kernel = true;
    go_on(host);
    in_kernel = false;
    ++blocks;
    if (ended != threads) fail("some threads wait at a barrier that others never reach");
  }
};

Machine& machine() {
  static Machine& m = *new Machine;
  return m;
}

void Machine::enter() {
  Machine& m = machine();
  while (true) {
    Fiber& me = *m.current;
    while (m.next < m.threads) {
      me.thread = static_cast<int>(
          coming(static_cast<std::uint64_t>(m.next++), static_cast<std::uint64_t>(m.threads), m.blocks));
      m.place(me.thread);
      (*m.body)();
      ++m.ended;
      Warp& w = m.warps[static_cast<std::size_t>(me.thread / 32)];
      ++w.ended;
      if (w.arrived > 0) fail("a thread ended while others of its warp wait for it");
      m.look_at_barrier();
    }
    me.thread = -1;
    m.idle.push_back(&me);
    m.suspend();
  }
}

}  // namespace

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  gridDim = grid;
  blockDim = block;
  Machine& m = machine();
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z, round = m.blocks;
  ++standing.launch;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t b = coming(i, blocks, round);
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / grid.x / grid.y)};
    standing.block = static_cast<std::uint32_t>(b);
    m.run_block(thread);
  }
}

int linear_thread() { return machine().current->thread; }

void block_barrier() { block_count(false); }

int block_count(bool predicate) {
  Machine& m = machine();
  m.votes += predicate;
  m.at_barrier.push_back(m.current);
  m.look_at_barrier();
  m.suspend();
  return m.result;
}

namespace {

/// Waits for the warp's other threads. `put` writes what this one came with, for the round that it is told. Returns the
/// warp and that round.
template <class Put>
std::pair<Warp&, int> meet(unsigned mask, const Put& put) {
  Machine& m = machine();
  if (mask != 0xffffffffu) fail("only full warps are emulated");
  const int thread = m.current->thread;
  if ((thread / 32 + 1) * 32 > m.threads) fail("a block that is no multiple of 32 threads talks within a warp");
  Warp& w = m.warps[static_cast<std::size_t>(thread / 32)];
  if (w.ended > 0) fail("a warp talks although one of its threads has ended");
  const int round = w.round;
  put(w, round, static_cast<unsigned>(thread) % 32);
  if (++w.arrived < 32) {
    w.waiting[w.arrived - 1] = m.current;
    m.suspend();
  } else {
    w.arrived = 0;
    w.round ^= 1;
    w.votes[w.round] = 0;
    // Before all others: a cache holds the stacks of a warp, not those of a block.
    for (int i = 31; i-- > 0;) m.ready.push_front(w.waiting[i]);
  }
  return {w, round};
}

}  // namespace

void warp_barrier(unsigned mask) {
  meet(mask, [](const Warp& warp, int, unsigned) {
    if (warp.arrived == 31) ++standing.warp_barriers[linear_thread() / 32];  // this is the last one
  });
}

std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, unsigned from) {
  const auto [w, round] = meet(mask, [&](Warp& warp, int now, unsigned lane) { warp.slots[now][lane] = value; });
  return w.slots[round][from];
}

unsigned warp_ballot(unsigned mask, bool predicate) {
  const auto [w, round] =
      meet(mask, [&](Warp& warp, int now, unsigned lane) { warp.votes[now] |= unsigned{predicate} << lane; });
  return w.votes[round];
}

}  // namespace emulated_cuda
