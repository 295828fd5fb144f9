#include "dist/planner/calibration.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compress/codecs.h"
#include "core/clock.h"
#include "core/random.h"
#include "core/raw.h"
#include "dist/collective/meeting.h"
#include "dist/collective/reduce.h"
#include "dist/method/powersgd/low_rank.h"
#include "dist/method/redsync/residual_tensor.h"

namespace laconic::dist {

// They are sent as JSON.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CodecSpeed, encode, decode)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkCosts, per_added_byte, per_encoded_element, per_decoded_element, per_message,
                                   per_byte, taken_from_computing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Calibration, workers, bytes_per_second, latency_seconds, work, codecs)

namespace {

constexpr std::size_t kElements = 1 << 18;  // whose sums and codecs are timed
constexpr int kHops = 8, kWarmUpHops = 3;
constexpr std::size_t kMessageBytes = 256 << 10;  // as pieces of collectives (pieces_of)
constexpr int kMostMessages = 32;
constexpr double kEnoughSeconds = 0.05;

/// The least time of a few runs, in seconds.
template <class F>
double least_seconds(F run) {
  double least = 1;
  for (int i = 0; i < 7; ++i) {
    const auto begin = Clock::now();
    run();
    least = std::min(least, seconds_since(begin));
  }
  return least;
}

std::vector<float> normal_values() {
  std::vector<float> x(kElements);
  Random random(0, Purpose::test);
  for (float& v : x) v = 0.01f * random.normal();
  return x;
}

/// Of the ranks of this process.
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

/// Every rank sends so many messages to the right at once. The first half fills buffers on the way, and uses up what a
/// shaped link lets pass at once: the second is timed.
Task<> stream(Communicator& comm, Slice<std::byte> out, Slice<std::byte> in, int messages, Stopped& half) {
  const int left = (comm.rank() + comm.size() - 1) % comm.size(), right = (comm.rank() + 1) % comm.size();
  co_await barrier(comm);
  const auto part = [](Slice<std::byte> all, int i) {
    return all.sub(static_cast<std::size_t>(i) * kMessageBytes, kMessageBytes);
  };
  std::vector<Transfer> receiving, sending;
  for (int i = 0; i < messages; ++i) receiving.push_back(comm.recv(left, part(in, i)));
  for (int i = 0; i < messages; ++i) sending.push_back(comm.send(right, part(out, i)));
  Clock::time_point begin;
  double cpu = 0;
  for (int i = 0; i < messages; ++i) {
    co_await all_of(comm, receiving[static_cast<std::size_t>(i)], left, kMessageBytes);
    if (i + 1 == messages / 2) begin = Clock::now(), cpu = process_cpu_seconds();
  }
  half = {seconds_since(begin), process_cpu_seconds() - cpu};
  for (const Transfer& each : sending) co_await each;
}

/// The processors that this process may use.
int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

/// What is the same in all processes of one machine, containers and network namespaces included.
std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

void measure_network(const Worker& worker, Calibration& mine) {
  const int here = ranks_under_mpirun() > 0 ? 1 : worker.size;  // whose work the CPU time is
  Stopped hop;
  worker.run("calibration of latency", [&](Communicator& comm) { return hops(comm, hop); });
  mine.latency_seconds = hop.seconds;
  mine.work.per_message = std::min(hop.cpu_seconds / here, hop.seconds) / 2;  // sending one, and taking one
  std::vector<std::byte> out(kMostMessages * kMessageBytes), in(out.size());
  for (int messages = 2; messages <= kMostMessages; messages *= 4) {
    Stopped half;
    worker.run("calibration of the rate",
               [&](Communicator& comm) { return stream(comm, slice(out), slice(in), messages, half); });
    const double bytes = messages / 2 * static_cast<double>(kMessageBytes);
    mine.bytes_per_second = bytes / std::max(1e-9, half.seconds);
    const double cpu = std::min(half.cpu_seconds / here, half.seconds);
    mine.work.per_byte = std::max(0.0, cpu - messages * mine.work.per_message) / (2 * bytes);
    std::vector<double> all{half.seconds};
    worker.run("calibration, whether that is enough",
               [&](Communicator& comm) { return sum_over_ranks(comm, slice(all)); });
    if (all[0] >= kEnoughSeconds * worker.size) break;
  }
}

}  // namespace

WorkCosts measure_sums() {
  const std::vector<float> x = normal_values();
  std::vector<float> y(kElements, 0.5f);
  return {.per_added_byte = least_seconds([&] { raw::add_into(slice(y), slice(x)); }) / (4.0 * kElements)};
}

CodecSpeed measure_codec(const std::string& name) {
  const auto codec = compress::make_codec(name);
  if (!codec) return {};
  const std::vector<float> x = normal_values();
  std::vector<float> y(kElements);
  compress::Bytes payload;
  const compress::Key key{};
  const double encode = least_seconds([&] {
    payload.clear();
    codec->encode(slice(x), key, payload);
  });
  return {encode / kElements, least_seconds([&] { codec->decode(payload.slice(), slice(y)); }) / kElements};
}

