#include "core/trace.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"

namespace laconic {
namespace {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(Trace::Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

thread_local constinit Trace::Row* Trace::current_ = nullptr;

void Trace::Row::add(std::string_view name, const char* category, Clock::time_point begin, Clock::time_point end,
                     std::int64_t bytes, bool overlapping) {
  const std::lock_guard lock(mutex_);
  if (events_.size() < kMaxEventsPerRow)
    events_.push_back({std::string(name), category, begin, end, bytes, overlapping});
  else
    ++dropped_;
}

Trace::Row& Trace::row(int rank, const std::string& thread) {
  const std::lock_guard lock(mutex_);
  for (Row& row : rows_)
    if (row.rank_ == rank && row.thread_ == thread) return row;
  return rows_.emplace_back(rank, thread);
}

std::string Trace::json() {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const auto to = std::back_inserter(out);
  const char* separator = "\n";
  std::uint64_t id = 0;  // pairs the two ends of an overlapping event
  int tid = 0;
  const std::lock_guard lock(mutex_);
  for (Row& row : rows_) {
    const std::lock_guard row_lock(row.mutex_);
    const int pid = row.rank_;
    ++tid;
    const std::string dropped = row.dropped_ ? fmt::format(" ({} later spans not kept)", row.dropped_) : "";
    fmt::format_to(to, R"({}{{"ph":"M","name":"process_name","pid":{},"tid":{},"args":{{"name":"rank {}"}}}},)",
                   separator, pid, tid, pid);
    fmt::format_to(to,
                   "\n"
                   R"({{"ph":"M","name":"process_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}},)",
                   pid, tid, pid);
    fmt::format_to(to,
                   "\n"
                   R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                   pid, tid, json_string(row.thread_ + dropped));
    separator = ",\n";
    for (const Event& event : row.events_) {
      const double begin = microseconds(event.begin.time_since_epoch()), length = microseconds(event.end - event.begin);
      const std::string args = event.bytes >= 0 ? fmt::format(R"(,"args":{{"bytes":{}}})", event.bytes) : "";
      const std::string what = fmt::format(R"("name":{},"cat":{},"pid":{},"tid":{})", json_string(event.name),
                                           json_string(event.category), pid, tid);
      if (event.overlapping) {
        fmt::format_to(to,
                       ",\n"
                       R"({{"ph":"b",{},"id":"{}.{}","ts":{:.3f}{}}})",
                       what, pid, ++id, begin, args);
        fmt::format_to(to,
                       ",\n"
                       R"({{"ph":"e",{},"id":"{}.{}","ts":{:.3f}}})",
                       what, pid, id, begin + length);
      } else {
        fmt::format_to(to,
                       ",\n"
                       R"({{"ph":"X",{},"ts":{:.3f},"dur":{:.3f}{}}})",
                       what, begin, length, args);
      }
    }
  }
  out += "\n]}\n";
  return out;
}

void Trace::write(const std::string& path) {
  AtomicFile file(path);
  file.write(json());
  file.commit();
}

void write_merged_traces(const std::vector<std::string>& jsons, const std::string& path) {
  AtomicFile file(path);
  file.write("{\"traceEvents\":[\n");
  bool first = true;
  for (const std::string& json : jsons) {
    const auto open = json.find('['), close = json.rfind(']');
    if (open == std::string::npos || close == std::string::npos || json.find('{', open) == std::string::npos) continue;
    if (!std::exchange(first, false)) file.write(",");
    file.write(std::string_view(json).substr(open + 1, close - open - 1));
  }
  file.write("]}\n");
  file.commit();
}

}  // namespace laconic
