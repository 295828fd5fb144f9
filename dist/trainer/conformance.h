#pragma once
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// Tries whether a method, as `sync` names it, keeps the promises of dist/method/method.h, by training a small network
/// with 1, 2, 3 and 5 workers that are threads: it learns; two runs, and every overlap, give the same bits; all workers
/// hold the same parameters, if its traits say so; a training that was stopped and resumed ends as one that was not;
/// it sends what it said that it would; its settings take the values that they say. For tests
/// of methods of your own, and of ours. Takes about a second.
///   settings   as dist::method() takes them: for small parameters, say
/// throws Error, or what the training throws, naming the promise that is broken
void check_method(const std::string& method, const std::vector<std::pair<std::string, std::string>>& settings = {});

}  // namespace laconic
