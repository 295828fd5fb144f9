#include "apps/training/outputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "apps/look/event_file.h"
#include "apps/look/json_log.h"
#include "apps/look/log_file.h"
#include "apps/look/trace_file.h"
#include "apps/training/progress.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

std::pair<unsigned long, unsigned long> file_of(const struct stat& info) { return {info.st_dev, info.st_ino}; }

/// Whether other runs could be writing to the same one.
bool is_shared(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !path.empty() && !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status));
}

void require_free(bool is_free, const std::string& path, const char* option, const char* another) {
  require<UsageError>(is_free, "another run writes to ", path, " now (", option, "): give another ", another,
                      ", or wait for its end");
}

/// throws DataError if no file can be made in `folder`, or in what is there of its path
void try_folder(std::filesystem::path folder, const char* option) {
  const std::string whole = folder.string();
  while (!folder.empty() && !std::filesystem::exists(folder)) folder = folder.parent_path();
  try {
    const AtomicFile probe((folder / "probe").string());
  } catch (const DataError&) {
    throw DataError(concat("no file can be made in ", whole, " (", option, "): give another folder, or free this one"));
  }
}

/// Keeps other runs from what this one writes.
void lock_outputs(const TrainOptions& o, OutputLocks& locks) {
  locks.take_file(o.log, "--log");
  for (const auto& [path, option] :
       {std::pair{&o.trace, "--trace"}, {&o.report, "--report"}, {&o.export_path, "--export"}})
    locks.take_name(*path, option);
  locks.take_folder(o.tensorboard, "--tensorboard");
  locks.take_folder(o.trainer.dump_gradients, "--dump-gradients");
}

/// Writes the page of --report, and says where it is.
void make_report(const TrainOptions& o, const std::string& log) {
  // A training that was at its end already may have written no line.
  if (std::filesystem::file_size(log) == 0 || LogFile::read(log).steps.empty()) {
    if (!o.quiet) fmt::print("report: none, for no step was made\n");
    return;
  }
  const bool timeline = !o.trace.empty() && has_whole_step(read_trace(o.trace));
  write_report({{.title = o.model, .log = log, .trace = timeline ? o.trace : ""}}, o.report);
  if (!o.quiet)
    fmt::print("report: {}{}\n", o.report,
               timeline || o.trace.empty() ? "" : ", without a timeline, for the trace has no whole step");
}

}  // namespace

OutputLocks::~OutputLocks() {
  for (const Held& h : held_) {
    if (!h.removed.empty()) ::unlink(h.removed.c_str());  // while it is locked: nobody else has it
    ::close(h.fd);
  }
}

void OutputLocks::take_file(const std::string& path, const char* option) {
  if (is_shared(path)) require_free(take(path, O_WRONLY | O_CREAT | O_APPEND), path, option, "file");
}

void OutputLocks::take_folder(const std::string& path, const char* option) {
  if (!is_shared(path)) return;
  std::error_code no_matter;  // whoever writes there says so
  fs::create_directories(path, no_matter);
  require_free(take(path, O_RDONLY | O_DIRECTORY), path, option, "folder");
}

void OutputLocks::take_name(const std::string& path, const char* option) {
  if (!is_shared(path)) return;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  const std::string lock = (error ? path : whole.string()) + ".lock";
  const std::size_t before = held_.size();
  require_free(take(lock, O_WRONLY | O_CREAT), path, option, "file");
  if (held_.size() > before) held_.back().removed = lock;
}

/// False: another run holds it. What counts is the file that has the name: another run may just have removed it.
bool OutputLocks::take(const std::string& path, int flags) {
  for (int trial = 0; trial < 100; ++trial) {
    const int fd = ::open(path.c_str(), flags | O_NOCTTY | O_CLOEXEC, 0666);
    struct stat opened {
    }, named{};
    if (fd < 0 || ::fstat(fd, &opened) != 0) return true;
    const auto is_ours = [&](const Held& h) { return h.file == file_of(opened); };
    if (std::ranges::any_of(held_, is_ours)) return ::close(fd) == 0;
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    const bool taken = !locked && errno == EWOULDBLOCK;
    if (locked && ::stat(path.c_str(), &named) == 0 && file_of(named) == file_of(opened)) {
      held_.push_back({fd, file_of(opened), ""});
      return true;
    }
    ::close(fd);
    if (taken) return false;
    if (!locked) return true;
  }
  return true;
}

Outputs::Outputs(const TrainOptions& o, bool speaks) : o_(o), writes_(speaks && !o.dry_run), log_(o.log) {
  if (speaks && !o.eval_only) {
    // Whether they can be written is to be known before hours of training.
    for (const std::string& path : {o.log, o.trace, o.report, o.export_path})
      if (!path.empty()) const AtomicFile probe(path);
    if (!o.trainer.dump_gradients.empty()) try_folder(o.trainer.dump_gradients, "--dump-gradients");
  }
  if (!writes_) return;
  lock_outputs(o, locks_);
  if (!o.quiet) observers_.add(std::make_unique<Progress>(std::cout, Progress::for_stdout()));
  if (log_.empty() && !o.report.empty()) log_ = scratch_.emplace("report").path() + "/log.jsonl";
  if (!log_.empty())
    observers_.add(std::make_unique<JsonLog>(log_, o.resume || o.eval_only,
                                             run_to_json(o.model, o.trainer.seed, o.command), !o.eval_only));
  if (!o.tensorboard.empty()) observers_.add(std::make_unique<EventFile>(o.tensorboard));
  if (o.live > 0) live_.emplace(ReportedRun{.title = o.model, .log = log_}, o.report, o.live);
}

void Outputs::finish(const RunSummary& summary) {
  live_.reset();
  if (writes_) {
    if (!o_.quiet && !summary.ledger.empty()) fmt::print("{}", ledger_table(summary.ledger_form, summary.ledger));
    if (!o_.quiet && !o_.log.empty() && !o_.eval_only) fmt::print("log: {}\n", o_.log);
    if (!o_.quiet && !o_.trace.empty())
      fmt::print("trace: {} (laconic report draws it; ui.perfetto.dev opens it)\n", o_.trace);
    if (!o_.report.empty()) make_report(o_, log_);
    // Under --quiet what comes last: one line. A text that was written is a result too.
    if (o_.quiet && !o_.json && o_.repeat == 1 && o_.generate.words == 0)
      fmt::print("{}\n", result_line(observers_.info(), summary));
    if (o_.json) fmt::print("{}\n", to_json(observers_.info(), summary));
  }
  std::fflush(stdout);
}

}  // namespace laconic
