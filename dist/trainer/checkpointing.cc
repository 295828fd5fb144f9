#include "dist/trainer/checkpointing.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>

#include "core/base/settings.h"
#include "dist/collective/meeting.h"
#include "dist/trainer/options.h"
#include "dist/world.h"

namespace laconic {
namespace {

/// This thread lets others compute first. Linux knows that of single threads.
void step_aside() {
  const auto self = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + 10);
}

/// This rank reads or writes there.
class BusyAt : public dist::Busy {
 public:
  BusyAt(const char* does, const std::string& path) : Busy(With::files, does, [path] { return path; }) {}
};

}  // namespace

std::vector<std::string> meet(dist::Engine& engine, const std::string& what, const std::string& mine) {
  std::vector<std::string> all;
  engine.run(what, [&](dist::Communicator& comm) { return dist::allgather_blobs(comm, mine, all); });
  return all;
}

Checkpointing::Checkpointing(dist::Worker& worker, const TrainerOptions& options) : worker_(worker), o_(options) {
  std::random_device device;
  run_ = fmt::format("{:08x}{:08x}", device(), device());  // no other training has these digits
  if (o_.resume.empty()) return;
  const BusyAt busy("looks for a checkpoint", o_.resume);
  const std::string kWhole = "whole: ", kNone = "none";
  std::string newest;  // what is wrong with it
  const std::vector<std::string> found = CheckpointStore::all_in(o_.resume);
  for (std::size_t i = 0;; ++i) {
    Manifest manifest;
    std::string mine = kNone;
    if (i < found.size()) {
      try {
        manifest = CheckpointStore::read_manifest(found[i]);
        for (int file = worker.rank; file < manifest.files(); file += worker.engine.size())
          CheckpointStore::verify(found[i], manifest, file);
        mine = kWhole + found[i];
      } catch (const DataError& e) {
        mine = e.what();
      }
    }
    const std::vector<std::string> all = meet(worker.engine, "looking for a checkpoint", mine);
    const auto wrong =
        std::find_if(all.begin(), all.end(), [&](const std::string& s) { return !s.starts_with(kWhole); });
    if (wrong == all.end()) {
      dist::check_fingerprint(worker.engine, mine);  // the same one everywhere
      if (worker.rank == 0 && manifest.ranks.empty())
        fmt::print(stderr, "laconic: note: {} has no checksums: it was written by an earlier version\n", found[i]);
      if (!manifest.run.empty()) run_ = manifest.run;
      folder_ = found[i];
      resumed_ = std::move(manifest);
      return;
    }
    if (const auto none = std::find(all.begin(), all.end(), kNone); none != all.end()) {
      if (i > 0) throw DataError(newest);
      const bool nowhere = std::all_of(all.begin(), all.end(), [&](const auto& s) { return s == kNone; });
      require<DataError>(nowhere, "resume: rank ", none - all.begin(), " finds no checkpoint in ", o_.resume,
                         ", and others do. Give all ranks the same files.");
      if (!o_.resume_if_any) CheckpointStore::newest(o_.resume);  // says so
      if (worker.rank == 0)
        fmt::print(stderr, "laconic: note: there is no checkpoint in {} yet: the training begins\n", o_.resume);
      return;
    }
    if (i == 0) newest = *wrong;
    if (worker.rank == 0 && i + 1 < found.size())
      fmt::print(stderr, "laconic: warning: {} It is passed over; the one before is {}\n", *wrong, found[i + 1]);
  }
}

bool Checkpointing::same_ranks() const {
  const Manifest& m = *resumed_;
  const bool knows_servers = !m.ranks.empty();
  return m.workers == worker_.size && (!knows_servers || m.files() == worker_.engine.size());
}

