// Measures ranks and network for planning (calibration.h).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "compress/codecs.h"
#include "compress/low_rank.h"
#include "core/base/clock.h"
#include "core/base/cores.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/method/redsync/residual_tensor.h"
#include "dist/predict/calibration.h"
#include "dist/predict/stream_rate.h"

namespace laconic::dist {
namespace {

constexpr std::size_t kSummed = 1 << 18;  // elements
constexpr int kRuns = 7;
constexpr int kHops = 8, kWarmUpHops = 3;
constexpr std::size_t kReceiving = 16;  // receives that are posted ahead

std::vector<float> normal_values(std::size_t elements) {
  std::vector<float> x(elements);
  Random random(0, Purpose::test);
  for (float& v : x) v = 0.01f * random.normal();
  return x;
}

/// The time that measuring took, of the ranks of this process.
struct Stopped {
  double seconds = 0, cpu_seconds = 0;
};

/// Every rank sends a few bytes to the right and awaits them from the left, again and again.
Task<> hops(Communicator& comm, Stopped& one) {
  const int left = (comm.rank() + comm.size() - 1) % comm.size(), right = (comm.rank() + 1) % comm.size();
  std::vector<std::byte> out(4), in(4);
  Clock::time_point begin;
  double cpu = 0;
  for (int i = -kWarmUpHops; i < kHops; ++i) {
    if (i == 0) begin = Clock::now(), cpu = process_cpu_seconds();
    co_await exchange(comm, right, slice(out), left, slice(in));
  }
  one = {seconds_since(begin) / kHops, (process_cpu_seconds() - cpu) / kHops};
}

/// What a rank does in a stream from some ranks to the next ones.
struct Sides {
  bool sends = true, receives = true;
};

/// Every rank sends two messages to the right, sleeps until those from the left must have come, and takes them: so no
/// CPU time is spent on waiting, of which a slow link has far more than of work. They are fewer bytes than a socket
/// holds.   cpu : of the ranks of this process
Task<> two_at_rest(Communicator& comm, std::chrono::duration<double> rest, Slice<std::byte> out, Slice<std::byte> in,
                   double& cpu) {
  const int left = (comm.rank() + comm.size() - 1) % comm.size(), right = (comm.rank() + 1) % comm.size();
  const std::size_t bytes = out.size();
  co_await barrier(comm);
  const double begin = process_cpu_seconds();
  Transfer receiving[] = {comm.recv(left, in.first(bytes)), comm.recv(left, in.sub(bytes, bytes))};
  Transfer sending[] = {comm.send(right, out), comm.send(right, out)};
  std::this_thread::sleep_for(rest);
  for (Transfer& each : receiving) co_await all_of(comm, each, left, bytes);
  for (Transfer& each : sending) co_await each;
  cpu = process_cpu_seconds() - begin;
}

/// All messages are handed over at once, and come one after the other.   out : [bytes]   in : [kReceiving bytes]
///   arrivals : in seconds
Task<> stream(Communicator& comm, StreamSize size, Sides part, Slice<std::byte> out, Slice<std::byte> in,
              std::vector<double>& arrivals) {
  const int left = (comm.rank() + comm.size() - 1) % comm.size(), right = (comm.rank() + 1) % comm.size();
  std::vector<Transfer> receiving, sending;
  const auto receive_next = [&] {
    const std::size_t i = receiving.size();
    if (i < size.messages) receiving.push_back(comm.recv(left, in.sub(i % kReceiving * size.bytes, size.bytes)));
  };
  co_await barrier(comm);
  if (part.receives)
    for (std::size_t i = 0; i < kReceiving; ++i) receive_next();
  const auto begin = Clock::now();
  if (part.sends)
    for (std::size_t i = 0; i < size.messages; ++i) sending.push_back(comm.send(right, out.first(size.bytes)));
  for (std::size_t i = 0; i < receiving.size(); ++i) {
    co_await all_of(comm, receiving[i], left, size.bytes);
    arrivals.push_back(seconds_since(begin));
    receive_next();
  }
  for (const Transfer& each : sending) co_await each;
}

/// CPU seconds that a byte takes to be sent, and as many to be taken: what larger messages cost more than small ones.
///   rate : of the link, equal on all ranks
double work_per_byte(const Worker& worker, double rate, double latency, int ranks_here) {
  constexpr std::size_t kSmall = 16, kLarge = 16 << 10;
  constexpr int kRounds = 5;
  constexpr double kLongest = 0.2;  // seconds of a rest: below 1.3 Mbit/s a part of the waiting counts
  std::vector<std::byte> out(kLarge), in(2 * kLarge);
  const auto median_cpu = [&](std::size_t bytes) {
    const double rest = std::min(kLongest, 2e-3 + 2 * latency + 3 * static_cast<double>(bytes) / rate);
    std::vector<double> cpu(kRounds);
    for (double& round : cpu)
      worker.run("calibration of a byte's work", [&](Communicator& comm) {
        return two_at_rest(comm, std::chrono::duration<double>(rest), slice(out).first(bytes), slice(in), round);
      });
    std::nth_element(cpu.begin(), cpu.begin() + kRounds / 2, cpu.end());
    return cpu[kRounds / 2] / ranks_here;
  };
  return std::max(0.0, median_cpu(kLarge) - median_cpu(kSmall)) / (4.0 * (kLarge - kSmall));
}

/// Streams between workers, from memory that lives as long as this.
class Streams {
 public:
  explicit Streams(const Worker& worker) : worker_(worker) {}

