#pragma once
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// Tries whether a method, as `sync` names it, keeps the promises of dist/method/method.h. It trains a small network
/// with 1, 2, 3 and 5 workers that are threads, which takes about a second. For tests of your methods, and of ours.
///   learning   the loss falls
///   bits       two runs, and every overlap, give the same ones
///   ranks      all workers hold the same parameters, if its traits say so
///   resume     a training that was stopped ends as one that was not, and goes on with other numbers of workers
///   bytes      it sends what it said that it would, within a quarter, in the second half of 24 steps
///   settings   take the values that they show
/// settings : as dist::method() takes them
/// throws Error, or what the training throws, naming the promise that is broken
void check_method(const std::string& method, const std::vector<std::pair<std::string, std::string>>& settings = {});

}  // namespace laconic
