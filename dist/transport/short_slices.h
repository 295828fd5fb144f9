#pragma once

namespace laconic::dist {

/// From now on the calling thread, when it wakes, displaces one that computes at once, and soon makes room again: its
/// time slices are 0.1 ms (Linux 6.12; older ones take no notice). For threads that sleep while they wait: on busy
/// cores each message of a collective would else be late by what is left of another thread's slice, some ms. Needs no
/// privilege.
void ask_for_short_slices();

}  // namespace laconic::dist
