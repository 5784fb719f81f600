// executor/refused.hpp: launches that were refused, between the program that launched and whoever
// waits.
#pragma once

#include <string>

namespace tanada::simt::host {

// Keep and log the reason of a refused launch until take_refused_launch() returns it. Only the
// first reason is kept.
__attribute__((visibility("default"))) void refuse_launch(const char *why) noexcept;

// The reason of the first launch refused since the last call; empty: none was.
std::string take_refused_launch();

}  // namespace tanada::simt::host
