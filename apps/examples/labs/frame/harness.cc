#include "harness.h"

#include <laconic/core/base/clock.h>
#include <laconic/dist/engine/virtual_time.h>
#include <laconic/dist/world.h>

#include <cmath>
#include <cstdio>
#include <thread>

namespace lab {

void Checks::check(const std::string& what, const std::function<void()>& holds) {
  ++all_;
  try {
    holds();
    ++good_;
    std::printf("ok       %s\n", what.c_str());
  } catch (const std::exception& why) {
    std::printf("not yet  %s: %s\n", what.c_str(), why.what());
  }
}

int Checks::end(const std::function<void()>& then) const {
  if (good_ < all_) {
    std::printf("%d of %d checks hold. The place to fill in is in lab%d.cc.\n", good_, all_, lab_);
    return 1;
  }
  std::printf("Lab %d is done.\n\n", lab_);
  then();
  return 0;
}

void on_virtual_ranks(int N, const std::function<void(const Rank&)>& body) {
  // Work for messages takes no time here, but its order counts: they move while a rank computes, not when it waits.
  const VirtualNetwork network{.ranks = N, .links = kLink, .work = {.taken_from_computing = 1}};
  run_in_virtual_time(network, [&](VirtualEngine& engine) {
    body({engine, [&] { return engine.now(); }, [&](double seconds) { engine.compute(seconds); }});
  });
}

void on_emulated_link(const std::function<void(const Rank&)>& body) {
  run_workers({.workers = kRanks, .link = kLink}, [&](Worker& worker) {
    const auto begin = Clock::now();
    body({worker.engine, [&] { return seconds_since(begin); },
          [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }});
  });
}

double seconds_on_emulated_link(const std::function<Task<>(Communicator&)>& exchange) {
  double seconds = 0;
  on_emulated_link([&](const Rank& rank) {
    std::function<Task<>(Communicator&)> own = exchange;
    for (int i = 0; i < 2; ++i) {
      const double begin = rank.now();
      rank.engine.run("your exchange", [&](Communicator& comm) { return own(comm); });
      if (rank.engine.rank() == 0) seconds = rank.now() - begin;
    }
  });
  return seconds;
}

Training::Result Training::run(const Rank& rank) const {
  Engine& engine = rank.engine;
  std::vector<std::shared_ptr<Parameter>> registered;  // in the order of forward
  for (int i = 0; i < kLayers; ++i) {
    registered.push_back(std::make_shared<Parameter>(Shape{kElements}, Role::linear));
    registered.back()->info.name = "layer " + std::to_string(i + 1);
    raw::fill(registered.back()->value(), 0);
  }
  const ParameterArena arena(registered);
  const TrainingFacts facts{.workers = engine.size(), .overlap = overlap};
  const std::size_t bytes = kElements * sizeof(float) + 64;  // with padding
  const Plan plan = make_plan(arena.parameters(),
                              {.bucket_bytes = static_cast<std::size_t>(layers_per_bucket) * bytes, .chunk_bytes = 0});
  require<Error>(static_cast<int>(plan.buckets.size()) == buckets(), "the frame is broken: ", plan.buckets.size(),
                 " buckets");
  const Update update = [](Parameter& p, Rows, const StepContext& context) {
    raw::axpy(p.value(), static_cast<float>(-context.lr * context.gradient_scale), p.grad());
  };
  const auto strategy = make({.facts = facts, .arena = arena, .engine = engine, .plan = plan, .update = update});

  const auto check = [&](int i, std::int64_t updates, const std::string& when) {
    const double factor =
        expected ? expected(engine.rank(), updates) : 0.5 * (engine.size() + 1) * static_cast<double>(updates);
    const double wanted = 0.0 - (i + 1) * factor;
    for (const float value : registered[static_cast<std::size_t>(i)]->value().slice())
      require<Error>(std::abs(value - wanted) <= 1e-4 * std::abs(wanted), when, " layer ", i + 1, " on rank ",
                     engine.rank(), " is ", value, ", and should be ", wanted);
  };

  double first_ended = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    strategy->begin_step({.step = step, .lr = 1});
    for (int i = 0; i < kLayers; ++i) {
      Parameter& p = *registered[static_cast<std::size_t>(i)];
      strategy->before_forward(p, p.all_rows());
      check(i, step - 1, "when forward reads it in step " + std::to_string(step) + ",");
      rank.compute(forward);
    }
    for (int i = kLayers; i-- > 0;) {
      rank.compute(backward);
      Parameter& p = *registered[static_cast<std::size_t>(i)];
      raw::fill(p.grad(), static_cast<float>((engine.rank() + 1) * (i + 1)));
      strategy->gradient_ready(p, p.all_rows());
    }
    strategy->end_step();
    if (step == 1) first_ended = rank.now();
  }
  const double ended = rank.now();
  strategy->flush();
  for (int i = 0; i < kLayers; ++i) check(i, steps, "after the last step");
  return {(ended - first_ended) / static_cast<double>(steps - 1), engine.counters().sent.messages};
}

Training::Result in_virtual_time(const Training& training) {
  Training::Result first;
  on_virtual_ranks(kRanks, [&](const Rank& rank) {
    const Training::Result mine = training.run(rank);
    if (rank.engine.rank() == 0) first = mine;
  });
  return first;
}

Training::Result on_emulated_link(const Training& training) {
  Training::Result first;
  on_emulated_link([&](const Rank& rank) {
    const Training::Result mine = training.run(rank);
    if (rank.engine.rank() == 0) first = mine;
  });
  return first;
}

std::string ms(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", 1e3 * seconds);
  return text;
}

void print_costs_head() {
  std::printf("%d workers, %s. alpha = 1 ms, beta = 80 ns a byte.\n%-44s %12s %12s\n", kRanks,
              kLink.to_string().c_str(), "", "formula", "measured");
}

void print_cost(const std::string& what, double formula, std::optional<double> measured) {
  std::printf("%-44s %12s %12s\n", what.c_str(), ms(formula).c_str(), measured ? ms(*measured).c_str() : "");
}

}  // namespace lab
