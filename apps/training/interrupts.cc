#include "apps/training/interrupts.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "apps/main.h"

namespace laconic {
namespace {

std::atomic<std::int64_t> first_interrupt{0};  // when, in ns
std::atomic<int> interrupted_by{SIGINT};       // what this process got; another rank's interrupt counts as Ctrl-C
std::atomic<bool> ends_in_order{false};        // once data are read

/// Ctrl-C, SIGTERM and SIGHUP ask for an orderly end: the step is finished and saved; so does SIGUSR1, which mpirun
/// passes on without killing anybody (apps/launch/launch.cc). A second one ends at once, and so does any while data are
/// read or a plan is described: there is nothing to finish.
extern "C" void on_interrupt(int signal_number) {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
  std::int64_t first = 0;
  if (ends_in_order && first_interrupt.compare_exchange_strong(first, now)) {
    interrupted_by = signal_number;
  } else if (!ends_in_order || now - first > std::chrono::nanoseconds(kSameInterrupt).count()) {
    if (getpid() == 1) _exit(128 + signal_number);  // whom the kernel spares what a signal does by default
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
}

}  // namespace

bool interrupt_came() { return first_interrupt != 0; }
int interrupting_signal() { return interrupted_by; }
void end_in_order(bool yes) { ends_in_order = yes; }

/// Lets the handler run on a thread that does nothing else. On those that compute the stack pointer may point into the
/// heap: oneDNN 2.6's products for AVX-512 address their workspace by it. A handler there overwrites what lies below.
void listen_to_interrupts() {
  std::vector<int> numbers = {SIGINT, SIGTERM, SIGUSR1};
  if (!ignores_hangup()) numbers.push_back(SIGHUP);
  sigset_t ours;
  sigemptyset(&ours);
  for (const int s : numbers) {
    sigaddset(&ours, s);
    signal(s, on_interrupt);
  }
  pthread_sigmask(SIG_BLOCK, &ours, nullptr);  // threads take this from the one that starts them
  std::thread([ours] {
    pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
    for (;;) pause();
  }).detach();
}

}  // namespace laconic
