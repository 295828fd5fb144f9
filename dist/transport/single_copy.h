#pragma once

namespace laconic::dist {

/// Whether the kernel refuses this process to read another one's memory (process_vm_readv, tried on a child): a filter
/// of a container, no right to trace, or a Linux without it.
bool refuses_single_copy();

/// Before MPI starts: lets ranks of one machine copy messages through shared memory, twice, where they cannot read each
/// other's memory. Open MPI finds that out only message by message: it prints a line for each (4.1), or waits for ever.
/// They cannot where the kernel refuses it, or where this rank is in other user or process namespaces than the process
/// that started it, as in a container of its own. What the user sets (mpirun --mca, environment) stays.
void avoid_single_copy();

}  // namespace laconic::dist
