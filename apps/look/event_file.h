#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "dist/trainer/report.h"

namespace laconic {

/// CRC-32C (Castagnoli's polynomial), as records of event files carry it.
std::uint32_t crc32c(std::string_view bytes);

/// A record of an event file: TensorFlow's TFRecord with an Event of event.proto, which TensorBoard and others read.
///   wall_seconds  since 1970
std::string event_record(double wall_seconds, std::int64_t step,
                         const std::vector<std::pair<std::string, float>>& scalars);

/// Writes figures of steps and evaluations as scalars for TensorBoard, into a file of its own in a folder: that of
/// --tensorboard. A resumed run adds a file, and TensorBoard joins them by their steps.
/// Throws DataError if the folder cannot be made or the file not written.
class EventFile final : public Observer {
 public:
  explicit EventFile(const std::string& folder);
  void on_step(const StepReport& report) override;
  void on_eval(const EvalReport& report) override;
  void on_test(const EvalReport& report) override;
  void on_end(const RunSummary& summary) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void evaluated(const char* kind, const EvalReport& report);
  void write(const std::string& record, bool now);
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t step_ = 0;  // the last one
  Clock::time_point flushed_ = Clock::now();
};

}  // namespace laconic
