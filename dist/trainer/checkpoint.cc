#include "dist/trainer/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/base/atomic_file.h"
#include "core/base/json.h"
#include "core/base/parallel.h"
#include "core/raw.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
constexpr const char* kOwner = "checkpoint/of";  // text in a rank's file

void require_finite(const StateDict& weights, const std::string& where) {
  for (const auto& [name, tensor] : weights) {
    if (tensor.dtype() != DType::f32 || raw::all_finite(tensor)) continue;
    const std::vector<float> values = tensor.to_vector();
    const auto bad = std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
    throw DataError(concat(where, ": ", bad, " of the ", values.size(), " elements of '", name,
                           "' are not finite. Take weights from before they went wrong."));
  }
}

/// How many digits stand in `text` from `at` on.
std::size_t digits_at(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
}

/// checkpoint-000000001200, and a folder of its own.
bool is_checkpoint(const fs::directory_entry& entry) {
  constexpr std::string_view kBegin = "checkpoint-";
  constexpr std::size_t kDigits = 12;
  const std::string name = entry.path().filename().string();
  std::error_code error;
  return name.starts_with(kBegin) && name.size() == kBegin.size() + kDigits &&
         digits_at(name, kBegin.size()) == kDigits && !entry.is_symlink(error) && entry.is_directory(error);
}

/// The name of the rank's file that `name` is, or begins with as what a killed run left does; or "".
std::string rank_file_in(const std::string& name) {
  constexpr std::string_view kBegin = "rank-", kEnd = ".safetensors";
  const std::size_t digits = name.starts_with(kBegin) ? digits_at(name, kBegin.size()) : 0,
                    end = kBegin.size() + digits;
  return digits > 0 && std::string_view(name).substr(end).starts_with(kEnd) ? name.substr(0, end + kEnd.size()) : "";
}

/// Whether it has its manifest. One that cannot be looked at counts as complete: whoever reads it says what is wrong.
bool is_complete(const std::string& checkpoint) {
  std::error_code error;
  const auto type = fs::symlink_status(checkpoint + Manifest::kFile, error).type();
  return type == fs::file_type::regular || type == fs::file_type::none;
}

/// Folders of checkpoints, whole or not, the newest first.
std::vector<std::string> checkpoints_in(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (is_checkpoint(entry)) found.push_back(entry.path().string());
  std::sort(found.rbegin(), found.rend());  // numbers are padded with zeros
  return found;
}

std::string file_of_rank(const std::string& checkpoint, int rank) {
  return fmt::format("{}/rank-{}.safetensors", checkpoint, rank);
}

/// Whether the ranks' files have their lengths. What is in them is not read: whoever resumes does that.
bool has_files(const std::string& checkpoint, const Manifest& m) {
  for (std::size_t r = 0; r < m.ranks.size(); ++r) {
    std::error_code error;
    const auto bytes = fs::file_size(file_of_rank(checkpoint, static_cast<int>(r)), error);
    if (error || bytes != m.ranks[r].bytes) return false;
  }
  return true;
}

/// Whether this is the name of a run's sign: "sign-", and the 16 digits by which it calls itself.
bool is_sign(const std::string& name) {
  return name.starts_with("sign-") && name.size() == 5 + 16 &&
         name.find_first_not_of("0123456789abcdef", 5) == std::string::npos;
}

std::string owner(const std::string& run, std::int64_t step, int rank) {
  return fmt::format("rank {} after step {} of run {}", rank, step, run);
}

/// What a file of weights says of `name`; "" where that is nothing, or nothing that a model could be called.
std::string word_of(const std::map<std::string, std::string>& texts, const char* name) {
  const auto text = texts.find(name);
  if (text == texts.end() || text->second.size() > 60) return "";
  const bool printable = std::ranges::all_of(text->second, [](unsigned char c) { return std::isgraph(c); });
  return printable ? text->second : "";
}

void require_same_settings(const Module& model, const StateDict& saved, const std::string& where) {
  for (const auto& [name, own] : model.settings())
    require<DataError>(!saved.texts().contains(name) || saved.text(name) == own, where, ": was trained with `", name,
                       "` ", word_of(saved.texts(), name.c_str()), ", and this model has ", own,
                       ": it would compute something else. Give the options that it was trained with.");
}

}  // namespace

void load_weights(Module& model, const StateDict& saved, const std::string& where, const std::string& what,
                  bool new_head) {
  require_finite(saved, where);
  require_same_settings(model, saved, where);
  const StateDict weights = model.translated(saved);
  const StateDict own = model.state_dict();
  std::set<std::string> head;
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter->info.output && own.contains(name)) head.insert(name);  // a tied one is its first name's
  StateDict body;
  bool head_differs = false, body_differs = false;
  for (const auto& [name, tensor] : weights) {
    if (!head.contains(name)) body.set(name, tensor);
    if (const Tensor* const its = own.find(name); its && its->shape() != tensor.shape())
      (head.contains(name) ? head_differs : body_differs) = true;
  }
  for (const std::string& name : head) body.set(name, own.at(name));
  try {
    model.load_state_dict(new_head ? body : weights, /*strict=*/true, where, what);
  } catch (const DataError& e) {
    const std::string of = model_of(saved.texts());
    if (!of.empty() && of != what) throw DataError(concat(e.what(), " It was saved from ", of, "."));
    if (head_differs && !body_differs)
      throw DataError(concat(e.what(), " For other classes `new-head` lets the output layer begin anew."));
    throw;
  }
}

