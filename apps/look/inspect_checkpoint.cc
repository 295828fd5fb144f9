#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/common/tools.h"
#include "apps/common/text.h"
#include "core/base/error.h"
#include "dist/trainer/checkpoint.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

/// {"checkpoint", "step", "run", "workers", "ranks": [...], "whole"}; what is wrong stands in "error".
Json look_at(const std::string& checkpoint) {
  Json found{{"checkpoint", checkpoint}};
  try {
    const Manifest manifest = CheckpointStore::read_manifest(checkpoint);
    found.update({{"step", manifest.step}, {"run", manifest.run}, {"workers", manifest.workers}});
    bool whole = true;
    Json ranks = Json::array();
    for (std::size_t r = 0; r < manifest.ranks.size(); ++r) {
      Json rank{{"rank", r}, {"bytes", manifest.ranks[r].bytes}, {"crc32", manifest.ranks[r].crc_text()}};
      try {
        CheckpointStore::verify(checkpoint, manifest, static_cast<int>(r));
      } catch (const DataError& e) {
        rank["error"] = e.what();
        whole = false;
      }
      ranks.push_back(std::move(rank));
    }
    found["ranks"] = std::move(ranks);
    found["whole"] = whole;
  } catch (const DataError& e) {
    found["whole"] = false;
    found["error"] = e.what();
  }
  return found;
}

/// Says what is wrong with the weights that were saved beside the newest checkpoint. Returns "" if nothing is wrong, or
/// if nothing is known.
std::string weights_error(const std::string& checkpoint) {
  const std::string path = CheckpointStore(std::filesystem::path(checkpoint).parent_path()).weights_path();
  try {
    const FileSum listed = CheckpointStore::read_manifest(checkpoint).weights;
    if (listed.bytes == 0 || sum_of_file(path) == listed) return "";
    return path + ": not what the newest checkpoint lists: damaged, or of a save that was cut off.";
  } catch (const DataError& e) {
    return e.what();
  }
}

void print(const Json& c) {
  const std::string name = c["checkpoint"];
  if (c.contains("error")) return fmt::print("{}: {}\n", name, c["error"].get<std::string>());
  fmt::print("{}: step {}, {} workers, {}\n", name, c["step"].get<std::int64_t>(), c["workers"].get<int>(),
             c["ranks"].empty() ? "no checksums (written by an earlier version)"
             : c["whole"]       ? "whole; run " + c["run"].get<std::string>()
                                : "damaged");
  for (const Json& rank : c["ranks"])
    fmt::print("  rank {}: {}\n", rank["rank"].get<int>(),
               rank.contains("error")
                   ? rank["error"].get<std::string>()
                   : fmt::format("{}, CRC-32 {}, as the manifest lists it", human_bytes(rank["bytes"].get<double>()),
                                 rank["crc32"].get<std::string>()));
}

}  // namespace

int inspect_checkpoint(const std::vector<std::string>& arguments) {
  std::string directory;
  bool json = false;
  CLI::App app("Whether the checkpoints in a folder are whole: every byte is read. Ends with 1 if the newest is not.",
               "laconic inspect checkpoint");
  app.add_option("dir", directory, "what --save wrote to, or one checkpoint in it")->required()->type_name("DIR");
  app.add_flag("--json", json, "one object");
  if (const auto done = parse_tool(app, arguments)) return *done;
  CheckpointStore::newest(directory);  // says so if there is none
  Json all = Json::array();
  for (const std::string& checkpoint : CheckpointStore::all_in(directory)) all.push_back(look_at(checkpoint));
  const std::string weights = weights_error(all[0]["checkpoint"]);
  if (json) {
    fmt::print("{}\n", Json{{"checkpoints", all}, {"weights", weights.empty() ? "as saved" : weights}}.dump());
  } else {
    for (const Json& c : all) print(c);
    if (!weights.empty()) fmt::print("{}\n", weights);
  }
  return all[0]["whole"] && weights.empty() ? 0 : 1;
}

}  // namespace laconic
