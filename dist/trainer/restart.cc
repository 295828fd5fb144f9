#include <fmt/format.h>

#include <algorithm>

#include "dist/fingerprint.h"
#include "dist/trainer/internals.h"
#include "dist/trainer/server_half.h"

namespace laconic {

std::vector<std::string> meet(dist::Engine& engine, const std::string& what, const std::string& mine) {
  std::vector<std::string> all;
  engine.run(
      what, [&](dist::Communicator& comm) { return dist::allgather_blobs(comm, mine, all); }, kCpu, true);
  return all;
}

std::optional<Resumed> choose_checkpoint(dist::Engine& engine, const TrainerOptions& o) {
  if (o.resume.empty()) return std::nullopt;
  const std::string kWhole = "whole: ", kNone = "none";
  std::string newest;  // what is wrong with it
  const std::vector<std::string> found = CheckpointStore::all_in(o.resume);
  for (std::size_t i = 0;; ++i) {
    Resumed candidate;
    std::string mine = kNone;
    if (i < found.size()) {
      candidate.checkpoint = found[i];
      try {
        candidate.manifest = CheckpointStore::read_manifest(found[i]);
        CheckpointStore::verify(found[i], candidate.manifest, engine.rank());
        mine = kWhole + found[i];
      } catch (const DataError& e) {
        mine = e.what();
      }
    }
    const std::vector<std::string> all = meet(engine, "looking for a checkpoint", mine);
    const auto wrong =
        std::find_if(all.begin(), all.end(), [&](const std::string& s) { return !s.starts_with(kWhole); });
    if (wrong == all.end()) {
      dist::check_fingerprint(engine, mine);  // the same one everywhere
      if (engine.rank() == 0 && candidate.manifest.ranks.empty())
        fmt::print(stderr, "laconic: note: {} has no checksums: it was written by an earlier version\n",
                   candidate.checkpoint);
      return candidate;
    }
    if (const auto none = std::find(all.begin(), all.end(), kNone); none != all.end()) {
      if (i > 0) throw DataError(newest);
      const bool nowhere = std::all_of(all.begin(), all.end(), [&](const auto& s) { return s == kNone; });
      require<DataError>(nowhere, "resume: rank ", none - all.begin(), " finds no checkpoint in ", o.resume,
                         ", and others do. Give all ranks the same files.");
      if (!o.resume_if_any) CheckpointStore::newest(o.resume);  // says so
      if (engine.rank() == 0)
        fmt::print(stderr, "laconic: note: there is no checkpoint in {} yet: the training begins\n", o.resume);
      return std::nullopt;
    }
    if (i == 0) newest = *wrong;
    if (engine.rank() == 0 && i + 1 < found.size())
      fmt::print(stderr, "laconic: warning: {} It is passed over; the one before is {}\n", *wrong, found[i + 1]);
  }
}

/// Rank 0 first: it finds out whose folder it is. What is resumed from is compared by itself.
void Trainer::claim_save() {
  store_.emplace(o_.save);
  const auto claim = [&] {
    store_->claim(worker_.rank, fingerprint(), worker_.size, o_.overwrite || (resumed_ && o_.resume == o_.save));
  };
  if (worker_.rank == 0) claim();
  dist::check_fingerprint(worker_, concat("save=", o_.save));
  if (worker_.rank != 0) claim();
}

void Trainer::save() {
  flush();
  require_finite_weights();
  const StepFigures::Outside outside(figures_);
  const CheckpointStore& store = *store_;
  Manifest manifest{.step = step_,
                    .workers = worker_.size,
                    .threads = o_.threads,
                    .instruction_set = processor(),
                    .fingerprint = fingerprint(),
                    .plan = plan_.json()};
  store.prepare(step_);
  strategy_->show_joint_model();
  tell_servers({.kind = dist::Command::Kind::rest});  // rank 0's disk may be slow
  {
    const MeanBuffers mean(*this);
    if (worker_.rank == 0) manifest.weights = save_safetensors(weights_of(workload_.model()), store.weights_path());
  }
  strategy_->hide_joint_model();
  tell_servers({.kind = dist::Command::Kind::save, .step = step_});  // they take part in all the meetings
  // An older one of this step no longer counts while its files are replaced.
  manifest.run = meet(worker_.engine, "meeting before a checkpoint", run_)[0];
  StateDict state;
  state.merge(weights_of(workload_.model()), "model/");
  StateDict part;
  if (optimizer_) optimizer_->save(part);
  state.merge(part, "optimizer/");
  if (half_) half_->save(state);
  part = {};
  o_.schedule.save(part);
  state.merge(part, "schedule/");
  part = {};
  strategy_->save(part);
  state.merge(part, "strategy/");
  part = {};
  workload_.save(part);
  state.merge(part, "workload/");
  const std::int64_t totals[] = {summary_.bytes_sent_total, summary_.bytes_dense_total};
  state.set("run/bytes", Tensor::of({2}, std::span<const std::int64_t>(totals)));
  state.set_text("run/seconds", fmt::format("{:.6f}", seconds_before_ + seconds_since(run_start_)));
  const FileSum written = store.write_rank(manifest.run, step_, worker_.rank, state);
  for (const std::string& sum : meet(worker_.engine, "meeting in a checkpoint", written.text()))
    manifest.ranks.push_back(FileSum::parse(sum));
  if (worker_.rank == 0) store.complete(manifest);  // every rank has written: now it may count
  meet(worker_.engine, "meeting after a checkpoint", "");
  saved_step_ = step_;
}

void Trainer::require_same_training(const Manifest& manifest, const std::string& checkpoint) const {
  require<DataError>(manifest.workers == worker_.size, "resume: ", checkpoint, " is of ", manifest.workers,
                     " workers, this run has ", worker_.size, ". Start as many.");
  if (const auto other = other_training(manifest.fingerprint, fingerprint()))
    throw DataError(concat("resume: ", checkpoint, " was trained with ", other->first, ", this run has ", other->second,
                           ". Give the same options."));
}

void Trainer::restore() {
  const auto& [checkpoint, manifest] = *resumed_;
  if (worker_.rank == 0 && (manifest.threads != o_.threads || manifest.instruction_set != processor()))
    fmt::print(stderr,
               "laconic: warning: the checkpoint was written with {} threads on {}, this run has {} on {}: the last "
               "bits may differ\n",
               manifest.threads, manifest.instruction_set, o_.threads, processor());
  const auto has_line = [&](const char* key) {
    return manifest.fingerprint.find(concat("\n", key, "=")) != std::string::npos;
  };
  if (worker_.rank == 0 && !has_line("method") && (has_line("sparse") || has_line("server")))
    fmt::print(stderr,
               "laconic: note: {} was written by an earlier version: its settings of --sync {} are not compared with "
               "this run's\n",
               checkpoint, method_->name());
  const auto precision = [](const std::string& text) { return text.substr(std::min(text.size(), text.find("precision="))); };
  if (worker_.rank == 0 && precision(manifest.fingerprint) != precision(fingerprint()))
    fmt::print(stderr, "laconic: warning: the checkpoint was written with {}, this run has {}: losses may differ\n",
               precision(manifest.fingerprint), precision(fingerprint()));
  const StateDict state = CheckpointStore::read_rank(checkpoint, worker_.rank);
  load_weights(workload_.model(), state.part("model/"), checkpoint, o_.model_name);
  if (optimizer_) optimizer_->load(state.part("optimizer/"));
  if (half_) half_->load(state);
  o_.schedule.load(state.part("schedule/"));
  strategy_->load(state.part("strategy/"));
  workload_.restore(state.part("workload/"));
  const Tensor& bytes = state.at("run/bytes");
  require<DataError>(bytes.dtype() == DType::i64 && bytes.elements() == 2, "resume: ", checkpoint,
                     " has damaged totals.");
  summary_.bytes_sent_total = bytes.data<std::int64_t>()[0];
  summary_.bytes_dense_total = bytes.data<std::int64_t>()[1];
  seconds_before_ = std::atof(state.text("run/seconds").c_str());
  step_ = manifest.step;
  // Also a meeting: nobody writes, or removes what is old, while others still read.
  dist::check_fingerprint(worker_.engine, concat("resumed after step ", step_));
  audit();
}

}  // namespace laconic
