// bench/fabric/latency.hpp: the time until one operation of 8 bytes is complete, by the activity of
// the memory's owner.
#pragma once

#include "../common/report.hpp"

namespace bench {

void measure_latency(report &out, bool wants_waits);

}  // namespace bench