ResidualSpeed measure_residual(const Choice& choice) {
  constexpr std::int64_t kRows = 1 << 10, kColumns = 1 << 11;  // more than caches hold
  constexpr int kWarmUp = 4, kSteps = 8;                       // a selector's floor for candidates settles
  const auto p = std::make_shared<Parameter>(Shape{kRows, kColumns}, Role::linear);
  const ParameterArena arena({p});
  const Tensor velocity = arena.make_state(), residual = arena.make_state();
  Random random(0, Purpose::test);
  for (float& x : p->grad().slice()) x = 0.01f * random.normal();
  ResidualSpeed least{1, 1, 1};
  const auto time = [](double& least, double elements, const auto& run) {
    const auto begin = Clock::now();
    run();
    least = std::min(least, seconds_since(begin) / elements);
  };
  constexpr auto kAll = static_cast<double>(kRows * kColumns);
  const auto steps = [&](const auto& step) {
    for (int s = 0; s < kWarmUp + kSteps; ++s) {
      if (s == kWarmUp) least = {1, 1, 1};
      step(s);
    }
  };
  if (choice.rank > 0) {
    LowRank matrix(*p, choice.rank, residual, 0);
    steps([&](int s) {
      time(least.gather, kAll, [&] { matrix.gather(p->all_rows()), matrix.project(s); });
      time(least.select, kAll, [&] { matrix.fit(); });
      time(least.scatter, kAll, [&] { matrix.approximate(1); });
    });
    return least;
  }
  const SparseOptions options;
  ResidualTensor tensor(*p, choice, options, 0, {.momentum = 0.9f}, velocity, residual);
  compress::Bytes message;
  std::vector<compress::SparseView> views;
  steps([&](int s) {
    tensor.begin(options.density);
    time(least.gather, kAll, [&] { tensor.gather(p->all_rows(), 1); });
    message.clear();
    time(least.select, kAll, [&] {
      tensor.choose(s);
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

VirtualNetwork Calibration::network(const std::string& codec) const {
  VirtualNetwork n{.ranks = workers, .work = work};
  n.links.all.bits_per_second = std::max<std::int64_t>(1000, std::llround(8 * bytes_per_second));
  n.links.all.latency = LinkDuration(std::llround(1e9 * std::max(0.0, latency_seconds - 2 * work.per_message)));
  if (const auto found = codecs.find(codec); found != codecs.end())
    n.work.per_encoded_element = found->second.encode, n.work.per_decoded_element = found->second.decode;
  return n;
}

std::string Calibration::to_string() const {
  if (workers == 1) return "1 worker";
  return fmt::format("{} workers, {:.4g} Mbit/s, {:.3g} us a message, adding {:.1f} GB/s", workers,
                     8e-6 * bytes_per_second, 1e6 * latency_seconds, 1e-9 / work.per_added_byte);
}

std::vector<Calibration> calibrate(const Worker& worker, int threads, const std::vector<std::string>& codecs) {
  Calibration mine{.workers = worker.size};
  if (worker.size > 1) measure_network(worker, mine);
  const auto meet = [&](const char* what, const std::string& text) {
    std::vector<std::string> all;
    worker.run(what, [&](Communicator& comm) { return allgather_blobs(comm, text, all); });
    return all;
  };
  // They measure at the same time: they share memory, and perhaps cores.
  const std::string id = concat(machine_id(), " ");
  const std::vector<std::string> places = meet("calibration of machines", concat(id, threads));
  mine.work.per_added_byte = measure_sums().per_added_byte;
  for (const std::string& codec : codecs) mine.codecs[codec] = measure_codec(codec);
  int computing = 0, neighbours = 0;
  for (const std::string& place : places)
    if (place.rfind(id, 0) == 0) ++neighbours, computing += std::atoi(place.c_str() + id.size());
  const double left = std::max(0, cores() - computing);
  mine.work.taken_from_computing = std::max(0.0, 1 - left / std::max(1, neighbours));
  std::vector<Calibration> all;
  for (const std::string& text : meet("calibration", to_json(mine)))
    all.push_back(calibration_from(text, "what a rank has measured"));
  return all;
}

std::string to_json(const Calibration& figures) { return nlohmann::json(figures).dump(); }

Calibration calibration_from(const std::string& json, const std::string& source) {
  try {
    return nlohmann::json::parse(json).get<Calibration>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat(source, " has no figures of a group of ranks (", e.what(), ")"));
  }
}

Calibration slowest(const std::vector<Calibration>& ranks) {
  Calibration worst = ranks.front();
  for (const Calibration& c : ranks) {
    worst.bytes_per_second = std::min(worst.bytes_per_second, c.bytes_per_second);
    worst.latency_seconds = std::max(worst.latency_seconds, c.latency_seconds);
    for (double WorkCosts::*cost :
         {&WorkCosts::per_added_byte, &WorkCosts::per_message, &WorkCosts::per_byte, &WorkCosts::taken_from_computing})
      worst.work.*cost = std::max(worst.work.*cost, c.work.*cost);
    for (const auto& [name, speed] : c.codecs) {
      CodecSpeed& w = worst.codecs[name];
      w = {std::max(w.encode, speed.encode), std::max(w.decode, speed.decode)};
    }
  }
  return worst;
}

}  // namespace laconic::dist
