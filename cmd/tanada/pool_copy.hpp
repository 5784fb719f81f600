// cmd/tanada/pool_copy.hpp: copies the bytes of one object or file to another.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "pool_location.hpp"

namespace tanada::command {

inline constexpr size_t copy_chunk_size = size_t{4} << 20;  // bytes between progress updates

struct copy_options {
  uint32_t object_flags = 0;  // TND_POOL_EVICTABLE, TND_POOL_PINNED, TND_POOL_EXCLUSIVE
  uint32_t commit_flags = 0;  // TND_POOL_DURABLE
  bool replace = true;        // an existing target
  uint64_t version = 0;       // of the object to read; 0: the newest
};

struct copy_outcome {
  uint64_t size = 0;     // bytes
  uint64_t version = 0;  // of the object written or read
  uint32_t checksum_kind = TND_POOL_CHECKSUM_NONE;
  uint64_t checksum = 0;
  bool is_verified = false;  // the bytes at the target match the checksum of the source
  // The paths by which the bytes left the source's pool and reached the target's. Empty for a file.
  std::string read_path = {}, write_path = {};
};

// A source of bytes: `read` fills at most `size` bytes and sets `got`, 0 at the end. It reports
// errors itself.
class byte_source {
 public:
  virtual ~byte_source() = default;
  virtual bool read(void *target, size_t size, size_t &got) = 0;
  // Call it after the end. Returns whether the bytes read are those of the source, and reports an
  // error if not.
  virtual bool verify(copy_outcome &outcome) = 0;
};

// A target of bytes. Destroyed without finish(), it leaves nothing behind.
class byte_target {
 public:
  virtual ~byte_target() = default;
  virtual bool write(const void *source, size_t size) = 0;
  virtual bool finish(copy_outcome &outcome) = 0;
};

// nullptr: an error was reported.
std::unique_ptr<byte_source> source_open(const location &source,
                                         const copy_options &settings,
                                         pool_session &session,
                                         command_report &report);
std::unique_ptr<byte_target> target_open(const copy_item &item,
                                         const copy_options &settings,
                                         pool_session &session,
                                         command_report &report);

// The same for objects.
std::unique_ptr<byte_source> object_source_open(const location &source,
                                                const copy_options &settings,
                                                pool_session &session,
                                                command_report &report);
std::unique_ptr<byte_target> object_target_open(const copy_item &item,
                                                const copy_options &settings,
                                                pool_session &session,
                                                command_report &report);

// Called with the bytes copied since the previous call.
using copy_progress = std::function<void(size_t)>;

// Copies one item. Returns false after reporting an error; the target is then unchanged.
bool copy_item_bytes(const copy_item &item,
                     const copy_options &settings,
                     pool_session &session,
                     command_report &report,
                     const copy_progress &progress,
                     copy_outcome &outcome);

}  // namespace tanada::command
