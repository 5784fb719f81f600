// tests/e2e/launch/launch_join.hpp: the one thing in which launch_victim and launch_victim_mpi
// differ.
#pragma once

#include "seams/bootstrap/bootstrap.hpp"

// The job that a launcher has started this process in.
tanada::result<std::unique_ptr<tanada::seams::bootstrap>> launch_join();
