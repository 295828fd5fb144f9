#pragma once
#include <string>

#include "dist/world.h"

namespace laconic::dist {

/// Checks before step 0 that all ranks run the same thing. `mine` is lines of "key=value": model, options, sizes of the
/// data, the plan. Every rank compares all of them with rank 0's.
/// Throws CommError on all ranks, with the same sentence: the first rank and line that differ, and both values.
/// `patiently`: as of Engine::run, where a rank may have much to read before.
void check_fingerprint(Engine& engine, const std::string& mine, bool patiently = false);
/// Likewise among the workers of a world that may have servers.
void check_fingerprint(const Worker& worker, const std::string& mine, bool patiently = false);

}  // namespace laconic::dist
