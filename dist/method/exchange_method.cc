#include <utility>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "dist/engine/ghost_work.h"
#include "dist/method/exchange.h"

namespace laconic::dist {

ExchangeForm ExchangeMethod::form(const TrainingFacts& facts) const {
  return {.state = {{"residual", facts.put_by(), "what " + name() + " has not sent"}}};
}

ExchangeForm ExchangeMethod::named_form(const TrainingFacts& facts) const {
  ExchangeForm all = form(facts);
  all.name = name(), all.prefix = all.name + "/";
  return all;
}

std::optional<Method::Refusal> ExchangeMethod::refuses(const std::string& setting) const {
  if (setting == "allreduce") return Refusal{"what `sync` " + name() + " sends goes from all to all", "leave it out"};
  return Method::refuses(setting);
}

void ExchangeMethod::shape(PlanOptions& plan, const TrainingFacts& facts) const {
  if (!form(facts).whole && plan.chunk_is_default()) plan.chunk_bytes = 0;
}

std::unique_ptr<Strategy> ExchangeMethod::worker(WorkerSide side) const {
  ExchangeForm all = named_form(side.facts);
  return std::make_unique<Exchange>(std::move(side), std::move(all),
                                    [this](PartPlace place) { return part(std::move(place)); });
}

double expected_exchange_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                               const TrainingFacts& facts, const ExchangeForm& is, const MakePart& make) {
  const double N = facts.workers;
  double bytes = 0;
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    bytes += kPartHeader;
    for (PartPlace& place : places_of(plan.buckets[b], b, is.whole, 0, facts.workers, facts.seed, parameters)) {
      const std::unique_ptr<Part> own = make(std::move(place));
      if (!is.joined) bytes += own->expected_bytes() + (is.varies && !is.whole ? kPartHeader : 0);
      for (int r = 0; is.joined && r < facts.workers; ++r)
        bytes += static_cast<double>(own->bytes(r) + own->joined_bytes(r)) / N;
    }
  }
  return (N - 1) * bytes;
}

std::optional<double> ExchangeMethod::expected_bytes(const Plan& plan,
                                                     const std::vector<std::shared_ptr<Parameter>>& parameters,
                                                     const TrainingFacts& facts) const {
  return expected_exchange_bytes(plan, parameters, facts, form(facts),
                                 [this](PartPlace place) { return part(std::move(place)); });
}

void ExchangeMethod::measure(WorkCosts& work, const TrainingFacts& facts) const {
  constexpr std::int64_t kSide = 1024, kElements = kSide * kSide;
  PartPlace place{.name = "a part", .shape = {kSide, kSide}, .elements = kElements};
  place.parameters.push_back({.name = place.name, .shape = place.shape, .offset = 0, .elements = kElements});
  for (std::size_t i = 0; i < form(facts).state.size(); ++i) place.state.push_back(Tensor::zeros({kElements}));
  const std::unique_ptr<Part> own = part(std::move(place));
  std::vector<float> gradient(kElements);
  Random random(0, Purpose::test);
  for (float& v : gradient) v = random.normal();
  own->gather(slice(std::as_const(gradient)), {.step = 2});
  compress::Bytes message;
  work.per_selected_element = least_seconds(3,
                                            [&] {
                                              message.clear();
                                              own->make(message, 0);
                                            }) /
                              kElements;
  const Theirs all(name(), own->place().name, {message.slice()});
  work.per_scattered_element = least_seconds(3, [&] { own->take(all, slice(gradient)); }) / kElements;
  work.per_gathered_element = 12 * work.per_added_byte / 2;  // reads two arrays, writes one, as an addition
}

LedgerForm ExchangeMethod::ledger() const {
  return LedgerAccount::of_squares(
      "sent: elements a step; bytes: of rank 0's messages, as often as they travel; held: share of the squares of what "
      "was gathered\nthat a step leaves at home");
}

}  // namespace laconic::dist
