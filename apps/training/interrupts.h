#pragma once

namespace laconic {

/// From now on Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 ask for an orderly end, if it has been allowed; a second one ends
/// the process.
void listen_to_interrupts();
/// Whether an interrupt ends this process in order from now on: its training can be saved. At first it does not.
void end_in_order(bool yes);
/// Whether this process was asked for an orderly end.
bool interrupt_came();
/// Returns the signal that this process got; SIGINT if another rank was interrupted.
int interrupting_signal();

}  // namespace laconic
