#include <fmt/format.h>

#include <sstream>

#include "dist/collective/barrier.h"
#include "dist/fingerprint.h"
#include "dist/trainer/internals.h"
#include "dist/trainer/server_half.h"

namespace laconic {

void Trainer::save() {
  flush();
  const OutsideSteps outside(*this);
  const CheckpointStore store(o_.save);
  const auto meet = [&](const char* when) {
    worker_.engine.run(when, [](dist::Communicator& comm) { return dist::barrier(comm); });
  };
  store.prepare(step_);
  strategy_->show_joint_model();
  {
    const MeanBuffers mean(*this);
    if (worker_.rank == 0) save_safetensors(weights_of(workload_.model()), store.weights_path());
  }
  strategy_->hide_joint_model();
  tell_servers({.kind = dist::Command::Kind::save, .step = step_});  // they take part in all the meetings
  meet("meeting before a checkpoint");  // an older one of this step no longer counts while its files are replaced
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
  state.set_text("run/seconds", fmt::format("{:.6f}", seconds_before_ + seconds_since(clock_->run_start)));
  store.write_rank(step_, worker_.rank, state);
  meet("meeting in a checkpoint");  // every rank has written: now it may count
  if (worker_.rank == 0)
    store.complete({.step = step_,
                    .workers = worker_.size,
                    .threads = o_.threads,
                    .instruction_set = processor(),
                    .fingerprint = fingerprint(),
                    .plan = plan_.json()});
  meet("meeting after a checkpoint");
  saved_step_ = step_;
}

void Trainer::require_same_training(const Manifest& manifest, const std::string& checkpoint) const {
  require<DataError>(manifest.workers == worker_.size, "resume: ", checkpoint, " is of ", manifest.workers,
                     " workers, this run has ", worker_.size, ". Start as many.");
  std::istringstream then(manifest.fingerprint), now(fingerprint());
  for (std::string a, b; std::getline(then, a) && std::getline(now, b);)
    require<DataError>(a == b || a.starts_with("plan=") || a.starts_with("precision="), "resume: ", checkpoint, " was trained with ", a,
                       ", this run has ", b, ". Give the same options.");
}

void Trainer::restore() {
  const std::string checkpoint = CheckpointStore::newest(o_.resume);
  const Manifest manifest = CheckpointStore::read_manifest(checkpoint);
  if (worker_.rank == 0 && (manifest.threads != o_.threads || manifest.instruction_set != processor()))
    fmt::print(stderr,
               "laconic: warning: the checkpoint was written with {} threads on {}, this run has {} on {}: the last "
               "bits may differ\n",
               manifest.threads, manifest.instruction_set, o_.threads, processor());
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
}

}  // namespace laconic