  /// When each message has come.
  std::vector<double> run(const StreamSize& size, Sides part) {
    out_.resize(std::max(out_.size(), size.bytes)), in_.resize(std::max(in_.size(), kReceiving * size.bytes));
    std::vector<double> arrivals;
    worker_.run("calibration of the rate",
                [&](Communicator& comm) { return stream(comm, size, part, slice(out_), slice(in_), arrivals); });
    return arrivals;
  }
  /// The rate while nothing comes the other way. Neighbours in the ring take turns: no rank sends and receives at once.
  double one_way(const StreamSize& size) {
    const int N = worker_.size, left = (worker_.rank + N - 1) % N;
    const auto turn_of = [N](int rank) { return N % 2 == 1 && rank == N - 1 ? 2 : rank % 2; };
    double rate = 0;
    for (int turn = 0; turn < 2 + N % 2; ++turn) {
      const Sides part{.sends = turn_of(worker_.rank) == turn, .receives = turn_of(left) == turn};
      const std::vector<double> arrivals = run(size, part);
      if (part.receives) rate = rate_of(size, arrivals);
    }
    return rate;
  }

 private:
  const Worker& worker_;
  std::vector<std::byte> out_, in_;
};

void measure_network(const Worker& worker, bool one_way, Calibration& mine) {
  const int here = ranks_under_mpirun() > 0 ? 1 : worker.size;  // whose work the CPU time is
  Stopped hop;
  worker.run("calibration of latency", [&](Communicator& comm) { return hops(comm, hop); });
  mine.latency_seconds = hop.seconds;
  mine.work.per_message = std::min(hop.cpu_seconds / here, hop.seconds) / 2;  // sending one, and taking one
  Streams streams(worker);
  StreamSize size;
  double rate = 0;  // the mean over ranks
  std::optional<StreamSize> next = kFirstStream;
  for (int number = 1; next; ++number) {
    size = *next;
    const std::vector<double> arrivals = streams.run(size, {});
    mine.bytes_per_second = rate_of(size, arrivals);
    std::vector<double> all{mine.bytes_per_second, long_enough(size, arrivals) ? 1.0 : 0.0};
    worker.run("calibration, whether that is enough",
               [&](Communicator& comm) { return sum_over_ranks(comm, slice(all)); });
    rate = all[0] / worker.size;
    next = next_stream(number, size, rate, all[1] == worker.size);
  }
  std::vector<double> latency{hop.seconds};
  worker.run("calibration, the mean latency", [&](Communicator& comm) { return sum_over_ranks(comm, slice(latency)); });
  mine.work.per_byte = work_per_byte(worker, rate, latency[0] / worker.size, here);
  if (one_way) mine.one_way_bytes_per_second = streams.one_way(size);
}

}  // namespace

WorkCosts measure_sums() {
  const std::vector<float> x = normal_values(kSummed);
  std::vector<float> y(kSummed, 0.5f);
  return {.per_added_byte = least_seconds(kRuns, [&] { raw::add_into(slice(y), slice(x)); }) / (4.0 * kSummed)};
}

CodecSpeed measure_codec(const std::string& name, std::int64_t elements) {
  const auto codec = compress::make_codec(name);
  if (!codec) return {};
  const std::vector<float> x = normal_values(static_cast<std::size_t>(elements));
  std::vector<float> y(x.size());
  compress::Bytes payload;
  const compress::Key key{};
  const double encode = least_seconds(kRuns, [&] {
    payload.clear();
    codec->encode(slice(x), key, payload);
  });
  const double decode = least_seconds(kRuns, [&] { codec->decode(payload.slice(), slice(y)); });
  return {encode / static_cast<double>(elements), decode / static_cast<double>(elements)};
}

ResidualSpeed measure_residual(const Choice& choice, double density, std::int64_t elements) {
  constexpr std::int64_t kRows = 1 << 10;
  constexpr int kWarmUp = 4, kSteps = 8;  // a selector's floor for candidates settles
  const Shape shape = choice.rank > 0 ? Shape{kRows, elements / kRows} : Shape{elements};
  const auto p = std::make_shared<Parameter>(shape, Role::linear);
  const auto all = static_cast<double>(elements);
  const ParameterArena arena({p});
  const Tensor velocity = arena.make_state(), residual = arena.make_state();
  Random random(0, Purpose::test);
  for (float& x : p->grad().slice()) x = 0.01f * random.normal();
  ResidualSpeed least{1, 1, 1};
  const auto time = [](double& least, double count, const auto& run) {
    const auto begin = Clock::now();
    run();
    least = std::min(least, seconds_since(begin) / count);
  };
  const auto steps = [&](const auto& step) {
    for (int s = 0; s < kWarmUp + kSteps; ++s) {
      if (s == kWarmUp) least = {1, 1, 1};
      step(s);
    }
  };
  if (choice.rank > 0) {
    compress::LowRank matrix(*p, choice.rank, residual, 0);
    steps([&](int s) {
      time(least.gather, all, [&] { matrix.gather(p->all_rows()), matrix.project(s); });
      time(least.select, all, [&] { matrix.fit(); });
      time(least.scatter, all, [&] { matrix.approximate(1); });
    });
    return least;
  }
  const SparseOptions options;  // which it refers to
  ResidualTensor tensor(*p, choice, options, {}, {.momentum = 0.9f}, velocity, residual);
  compress::Bytes message;
  std::vector<compress::SparseView> views;
  steps([&](int s) {
    tensor.begin(density);
    time(least.gather, all, [&] { tensor.gather(p->all_rows(), 1); });
    message.clear();
    time(least.select, all, [&] {
      tensor.choose(s).run(kCpu);
      tensor.wire().encode(tensor.indices(), tensor.values(), tensor.elements(), message);
    });
    const auto chosen = static_cast<double>(std::max<std::size_t>(1, tensor.indices().size()));
    time(least.scatter, chosen, [&] {
      views.resize(tensor.wire().read(message.slice(), tensor.elements(), views, 0));
      compress::scatter_add(views, -1e-3f, p->value().slice());
    });
  });
  return least;
}

std::vector<Calibration> calibrate(const Worker& worker, const CalibrationOptions& options) {
  Calibration mine{.workers = worker.size};
  if (worker.size > 1) measure_network(worker, options.one_way, mine);
  // They measure at the same time: they share memory, and perhaps cores.
  const Cores cores = cores_of_process();
  const std::string id = concat(machine_id(), " ", to_text(cores), " ");
  const std::vector<std::string> places = texts_of_all(worker, "calibration of machines", concat(id, options.threads));
  mine.work.per_added_byte = measure_sums().per_added_byte;
  for (const std::string& codec : options.codecs) mine.codecs[codec] = measure_codec(codec);
  for (const std::int64_t elements : options.sizes) {
    SpeedAtSize speed{.elements = elements, .residual = measure_residual(options.choice, Dispatch().density, elements)};
    for (const std::string& codec : options.codecs) speed.codecs[codec] = measure_codec(codec, elements);
    mine.sizes.push_back(std::move(speed));
  }
  int computing = 0, neighbours = 0;
  for (const std::string& place : places)
    if (place.rfind(id, 0) == 0) ++neighbours, computing += std::atoi(place.c_str() + id.size());
  const double usable = cores.usable(), left = std::max(0.0, usable - computing);
  mine.threads_per_core = std::max(1.0, computing / usable);
  mine.work.taken_from_computing = std::max(0.0, 1 - left / std::max(1, neighbours));
  std::vector<Calibration> all;
  for (const std::string& text : texts_of_all(worker, "calibration", to_json(mine)))
    all.push_back(calibration_from(text, "what a rank has measured"));
  return all;
}

std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace laconic::dist
