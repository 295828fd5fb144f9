#include "apps/look/event_file.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "apps/common/machine.h"
#include "core/base/error.h"

namespace laconic {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

template <class T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}

/// A field of protocol buffers with a length: a text or a message.
std::string field(int number, const std::string& content) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(content.size()) + content;
}

/// A CRC of data that holds CRCs is a poor one, so records rotate theirs and add a constant.
std::string masked_crc(std::string_view bytes) { return raw_bytes(std::rotr(crc32c(bytes), 15) + 0xA282EAD8); }

std::string record(const std::string& event) {
  const std::string length = raw_bytes(static_cast<std::uint64_t>(event.size()));
  return length + masked_crc(length) + event + masked_crc(event);
}

std::string wall_time(double seconds) { return '\x09' + raw_bytes(seconds); }

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

std::string event_record(double wall_seconds, std::int64_t step,
                         const std::vector<std::pair<std::string, float>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += field(1, field(1, tag) + '\x15' + raw_bytes(value));
  return record(wall_time(wall_seconds) + '\x10' + varint(static_cast<std::uint64_t>(step)) + field(5, summary));
}

EventFile::EventFile(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require<DataError>(!failed, folder, ": the folder could not be made: ", failed.message(),
                     ". Check the path of --tensorboard.");
  path_ = concat(folder, "/events.out.tfevents.", static_cast<std::int64_t>(now_in_seconds()), ".", host_name(), ".",
                 ::getpid());
  for (int another = 1; std::filesystem::exists(path_); ++another) path_ += concat(".", another);  // of another seed
  file_.reset(std::fopen(path_.c_str(), "wbe"));
  require<DataError>(file_ != nullptr, path_, ": the file could not be opened: ", std::strerror(errno),
                     ". Check the path of --tensorboard.");
  write(record(wall_time(now_in_seconds()) + field(3, "brain.Event:2")), true);
}

void EventFile::on_step(const StepReport& r) {
  step_ = r.step;
  std::vector<std::pair<std::string, float>> scalars;
  const auto add = [&](const char* tag, double value) { scalars.emplace_back(tag, static_cast<float>(value)); };
  add("train/loss", r.loss), add("train/learning rate", r.lr), add("train/samples per second", r.samples_per_s);
  add("time/step, ms", r.step_ms), add("time/forward, ms", r.forward_ms), add("time/backward, ms", r.backward_ms);
  add("time/update, ms", r.update_ms), add("time/choosing, ms", r.select_ms), add("time/data, ms", r.data_ms);
  add("time/exposed, ms", r.exposed_ms);
  if (r.bytes_counted) add("bytes/sent by all", static_cast<double>(r.bytes_sent_sum));
  write(event_record(now_in_seconds(), r.step, scalars), false);
}

void EventFile::on_eval(const EvalReport& report) { evaluated("validation", report); }
void EventFile::on_test(const EvalReport& report) { evaluated("test", report); }

void EventFile::evaluated(const char* kind, const EvalReport& r) {
  std::vector<std::pair<std::string, float>> scalars;
  const auto add = [&](const std::string& name, double value) {
    scalars.emplace_back(concat(kind, "/", name), static_cast<float>(value));
  };
  add("loss", r.loss);
  if (r.perplexity)
    add("perplexity", *r.perplexity);
  else if (!r.metrics.empty())
    for (const auto& [name, value] : r.metrics) add(name, value);
  else
    add("accuracy, %", 100 - r.top1_error);
  if (r.top5_error) add("accuracy of the first five, %", 100 - *r.top5_error);
  if (r.drift) add("drift", *r.drift);
  write(event_record(now_in_seconds(), step_, scalars), true);
}

void EventFile::on_end(const RunSummary&) { write("", true); }

void EventFile::write(const std::string& bytes, bool now) {
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  if (ok && (now || seconds_since(flushed_) > 0.5)) {
    ok = std::fflush(file_.get()) == 0;
    flushed_ = Clock::now();
  }
  require<DataError>(ok, path_, ": the file could not be written: ", std::strerror(errno),
                     ". Free some space, or leave --tensorboard out.");
}

}  // namespace laconic
