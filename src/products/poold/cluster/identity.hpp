// products/poold/cluster/identity.hpp: the cluster that a durable pool's objects belong to, in a
// file beside the pool's log.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace tanada::poold {

// Of a new cluster: random.
std::string identity_create();

// Empty: the folder has none. protocol: its file has no identity; the message names it.
result<std::string> identity_read(const std::string &folder);

// Replaces the file. Returns once it is durable.
status identity_write(const std::string &folder, const std::string &identity);

}  // namespace tanada::poold
