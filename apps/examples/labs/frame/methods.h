#pragma once

namespace lab {

/// Makes what the labs write options of a training: `--allreduce lab1`, `--sync lab2` … `lab5`.
void add_methods();

}  // namespace lab
