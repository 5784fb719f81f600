// seams/os/fork_handler.hpp: lets a library notice that its process was copied by fork().
#pragma once

namespace tanada::seams {

// `handler` runs in the child of every later fork(), before fork() returns there. It may only do
// what a signal handler may. Returns false if memory is insufficient.
bool run_in_forked_child(void (*handler)()) noexcept;

}  // namespace tanada::seams
