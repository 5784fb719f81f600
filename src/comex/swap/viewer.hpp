// comex/swap/viewer.hpp: what `tanada comex top` sees of a node's processes.
#pragma once

#include <string>

#include "comex/swap/board.hpp"

namespace tanada::comex::swap {

// A line of JSON: the budget, counters, and each rank's state; times in seconds, sizes in bytes.
std::string describe(const board &of);

// Of the port::teller that tells it: "tanada-comex-UID-PID" of this process.
std::string viewer_name();

}  // namespace tanada::comex::swap
