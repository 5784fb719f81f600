// products/poold/log/types.hpp: what the log of a pool is told and what it tells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "products/pool/checksum.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::pool {

// Drawn once a pool and told to nobody: who does not know it cannot make up bytes that pass for a
// record of the log.
using pool_identity = std::array<uint8_t, 16>;

struct object_meta {
  std::string space, name;  // the namespace and the name in it; no NUL characters
  uint64_t version = 0;     // never 0, unique in the pool for ever
  uint64_t size = 0;        // bytes
  uint64_t created_ns = 0;  // since the epoch
  uint32_t flags = 0;       // the caller's
  checksum_kind kind = checksum_kind::none;
  uint64_t checksum = 0;  // of all bytes in their order

  bool operator==(const object_meta &) const = default;
};

// A range of the backing file.
struct extent {
  uint64_t offset = 0, size = 0;  // bytes

  bool operator==(const extent &) const = default;
};

enum class change_kind : uint8_t { put, remove, rename, flags };

struct change {
  change_kind kind = change_kind::put;
  object_meta meta;      // put: all of it; else the version, and for flags the flags
  std::string new_name;  // rename, within the namespace
  std::vector<std::span<const std::byte>>
      data;                     // put into a log with data: the bytes, meta.size in all
  std::vector<extent> extents;  // put into a journal: where they are, meta.size in all
};

// Applied as one. A put or a rename supersedes what has the name at that moment.
using transaction = std::vector<change>;

inline constexpr size_t change_count_max = 65'535;  // of a transaction
inline constexpr size_t space_size_max = 255;       // bytes
inline constexpr size_t name_size_max = 4'096;      // bytes
inline constexpr uint64_t metadata_size_max =
    64u << 20;  // bytes of a transaction's names and extents, as stored

class room_reserve;

// A durable object.
struct live_object {
  object_meta meta;
  std::vector<extent> extents;
  uint64_t file_sequence = 0;                // which log file holds its put
  uint64_t offset = 0;                       // bytes; of its data there
  uint64_t name_order = 0, flags_order = 0;  // of the changes that gave it its name and flags
  uint64_t place_order = 0;                  // up to which change its put tells
  uint64_t name_file = 0, flags_file = 0;    // which log files tell what the put does not
};

struct log_options {
  std::string url;           // the folder of the log files, which exists; ends in '/'
  pool_identity identity{};  // all zero: what the files say, drawn where there are none. Else other
                             // pools' files are an error
  bool with_data = true;     // false: a journal, whose objects lie in a backing file
  bool verify_all =
      false;  // recovery reads all data and drops objects whose checksum does not match
  uint64_t file_size = 256u << 20;    // bytes; a log file, if not one transaction is bigger
  uint64_t compact_above = 1u << 30;  // bytes of all files, when a third of them is dead
  uint64_t size_max =
      ~uint64_t{0};  // bytes of all files; an eighth, but at most one file, is kept for compaction
  uint64_t copy_size_max =
      256u << 20;  // bytes of memory; bigger objects are not moved by compaction
  uint64_t group_size_max = 64u << 20;  // bytes that share a sync, if not one transaction is bigger
  uint64_t queue_size_max = 1u << 30;   // bytes of transactions waiting, if not one is bigger
  uint32_t queue_count_max = 4096;      // transactions waiting
  uint64_t mark_delay_ns = 100'000'000;
  uint64_t retry_delay_ns = 1'000'000'000;  // after a compaction that failed
  uint64_t io_timeout_ns = 60'000'000'000;  // of one operation of the store
  room_reserve *reserve =
      nullptr;  // of the store, outlives the log; null: none, and a full store takes no removals
  std::function<void(const object_meta &)>
      lost;  // compaction found an object's bytes damaged and dropped it
};

}  // namespace tanada::pool
