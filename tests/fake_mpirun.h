#pragma once
#include <filesystem>
#include <fstream>
#include <string>

#include "dist/transport/mpi.h"
#include "tests/temp_folder.h"

namespace laconic {

/// Makes DIR/mpirun, a shell script that says it is of the Open MPI of this build.
inline void fake_mpirun(const TempFolder& dir, const std::string& script) {
  std::ofstream(dir / "mpirun") << "#!/bin/sh\n[ \"$1\" = --version ] && echo 'mpirun (Open MPI) "
                                << dist::mpi_library().version << "' && exit\n"
                                << script;
  std::filesystem::permissions(dir / "mpirun", std::filesystem::perms::owner_all);
}

}  // namespace laconic
