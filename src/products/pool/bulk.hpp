// products/pool/bulk.hpp: copies and checksums of objects' bytes, by several threads where there is
// much and processors are idle.
#pragma once

#include <sys/uio.h>

#include <span>

#include "products/pool/checksum.hpp"
#include "seams/os/team.hpp"

namespace tanada::pool {

// As many threads as a copy is worth: memory is the limit for more.
inline constexpr unsigned bulk_helper_count_max = 3;

struct copy_part {
  std::byte *target;
  const std::byte *source;
  size_t size;
};

// Who reads the targets first: this process, which may find them in its caches, or others.
enum class first_reader { caller, others };

// memcpy of all parts, and add what was stored to `sum` in their order, as copy_and_add.
void copy_bulk(port::team &helpers, std::span<const copy_part> parts, first_reader reader,
               checksum &sum);

// Add the bytes to `sum`, in their order.
void add_bulk(port::team &helpers, std::span<const iovec> parts, checksum &sum);

}  // namespace tanada::pool
