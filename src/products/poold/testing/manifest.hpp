// products/poold/testing/manifest.hpp: striped objects as a client writes them.
#pragma once

#include <cstring>
#include <vector>

#include "products/poold/catalog.hpp"

namespace tanada::poold {

// The object's bytes, with which it can be committed.
inline void write_manifest(object &head, const wire::pool::stripe_manifest &manifest) {
  std::vector<std::byte> bytes;
  wire::encode(manifest, bytes);
  std::vector<iovec> parts;
  head.append_parts(0, bytes.size(), parts);
  std::memcpy(parts.at(0).iov_base, bytes.data(), bytes.size());
  head.metadata.size = bytes.size();
}

}  // namespace tanada::poold
