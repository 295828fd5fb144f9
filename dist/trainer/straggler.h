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
/// for more than 1.5 times as long as the median worker; else one whose link takes its messages at less than a third
/// of the rate of the next. Where two neighbours are slow to send, a link between them or of one of them is.
/// Empty where there is none, or where fewer than ten steps or less than a tenth of a step tell of it.
std::string straggler_in(const RanksReport& ranks);

}  // namespace laconic
