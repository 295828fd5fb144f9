#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/safetensors.h"

namespace laconic {

/// Weights as any program has saved them. Headers have been read and checked, and tensors are read when they are asked
/// for: one that nobody needs may have any type.
///   path         a safetensors file; or an index of several, model.safetensors.index.json, which names each tensor's
///                file; or a folder with model.safetensors, that index, weights.safetensors or one other safetensors
///                file
///   other names  "__metadata__" may name a tensor again, as safetensors' save_model does where two weights are one
/// throws DataError: what SafetensorsFile refuses; a file of another format, with how to convert it; a file that the
///        index names is missing or lacks a tensor of it; a tensor that is in two files; another name of a tensor under
///        which the file has other numbers
class WeightsFile {
 public:
  explicit WeightsFile(const std::string& path);

  const std::string& path() const { return path_; }  ///< as it was given
  const std::map<std::string, std::string>& texts() const { return texts_; }
  struct Entry {
    const SafetensorsFile* file;
    const StoredTensor* tensor;
    bool again = false;  ///< it has another name, under which it is stored
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }
  Tensor read_as(const std::string& name, DType dtype) const;  ///< SafetensorsFile::read_as; `name` is in entries()

 private:
  void open(const std::string& file);
  void open_indexed(const std::string& index, const std::string& text);
  void add_other_names();
  std::string path_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, Entry> entries_;
};

/// The folder in which what belongs to these weights lies beside them: `path` itself, if it is one.
std::string folder_of_weights(const std::string& path);

}  // namespace laconic
