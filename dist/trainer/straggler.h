#pragma once
#include <string>
#include <vector>

#include "dist/trainer/report.h"

namespace laconic {

/// The figures of a RanksReport by their names in a log.
struct RanksFigure {
  const char* name;
  std::vector<double> RanksReport::*values;
};
inline constexpr RanksFigure kRanksFigures[] = {{"compute_ms", &RanksReport::compute_ms},
                                                {"data_ms", &RanksReport::data_ms},
                                                {"exposed_ms", &RanksReport::exposed_ms},
                                                {"sending_ms", &RanksReport::sending_ms},
                                                {"bytes_sent", &RanksReport::bytes_sent}};

/// The figures of both, as means over all of their steps. Those of as many workers, or nothing: then the other.
RanksReport joined(const RanksReport& a, const RanksReport& b);

/// Names the worker that all others wait for, in a sentence with a full stop: one that computes, or waits for its data,
/// for more than 1.5 times as long as the median worker, by a millisecond and a tenth of a step at least. Else, of
/// three workers or more, names one whose link takes its messages at less than a third of the rate of the next, and
/// that waits for a fifth of a step at least; or two neighbours that send so slowly, since a link of one of them is
/// slow. Empty where there is none, or after fewer than ten steps.
std::string straggler_in(const RanksReport& ranks);

}  // namespace laconic
