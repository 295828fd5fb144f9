#include "dist/method/layer_drop/layer_drop_sync.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/select/residual.h"
#include "core/base/clock.h"
#include "core/base/trace.h"
#include "core/raw.h"
#include "dist/collective/meeting.h"

namespace laconic::dist {
namespace {

// A change of the learning rate by more than this share asks for a new threshold. Schedules change it in every step.
constexpr double kOtherRate = 0.1;

}  // namespace

LayerDropSync::LayerDropSync(WorkerSide side, Options options, const Rules& rules)
    : PsSync(std::move(side), std::move(options)),
      rules_(rules),
      accumulated_(arena().make_state()),
      layers_(plan().buckets.size()) {
  make_table();
}

Slice<const float> LayerDropSync::kept(std::size_t b) const {
  return layers_[b].keeps ? Slice<const float>(accumulated(b)) : Slice<const float>{};
}

void LayerDropSync::filled(std::size_t b) {
  valued_ = true;
  if (!decides_late()) decide(b);
}

bool LayerDropSync::has_turn(std::size_t b) const {
  constexpr double kGoldenRatio = 0.6180339887498949;  // its multiples fall far from one another
  double share = 1 - rules_.drop_ratio, phase = std::fmod((static_cast<double>(b) + 0.5) * kGoldenRatio, 1);
  const auto& measured = side().facts.layer_shares;
  if (const auto found = measured.find(bucket(b).name); found != measured.end()) {
    share = found->second.sent;
    const double apart = share > 0 ? std::round(found->second.came / share) : 1;
    const int groups = static_cast<int>(std::clamp<double>(apart, 1, side().facts.workers));
    phase += static_cast<double>(engine().rank() % groups) / groups;
  }
  const auto turns = [&](std::int64_t step) { return std::floor(phase + share * static_cast<double>(step)); };
  return turns(steps_ + 1) > turns(steps_);
}

void LayerDropSync::decide(std::size_t b) {
  const Trace::Span span(bucket(b).name, "select");
  const auto begin = Clock::now();
  Layer& layer = layers_[b];
  const Slice<float> sum = accumulated(b);
  const double total = compress::accumulate_layer(gradients_of(b), layer.keeps ? sum : Slice<float>{}, rules_.norm);
  layer.value = compress::layer_value(total, elements_in(bucket(b)), rules_.norm);
  ++layer.age;
  const bool reaches = sum.device() == kGhost ? has_turn(b) : !(layer.value < threshold_);
  layer.sends = reaches || (rules_.max_age > 0 && layer.age >= rules_.max_age);
  GhostWork::tell(sum.device(), Work::adding, sum.size_bytes());
  if ((!layer.sends || rules_.keeps_losses) &&
      !layer.keeps) {  // begins to be kept: a copy, since the gradients' place is needed
    const Bucket& here = bucket(b);
    accumulated_.range(here.offset, here.elements).copy_from(arena().gradients().range(here.offset, here.elements));
    layer.keeps = 1;
  }
  if (layer.sends) {
    layer.age = 0;
    ++layer.times_sent;
  }
  layer.select_seconds = seconds_since(begin);
}

Task<> LayerDropSync::talk(Communicator& comm, std::size_t b, StepContext context) {
  Layer& layer = layers_[b];
  if (decides_late()) decide(b);
  const std::vector<int> server{server_of(b)};
  const auto step = static_cast<std::uint32_t>(context.step), held = static_cast<std::uint32_t>(layer.version);
  Leg up = legs().upward(b, context.step, comm.rank(), &this->up(b));
  const LayerHeader mine{step, held, layer.sends ? 1u : 0u};
  co_await send_header(comm, server[0], mine, up);
  const Slice<float> here = gradients_of(b);
  if (layer.sends) {
    const Slice<const float> values = layer.keeps ? accumulated(b) : here;
    if (rules_.keeps_losses) up.decoded = here;
    co_await send_floats(comm, server, values, up);
    if (rules_.keeps_losses) compress::keep_left(accumulated(b), accumulated(b), here);
  }
  const Leg down = legs().downward(b, context.step, &this->down(b));
  const auto answer = co_await recv_header<LayerHeader>(comm, server[0], down);
  require<CommError>(
      answer.step == step && answer.version == held + answer.comes && answer.comes <= 1 && answer.comes >= mine.comes,
      "layerdrop: the server of ", bucket(b).name, " is in step ", answer.step, " and has version ", answer.version,
      ", rank ", comm.rank(), " in step ", step, " has version ", held, ". Resume all of them alike.");
  layer.comes = answer.comes;
  layer.version = answer.version;
  if (layer.comes == 0) co_return;
  co_await recv_floats(comm, server[0], here, down);
}

Task<> LayerDropSync::spread(Communicator& group, std::size_t b) {
  Layer& layer = layers_[b];
  const Slice<std::byte> comes = Slice<std::uint32_t>(&layer.comes, 1).bytes();
  co_await broadcast(group, comes);
  if (layer.comes != 0) co_await PsSync::spread(group, b);
}

void LayerDropSync::arrived(std::size_t b) {
  Layer& layer = layers_[b];
  select_seconds_ += std::exchange(layer.select_seconds, 0);
  if (layer.sends && leads()) layer.keeps = rules_.keeps_losses;
  if (layer.comes == 0) return;
  ++layer.times_received;
  PsSync::arrived(b);
}

void LayerDropSync::end_step() {
  const StepContext& now = context();
  const bool due = threshold_step_ == 0 || std::abs(now.lr - threshold_lr_) > kOtherRate * threshold_lr_ ||
                   (rules_.threshold_every > 0 && now.step - threshold_step_ >= rules_.threshold_every);
  if (std::exchange(valued_, false) && due) {  // a step that was passed over says nothing of layers
    if (decides_late()) flush();
    const auto begin = Clock::now();
    std::vector<compress::LayerSize> sizes;
    for (std::size_t b = 0; b < layers_.size(); ++b) sizes.push_back({layers_[b].value, elements_in(bucket(b))});
    threshold_ = compress::drop_threshold(sizes, rules_.drop_ratio);
    threshold_step_ = now.step;
    threshold_lr_ = now.lr;
    select_seconds_ += seconds_since(begin);
  }
  ++steps_;
  PsSync::end_step();
}

void LayerDropSync::account(std::size_t b, LedgerRow& row) const {
  const Layer& layer = layers_[b];
  row.choice = "layers";
  row.exchanges = steps_;
  row.sent *= static_cast<double>(layer.times_sent) / std::max<double>(1, static_cast<double>(steps_));
  row.more = {static_cast<double>(layer.times_sent), static_cast<double>(layer.times_received)};
  row.oldest = layer.age;
}

/// With a new threshold other workers would first send all that is kept, of all layers at once: it is each one's own.
void LayerDropSync::make_table() {
  table_.row(
      [this](RankState& state) {
        Tensor kept = Tensor::zeros(accumulated_.shape(), DType::f32, accumulated_.device());
        for (std::size_t b = 0; b < layers_.size(); ++b)
          if (layers_[b].keeps)
            kept.range(bucket(b).offset, bucket(b).elements)
                .copy_from(accumulated_.range(bucket(b).offset, bucket(b).elements));
        state.set_of(leaders(), "layerdrop/kept", std::move(kept), put_by());
      },
      [this](const StateDict& state) { state.copy_to(accumulated_, "layerdrop/kept", "what layerdrop keeps"); });
  table_.numbers("layerdrop/steps", {&steps_}, Join::anew, "the state of layerdrop");
  table_.numbers("layerdrop/threshold", {&threshold_, &threshold_lr_, &threshold_step_}, Join::own,
                 "the threshold of layerdrop");
  std::vector<StateTable::Number> numbers;
  for (Layer& l : layers_)
    for (std::int64_t* n : {&l.keeps, &l.age, &l.version, &l.times_sent, &l.times_received}) numbers.push_back(n);
  table_.numbers("layerdrop/layers", std::move(numbers), Join::anew, "the state of layerdrop's layers");
  // A worker that was not there before keeps what others have shared out to it.
  table_.row([](RankState&) {},
             [this](const StateDict&) {
               for (std::size_t b = 0; b < layers_.size(); ++b)
                 if (raw::sum_of_squares(accumulated_.range(bucket(b).offset, bucket(b).elements)) > 0)
                   layers_[b].keeps = 1;
             });
}

}  // namespace laconic::dist
