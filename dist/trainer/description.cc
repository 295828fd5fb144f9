// What a training says of itself: facts, memory, figures for people.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/processor.h"
#include "core/base/settings.h"
#include "dist/trainer/setup.h"
#include "dist/world.h"
#include "layers/summary.h"

namespace laconic {

bool Setup::bytes_counted() const {
  return worker.size == 1 || !is.joins || is.servers || !plan.has(dist::Carrier::nccl) || plan.codec != "none";
}

RunInfo Setup::info() const {
  RunInfo info;
  info.model = o.model_name;
  info.strategy = method->describe(facts);
  if (plan.codec != "none") info.strategy += concat(", ", plan.codec, o.codec_feedback ? " with feedback" : "");
  if (is.joins && o.overlap != dist::Overlap::forward)
    info.strategy += o.overlap == dist::Overlap::none ? ", no overlap" : ", overlap with backward only";
  info.transport = dist::ranks_under_mpirun() > 0 ? "mpi" : "threads";
  info.parameters = arena->elements();
  for (const auto& p : arena->parameters())
    if (p->info.output && p->info.shape.rank() == 2) info.classes = p->info.shape[0];
  workload.describe(info);
  info.device = o.device.kind == Device::Kind::cuda ? processor() : to_string(o.device);
  info.workers = worker.size;
  info.threads = o.threads;
  info.accumulate = static_cast<int>(o.accumulate);
  info.batch = static_cast<int>(workload.batch());
  info.steps_per_epoch = timetable.steps_per_epoch();
  info.total_steps = timetable.last_step();
  info.first_step = now.step, info.steps_ahead = facts.steps_ahead;
  info.exchange_every = is.every;
  info.overlap = dist::to_string(o.overlap);
  info.bytes_counted = bytes_counted();
  info.receipt = receipt;
  return info;
}

std::string Setup::processor() const {
  return o.device.kind == Device::Kind::cuda ? cuda_device_name(o.device.index) : cpu::instruction_set();
}

double Setup::MemoryNeed::total() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0, [](double sum, const auto& p) { return sum + p.second; });
}

Setup::MemoryNeed Setup::memory_need() const {
  MemoryNeed need;
  const auto add = [&](const std::string& what, double bytes) {
    if (bytes > 0) need.parts.emplace_back(what, bytes);
  };
  const auto bytes = static_cast<double>(arena->size()) * sizeof(float);
  const double of_optimizer = optimizer ? bytes * o.optimizer.arenas() : 0;
  add("parameters", bytes);
  add("gradients", bytes);
  add("optimiser", of_optimizer);
  add(is.keeps[0] != '\0'    ? is.keeps
      : plan.codec != "none" ? "what encoding has lost"
                             : "the method's own",
      kept_bytes);
  double messages = strategy->message_bytes(), served = 0;
  if (const ServerHalf* const half = servers->half()) served = half->bytes(), messages += half->message_bytes();
  add("server", served);
  const bool known = worker.engine.size() == 1 || !bytes_counted() ||
                     method->expected_bytes(plan, arena->parameters(), facts).has_value();
  add(known ? "messages" : "messages at most", messages);
  if (!known) need.at_most = messages;
  need.server = servers->dedicated_bytes(*method, facts, o);
  arena->set_listener(nullptr);  // nothing is computed, and nobody is to be told of gradients
  const std::int64_t most = (info().train_samples + worker.size - 1) / worker.size;
  const std::int64_t samples = std::clamp<std::int64_t>(most, 1, workload.batch());
  const std::ptrdiff_t before = bytes_made_here();
  const std::function<Tensor()> loss = workload.ghost_loss(samples);
  add("batches", static_cast<double>(workload.batches_held()) * static_cast<double>(bytes_made_here() - before));
  add(o.checkpoint_activations ? "activations (recomputed in backward)" : "activations",
      static_cast<double>(peak_activation_bytes(loss)));
  arena->begin_step();
  arena->set_listener(listener());
  if (o.save_every && !o.save.empty() && o.device.kind != Device::Kind::cuda)
    add("a copy to save", 2 * bytes + of_optimizer + kept_bytes + served);  // rank 0's weights have a file of their own
  return need;
}

void Setup::require_memory(double bytes_per_worker) const {
  const int here = dist::ranks_under_mpirun() > 0 ? 1 : worker.size;
  const double gib = 1.0 / (1 << 30), need = bytes_per_worker * here;
  require<UsageError>(
      o.memory == 0 || need <= static_cast<double>(o.memory),
      fmt::format("{} worker{} about {:.1f} GiB, this machine has {:.1f} free ({}): take {}a smaller {}", here,
                  here == 1 ? " needs" : "s need", need * gib, static_cast<double>(o.memory) * gib,
                  here == 1 ? "`batch`" : "`workers`", here == 1 ? "" : "fewer, or ",
                  here == 1 ? "one, or a smaller model" : "`batch`"));
}

std::string Setup::description() const {
  const MemoryNeed need = memory_need();
  const auto mib = [](double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); };
  constexpr double kOfKernels = 24 << 20;  // that their libraries and MPI's take in a training, of two models
  const bool knows = o.device.kind != Device::Kind::cuda && o.memory_taken > 0;
  const double taken = knows ? static_cast<double>(o.memory_taken) + kOfKernels : 0;
  const int here = dist::ranks_under_mpirun() > 0 ? 1 : worker.size;
  std::string memory = fmt::format("memory of a worker: {}", mib(need.total() + (here == 1 ? taken : 0)));
  for (const auto& [what, bytes] : need.parts)
    memory += fmt::format("{} {} {}", &what == &need.parts.front().first ? ":" : ",", what, mib(bytes));
  if (taken > 0 && here == 1) memory += ", code, libraries and data " + mib(taken);
  if (taken > 0 && here > 1)
    memory += fmt::format("\nmemory of the process: {}: {} workers, and code, libraries and data {}",
                          mib(need.total() * here + taken), here, mib(taken));
  if (need.server > 0)
    memory +=
        "\nmemory of a server: " + mib(need.server + (here == 1 && knows ? static_cast<double>(o.memory_taken) : 0));
  const std::optional<double> sent =
      worker.engine.size() == 1 ? 0.0 : method->expected_bytes(plan, arena->parameters(), facts);
  std::string rates;
  const std::int64_t last = timetable.last_step();
  for (const std::int64_t step : std::set<std::int64_t>{1, std::min<std::int64_t>(100, last), last})
    if (step >= 1)
      rates += fmt::format("{}{:.3g} in step {}", rates.empty() ? "" : ", ", timetable.rate_at(step), step);
  return fmt::format(
      "{}: {} parameters, {} worker{}, {} steps per epoch, {} steps\n"
      "learning rate: {}\n"
      "{}\n"
      "bytes sent per worker and step: {}\n"
      "buffers that messages are copied into: {:.2f} MB\n{}",
      o.model_name, arena->elements(), worker.size, worker.size == 1 ? "" : "s", timetable.steps_per_epoch(), last,
      rates, memory,
      sent              ? fmt::format("about {:.2f} MB", *sent / 1e6)
      : bytes_counted() ? "as the gradients come"
                        : "not counted, NCCL moves them",
      !is.joins || is.servers ? 0.0 : static_cast<double>(plan.copied_bytes(arena->parameters())) / 1e6,
      receipt    ? receipt->text()
      : is.joins ? plan.table()
                 : Settings::as_options("no exchange (`sync` " + method->name() + ")\n"));
}

}  // namespace laconic
