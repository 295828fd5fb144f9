#include "dist/method/ledger_account.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "compress/mirrored.h"
#include "core/base/error.h"
#include "core/raw.h"

namespace laconic::dist {
namespace {

LedgerRow row_of(std::string parameter, std::string choice, std::int64_t elements) {
  return {.parameter = std::move(parameter), .choice = std::move(choice), .elements = elements};
}

using Unit = LedgerColumn::Unit;
using Row = const LedgerRow&;
constexpr LedgerColumn kExchanges{"exchanges", nullptr, Unit::count,
                                  [](Row r) { return static_cast<double>(r.exchanges); }};
constexpr LedgerColumn kSent{"sent", "sent", Unit::number, [](Row r) { return r.exchanges > 0 ? r.sent : kNoFigure; }};
constexpr LedgerColumn kBytes{"bytes", "bytes", Unit::bytes, [](Row r) { return r.bytes; }};
constexpr LedgerColumn kMeasured{"measured", nullptr, Unit::count,
                                 [](Row r) { return static_cast<double>(r.measured); }};
constexpr LedgerColumn kHeld{"energy_held", "held %", Unit::share,
                             [](Row r) { return r.measured > 0 ? r.energy_held : kNoFigure; }};

/// The share of some squares that is left: all, where there were none.
double share_held(const Tensor& left, double before) { return before > 0 ? raw::sum_of_squares(left) / before : 1; }

}  // namespace

EnergyAccount::EnergyAccount(std::string parameter, std::string choice, std::int64_t elements, std::int64_t every)
    : row_(row_of(std::move(parameter), std::move(choice), elements)), every_(every) {}

LedgerForm EnergyAccount::form(const char* note) {
  static constexpr LedgerColumn columns[] = {kExchanges, kSent, kBytes, kMeasured, kHeld};
  return {columns, note};
}

void EnergyAccount::before(std::int64_t step, const Tensor& all) {
  measuring_ = every_ > 0 && step % every_ == 0;
  if (measuring_) before_ = raw::sum_of_squares(all);
}

void EnergyAccount::after(const Tensor& left) {
  ++row_.exchanges;
  if (!std::exchange(measuring_, false)) return;
  ++row_.measured;
  row_.energy_held += share_held(left, before_);
}

void EnergyAccount::add_row(std::vector<LedgerRow>& rows, double sent, double bytes) const {
  if (every_ == 0) return;
  LedgerRow row = row_;
  row.sent = sent;
  row.bytes = bytes * static_cast<double>(row.exchanges);
  row.energy_held /= std::max<double>(1, static_cast<double>(row.measured));
  rows.push_back(row);
}

void EnergyAccount::save(StateDict& state) const {
  if (every_ > 0)
    state.set_numbers("ledger",
                      std::array{row_.exchanges, row_.measured, std::bit_cast<std::int64_t>(row_.energy_held)});
}

void EnergyAccount::load(const StateDict& state) {
  if (every_ == 0 || !state.contains("ledger")) return;
  const std::vector<std::int64_t> words = state.numbers("ledger", 3, "the ledger of " + row_.parameter);
  row_.exchanges = words[0], row_.measured = words[1], row_.energy_held = std::bit_cast<double>(words[2]);
}

LedgerAccount::LedgerAccount(std::string parameter, std::string choice, std::int64_t elements, std::int64_t every)
    : row_(row_of(std::move(parameter), std::move(choice), elements)), every_(every) {}

LedgerForm LedgerAccount::form() {
  static constexpr LedgerColumn columns[] = {
      kExchanges,
      kSent,
      kBytes,
      kMeasured,
      {"energy_sent", "energy %", Unit::share, [](Row r) { return r.measured > 0 ? r.energy_sent : kNoFigure; }},
      kHeld,
      {"union_density", "union %", Unit::share, [](Row r) { return r.measured > 0 ? r.union_density : kNoFigure; }},
      {"oldest", "oldest", Unit::count,
       [](Row r) { return r.measured > 0 ? static_cast<double>(r.oldest) : kNoFigure; }}};
  return {
      columns,
      "sent: elements a step; bytes: of rank 0's messages, as often as they travel; energy: share of the residual's "
      "squares that a step\nsends, held: keeps; union: elements that some rank sends; oldest: steps since an "
      "element was last sent"};
}

void LedgerAccount::before_choice(std::int64_t step, const Tensor& residual) {
  step_ = step;
  measuring_ = kept() && step % every_ == 0;
  if (measuring_) energy_before_ = raw::sum_of_squares(residual);
}

void LedgerAccount::after_choice(Slice<const std::uint32_t> chosen, const Tensor& residual) {
  if (!kept()) return;
  const auto step = static_cast<std::int32_t>(step_);
  if (!last_chosen_.defined()) {
    last_chosen_ = Tensor::empty({row_.elements}, DType::i32);
    std::fill_n(last_chosen_.data<std::int32_t>(), row_.elements, step - 1);
  }
  std::int32_t* const last = last_chosen_.data<std::int32_t>();
  const compress::Mirrored<std::uint32_t> here(chosen, kCpu);
  for (const std::uint32_t i : here.slice()) last[i] = step;
  ++row_.exchanges;
  row_.sent += static_cast<double>(chosen.size());
  if (!measuring_) return;
  ++row_.measured;
  row_.energy_held += share_held(residual, energy_before_);
  row_.oldest = step - *std::min_element(last, last + row_.elements);
}

void LedgerAccount::received(std::size_t united) {
  measuring_ = false;
  row_.union_density += static_cast<double>(united) / static_cast<double>(row_.elements);
}

LedgerRow LedgerAccount::row() const {
  LedgerRow row = row_;
  const double exchanges = std::max<double>(1, static_cast<double>(row.exchanges));
  const double measured = std::max<double>(1, static_cast<double>(row.measured));
  row.sent /= exchanges;
  row.energy_held /= measured, row.union_density /= measured;
  row.energy_sent = row.measured > 0 ? 1 - row.energy_held : 0;
  return row;
}

void LedgerAccount::save(StateDict& state) const {
  if (!kept()) return;
  const std::array words{row_.exchanges,
                         row_.measured,
                         std::bit_cast<std::int64_t>(row_.sent),
                         std::bit_cast<std::int64_t>(row_.bytes),
                         std::bit_cast<std::int64_t>(row_.energy_held),
                         std::bit_cast<std::int64_t>(row_.union_density),
                         row_.oldest};
  state.set_numbers("ledger", words);
  if (last_chosen_.defined()) state.set("last_chosen", last_chosen_);
}

void LedgerAccount::load(const StateDict& state) {
  if (!kept() || !state.contains("ledger")) return;
  const std::vector<std::int64_t> words = state.numbers("ledger", 7, "the ledger of " + row_.parameter);
  const Tensor* const last = state.find("last_chosen");
  require<DataError>(last == nullptr || (last->dtype() == DType::i32 && last->elements() == row_.elements),
                     "resume: the ledger of ", row_.parameter, " is damaged. Use an older checkpoint.");
  row_.exchanges = words[0], row_.measured = words[1];
  row_.sent = std::bit_cast<double>(words[2]), row_.bytes = std::bit_cast<double>(words[3]);
  row_.energy_held = std::bit_cast<double>(words[4]), row_.union_density = std::bit_cast<double>(words[5]);
  row_.oldest = words[6];
  if (last == nullptr) return;
  last_chosen_ = Tensor::empty({row_.elements}, DType::i32);
  last_chosen_.copy_from(*last);
}

}  // namespace laconic::dist
