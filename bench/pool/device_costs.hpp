// bench/pool/device_costs.hpp: what the steps of a first put cost, each by itself.
#pragma once

namespace bench {

// Lines on standard error, for shared memory of small and of huge pages: mapping, registering with
// the GPU by one thread and by two, copies from the device, copies by threads into it. They say
// which step a row that misses its bar is bound by.
void print_device_costs();

}  // namespace bench
