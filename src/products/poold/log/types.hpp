// products/poold/log/types.hpp: the changes, objects and options of a pool's log.
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

// Drawn at random once for each pool and kept secret, so that clients cannot forge bytes that
// pass for a record of the log.
using pool_identity = std::array<uint8_t, 16>;

struct object_meta {
  std::string namespace_name, name;  // the namespace and the name in it; no NUL characters
  uint64_t version = 0;              // never 0, and never reused in the pool
  uint64_t size = 0;                 // bytes
  uint64_t created_ns = 0;           // since the epoch
  uint32_t flags = 0;                // the caller's
  checksum_kind kind = checksum_kind::none;
  uint64_t checksum = 0;  // of all bytes in order

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
  object_meta meta;      // put: all fields; else only the version; flags: also the flags
  std::string new_name;  // rename, within the namespace
  std::vector<std::span<const std::byte>>
      data;                     // put into a log with data: the bytes, meta.size in total
  std::vector<extent> extents;  // put into a journal: their ranges, meta.size in total
};

// Applied atomically. A put or a rename supersedes the object that has the name at that moment.
using transaction = std::vector<change>;

inline constexpr size_t change_count_max = 65'535;  // of a transaction
inline constexpr size_t namespace_size_max = 255;   // bytes
inline constexpr size_t name_size_max = 4'096;      // bytes
inline constexpr uint64_t metadata_size_max =
    64u << 20;  // bytes of a transaction's names and extents, as stored

class space_reserve;

// A durable object.
struct live_object {
  object_meta meta;
  std::vector<extent> extents;
  uint64_t file_sequence = 0;                // the log file that holds its put
  uint64_t offset = 0;                       // of its data in that file; 0: none
  uint64_t name_order = 0, flags_order = 0;  // of the changes that set its name and flags
  uint64_t put_order = 0;                    // its put includes the changes up to this order
  uint64_t name_file = 0, flags_file = 0;    // the log files of changes that the put lacks
};

struct log_options {
  std::string url;           // the existing folder of the log files; ends in '/'
  pool_identity identity{};  // all zero: that of the files, or a new one without files. Otherwise
                             // files of another pool are an error
  bool with_data = true;     // false: a journal for objects in a backing file
  bool verify_all = false;   // recovery reads all data and drops objects with a wrong checksum
  uint64_t file_size = 256u << 20;    // bytes of a log file, unless one transaction is larger
  uint64_t compact_above = 1u << 30;  // bytes of all files, from which on a third may be dead
  uint64_t size_max =
      ~uint64_t{0};  // bytes of all files; an eighth, at most one file, is kept for compaction
  uint64_t copy_size_max = 256u << 20;  // bytes of memory; compaction does not move larger objects
  bool gathers = true;  // a group of few bytes may wait for transactions that could share its sync
  uint64_t group_size_max = 64u << 20;  // bytes that share a sync, unless a transaction is larger
  uint64_t queue_size_max = 1u << 30;   // bytes of queued transactions, unless one is larger
  uint32_t queue_count_max = 4096;      // queued transactions
  uint64_t mark_delay_ns = 100'000'000;
  uint64_t retry_delay_ns = 1'000'000'000;  // after a compaction that failed
  uint64_t io_timeout_ns = 60'000'000'000;  // of one store operation
  space_reserve *reserve = nullptr;  // must outlive the log; null: a full store cannot log removals
  std::function<void(const object_meta &)>
      on_lost;  // called when compaction has dropped an object with damaged bytes
};

}  // namespace tanada::pool
