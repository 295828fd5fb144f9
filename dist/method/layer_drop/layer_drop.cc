#include "dist/method/layer_drop/layer_drop.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/raw.h"
#include "dist/collective/meeting.h"
#include "dist/method/ps/method.h"

namespace laconic::dist {
namespace {

// A change of the learning rate by more than this share asks for a new threshold. Schedules change it in every step.
constexpr double kOtherRate = 0.1;

/// Layer dropping, the workers' half (LayerDropServer is the other): of each layer, a bucket of the plan,
/// the worker adds up its gradients and sends the sum when its value reaches a threshold; until then a placeholder of
/// 12 bytes goes each way, and the layer keeps its values where no worker sent it.
///
///     when a layer's gradient is ready   accum += g;  v = value(accum)                             one pass
///                                        v >= threshold, or too old: send accum, begin anew;  else keep it
///     every so many steps, and when      threshold = Algorithm 1 over the v of this step, this worker's own; from the
///     the learning rate has changed      next step on. Until there is one, everything is sent
///     by more than a tenth since
///     before its next forward            what came, if anything did
///
/// With feedback, the loss of a codec stays behind and is in the next sum that is sent.
///
/// In groups the decision is the group's, on the sum of its gradients: its first member gathers and decides, when the
/// sum is there, and so all layers' values are known at the end of a step only: steps that find a threshold wait for
/// them.
///
/// A ghost's layer has no value, and takes turns: each is sent in a share of 1 - R of the steps, by all workers in the
/// same ones, different layers in different ones. So the way down is as short as the way up, as it is where workers
/// choose alike. Where shares were measured (TrainingFacts::layer_shares) these hold. Then as many groups of workers
/// send a layer in different steps as make the way down longer than the way up.
///
/// Per element, what was sent and what is kept add up to what was accumulated. With a ratio of 0 the bits are those of
/// PsSync. After a flush all workers hold the same bits, which are the server's.
/// source  LayerDrop, sections 4 and 5, Algorithm 1 (settled: R is the share that stays at home; as printed it would be
///         the share sent)
class LayerDropSync final : public PsSync {
 public:
  LayerDropSync(WorkerSide side, Options options, const LayerDropRules& rules)
      : PsSync(std::move(side), std::move(options)),
        rules_(rules),
        accumulated_(arena().make_state()),
        layers_(plan().buckets.size()) {
    make_table();
  }
  ~LayerDropSync() override { halt_what_is_under_way(); }

