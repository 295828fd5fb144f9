#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dist/predict/calibration.h"
#include "dist/predict/layer_times.h"

namespace laconic::dist {

/// What ranks have measured of themselves and their network, as a file: one object of JSON. `laconic calibrate --save`
/// writes it, and so does a training for the next one (--calibration cache).
struct CalibrationFile {
  std::vector<std::string> of{};     ///< by rank, what its figures hold for: host, threads, build, processor, network
  std::int64_t time = 0;             ///< when they were measured, in seconds since 1970
  std::vector<Calibration> ranks{};  ///< at least one
  /// A model whose layers were timed too, with `batch` samples a worker; empty: none.
  std::string model{};
  int classes = 0, batch = 0;  ///< classes : 0: the model's own
  LayerTimes layers{};         ///< of the slowest worker

  std::string json() const;
  /// Reads such a text. throws DataError, which names `source`, if it is none
  static CalibrationFile from(const std::string& text, const std::string& source);
  /// Writes it whole or not at all, and makes its folder.   throws DataError
  void save(const std::string& path) const;
  /// throws DataError, which names the path, if it cannot be read, is longer than any (16 MiB), or is none
  static CalibrationFile read(const std::string& path);
};

/// The name of the file in the user's cache that is of these ranks: laconic/calibration/ in XDG_CACHE_HOME, or in
/// ~/.cache.   throws DataError if neither is known
std::string cached_calibration_path(const std::vector<std::string>& of);

/// Where the figures of a group come from.
struct CalibrationSource {
  static constexpr const char *kMeasure = "measure", *kCache = "cache";
  static constexpr std::int64_t kRecentSeconds = 24 * 3600;

  /// kMeasure: all ranks measure. kCache: a file of the user's cache, if it is of these ranks and of the last 24 hours;
  /// else all ranks measure, and write one. Everything else is the path of a file.
  std::string from = kMeasure;
  /// This rank's build, processor and network: figures of the cache are of the same ones.
  std::string here{};
};

/// Figures of all ranks, and in words where they come from, "" if they were measured.
struct Calibrated {
  std::vector<Calibration> ranks;
  std::string from{};
};

/// Figures from there: rank 0 reads, or all measure (calibrate()). All workers call it, and all return the same. A file
/// of the cache that is broken or cannot be written is a sentence on stderr, and no reason to stop. Codecs that a named
/// file does not know are measured by each rank.
/// throws DataError on rank 0 if a named file is broken, or of another number of workers
Calibrated calibrated(const Worker& worker, const CalibrationOptions& options, const CalibrationSource& source);

/// By rank, what figures hold for: its host's name, its threads, and `here`. All workers call it.
std::vector<std::string> identities(const Worker& worker, int threads, const std::string& here);

}  // namespace laconic::dist
