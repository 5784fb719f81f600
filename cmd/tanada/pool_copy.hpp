// cmd/tanada/pool_copy.hpp: the bytes of one object or file on their way to another.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "pool_place.hpp"

namespace tanada::command {

inline constexpr size_t copy_chunk_size = size_t{4}
                                          << 20;  // bytes between two looks at the progress

struct copy_options {
  uint32_t object_flags = 0;  // TND_POOL_EVICTABLE, TND_POOL_PINNED, TND_POOL_EXCLUSIVE
  uint32_t commit_flags = 0;  // TND_POOL_DURABLE
  bool replace = true;        // what the target has
  uint64_t version = 0;       // of an object that is read; 0: the newest
};

struct copy_outcome {
  uint64_t size = 0;     // bytes
  uint64_t version = 0;  // of the object written or read
  uint32_t checksum_kind = TND_POOL_CHECKSUM_NONE;
  uint64_t checksum = 0;
  bool is_verified = false;  // the bytes at the target had the checksum of those at the source
  // By which path the bytes left the source's pool and reached the target's; empty where that is a
  // file.
  std::string read_path = {}, write_path = {};
};

// Where bytes come from: `read` fills at most `size` and says how many; 0 is the end. Failures are
// told there.
class byte_source {
 public:
  virtual ~byte_source() = default;
  virtual bool read(void *target, size_t size, size_t &got) = 0;
  // After the end: are these the bytes that the source holds? Told when not.
  virtual bool verify(copy_outcome &outcome) = 0;
};

// Where they go. Destroyed without finish(), it leaves nothing behind.
class byte_target {
 public:
  virtual ~byte_target() = default;
  virtual bool write(const void *source, size_t size) = 0;
  virtual bool finish(copy_outcome &outcome) = 0;
};

// nullptr: told.
std::unique_ptr<byte_source> source_open(const place &at, const copy_options &how,
                                         pool_session &session, answer &told);
std::unique_ptr<byte_target> target_open(const copy_item &item, const copy_options &how,
                                         pool_session &session, answer &told);

// Those of them that are objects.
std::unique_ptr<byte_source> object_source_open(const place &at, const copy_options &how,
                                                pool_session &session, answer &told);
std::unique_ptr<byte_target> object_target_open(const copy_item &item, const copy_options &how,
                                                pool_session &session, answer &told);

// Called with the bytes that went since the call before.
using copy_progress = std::function<void(size_t)>;

// Copy one thing; false: told, and the target is as it was.
bool copy_one(const copy_item &item, const copy_options &how, pool_session &session, answer &told,
              const copy_progress &progress, copy_outcome &outcome);

}  // namespace tanada::command
