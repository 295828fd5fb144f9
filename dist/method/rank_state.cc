#include "dist/method/rank_state.h"

#include <array>
#include <sstream>

#include "core/base/error.h"
#include "core/base/parse.h"

namespace laconic::dist {
namespace {

constexpr std::array<const char*, 5> kJoins{"sum", "mean", "equal", "own", "anew"};

std::string join_key(const std::string& name) { return name + ":join"; }

}  // namespace

void RankState::set(const std::string& name, Tensor tensor, Join join, double weight) {
  StateDict::set(name, std::move(tensor));
  std::string text = kJoins[static_cast<std::size_t>(join)];
  if (join == Join::mean && weight != 1) text += " *" + number_text(weight);
  set_text(join_key(name), text);
}

void RankState::set_of(Holders holders, const std::string& name, Tensor tensor, Join join) {
  set(name, std::move(tensor), join);
  holders_[name] = holders;
}

void RankState::set_in(std::span<const Range> ranges, const std::string& name, Tensor tensor, Join join) {
  set(name, std::move(tensor), ranges.empty() ? Join::equal : join);
  std::string text = this->text(join_key(name));
  for (const auto& [offset, count] : ranges) text += concat(" ", offset, "+", count);
  set_text(join_key(name), text);
}

void RankState::set_numbers(const std::string& name, std::span<const std::int64_t> numbers, Join join) {
  set(name, Tensor::of({static_cast<std::int64_t>(numbers.size())}, numbers), join);
}

Holders RankState::holders(const std::string& name) const {
  const auto found = holders_.find(name);
  return found == holders_.end() ? all_ : found->second;
}

Joined joined_from(const StateDict& state, const std::string& name) {
  const auto said = state.texts().find(join_key(name));
  require<DataError>(said != state.texts().end(), "resume: nothing says how '", name,
                     "' of several workers is joined: the checkpoint is of an earlier version. Start as many workers.");
  const std::string& text = said->second;
  std::istringstream in(text);
  std::string word;
  in >> word;
  Joined joined;
  bool known = false;
  for (std::size_t i = 0; i < kJoins.size(); ++i)
    if (word == kJoins[i]) joined.join = static_cast<Join>(i), known = true;
  if (in >> std::ws; known && in.peek() == '*') {
    in.ignore();
    in >> word;
    const auto weight = number_from<double>(word);
    known = weight && *weight >= 0;
    joined.weight = weight.value_or(1);
  }
  RankState::Range range;
  for (char plus = 0; known && in >> range.first >> plus >> range.second;) {
    known = plus == '+' && range.first >= 0 && range.second >= 0;
    joined.ranges.push_back(range);
  }
  require<DataError>(known && in.eof(), "resume: '", name, "' is said to be joined by '", text.substr(0, 60),
                     "', which this version does not know. Start as many workers.");
  return joined;
}

}  // namespace laconic::dist
