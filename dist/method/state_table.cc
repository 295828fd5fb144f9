#include "dist/method/state_table.h"

#include <bit>
#include <cmath>

namespace laconic::dist {

void StateTable::tensor(const std::string& name, const Tensor& tensor, Join join, const std::string& what,
                        std::optional<Holders> holders) {
  row([=](RankState& state) { state.set_of(holders.value_or(state.all()), name, tensor, join); },
      [=](const StateDict& state) { state.copy_to(tensor, name, what); });
}

namespace {

std::int64_t word_of(const StateTable::Number& number) {
  if (number.index() == 1) return std::bit_cast<std::int64_t>(*std::get<1>(number));
  if (number.index() == 3) return std::llround(*std::get<3>(number).number);
  return number.index() == 0 ? *std::get<0>(number) : static_cast<std::int64_t>(std::get<2>(number)->load());
}

void set(const StateTable::Number& number, std::int64_t word) {
  if (number.index() == 0) *std::get<0>(number) = word;
  if (number.index() == 1) *std::get<1>(number) = std::bit_cast<double>(word);
  if (number.index() == 2) *std::get<2>(number) = static_cast<std::uint64_t>(word);
  if (number.index() == 3) *std::get<3>(number).number = static_cast<double>(word);
}

}  // namespace

void StateTable::numbers(const std::string& name, std::vector<Number> all, Join join, const std::string& what,
                         bool required) {
  const auto save = [name, all, join](RankState& state) {
    std::vector<std::int64_t> words;
    for (const Number& number : all) words.push_back(word_of(number));
    state.set_numbers(name, words, join);
  };
  const auto load = [name, all, what, required](const StateDict& state) {
    if (!required && !state.contains(name)) return;
    const std::vector<std::int64_t> words = state.numbers(name, all.size(), what);
    for (std::size_t i = 0; i < all.size(); ++i) set(all[i], words[i]);
  };
  row(save, load);
}

}  // namespace laconic::dist
