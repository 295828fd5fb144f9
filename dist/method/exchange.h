#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/bytes.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "dist/collective/allgatherv.h"
#include "dist/method/bucket_sync.h"
#include "dist/method/ledger_account.h"

namespace laconic::dist {

/// Where a part lies, and what it is made with.
struct PartPlace {
  std::string name;  ///< of the parameter, of its rows, or of the bucket
  Shape shape{};
  std::int64_t offset = 0, elements = 0;  ///< in the arena; with the padding between a bucket's parameters
  std::vector<Held> parameters{};         ///< their offsets count from the part's first element
  std::size_t number = 0;                 ///< the place of its parameter in the arena, or the number of its bucket
  int rank = 0, workers = 1;
  std::uint64_t seed = 0;
  std::vector<Tensor> state{};  ///< its part of each tensor of the table, in host memory; none where only sizes count
};

/// The parts of a bucket, without state.   whole : all of it is one
std::vector<PartPlace> places_of(const Bucket& bucket, std::size_t number, bool whole, int rank, int workers,
                                 std::uint64_t seed, const std::vector<std::shared_ptr<Parameter>>& parameters);

/// What all workers sent of a part, by rank.
class Theirs {
 public:
  Theirs(std::string who, const std::string& part, std::vector<Slice<const std::byte>> messages)
      : who_(std::move(who)), part_(part), messages_(std::move(messages)) {}
  int size() const { return static_cast<int>(messages_.size()); }
  Slice<const std::byte> operator[](int r) const { return messages_[static_cast<std::size_t>(r)]; }
  /// f(message of rank r, r) for each in rank order. A DataError or ShapeError of f becomes a CommError that names rank
  /// and part.
  template <class F>
  void each(F f) const {
    for (int r = 0; r < size(); ++r) {
      try {
        f((*this)[r], r);
      } catch (const DataError& e) {
        refuse(r, e);
      } catch (const ShapeError& e) {
        refuse(r, e);
      }
    }
  }

 private:
  [[noreturn]] void refuse(int r, const Error& e) const {
    throw CommError(concat(who_, ": what rank ", r, " sent of ", part_, " is no message: ", e.what()));
  }
  const std::string who_;
  const std::string& part_;
  const std::vector<Slice<const std::byte>> messages_;
};

/// What a method does with one part of the gradients on one rank: with a parameter (or the rows of it that one message
/// holds), or with all that one message holds. All memory is the host's. Calls for one part never overlap.
class Part {
 public:
  explicit Part(PartPlace place) : place_(std::move(place)) {}
  virtual ~Part() = default;

  /// The length of its message in bytes; in shares, of the message for rank `to`.
  virtual std::size_t bytes(int to) const = 0;
  /// The length in bytes that may be expected. Where lengths vary, bytes() is the longest.
  virtual double expected_bytes() const { return static_cast<double>(bytes(0)); }
  /// In shares: the length of what rank `by` makes of all messages.
  virtual std::size_t joined_bytes(int by) const { return bytes(by); }
  /// Memory that making messages takes besides.
  virtual double working_bytes() const { return 0; }
  /// Elements that take() adds; 0: all.
  virtual std::size_t scattered() const { return 0; }

  /// Takes up a gradient of size() elements. Unless overridden it adds it to the first tensor of the table, a residual.
  /// returns  the tensor that make() takes its message out of, for the ledger and the watch; undefined if there is none
  virtual Tensor gather(Slice<const float> gradient, const StepContext& context);
  /// Appends a message to `out`.
  virtual void make(compress::Bytes& out, int to) = 0;
  /// In shares: appends what this rank makes of the messages that came to it.
  virtual void join(const Theirs&, compress::Bytes&) {}
  /// Writes the gradient that the update goes by, from the messages of all; in shares, from what each has made.
  virtual void take(const Theirs& all, Slice<float> gradient) = 0;
  /// After a dense first step the sum over workers stands in `gradient`.
  virtual void take_sum(Slice<float> /*gradient*/) {}

  /// For the ledger: elements and bytes that this rank sends of the i-th parameter in a step, and, if it keeps account
  /// of choices, which elements were chosen, and how many of them some rank has sent.
  struct Sent {
    double elements, bytes;
  };
  virtual Sent sent(std::size_t i) const {
    return {static_cast<double>(place_.parameters[i].elements), (place_.workers - 1) * static_cast<double>(bytes(0))};
  }
  virtual Slice<const std::uint32_t> chosen() const { return {}; }
  virtual std::size_t united() const { return 0; }

  /// Saves what the part keeps besides the table. The base puts the part's name in front.
  virtual void save(StateDict&) const {}
  virtual void load(const StateDict&) {}

  const PartPlace& place() const { return place_; }
  std::size_t size() const { return static_cast<std::size_t>(place_.elements); }

 protected:
  Slice<float> state(std::size_t i) const { return place_.state[i].slice(); }
  const Tensor& state_tensor(std::size_t i) const { return place_.state[i]; }

 private:
  const PartPlace place_;
};

/// What a method's exchange is like.
struct ExchangeForm {
  /// A tensor that every worker keeps, laid out like the arena; zeros at first.
  struct State {
    std::string name;
    Join join;
    std::string what;  ///< for errors: "the momentum of demo"
  };
  enum class Result : std::uint8_t { sum, mean, final };

