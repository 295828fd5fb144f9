#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace laconic::dist {

class Busy;

/// What one thread is busy with. From any thread.
class BusyThread {
 public:
  /// The calling thread's.
  static std::shared_ptr<BusyThread> here();

  struct Now {
    std::string text;         ///< "waits for its data (train/n0123/x.JPEG, 8 s)"
    Clock::time_point since;  ///< it began
    bool with_files = false;
  };
  std::optional<Now> now() const;  ///< nothing: it is not

 private:
  friend class Busy;
  mutable std::mutex mutex_;
  const Busy* innermost_ = nullptr;
};

/// What a rank does outside of the exchange, on its compute thread: it reads, writes or evaluates. While one lives the
/// others wait for that rank however long it takes, as long as it gives signs of life, and messages say what it does.
/// The innermost counts. A rank that waits for others within one is in the exchange again (WaitWatch).
class Busy {
 public:
  enum class With : std::uint8_t {
    work,  ///< takes as long as it takes: where that is longer than the time-out the rank says so, if there are others
    files  ///< which may never come: the rank says every WorldOptions::tell_seconds what it waits for
  };
  /// does : "evaluates"; lives as long as this
  /// what : the file, or ""; any thread may ask, until this is destroyed
  Busy(With with, const char* does, std::function<std::string()> what = {});
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  friend class BusyThread;
  const With with_;
  const char* const does_;
  const std::function<std::string()> what_;
  const Clock::time_point since_ = Clock::now();
  const std::shared_ptr<BusyThread> thread_ = BusyThread::here();
  const Busy* outer_ = nullptr;
};

}  // namespace laconic::dist
