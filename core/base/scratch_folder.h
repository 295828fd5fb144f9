#pragma once
#include <string>

namespace laconic {

/// A folder of its own among the system's temporary ones. It goes with the object, and so does all that is in it.
class ScratchFolder {
 public:
  /// who : part of its name, and of the message. advice : follows "Set TMPDIR" in the message
  /// throws DataError if it cannot be made
  explicit ScratchFolder(const std::string& who, const std::string& advice = "");
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace laconic
