#include "core/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace laconic {

ScratchFolder::ScratchFolder(const std::string& who, const std::string& advice)
    : path_((std::filesystem::temp_directory_path() / ("laconic-" + who + "-XXXXXX")).string()) {
  require<DataError>(mkdtemp(path_.data()) != nullptr, who,
                     ": no temporary folder could be made: ", std::strerror(errno), ". Set TMPDIR", advice, ".");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace laconic