std::string model_of(const std::map<std::string, std::string>& texts) { return word_of(texts, "model"); }

CheckpointStore::CheckpointStore(std::string directory) : directory_(std::move(directory)) {
  while (directory_.size() > 1 && directory_.ends_with('/')) directory_.pop_back();
}

CheckpointStore::~CheckpointStore() {
  if (!begun_) {
    std::error_code ignored;
    if (made_record_) fs::remove(record_path(), ignored);
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, ignored);  // if nothing is in it
  }
  if (lock_ >= 0) ::close(lock_);
}

void CheckpointStore::claim(int rank, const std::string& training, Replaces replaces) {
  training_ = training;
  std::error_code error;
  for (fs::path at = directory_; !at.empty() && !fs::exists(at, error); at = at.parent_path())
    made_.insert(made_.begin(), at.string());
  fs::create_directories(directory_, error);
  require<DataError>(!error && fs::is_directory(directory_), "save: cannot make the directory ", directory_, " (",
                     error ? error.message() : "it is a file", "). Choose another `save`.");
  const AtomicFile probe(weights_path());
  if (rank != 0) return;
  lock();
  if (replaces != Replaces::all) refuse_foreign();
  if (replaces == Replaces::nothing) require_nothing_saved(directory_);
}

/// Two runs may make the record at once, and one of them may remove it: what counts is the file that has the name.
void CheckpointStore::lock() {
  struct stat opened = {}, named = {};
  int trials = 0;
  do {
    if (lock_ >= 0) ::close(lock_);
    lock_ = ::open(record_path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    made_record_ = lock_ >= 0;
    if (!made_record_) lock_ = ::open(record_path().c_str(), O_RDWR | O_CLOEXEC);
    if (lock_ < 0 && errno == ENOENT && ++trials < 100) continue;
    require<DataError>(lock_ >= 0, "save: cannot open ", record_path(), " (", std::strerror(errno),
                       "). Choose another `save`.");
    // Where a file system knows no locks, there are none.
    const bool taken = ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken) made_record_ = false;
    require<UsageError>(!taken, "another run saves to ", directory_,
                        " now (`save`): choose another folder, or wait for its end");
  } while (lock_ < 0 || ::fstat(lock_, &opened) != 0 || ::stat(record_path().c_str(), &named) != 0 ||
           opened.st_ino != named.st_ino);
}

void CheckpointStore::refuse_foreign() const {
  std::string theirs;
  if (const auto record = text_of_file(record_path())) {
    const auto j = json_or_discarded(*record);
    if (j.is_object() && j.contains("training") && j["training"].is_string()) theirs = j["training"];
  }
  const auto found = all_in(directory_);
  for (std::size_t i = 0; theirs.empty() && i < found.size(); ++i) {
    try {
      theirs = read_manifest(found[i]).fingerprint;
    } catch (const DataError&) {  // the next one may tell
    }
  }
  if (theirs.empty()) {
    std::error_code error;
    require<UsageError>(found.empty() && !fs::exists(weights_path(), error), "what is in ", directory_,
                        " may be of another training (`save`): choose another folder, or add `overwrite`");
    return;
  }
  if (const auto other = other_training(theirs, training_))
    throw UsageError(concat(directory_, " is of another training, with ", other->first, " where this one has ",
                            other->second, " (`save`): choose another folder, or add `overwrite`"));
}

void CheckpointStore::require_nothing_saved(const std::string& directory) {
  const auto found = all_in(directory);
  require<UsageError>(found.empty(), directory, " holds ", found.empty() ? "" : fs::path(found[0]).filename().string(),
                      " (`save`): add `resume` to go on from there, or `overwrite` to begin anew");
  std::error_code error;
  require<UsageError>(!fs::exists(directory + "/weights.safetensors", error), directory,
                      " holds weights of a training (`save`): choose another folder, or add `overwrite`");
}

std::shared_ptr<void> CheckpointStore::sign(const std::string& name) const {
  const std::string path = sign_path(name);
  require<DataError>(std::ofstream(path).good(), path, ": cannot be written. Check the path of `save`.");
  return {nullptr, [path, ignored = std::error_code()](void*) mutable { fs::remove(path, ignored); }};
}

bool CheckpointStore::has_sign(const std::string& name) const {
  std::error_code no_matter;
  return fs::exists(sign_path(name), no_matter);
}

