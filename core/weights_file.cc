#include "core/weights_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/foreign_file.h"

namespace laconic {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

/// The file in a folder that holds, or lists, its weights.
std::string weights_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const char* name : {"model.safetensors", kIndex, "weights.safetensors"})
    if (const fs::path file = fs::path(folder) / name; fs::exists(file, error)) return file.string();
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path().string());
  if (found.size() == 1) return found[0];
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (const fs::path file = fs::path(folder) / name; fs::exists(file, error)) return file.string();
  throw DataError(concat(folder, " has no model.safetensors, ", kIndex, " or weights.safetensors, and ",
                         found.empty() ? "no other safetensors file" : "several other safetensors files",
                         ". Name a file of weights."));
}

/// What a file says if it is JSON; else "".
std::string json_in(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 100'000'000;
  const RandomAccessFile file(path);
  char head[9] = {};
  file.read(0, std::min<std::uint64_t>(sizeof head, file.size()), head);
  // A length of 123 begins with the same byte, and has zeros behind it.
  if (head[0] != '{' || (file.size() >= 8 && head[4] == 0 && head[5] == 0 && head[6] == 0 && head[7] == 0)) return "";
  require<DataError>(file.size() <= kMostBytes, path, " is JSON of ", file.size(),
                     " bytes, which is no index of weights. Name a safetensors file.");
  std::string text(file.size(), '\0');
  file.read(0, text.size(), text.data());
  return text;
}

}  // namespace

WeightsFile::WeightsFile(const std::string& path) : path_(path) {
  std::error_code error;
  const std::string file = std::filesystem::is_directory(path, error) ? weights_in(path) : path;
  const std::string text = json_in(file);
  text.empty() ? open(file) : open_indexed(file, text);
  add_other_names();
}

void WeightsFile::open(const std::string& path) {
  const std::string foreign = about_foreign_file(path);
  require<DataError>(foreign.empty(), foreign);
  const SafetensorsFile& file = *files_.emplace_back(std::make_unique<const SafetensorsFile>(path));
  texts_.insert(file.texts().begin(), file.texts().end());
  for (const StoredTensor& tensor : file.tensors()) {
    const auto [other, is_new] = entries_.insert({tensor.name, {&file, &tensor}});
    require<DataError>(is_new, path_, ": '", tensor.name, "' is in ", other->second.file->path(), " and in ", path,
                       ". Which of them counts? Take one of the files away, or save them again.");
  }
}

void WeightsFile::open_indexed(const std::string& index, const std::string& text) {
  namespace fs = std::filesystem;
  const auto json = object_without_twins(text, index, "the file", 64);
  const auto places = json.find("weight_map");
  require<DataError>(places != json.end() && places->is_object() && !places->empty(), index,
                     " is JSON, but no index of weights (\"weight_map\"). Name a safetensors file, or its folder.");
  std::map<std::string, std::string> opened;  // by name
  for (const auto& [tensor, its] : places->items()) {
    const std::string name = its.is_string() ? its.get<std::string>() : "";
    require<DataError>(!name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
                           name != "." && name != "..",
                       index, ": '", tensor, "' is in ", its.dump(-1, ' ', true),
                       ", which is no file beside the index.");
    const auto [at, is_new] = opened.emplace(name, (fs::path(index).parent_path() / name).string());
    std::error_code error;
    if (is_new) {
      require<DataError>(fs::exists(at->second, error), index, " names ", name,
                         ", which is not beside it. Fetch that part, too.");
      open(at->second);
    }
    const auto found = entries_.find(tensor);
    require<DataError>(found != entries_.end() && found->second.file->path() == at->second, index, " says that '",
                       tensor, "' is in ", name, ", and it is not. Fetch both again.");
  }
}

void WeightsFile::add_other_names() {
  const std::map<std::string, Entry> stored = entries_;
  for (const auto& [name, other] : texts_) {
    const auto tensor = stored.find(other), own = stored.find(name);
    if (tensor == stored.end() || name == other || name.empty()) continue;
    if (own == stored.end())
      entries_.insert({name, {tensor->second.file, tensor->second.tensor, true}});
    else
      require<DataError>(
          SafetensorsFile::equal(*own->second.file, *own->second.tensor, *tensor->second.file, *tensor->second.tensor),
          path_, ": \"__metadata__\" says that '", name, "' is '", other,
          "', and there are other numbers under both names. Save it again.");
  }
}

Tensor WeightsFile::read_as(const std::string& name, DType dtype) const {
  const Entry& entry = entries_.at(name);
  return entry.file->read_as(*entry.tensor, dtype);
}

std::string folder_of_weights(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace laconic
