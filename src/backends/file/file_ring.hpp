// backends/file/file_ring.hpp: a queue on io_uring for files with descriptors.
#pragma once

#include "backends/file/ring_engine.hpp"

namespace tanada::backends {

// Reads of files that the engine finds, and writes and syncs of files open for writing, go through
// a ring owned by the queue. All other operations go to `metadata`, a queue of the blocking store
// over the same engine. Posts are batched: the sixteenth unsubmitted post, or the next poll,
// submits them. On failure, returns the status of io_uring_queue_init.
result<std::unique_ptr<seams::store_queue>> file_ring_queue_create(
    std::shared_ptr<ring_engine> engine,
    std::unique_ptr<seams::store_queue> metadata,
    uint32_t depth);

// Returns ok if this kernel and its policy allow the process to create a ring.
status file_ring_probe();

}  // namespace tanada::backends