  void end_step() override {
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
  Slice<const float> kept(std::size_t b) const override {
    return layers_[b].keeps ? Slice<const float>(accumulated(b)) : Slice<const float>{};
  }

 private:
  struct Layer {
    std::int64_t keeps = 0;     // 1: something is put by in accumulated_
    bool sends = false;         // this step's decision
    std::uint32_t comes = 0;    // what the server has answered: 1 or 0
    double select_seconds = 0;  // of this step's decision
    std::int64_t age = 0;       // steps since it was sent
    std::int64_t version = 0;
    double value = 0;
    std::int64_t times_sent = 0, times_received = 0;
  };
  /// Whether layers are decided on by the communication thread: when a group's sum is there, or where that takes a wait
  /// for the device, which backward must not have.
  bool decides_late() const { return grouped() || accumulated_.device().kind == Device::Kind::cuda; }
  Slice<float> accumulated(std::size_t b) const { return part(accumulated_, bucket(b)); }

  /// With a new threshold other workers would first send all that is kept, of all layers at once: it is each one's own.
  void make_table() {
    table_.row(
        [this](RankState& state) {
          Tensor kept = Tensor::zeros(accumulated_.shape(), DType::f32, accumulated_.device());
          for (std::size_t b = 0; b < layers_.size(); ++b)
            if (layers_[b].keeps) part_of(kept, b).copy_from(part_of(accumulated_, b));
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
                   if (raw::sum_of_squares(part_of(accumulated_, b)) > 0) layers_[b].keeps = 1;
               });
  }

  /// Whether it is the turn of a ghost's layer.
  bool has_turn(std::size_t b) const {
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

  void decide(std::size_t b) {
    Layer& layer = layers_[b];
    const Doing select(bucket(b).name, "select", layer.select_seconds);
    const Slice<float> sum = accumulated(b);
    const double total = compress::accumulate_layer(gradients_of(b), layer.keeps ? sum : Slice<float>{}, rules_.norm);
    layer.value = compress::layer_value(total, elements_in(bucket(b)), rules_.norm);
    ++layer.age;
    const bool reaches = sum.device() == kGhost ? has_turn(b) : !(layer.value < threshold_);
    layer.sends = reaches || (rules_.max_age > 0 && layer.age >= rules_.max_age);
    GhostWork::tell(sum.device(), Work::adding, sum.size_bytes());
    if ((!layer.sends || rules_.keeps_losses) &&
        !layer.keeps) {  // begins to be kept: a copy, since the gradients' place is needed
      part_of(accumulated_, b).copy_from(part_of(arena().gradients(), b));
      layer.keeps = 1;
    }
    if (layer.sends) {
      layer.age = 0;
      ++layer.times_sent;
    }
  }

  void filled(std::size_t b) override {
    valued_ = true;
    if (!decides_late()) decide(b);
  }

  Task<> talk(Communicator& comm, std::size_t b, StepContext context) override {
    Layer& layer = layers_[b];
    if (decides_late()) decide(b);
    const int server = server_of(b);
    const auto step = static_cast<std::uint32_t>(context.step), held = static_cast<std::uint32_t>(layer.version);
    const Leg up = legs().upward(b, context.step, comm.rank(), &this->up(b));
    const LayerHeader mine{step, held, layer.sends ? 1u : 0u};
    co_await send_header(comm, server, mine, up);
    const Slice<float> here = gradients_of(b);
    if (layer.sends) co_await push(comm, b, up, layer.keeps ? accumulated(b) : here, rules_.keeps_losses);
    const Leg down = legs().downward(b, context.step, &this->down(b));
    const auto answer = co_await recv_header<LayerHeader>(comm, server, down);
    require<CommError>(
        answer.step == step && answer.version == held + answer.comes && answer.comes <= 1 && answer.comes >= mine.comes,
        "layerdrop: the server of ", bucket(b).name, " is in step ", answer.step, " and has version ", answer.version,
        ", rank ", comm.rank(), " in step ", step, " has version ", held, ". Resume all of them alike.");
    layer.comes = answer.comes;
    layer.version = answer.version;
    if (layer.comes == 0) co_return;
    co_await recv_floats(comm, server, here, down);
  }

  Task<> spread(Communicator& group, std::size_t b) override {
    Layer& layer = layers_[b];
    const Slice<std::byte> comes = Slice<std::uint32_t>(&layer.comes, 1).bytes();
    co_await broadcast(group, comes);
    if (layer.comes != 0) co_await PsSync::spread(group, b);
  }

  void arrived(std::size_t b) override {
    Layer& layer = layers_[b];
    select_seconds_ += std::exchange(layer.select_seconds, 0);
    if (layer.sends && leads()) layer.keeps = rules_.keeps_losses;
    if (layer.comes == 0) return;
    ++layer.times_received;
    PsSync::arrived(b);
  }

  void account(std::size_t b, LedgerRow& row) const override {
    const Layer& layer = layers_[b];
    row.choice = "layers";
    row.exchanges = steps_;
    row.sent *= static_cast<double>(layer.times_sent) / std::max<double>(1, static_cast<double>(steps_));
    row.more = {static_cast<double>(layer.times_sent), static_cast<double>(layer.times_received)};
    row.oldest = layer.age;
  }

  const LayerDropRules rules_;
  Tensor accumulated_;  // laid out like the arena
  std::vector<Layer> layers_;
  double threshold_ = -1;            // everything is sent
  std::int64_t threshold_step_ = 0;  // when it was found; 0: not yet
  double threshold_lr_ = 0;          // the learning rate then
  std::int64_t steps_ = 0;
  bool valued_ = false;  // this step has gradients, and layers have its values by its end
};

/// The serving half of layer dropping: adds the layers that came, in rank order, and updates a layer only if some
/// worker sent it, by momentum and weight decay too; one that nobody sent is left as it is and stays where it is:
///
///     worker 0     header 1, floats ──▶  version 7 = mine?   sum = part 0 + part 2       version 8
///     worker 1     header 0         ──▶  version 7 = mine?   update(sum)          ──▶ to all: header 1, floats
///     worker 2     header 1, floats ──▶  version 7 = mine?   nobody sent it       ──▶ to all: header 0
///
/// Every header names the version, so that a worker provably holds what the server thinks that it holds, and the step,
/// so that nothing is added twice.
/// source  LayerDrop, section 4 (settled: a placeholder counts as zeros in the mean over workers)
/// throws  CommError naming the worker whose version or step is another one
class LayerDropServer final : public ParameterServer {
 public:
  using ParameterServer::ParameterServer;
  Task<> serve(Communicator& comm, const Shard::Unit& unit, StepContext context) override {
    const std::size_t N = workers().size();
    const auto step = static_cast<std::uint32_t>(context.step), held = static_cast<std::uint32_t>(version(unit));
    begin_round(unit, context);
    std::vector<LayerHeader> headers(N);
    std::vector<Transfer> coming;
    std::vector<int> senders;
    try {
      for (std::size_t i = 0; i < N; ++i)
        coming.push_back(comm.recv(workers()[i], Slice<LayerHeader>(&headers[i], 1).bytes()));
      for (std::size_t i = 0; i < N; ++i) {
        const Transfer transfer = coming[i];
        const int r = workers()[i];
        co_await all_of(comm, transfer, r, sizeof(LayerHeader));
        require<CommError>(headers[i].step == step && headers[i].version == held && headers[i].comes <= 1,
                           "server: rank ", r, " is in step ", headers[i].step, " with version ", headers[i].version,
                           " of ", unit.name, ", the server in step ", step, " with version ", held,
                           ". Resume all of them alike.");
        if (headers[i].comes == 1) senders.push_back(r);
      }
    } catch (...) {
      comm.cancel();  // the headers live in this frame
      throw;
    }
    if (!senders.empty()) {
      const Leg up = legs().upward(unit.bucket, context.step, 0);
      const Slice<float> sum = shard().sum(unit);
      co_await recv_sum(comm, senders, sum, up);
      co_await limit(unit, context);
      apply(unit, context);
    } else if (norm() != nullptr) {
      norm()->add(context.step, unit.bucket, 0);
    }
    const Leg down{.moved = &sent()};
    const LayerHeader answer{step, static_cast<std::uint32_t>(version(unit)), senders.empty() ? 0u : 1u};
    for (const int r : workers()) co_await send_header(comm, r, answer, down);
    if (!senders.empty()) co_await send_values(comm, unit, context);
  }
};

/// Layers of small gradients stay at home (LayerDropSync).
class LayerDrop final : public ServedMethod {
 public:
  std::string name() const override { return "layerdrop"; }
  std::string summary() const override { return "ps without layers of small gradients"; }
  Traits traits() const override {
    Traits traits = ServedMethod::traits();
    traits.keeps = "kept layers";
    traits.on_ghosts = true, traits.period = steps_of_turns();
    return traits;
  }

  void settings(Settings& s) override {
    ServedMethod::settings(s);
    s.value(
        "drop-ratio", "R",
        "share of the elements that layerdrop keeps at home [" + number_text(rules_.drop_ratio) + "]",
        [this](const std::string& text, const std::string& where) {
          rules_.drop_ratio = real(text, where, 0, 1, "0.9");
          if (rules_.drop_ratio >= 1) refuse("then nothing would ever be sent", where, "give less than 1, as 0.97");
        },
        [this] { return number_text(rules_.drop_ratio); });
    s.whole_number<std::int64_t>(
        "threshold-every", "K", rules_.threshold_every, 0,
        "steps until layerdrop finds a new threshold, or until the\nrate has changed by a tenth; 0: only then");
    s.value("layerdrop-norm", "mean|l1|l2", "what layerdrop compares: mean magnitude, sum, length [mean]",
            Settings::into(rules_.norm, compress::layer_norm_named),
            [this] { return compress::to_string(rules_.norm); });
    s.whole_number<std::int64_t>("layerdrop-max-age", "A", rules_.max_age, 0,
                                 "a layer is sent at least every A steps; 0: no limit");
    s.choice(
        "layerdrop-unit", unit_, {"module", "parameter", "rows"},
        "what a layer is: weight and bias of one module; each by\nitself; or large matrices in rows too, of `chunk`");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "layer-shares") return std::nullopt;
    if (setting == "fusion" || (setting == "chunk" && unit_ != "rows"))
      return Refusal{"`sync` layerdrop has no use for it", "leave it out: a layer travels as a whole, or not at all"};
    return ServedMethod::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    if (unit_ != "rows")
      plan.chunk_bytes = 0;
    else if (plan.chunk_is_default())
      plan.chunk_bytes = 256 << 10;
    plan.fusion = unit_ == "module" ? PlanOptions::Fusion::module : PlanOptions::Fusion::lazy;
    if (unit_ != "module") plan.bucket_bytes = 0;
  }

  LedgerForm ledger() const override {
    using Unit = LedgerColumn::Unit;
    static constexpr LedgerColumn columns[] = {
        exchanges_as("steps"),
        {"times_sent", "sent", Unit::count, [](const LedgerRow& r) { return r.more.at(0); }},
        {"times_received", "came", Unit::count, [](const LedgerRow& r) { return r.more.at(1); }},
        kSent,
        kUp,
        kDown,
        {"oldest", "age", Unit::count, [](const LedgerRow& r) { return static_cast<double>(r.oldest); }}};
    return {columns, "sent, came: steps in which rank 0 sent the layer, and got it back; age: steps since it was sent"};
  }

  std::string describe(const TrainingFacts& facts) const override {
    std::string text = ServedMethod::describe(facts);
    return text.insert(name().size(), ", R = " + number_text(rules_.drop_ratio));
  }

  std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const override {
    LayerDropRules rules = rules_;
    rules.keeps_losses = std::exchange(options.legs.keeps_losses, false);
    return std::make_unique<LayerDropSync>(std::move(side), std::move(options), rules);
  }
  std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const override {
    return std::make_unique<LayerDropServer>(side.shard, std::move(side.update), std::move(options));
  }

 protected:
  std::optional<double> bytes_of_round(const Bucket&, const Legs&) const override { return std::nullopt; }

 private:
  /// A ghost's layer has its turns in so many steps as often as its share says.
  std::int64_t steps_of_turns() const {
    constexpr std::int64_t kMost = 1000;
    const double share = 1 - rules_.drop_ratio;
    const auto off = [&](std::int64_t steps) {
      const double turns = share * static_cast<double>(steps);
      return std::abs(turns - std::max(1.0, std::round(turns))) / turns;
    };
    std::int64_t steps = 1;
    while (steps < kMost && off(steps) > 1e-6) ++steps;
    return steps;
  }

  LayerDropRules rules_{};
  std::string unit_ = "module";
};

}  // namespace

std::unique_ptr<Method> make_layer_drop() { return std::make_unique<LayerDrop>(); }

}  // namespace laconic::dist
