// backends/libfabric/shm_name.hpp: names of shared memory that identify their process, so that
// peers detect its death. libfabric's shm provider (1.17) does not detect it.
#pragma once

#include <string>
#include <string_view>

namespace tanada::backends {

// "tanada_<pid>_<start time of the process>_<counter>".
std::string shm_name_create();

// The part of an address, such as "fi_shm://tanada_1_2_3:0:0", that identifies the process. Empty
// if the name has another format.
std::string_view shm_name_owner(std::string_view address);

enum class process_state { alive, dead, unknown };

// The state of the process that a name identifies; unknown for names of another format. Reads
// /proc, so both processes must be in one PID namespace.
process_state shm_name_process(std::string_view owner);

// Removes objects of dead processes from /dev/shm. Keeps objects of other programs, and objects
// younger than ten minutes: a peer may still have to open one (see shm_lane).
void shm_names_sweep();

}  // namespace tanada::backends