  std::string name{};                     ///< of the method, for errors
  std::string prefix{};                   ///< of names in checkpoints
  std::vector<State> state{};             ///< the table
  const char* operation = "messages of";  ///< for errors: "coefficients of", and then the bucket
  const char* span = "select";            ///< for traces: what making messages is
  std::string choice = "part";            ///< for the ledger
  bool whole = false;                     ///< a part is all that a message holds, else a parameter or rows of one
  bool varies = false;                    ///< lengths of messages vary
  /// Not null: each rank makes something of one share of every message, and tells all: "averaged". Else all messages go
  /// to all.
  const char* joined = nullptr;
  Result result = Result::sum;  ///< what take() writes: a sum over workers, their mean, or what is neither
  bool dense_first = false;     ///< the first step's gradients are summed
  bool by_choice = false;       ///< the ledger keeps account of chosen elements, else of squares alone
  // For simulations: whether gather() and join() cost something.
  bool gathers = true, joins_by_choice = false;
};

using MakePart = std::function<std::unique_ptr<Part>(PartPlace)>;

/// Bytes that a worker sends when every message of the plan travels once; an estimate where lengths vary.
double expected_exchange_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                               const TrainingFacts& facts, const ExchangeForm& form, const MakePart& make);

/// A worker's half of a method that exchanges compressed gradients: parts of the plan's buckets, each compressed by the
/// method (Part). Here is all that such methods have in common:
///
///     when a bucket's gradients are ready     gather and make                   on the compute thread
///     on its way                              allgatherv of all messages
///                                             in shares: alltoallv, join, allgatherv
///     before its next forward                 take, and the ordinary update
///
/// and state with checkpoints ("NAME/" and the form's names; "NAME/PARAMETER/" what parts keep), the ledger, traces,
/// times, memory, simulation, and errors. Parts compute on the host. Gradients of a CUDA model come there and go back
/// on the communication thread, which computes there too, so that no wait for the device holds up backward; not where
/// somebody watches.
///
///     message, little-endian     parts, one after the other; where lengths vary, each with n : u32 in front
///
/// After a flush all ranks hold the same bits, if they began with the same, whatever the overlap.
///   cost     (N-1) (n + 4) bytes sent by each of N ranks for n bytes; in shares 2 (N-1)/N n
///   throws   CommError if a rank is lost, or naming the rank whose message is none
class Exchange : public BucketSync {
 public:
  /// `make` is called in the constructor alone.
  Exchange(WorkerSide side, ExchangeForm form, const MakePart& make);
  ~Exchange() override { halt_what_is_under_way(); }

  double message_bytes() const override;
  std::vector<LedgerRow> ledger() const override;

 protected:
  const WorkerSide& side() const { return side_; }
  bool on_ghosts() const { return arena().gradients().device() == kGhost; }
  std::vector<Part*> parts() const;
  /// The gradient of these rows stands in its place, and is about to be gathered. Compute thread; not on ghosts.
  virtual void before_gather(Parameter&, Rows) {}
  /// What take() wrote stands in the place of the gradient.
  virtual void update(Parameter& p, Rows rows, const StepContext& context) { side_.update(p, rows, context); }

 private:
  struct Account {  // of a parameter, or of a bucket's rows of one
    Parameter& parameter;
    LedgerAccount ledger;
  };
  struct Unit {
    std::unique_ptr<Part> part{};
    std::size_t first = 0;            // element of the bucket
    std::vector<Account> accounts{};  // by parameter of the part
  };
  struct Message {  // of a bucket
    std::vector<Unit> units;
    std::size_t most = 0, most_joined = 0;  // bytes: the longest that a rank may send
    std::vector<compress::Bytes> to;        // one for all; in shares, by rank
    Gathered from;                          // in shares
    compress::Bytes joined;
    Gathered all;
    Pinned here;         // the gradients of a CUDA device
    double seconds = 0;  // that the communication thread has computed
  };
  bool is_dense(std::size_t b) const { return form_.dense_first && context_of(b).update() == 1; }
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  Task<> run(Communicator& comm, std::size_t bucket);
  void make(std::size_t bucket, Slice<const float> gradients);
  void make_of_ghosts(std::size_t bucket);
  void make_part(Unit& unit, std::size_t bucket, Slice<const float> gradient);
  void join(std::size_t bucket);
  void take(std::size_t bucket, Slice<float> gradients);
  std::vector<Theirs> theirs(std::size_t bucket, bool joined) const;

  const WorkerSide side_;
  const ExchangeForm form_;
  const bool late_;  // the communication thread makes messages
  std::vector<Tensor> state_;
  std::vector<Message> messages_;  // by bucket
  compress::Bytes part_;           // one whose length varies
};

/// A method whose worker is an Exchange. A method of one's own says its name and what a part does.
class ExchangeMethod : public Method {
 public:
  /// Here: a residual of what has not been sent. The method's name need not be said again.
  virtual ExchangeForm form(const TrainingFacts& facts) const;
  virtual std::unique_ptr<Part> part(PartPlace place) const = 0;

  Traits traits() const override { return {.on_ghosts = true, .keeps = "state"}; }
  void check(const TrainingFacts& facts) const override { refuse_copies(facts); }
  std::optional<Refusal> refuses(const std::string& setting) const override;
  void shape(PlanOptions& plan, const TrainingFacts& facts) const override;
  std::unique_ptr<Strategy> worker(WorkerSide side) const override;
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override;
  /// Times a part of a million elements.
  void measure(WorkCosts& work, const TrainingFacts& facts) const override;
  LedgerForm ledger() const override;

 protected:
  ExchangeForm named_form(const TrainingFacts& facts) const;
};

}  // namespace laconic::dist
