#include "core/base/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"

namespace laconic {

ScratchFolder::ScratchFolder(const std::string& who, const std::string& advice) : path_("laconic-" + who + "-XXXXXX") {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / path_).string();
  if (!error && mkdtemp(path_.data()) == nullptr) error.assign(errno, std::generic_category());
  require<DataError>(!error, who, ": no temporary folder could be made: ", error.message(), ". Set TMPDIR", advice,
                     ".");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace laconic