void Checkpointing::require_same_training(const std::string& fingerprint, const std::string& processor) const {
  const Manifest& m = *resumed_;
  if (const auto other = other_training(m.fingerprint, fingerprint))
    throw DataError(concat("resume: ", folder_, " was trained with ", other->first, ", this run has ", other->second,
                           ". Give the same options."));
  if (worker_.rank != 0) return;
  if (m.threads != o_.threads || m.instruction_set != processor)
    fmt::print(stderr,
               "laconic: warning: the checkpoint was written with {} threads on {}, this run has {} on {}: the last "
               "bits may differ\n",
               m.threads, m.instruction_set, o_.threads, processor);
  const auto line = [](const std::string& text, const std::string& key) {
    const auto at = text.find("\n" + key + "=");
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  const auto has = [&](const char* key) { return !line(m.fingerprint, key).empty(); };
  if (!has("method") && (has("sparse") || has("server")))
    fmt::print(stderr,
               "laconic: note: {} was written by an earlier version: its settings of {} {} are not compared with this "
               "run's\n",
               folder_, Settings::as_options("`sync`"), line(fingerprint, "sync").substr(5));
  if (line(m.fingerprint, "precision") != line(fingerprint, "precision"))
    fmt::print(stderr, "laconic: warning: the checkpoint was written with {}, this run has {}: losses may differ\n",
               line(m.fingerprint, "precision"), line(fingerprint, "precision"));
}

/// What is resumed from is compared by itself. The folder may be named otherwise than what is resumed.
CheckpointStore::Replaces Checkpointing::replaces() const {
  using Replaces = CheckpointStore::Replaces;
  std::error_code error;
  const auto lies_there = [&] {
    return std::filesystem::equivalent(std::filesystem::absolute(folder_).parent_path(), o_.save, error);
  };
  if (o_.overwrite || (resumed_ && (o_.resume == o_.save || lies_there()))) return Replaces::all;
  return o_.resume == o_.save ? Replaces::own : Replaces::nothing;  // the first save may have been cut off
}

StateDict Checkpointing::state() const {
  const BusyAt busy("reads a checkpoint", folder_);
  return CheckpointStore::read_rank(folder_, worker_.rank);
}

/// Rank 0 first: it finds out whose folder it is.
void Checkpointing::claim(const std::string& fingerprint) {
  if (o_.save.empty()) return;
  const BusyAt busy("looks at the folder to save to", o_.save);
  store_ = std::make_shared<CheckpointStore>(o_.save);
  if (worker_.serves()) {
    store_->claim(worker_.rank, "", CheckpointStore::Replaces::nothing);  // can it write?
    return require_one_folder();
  }
  const auto claim = [&] { store_->claim(worker_.rank, fingerprint, replaces()); };
  if (worker_.rank == 0) claim();
  dist::check_fingerprint(worker_, concat("save=", o_.save));
  if (worker_.rank != 0) claim();
  require_one_folder();
}

void Checkpointing::require_one_folder() {
  if (dist::ranks_under_mpirun() == 0) return;
  const std::string sign = meet(worker_.engine, "naming of a sign", run_)[0];
  const std::shared_ptr<void> mine = worker_.rank == 0 ? store_->sign(sign) : nullptr;
  meet(worker_.engine, "meeting before looking for it", "");
  char host[256] = "";
  if (!store_->has_sign(sign)) ::gethostname(host, sizeof host - 1);
  const std::vector<std::string> blind = meet(worker_.engine, "whether all see it", host);
  for (std::size_t r = 0; r < blind.size(); ++r)
    require<UsageError>(blind[r].empty(), "rank ", r, " on ", blind[r], " does not see what rank 0 writes to ", o_.save,
                        ", and a checkpoint is made of all ranks' files (`save`): name a folder that all machines "
                        "share");
}

void Checkpointing::begin() {
  if (!store_) return;
  const BusyAt busy("looks at the folder to save to", o_.save);
  if (worker_.rank == 0) store_->begin();
  flight_ = dist::FlightRecorder::open(store_->flight_folder(), worker_.rank, worker_.engine.size());
  worker_.engine.record(flight_);
}

void Checkpointing::begin_write(StateDict state, Manifest manifest, StateDict weights) {
  finish();
  const BusyAt busy("writes a checkpoint", o_.save);
  store_->prepare(manifest.step);
  // An older one of this step no longer counts while its files are replaced.
  manifest.run = meet(worker_.engine, "meeting before a checkpoint", run_)[0];
  saved_step_ = manifest.step;
  unfinished_ = true;
  begun_.emplace(Begun{std::move(manifest), {}});
  begun_->writing = std::make_shared<std::future<Sums>>(std::async(
      std::launch::async, [store = store_, run = begun_->manifest.run, step = saved_step_, rank = worker_.rank,
                           state = std::move(state), weights = std::move(weights)]() mutable {
        step_aside();
        StateDict own = std::move(state);  // given back when it has been written, not when somebody asks
        const StateDict model = std::move(weights);
        Sums sums;
        if (!model.empty()) sums.weights = save_safetensors(model, store->weights_path());
        sums.part = store->write_rank(run, step, rank, own);
        return sums;
      }));
  worker_.outlives = begun_->writing;
}

const Checkpointing::Sums& Checkpointing::await_sums() {
  if (!begun_->sums) begun_->sums = begun_->writing->get();
  return *begun_->sums;
}

FileSum Checkpointing::written() {
  const auto ended = [](const auto& future) {
    return future && future->wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (ended(completing_)) std::exchange(completing_, nullptr)->get();
  if (!begun_ || !(begun_->sums || ended(begun_->writing))) return {};
  return await_sums().part;
}

void Checkpointing::count(const std::vector<FileSum>& files, std::int64_t at) {
  if (begun_ && !files.empty() && at > begun_->manifest.step) complete(files);
}

void Checkpointing::complete(std::vector<FileSum> files) {
  if (worker_.rank == 0) {
    Manifest manifest = std::move(begun_->manifest);
    manifest.weights = await_sums().weights, manifest.ranks = std::move(files);
    completing_ = std::make_shared<std::future<void>>(
        std::async(std::launch::async, [store = store_, keep = o_.keep, manifest = std::move(manifest)] {
          step_aside();
          store->complete(manifest, keep);
        }));
    worker_.outlives = completing_;
  }
  begun_.reset();
}

void Checkpointing::finish() {
  if (!unfinished_) return;
  const BusyAt busy("writes a checkpoint", o_.save);
  if (begun_) {
    std::vector<FileSum> files;
    for (const std::string& sum : meet(worker_.engine, "meeting in a checkpoint", await_sums().part.text()))
      files.push_back(FileSum::parse(sum));
    complete(std::move(files));
  }
  if (completing_) std::exchange(completing_, nullptr)->get();
  meet(worker_.engine, "meeting after a checkpoint", "");
  unfinished_ = false;
}

StateDict copy_of(const StateDict& state) {
  StateDict copy;
  for (const auto& [name, tensor] : state) {
    const Tensor own = Tensor::empty(tensor.shape(), tensor.dtype());
    own.copy_from(tensor);
    copy.set(name, own);
  }
  for (const auto& [name, text] : state.texts()) copy.set_text(name, text);
  return copy;
}

}  // namespace laconic
