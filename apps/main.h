#pragma once
#include <chrono>
#include <functional>

namespace laconic {

/// What main() of every program does: calls `body` and returns its exit code. An exception ends the program with one
/// line on stderr, `laconic: error: TEXT`, and its exit_code_of(). Under mpirun a UsageError is said by rank 0 alone.
int run_main(const std::function<int()>& body);

/// An interrupt that comes this soon after another is the first one, passed on by a program that the terminal sent it
/// to.
constexpr std::chrono::milliseconds kSameInterrupt{500};

/// Ends this process with the exit code, for an error that rank 0 tells: after it, or when the launcher ends all.
[[noreturn]] void end_behind_rank_0(int exit_code);

/// Whether SIGHUP was ignored when this process started, as nohup does: it then must go on when the terminal ends.
bool ignores_hangup();

}  // namespace laconic
