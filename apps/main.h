#pragma once
#include <chrono>
#include <functional>

namespace laconic {

/// What main() of every program does: calls `body` and returns its exit code. An exception ends the program with one
/// line on stderr, `laconic: error: TEXT`, and its exit_code_of(). Under mpirun a UsageError is said by rank 0 alone.
int run_main(const std::function<int()>& body);

/// What comes so soon after an interrupt is that one, passed on by a program that got it from the terminal too.
constexpr std::chrono::milliseconds kSameInterrupt{500};

/// Whether the end of the terminal is nothing to this process (nohup): it then must not listen to SIGHUP.
bool ignores_hangup();

}  // namespace laconic
