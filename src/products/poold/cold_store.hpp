// products/poold/cold_store.hpp: the interface through which the bytes of objects that left the
// pool's memory are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "products/pool/checksum.hpp"
#include "seams/store/store.hpp"

namespace tanada::poold {

struct logged_checksum {
  pool::checksum_kind kind{};
  uint64_t value = 0;  // of all bytes of the object

  // Also if there is no checksum.
  bool matches(const pool::checksum &sum) const noexcept {
    return kind == pool::checksum_kind{} || sum.value() == value;
  }
};

// Reads one object. Its bytes stay readable as long as the reader exists, also if the object is
// removed, replaced or moved meanwhile. Thread-safe.
class cold_reader {
 public:
  virtual ~cold_reader() = default;

  // Does not block. `done` is called at most once, from another thread: with ok, no_entry (the log
  // has lost the object), corrupt (its file is too short) or the store's status. It is not called
  // if the journal ends before. Ownership: the buffers must stay valid until `done` is called or
  // destroyed.
  virtual void read(uint64_t offset,
                    std::vector<seams::store_buffer> buffers,
                    std::function<void(status)> done) = 0;

  // Valid once a read has completed with ok.
  virtual logged_checksum checksum() const = 0;
};

// Thread-safe.
class cold_store {
 public:
  virtual ~cold_store() = default;

  // Objects are identified by object::logged_version. Call it while no removal of the object can
  // be appended to the journal, so that the reader's claim is first.
  virtual std::shared_ptr<cold_reader> open_reader(uint64_t logged_version) = 0;

  // Objects are still being written, after which they may leave memory.
  virtual bool is_writing() const = 0;

  // Bytes that objects may take. ~0: unknown.
  virtual uint64_t capacity() const = 0;
};

}  // namespace tanada::poold
