#pragma once
#include <string>

#include "apps/child_process.h"

namespace laconic {

/// The first Python that can import `module`, of PyTorch's family: of LACONIC_PYTHON, or of python3 and
/// /usr/bin/python3; one that can import `also` too goes before one that cannot. throws DataError if there is none
std::string python_with(const std::string& module, const std::string& also = "");

/// Reads a child's first line: {"ready": true, ...}, or {"error": a sentence}, which is thrown as DataError.
void wait_until_ready(ChildProcess& process);

/// For a program that computes on so many threads.
ChildProcess::Environment thread_environment(int threads);
/// PyTorch at its best: blocks of memory kept instead of given back, OpenBLAS on OpenMP where it is installed.
ChildProcess::Environment torch_environment(int threads);

}  // namespace laconic
