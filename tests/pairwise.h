#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace laconic {

/// Rows of choices so that any two values of two different choices meet in some row: far fewer than the product has.
/// Choice c, of two or more, has the values 0 … counts[c] - 1; the rows are the same ones every time.
inline std::vector<std::vector<std::size_t>> pairwise(const std::vector<std::size_t>& counts) {
  const std::size_t choices = counts.size();
  std::vector<std::size_t> first(choices + 1);  // value v of choice c has the number first[c] + v
  for (std::size_t c = 0; c < choices; ++c) first[c + 1] = first[c] + counts[c];
  const std::size_t all = first[choices];
  std::vector<bool> met(all * all);
  std::vector<std::size_t> times(all);  // that a value has been taken: of equally good ones the rarest comes next
  std::vector<std::vector<std::size_t>> rows;
  while (true) {
    std::vector<std::size_t> row(choices), taken;  // taken: numbers of the values that this row has
    const auto take = [&](std::size_t c, std::size_t v) {
      row[c] = v, ++times[first[c] + v];
      for (const std::size_t other : taken) met[other * all + first[c] + v] = met[(first[c] + v) * all + other] = true;
      taken.push_back(first[c] + v);
    };
    // A row begins with two values that have not met …
    std::size_t a = choices, b = choices;
    for (std::size_t c = 0; c < choices && a == choices; ++c)
      for (std::size_t d = c + 1; d < choices && a == choices; ++d)
        for (std::size_t i = 0; i < counts[c] * counts[d] && a == choices; ++i)
          if (!met[(first[c] + i / counts[d]) * all + first[d] + i % counts[d]])
            a = c, b = d, take(c, i / counts[d]), take(d, i % counts[d]);
    if (a == choices) return rows;
    // … and each further one is that which is new to the most of those before it.
    for (std::size_t c = 0; c < choices; ++c) {
      if (c == a || c == b) continue;
      std::size_t best = 0, most = 0;
      for (std::size_t v = 0; v < counts[c]; ++v) {
        std::size_t strangers = 0;
        for (const std::size_t other : taken) strangers += !met[other * all + first[c] + v];
        if (v == 0 || strangers > most || (strangers == most && times[first[c] + v] < times[first[c] + best]))
          best = v, most = strangers;
      }
      take(c, best);
    }
    rows.push_back(std::move(row));
  }
}

/// Rows so that each value of each choice is in some row: as many as the longest choice has values.
inline std::vector<std::vector<std::size_t>> each_once(const std::vector<std::size_t>& counts) {
  std::size_t most = 0;
  for (const std::size_t count : counts) most = std::max(most, count);
  std::vector<std::vector<std::size_t>> rows(most);
  for (std::size_t r = 0; r < most; ++r)
    for (std::size_t c = 0; c < counts.size(); ++c)  // two choices of as many values do not keep in step
      rows[r].push_back((r + r / counts[c] * (c + 1)) % counts[c]);
  return rows;
}

/// True in a build for a sanitizer. Sanitizers are slow, and look at how results come about and not at what they are.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Returns the rows that a sweep tries: pairwise(), under a sanitizer each_once().
inline std::vector<std::vector<std::size_t>> combinations(const std::vector<std::size_t>& counts) {
  return kSanitized ? each_once(counts) : pairwise(counts);
}

/// Returns the rows of a sweep that has to be whole: all combinations, under a sanitizer each_once().
inline std::vector<std::vector<std::size_t>> all_combinations(const std::vector<std::size_t>& counts) {
  if (kSanitized) return each_once(counts);
  std::vector<std::vector<std::size_t>> rows{{}};
  for (const std::size_t count : counts) {
    std::vector<std::vector<std::size_t>> longer;
    for (const auto& row : rows)
      for (std::size_t v = 0; v < count; ++v) longer.push_back(row), longer.back().push_back(v);
    rows = std::move(longer);
  }
  return rows;
}

}  // namespace laconic
