// bench/fabric/latency.hpp: how long one operation of 8 bytes takes until it is complete, by what
// its owner does meanwhile.
#pragma once

#include "../common/report.hpp"

namespace bench {

void measure_latency(report &out, bool wants_waits);

}  // namespace bench
