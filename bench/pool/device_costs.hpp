// bench/pool/device_costs.hpp: the cost of each step of a first put.
#pragma once

namespace bench {

// Prints lines on standard error for shared memory of small and of huge pages: mapping, registering
// with the GPU by one thread and by two, copies from the device, and copies by threads into it.
// They show which step limits a row that misses its bar.
void print_device_costs();

}  // namespace bench
