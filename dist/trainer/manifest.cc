// What a checkpoint says of itself: its manifest.
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/json.h"
#include "dist/trainer/checkpoint.h"

namespace laconic {
namespace {

/// The checksum of a manifest, computed without its field of that name.
std::string checksum_of(const nlohmann::json& manifest) {
  FileSum sum;
  const std::string text = manifest.dump();
  sum.add(text.data(), text.size());
  return sum.crc_text();
}

/// A fingerprint of an earlier version, without settings that can only have this value now.
std::string without_what_is_settled(std::string fingerprint) {
  const std::string settled = " sparse-reduce=allgather";
  for (std::size_t at = 0; (at = fingerprint.find(settled, at)) != std::string::npos;)
    fingerprint.erase(at, settled.size());
  return fingerprint;
}

DataPosition position_from(const nlohmann::json& j, const std::string& path) {
  DataPosition position{.epoch = whole_in<std::int64_t>(j.at("epoch"))};
  for (const auto& t : j.at("trained"))
    position.trained.push_back({whole_in<int>(t.at(0)), whole_in<std::int64_t>(t.at(1))});
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  bool sensible = position.epoch >= 0 && position.epoch < kMost;
  for (const Trained& t : position.trained)
    sensible = sensible && t.workers >= 1 && t.workers < (1 << 20) && t.batches >= 1 && t.batches < kMost;
  require<DataError>(sensible, "resume: ", path, " tells a place in the data that cannot be. Use an older checkpoint.");
  return position;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> other_training(const std::string& then, const std::string& now) {
  const auto key = [](const std::string& line) { return line.substr(0, line.find('=')); };
  std::map<std::string, std::string> lines;
  std::istringstream before(without_what_is_settled(then)), after(now);
  for (std::string line; std::getline(after, line);) lines.emplace(key(line), line);
  const auto content = lines.find("content of the data");
  const bool same_content =
      content != lines.end() && ("\n" + then + "\n").find("\n" + content->second + "\n") != std::string::npos;
  for (std::string line; std::getline(before, line);) {
    const auto same = lines.find(key(line));
    if (same == lines.end() || same->second == line) continue;  // versions may tell more, or less
    if (same->first == "data" && same_content) continue;        // it has been moved
    if (same->first != "plan" && same->first != "precision" && same->first != "servers") return {{line, same->second}};
  }
  return std::nullopt;
}

std::string Manifest::json() const {
  nlohmann::json j = {{"format", 2},
                      {"run", run},
                      {"step", step},
                      {"workers", workers},
                      {"threads", threads},
                      {"instruction_set", instruction_set},
                      {"fingerprint", fingerprint},
                      {"plan", json_from(plan, "a plan")},
                      {"weights", weights.text()},
                      {"ranks", nlohmann::json::array()}};
  for (const FileSum& sum : ranks) j["ranks"].push_back(sum.text());
  if (position) {
    j["position"] = {{"epoch", position->epoch}, {"trained", nlohmann::json::array()}};
    for (const Trained& t : position->trained) j["position"]["trained"].push_back({t.workers, t.batches});
  }
  if (first_steps_per_epoch) j["first_steps_per_epoch"] = *first_steps_per_epoch;
  j["checksum"] = checksum_of(j);
  return j.dump(2) + "\n";
}

Manifest CheckpointStore::read_manifest(const std::string& checkpoint) {
  const std::string path = checkpoint + Manifest::kFile;
  const auto text = text_of_file(path);
  require<DataError>(text.has_value(), "resume: cannot read ", path, ".");
  try {
    nlohmann::json j = json_from(*text, "resume: " + path);
    const auto& format = j.at("format");
    require<DataError>(format == 1 || format == 2, "resume: ", path, " has format ", format.dump(),
                       ", this version reads 1 and 2.");
    Manifest m;
    if (format == 2) {
      const std::string checksum = j.at("checksum");
      j.erase("checksum");
      require<DataError>(checksum == checksum_of(j), "resume: ", path, " is damaged (its checksum is ", checksum_of(j),
                         ", not ", checksum, "). Use an older checkpoint.");
      j.at("run").get_to(m.run);
      m.weights = FileSum::parse(j.at("weights"));
      for (const auto& sum : j.at("ranks")) m.ranks.push_back(FileSum::parse(sum));
    }
    m.step = whole_in<std::int64_t>(j.at("step"));
    m.workers = whole_in<int>(j.at("workers")), m.threads = whole_in<int>(j.at("threads"));
    j.at("instruction_set").get_to(m.instruction_set);
    j.at("fingerprint").get_to(m.fingerprint);
    m.plan = j.at("plan").dump();
    if (j.contains("position")) m.position = position_from(j.at("position"), path);
    if (j.contains("first_steps_per_epoch"))
      m.first_steps_per_epoch = whole_in<std::int64_t>(j.at("first_steps_per_epoch"));
    require<DataError>(m.step >= 0 && m.workers >= 1, "resume: ", path, " holds step ", m.step, " of ", m.workers,
                       " workers.");
    require<DataError>(m.first_steps_per_epoch.value_or(1) >= 1, "resume: ", path, " tells of epochs of ",
                       m.first_steps_per_epoch.value_or(1), " steps. Use an older checkpoint.");
    return m;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat("resume: ", path, " is damaged (", e.what(), "). Use an older checkpoint."));
  }
}

}  // namespace laconic
