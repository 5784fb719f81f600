// seams/os/service_manager.hpp: reports of a daemon to the manager that started it, as systemd's
// Type=notify expects them, and files that it passes.
#pragma once

#include <string>
#include <string_view>

namespace tanada::seams {

// Sends lines such as "READY=1" to the socket that NOTIFY_SOCKET names. Returns false without
// such a socket, and if the manager did not receive the lines. Never waits.
bool notify_service_manager(std::string_view lines);

// Reports that settings are being loaded again, with the time that the manager compares.
bool notify_reloading();

// The path of a credential of this name (LoadCredential= of a unit); empty: the unit has no such
// credential.
std::string credential_path(std::string_view name);

}  // namespace tanada::seams
