#include "dist/predict/calibration_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace laconic::dist {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFileBytes = 16 << 20;

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

bool knows(const CalibrationFile& file, const std::vector<std::string>& codecs) {
  return std::ranges::all_of(file.ranks, [&](const Calibration& c) {
    return std::ranges::all_of(codecs, [&](const std::string& codec) { return c.codecs.contains(codec); });
  });
}

/// Rank 0's: the text of a file of the cache that may be used; "" if there is none.
std::string from_cache(const std::string& path, const std::vector<std::string>& of,
                       const std::vector<std::string>& codecs) try {
  std::error_code error;
  if (!fs::exists(path, error)) return "";
  const CalibrationFile file = CalibrationFile::read(path);
  const std::int64_t age = seconds_since_1970() - file.time;
  const bool usable = file.of == of && age >= 0 && age <= CalibrationSource::kRecentSeconds && knows(file, codecs);
  return usable ? file.json() : "";
} catch (const DataError& e) {
  fmt::print(stderr, "laconic: note: {} The network is measured anew.\n", e.what());
  return "";
}

void keep(const CalibrationFile& file, const std::string& path) try { file.save(path); } catch (const DataError& e) {
  fmt::print(stderr, "laconic: note: what was measured is not kept: {}\n", e.what());
}

std::string path_in_cache(const std::vector<std::string>& of) try {
  return cached_calibration_path(of);
} catch (const DataError& e) {
  fmt::print(stderr, "laconic: note: {}\n", e.what());
  return "";
}

}  // namespace

std::string CalibrationFile::json() const {
  nlohmann::ordered_json j{{"of", of}, {"time", time}};
  for (const Calibration& rank : ranks) j["ranks"].push_back(ordered_json_from(to_json(rank), "a calibration"));
  if (!model.empty()) {
    j["model"] = model, j["classes"] = classes, j["batch"] = batch;
    j["layers"] = ordered_json_from(to_json(layers), "a calibration");
  }
  return nlohmann::ordered_json{{"calibration", std::move(j)}}.dump();
}

CalibrationFile CalibrationFile::from(const std::string& text, const std::string& source) {
  try {
    const nlohmann::json j = json_from(text, source).at("calibration");
    CalibrationFile file;
    j.at("of").get_to(file.of), file.time = whole_in<std::int64_t>(j.at("time"));
    for (const nlohmann::json& rank : j.at("ranks")) file.ranks.push_back(calibration_from(rank.dump(), source));
    if (j.contains("model")) {
      j.at("model").get_to(file.model);
      file.classes = whole_in<int>(j.at("classes")), file.batch = whole_in<int>(j.at("batch"));
      file.layers = layer_times_from(j.at("layers").dump(), source);
    }
    require<DataError>(
        !file.ranks.empty() && file.of.size() == file.ranks.size() && file.time >= 0 && file.classes >= 0 &&
            (file.model.empty() || file.batch >= 1) &&
            std::ranges::all_of(file.ranks,
                                [&](const Calibration& c) { return c.workers == static_cast<int>(file.ranks.size()); }),
        source, " has figures that do not belong together: ", file.ranks.size(), " ranks' and ", file.of.size(),
        " names. Measure again.");
    return file;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat(source, " is no calibration as laconic calibrate --save writes it (", e.what(), ")."));
  }
}

void CalibrationFile::save(const std::string& path) const {
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    require<DataError>(!error, folder.string(), " cannot be made: ", error.message(), ". Name another place.");
  }
  AtomicFile file(path);
  file.write(json() + "\n");
  file.commit();
}

CalibrationFile CalibrationFile::read(const std::string& path) {
  const auto text = text_of_file(path, kMostFileBytes + 1);
  require<DataError>(text && text->size() <= kMostFileBytes, path,
                     text ? " is too long for a calibration." : " cannot be read.",
                     " Name a file of laconic calibrate --save.");
  return from(*text, path);
}

std::string cached_calibration_path(const std::vector<std::string>& of) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const bool has_cache = cache != nullptr && *cache == '/', has_home = home != nullptr && *home == '/';
  require<DataError>(has_cache || has_home,
                     "there is no cache for calibrations: neither XDG_CACHE_HOME nor HOME names a folder. Set one.");
  FileSum sum;
  for (const std::string& rank : of) sum.add(rank.c_str(), rank.size() + 1);
  return fmt::format("{}/laconic/calibration/{}-{}.json", has_cache ? cache : concat(home, "/.cache"), of.size(),
                     sum.crc_text());
}

std::vector<std::string> identities(const Worker& worker, int threads, const std::string& here) {
  return texts_of_all(worker, "calibration, of which ranks",
                      fmt::format("{}; {} threads; {}", host_name(), threads, here));
}

Calibrated calibrated(const Worker& worker, const CalibrationOptions& options, const CalibrationSource& source) {
  if (source.from == CalibrationSource::kMeasure) return {calibrate(worker, options)};
  const bool cached = source.from == CalibrationSource::kCache;
  std::vector<std::string> of;
  if (cached) of = identities(worker, options.threads, source.here);
  const std::string path = worker.rank > 0 ? "" : cached ? path_in_cache(of) : source.from;
  std::string known;
  if (worker.rank == 0 && cached) {
    if (!path.empty()) known = from_cache(path, of, options.codecs);
  } else if (worker.rank == 0) {
    const CalibrationFile file = CalibrationFile::read(path);
    require<DataError>(static_cast<int>(file.ranks.size()) == worker.size, path, " has figures of ", file.ranks.size(),
                       " workers, and these are ", worker.size,
                       " (`calibration`): measure so many with laconic calibrate --save, or leave it out");
    known = file.json();
  }
  known = texts_of_all(worker, "calibration, whether it is known", known)[0];
  if (known.empty()) {
    Calibrated measured{calibrate(worker, options)};
    if (!path.empty()) keep({.of = of, .time = seconds_since_1970(), .ranks = measured.ranks}, path);
    return measured;
  }
  Calibrated read{CalibrationFile::from(known, "what rank 0 has read").ranks, path};
  for (const std::string& codec : options.codecs) {
    if (std::ranges::all_of(read.ranks, [&](const Calibration& c) { return c.codecs.contains(codec); })) continue;
    const CodecSpeed own = measure_codec(codec);
    const std::vector<std::string> all =
        texts_of_all(worker, "calibration of a codec", fmt::format("{} {}", own.encode, own.decode));
    for (std::size_t r = 0; r < read.ranks.size(); ++r) {
      CodecSpeed speed;
      std::istringstream(all[r]) >> speed.encode >> speed.decode;
      read.ranks[r].codecs.try_emplace(codec, speed);
    }
  }
  return read;
}

}  // namespace laconic::dist
