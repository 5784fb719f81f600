// products/pool/bulk.hpp: copies and checksums of objects' bytes. Large ones use several threads
// when processors are idle.
#pragma once

#include <sys/uio.h>

#include <span>

#include "products/pool/checksum.hpp"
#include "seams/os/team.hpp"

namespace tanada::pool {

// More helpers would not speed up a copy: memory bandwidth is the limit.
inline constexpr unsigned bulk_helper_count_max = 3;

struct copy_part {
  std::byte *target;
  const std::byte *source;
  size_t size;
};

// The first reader of the targets: this process, which may find them in its caches, or others.
enum class first_reader { caller, others };

// Copies all parts with memcpy, and adds the stored bytes to `sum` in order, as copy_and_add does.
void copy_bulk(seams::team &helpers,
               std::span<const copy_part> parts,
               first_reader reader,
               checksum &sum);

// Adds the bytes to `sum`, in order.
void add_bulk(seams::team &helpers, std::span<const iovec> parts, checksum &sum);

}  // namespace tanada::pool
