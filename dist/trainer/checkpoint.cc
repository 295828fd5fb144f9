#include "dist/trainer/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/atomic_file.h"
#include "core/parallel.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kManifest = "/manifest.json";

/// (name, tensor) of everything in a weights file, shared parameters once.
std::vector<std::pair<std::string, Tensor>> entries_of(const Module& model) {
  std::vector<std::pair<std::string, Tensor>> entries;
  std::set<const Parameter*> seen;
  for (const auto& [name, parameter] : model.named_parameters())
    if (seen.insert(parameter.get()).second) entries.emplace_back(name, parameter->value());
  for (const auto& [name, tensor] : model.named_buffers()) entries.emplace_back(name, tensor);
  return entries;
}

std::vector<fs::path> complete_checkpoints(const std::string& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path().filename().string().starts_with(kPrefix) && fs::exists(entry.path().string() + kManifest, error))
      found.push_back(entry.path());
  std::sort(found.begin(), found.end());  // numbers are padded with zeros
  return found;
}

}  // namespace

StateDict weights_of(const Module& model) {
  StateDict state;
  for (const auto& [name, tensor] : entries_of(model)) state.set(name, tensor);
  return state;
}

void load_weights(Module& model, const StateDict& weights, const std::string& where, const std::string& what) {
  const auto entries = entries_of(model);
  std::vector<ExpectedTensor> expected;
  for (const auto& [name, tensor] : entries)
    if (!name.ends_with("num_batches_tracked") || weights.contains(name))
      expected.push_back({name, tensor.shape(), tensor.dtype()});
  require_match(expected, weights, where, what);
  for (const auto& e : expected)
    for (const auto& [name, tensor] : entries)
      if (name == e.name) tensor.copy_from(weights.at(name));
}

std::string CheckpointStore::folder(std::int64_t step) const {
  return fmt::format("{}/{}{:012}", directory_, kPrefix, step);
}

void CheckpointStore::prepare(std::int64_t step) const {
  std::error_code error;
  fs::create_directories(folder(step), error);
  require<DataError>(!error, "save: cannot make the directory ", folder(step), " (", error.message(),
                     "). Choose another --save.");
  fs::remove(folder(step) + kManifest, error);  // of another run
}

void CheckpointStore::write_rank(std::int64_t step, int rank, const StateDict& state) const {
  save_safetensors(state, fmt::format("{}/rank-{}.safetensors", folder(step), rank));
}

void CheckpointStore::complete(const Manifest& m) const {
  const nlohmann::json j = {{"format", 1},
                            {"step", m.step},
                            {"workers", m.workers},
                            {"threads", m.threads},
                            {"instruction_set", m.instruction_set},
                            {"fingerprint", m.fingerprint},
                            {"plan", nlohmann::json::parse(m.plan)}};
  AtomicFile file(folder(m.step) + kManifest);
  file.write(j.dump(2) + "\n");
  file.commit();
  const auto remove = [](const fs::path& checkpoint) {
    std::error_code ignored;
    fs::remove(checkpoint.string() + kManifest, ignored);  // first: a half-removed checkpoint must not count
    fs::remove_all(checkpoint, ignored);
  };
  auto all = complete_checkpoints(directory_);
  for (; !all.empty() && all.back() != fs::path(folder(m.step)); all.pop_back()) remove(all.back());
  for (std::size_t i = 0; i + 2 < all.size(); ++i) remove(all[i]);
}

std::string CheckpointStore::newest(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + kManifest, error)) return path;
  const auto all = complete_checkpoints(path);
  require<DataError>(!all.empty(), "resume: no complete checkpoint in ", path,
                     ". Name a directory that --save wrote to.");
  return all.back().string();
}

Manifest CheckpointStore::read_manifest(const std::string& checkpoint) {
  const std::string path = checkpoint + kManifest;
  std::ifstream in(path);
  require<DataError>(in.good(), "resume: cannot read ", path, ".");
  try {
    const nlohmann::json j = nlohmann::json::parse(in);
    require<DataError>(j.at("format") == 1, "resume: ", path, " has format ", j.at("format").dump(),
                       ", this version reads 1.");
    Manifest m;
    j.at("step").get_to(m.step);
    j.at("workers").get_to(m.workers);
    j.at("threads").get_to(m.threads);
    j.at("instruction_set").get_to(m.instruction_set);
    j.at("fingerprint").get_to(m.fingerprint);
    m.plan = j.at("plan").dump();
    require<DataError>(m.step >= 0 && m.workers >= 1, "resume: ", path, " holds step ", m.step, " of ", m.workers,
                       " workers.");
    return m;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat("resume: ", path, " is damaged (", e.what(), "). Use an older checkpoint."));
  }
}

StateDict CheckpointStore::read_rank(const std::string& checkpoint, int rank) {
  return load_safetensors(fmt::format("{}/rank-{}.safetensors", checkpoint, rank));
}

std::string instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  if (__builtin_cpu_supports("avx2")) return "avx2";
#endif
  return "baseline";
}

}  // namespace laconic