void CheckpointStore::begin() {
  begun_ = true;
  const std::string text = nlohmann::json{{"training", training_}}.dump(2) + "\n";
  // In place: the lock is on this file.
  const bool ok = ::ftruncate(lock_, 0) == 0 && ::pwrite(lock_, text.data(), text.size(), 0) == std::ssize(text);
  require<DataError>(ok, "save: cannot write ", record_path(), " (", std::strerror(errno),
                     "). Free some space, or choose another `save`.");
  AtomicFile::sweep(directory_, "weights.safetensors");
  std::error_code no_matter;
  for (const auto& entry : fs::directory_iterator(directory_, no_matter))
    if (is_sign(entry.path().filename().string())) fs::remove(entry.path(), no_matter);  // of a run that was killed
}

std::string CheckpointStore::folder(std::int64_t step) const {
  return fmt::format("{}/checkpoint-{:012}", directory_, step);
}

void CheckpointStore::prepare(std::int64_t step) const {
  std::error_code error;
  fs::create_directories(folder(step), error);
  require<DataError>(!error, "save: cannot make the directory ", folder(step), " (", error.message(),
                     "). Choose another `save`.");
  fs::remove(folder(step) + Manifest::kFile, error);  // of another run
}

FileSum CheckpointStore::write_rank(const std::string& run, std::int64_t step, int rank, StateDict& state) const {
  state.set_text(kOwner, owner(run, step, rank));
  return save_safetensors(state, file_of_rank(folder(step), rank));
}

void CheckpointStore::complete(const Manifest& m, int keep) const {
  AtomicFile file(folder(m.step) + Manifest::kFile);
  file.write(m.json());
  file.commit();

  int kept = 1;
  const fs::path mine = fs::path(folder(m.step)).filename();  // names sort by step
  for (const std::string& checkpoint : checkpoints_in(directory_)) {
    const fs::path name = fs::path(checkpoint).filename();
    if (name == mine) continue;
    bool stays = kept < keep && name < mine && is_complete(checkpoint);
    try {
      if (stays) {
        const Manifest older = read_manifest(checkpoint);
        stays = has_files(checkpoint, older) && !other_training(older.fingerprint, m.fingerprint);
      }
    } catch (const DataError&) {
      stays = false;
    }
    kept += stays ? 1 : 0;
    if (!stays) remove(checkpoint);
  }
}

/// Its own files alone: a folder in which somebody else keeps something stays, with that.
void CheckpointStore::remove(const std::string& checkpoint) {
  std::error_code ignored;
  fs::remove(checkpoint + Manifest::kFile, ignored);  // first: a half-removed checkpoint must not count
  AtomicFile::sweep(checkpoint, "manifest.json");
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoint, ignored)) {
    const std::string name = rank_file_in(entry.path().filename().string());
    if (!name.empty()) names.insert(name);
  }
  for (const std::string& name : names) {
    AtomicFile::sweep(checkpoint, name);
    fs::remove(checkpoint + "/" + name, ignored);
  }
  fs::remove(checkpoint, ignored);
}

std::vector<std::string> CheckpointStore::all_in(const std::string& named) {
  std::string path = named;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // else its parent would be itself
  if (is_complete(path)) return {path};
  std::vector<std::string> all = checkpoints_in(path);
  std::erase_if(all, [](const std::string& checkpoint) { return !is_complete(checkpoint); });
  return all;
}

std::string CheckpointStore::newest(const std::string& path) {
  const auto all = all_in(path);
  std::error_code error;
  const fs::directory_iterator readable(path, error);
  require<DataError>(error != std::errc::permission_denied, "resume: ", path, " cannot be read: ", error.message(),
                     ". Correct its permissions.");
  require<DataError>(!all.empty(), "resume: no complete checkpoint in ", path,
                     ". Name a directory that `save` wrote to.");
  return all.front();
}

void CheckpointStore::verify(const std::string& checkpoint, const Manifest& manifest, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (at >= manifest.ranks.size()) return;
  const std::string path = file_of_rank(checkpoint, rank);
  const FileSum found = sum_of_file(path), listed = manifest.ranks[at];
  if (found == listed) return;
  std::string whose;
  try {
    whose = load_safetensors(path).text(kOwner);
  } catch (const DataError&) {  // it cannot even be read
  }
  require<DataError>(whose.empty() || whose == owner(manifest.run, manifest.step, rank), "resume: ", path, " is of ",
                     whose, ", not of ", owner(manifest.run, manifest.step, rank), ". Use an older checkpoint.");
  throw DataError(concat("resume: ", path, " is damaged (", found.bytes, " bytes with CRC-32 ", found.crc_text(),
                         ", the manifest lists ", listed.bytes, " with ", listed.crc_text(),
                         "). Use an older checkpoint."));
}

StateDict CheckpointStore::read_rank(const std::string& checkpoint, int rank) {
  return load_safetensors(file_of_rank(checkpoint, rank));
}

void CheckpointStore::each_server(const std::string& checkpoint, const Manifest& manifest,
                                  const std::function<void(const StateDict& server)>& f) {
  for (int r = 0; r < manifest.files(); ++r) {
    const StateDict server = read_rank(checkpoint, r).part("server/");
    if (!server.empty()) f(server);
  }
}

}  // namespace laconic
