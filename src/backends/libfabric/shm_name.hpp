// backends/libfabric/shm_name.hpp: names of shared memory that tell which process made them, so
// that peers see it die. libfabric's shm provider (1.17) does not see it.
#pragma once

#include <string>
#include <string_view>

namespace tanada::port {

// "tanada_<pid>_<start time of the process>_<counter>".
std::string shm_name_create();

// The part of an address (as of "fi_shm://tanada_1_2_3:0:0") that names the process; empty if it is
// not one of ours.
std::string_view shm_name_owner(std::string_view address);

enum class process_state { alive, gone, unknown };

// Of the process in a name of ours; unknown for other names. Looks into /proc: both sides see the
// same processes.
process_state shm_name_process(std::string_view owner);

// Remove what processes that are gone have left in /dev/shm. What belongs to others stays, and what
// is younger than ten minutes: a peer may still be about to look for it (shm_lane says why it must
// find it).
void shm_names_sweep();

}  // namespace tanada::port
