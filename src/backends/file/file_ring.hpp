// backends/file/file_ring.hpp: a queue on io_uring for files with descriptors.
#pragma once

#include "backends/file/ring_engine.hpp"

namespace tanada::port {

// Reads of files that the engine finds, and writes and syncs of those open to write, go through a
// ring of the queue's own, everything else to `metadata`, a queue of the blocking store over the
// same engine. Posts gather: the sixteenth not yet sent, or the next poll, sends them. The status
// of io_uring_queue_init when the kernel refuses.
result<std::unique_ptr<store_queue>> file_ring_queue_create(std::shared_ptr<ring_engine> engine,
                                                            std::unique_ptr<store_queue> metadata,
                                                            uint32_t depth);

// ok when this kernel and its policy let the process have a ring.
status file_ring_probe();

}  // namespace tanada::port
