#include "dist/method/ledger_account.h"

#include <algorithm>
#include <utility>

#include "compress/mirrored.h"
#include "core/base/error.h"
#include "core/raw.h"

namespace laconic::dist {
namespace {

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

}  // namespace

LedgerAccount::LedgerAccount(std::string parameter, std::string choice, std::int64_t elements, std::int64_t every,
                             Of of)
    : row_{.parameter = std::move(parameter), .choice = std::move(choice), .elements = elements},
      every_(every),
      of_(of) {}

LedgerForm LedgerAccount::of_squares(const char* note) {
  static constexpr LedgerColumn columns[] = {kExchanges, kSent, kBytes, kMeasured, kHeld};
  return {columns, note};
}

LedgerForm LedgerAccount::of_choices() {
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

void LedgerAccount::before(std::int64_t step, const Tensor& all) {
  step_ = step;
  measuring_ = every_ > 0 && step % every_ == 0;
  if (measuring_) before_ = raw::sum_of_squares(all);
}

void LedgerAccount::after(const Tensor& left, Slice<const std::uint32_t> chosen) {
  if (every_ == 0) return;
  ++row_.exchanges;
  if (measuring_) {
    ++row_.measured;
    row_.energy_held += before_ > 0 ? raw::sum_of_squares(left) / before_ : 1;  // all, where there was nothing
  }
  if (of_ == Of::squares) {
    measuring_ = false;
    return;
  }
  const auto step = static_cast<std::int32_t>(step_);
  if (!last_chosen_.defined()) {
    last_chosen_ = Tensor::empty({row_.elements}, DType::i32);
    std::fill_n(last_chosen_.data<std::int32_t>(), row_.elements, step - 1);
  }
  std::int32_t* const last = last_chosen_.data<std::int32_t>();
  const compress::Mirrored<std::uint32_t> here(chosen, kCpu);
  for (const std::uint32_t i : here.slice()) last[i] = step;
  row_.sent += static_cast<double>(chosen.size());
  if (measuring_) row_.oldest = step - *std::min_element(last, last + row_.elements);
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

LedgerRow LedgerAccount::row(double sent, double bytes) const {
  LedgerRow row = this->row();
  row.sent = sent;
  row.bytes = bytes * static_cast<double>(row.exchanges);
  return row;
}

void LedgerAccount::keep_in(StateTable& table, const std::string& prefix) {
  if (every_ == 0) return;
  const std::string what = "the ledger of " + row_.parameter;
  if (of_ == Of::squares)
    return table.numbers(prefix + "ledger", {&row_.exchanges, &row_.measured, &row_.energy_held}, Join::own, what,
                         false);
  table.numbers(
      prefix + "ledger",
      {&row_.exchanges, &row_.measured, &row_.sent, &row_.bytes, &row_.energy_held, &row_.union_density, &row_.oldest},
      Join::own, what, false);
  const std::string name = prefix + "last_chosen";
  table.row(
      [this, name](RankState& state) {
        if (last_chosen_.defined()) state.set(name, last_chosen_, Join::own);
      },
      [this, name, what](const StateDict& state) {
        const Tensor* const last = state.find(name);
        if (last == nullptr) return;
        require<DataError>(last->dtype() == DType::i32 && last->elements() == row_.elements, "resume: ", what,
                           " is damaged. Use an older checkpoint.");
        last_chosen_ = Tensor::empty({row_.elements}, DType::i32);
        last_chosen_.copy_from(*last);
      });
}

}  // namespace laconic::dist
