// simt/host/refused.hpp: launches that CUDA's driver refused, between the program that launched and whoever waits.
#pragma once

#include <string>

namespace tanada::simt::host {

__attribute__((visibility("default"))) void refuse_launch(const char *why) noexcept;

// Why the first launch since the last call was refused; empty if none was.
std::string take_refused_launch();

}  // namespace tanada::simt::host
