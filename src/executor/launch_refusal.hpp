// executor/launch_refusal.hpp: passes the reason of a refused launch from the launching call to the
// next wait.
#pragma once

#include <string>

namespace tanada::simt::host {

// Keep and log the reason of a refused launch until take_refused_launch() returns it. Only the
// first reason is kept.
__attribute__((visibility("default"))) void refuse_launch(const char *reason) noexcept;

// Returns the reason of the first launch refused since the last call; empty if there was none.
std::string take_refused_launch();

}  // namespace tanada::simt::host
