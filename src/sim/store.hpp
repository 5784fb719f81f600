// sim/store.hpp: seams::store in a world: files in memory, with faults.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "seams/store/store.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// Kinds of faults and their frequency. They may be changed during a run.
struct store_faults {
  struct error {
    uint32_t percent = 0;
    status code = status::io;
  };
  std::array<error, seams::store_op_kind_count>
      errors{};                     // by store_op_kind: the operation fails and changes nothing
  uint32_t torn_write_percent = 0;  // a part of the data is written, then the write fails
  status torn_write_code = status::io;
  uint32_t lost_write_percent =
      0;  // Writes that return ok and change nothing, which no correct store does.
  // Writes that return ok and change other bytes, which no correct store does: a multiple of 4096
  // bytes away, or in another file.
  uint32_t misdirected_write_percent = 0;
  bool volatile_cache =
      false;  // Unsynced data may be lost in crash(). Set it before the first write.
  uint64_t delay_ns_min = 1'000, delay_ns_max = 1'000;  // from post to completion
  bool reorder = true;               // false: completions come in the order of the posts
  uint64_t capacity = ~uint64_t{0};  // total size of all objects in bytes; no_space beyond it
  uint64_t version_grain_ns = 0;  // granularity of versions, as that of time stamps in file systems
  bool poll_advances = false;     // a fruitless poll runs the world's next action
};

// Named files in memory. An operation takes effect at one moment between its post and its
// completion. The world schedules both, so nothing happens while its clock stands still. Deadlines
// are in the time of the world: an operation past its deadline completes with timed_out, and a
// write may then have been partly done.
//
// As thread-safe as the world, which outlives the store.
class store final : public seams::store {
 public:
  store(world &owner, store_faults faults = {}, std::string scheme = "sim");
  ~store() override;

  std::string_view scheme() const noexcept override;
  result<std::unique_ptr<seams::store_queue>> queue_create(uint32_t depth) override;

  void faults_set(const store_faults &faults);

  // Total size of all objects in bytes, which store_faults::capacity limits.
  uint64_t used_size() const;

  // Until heal(), outstanding and new operations complete only by their deadline.
  void stall();
  void heal();

  // Simulates the end of the process that has files open. The owners of queues destroy them first.
  void close_files();

  // Simulates a power failure. With volatile_cache, a random part of the unsynced bytes, sizes and
  // names survives, in sectors of 512 bytes. The owners of queues destroy them first. All files are
  // closed.
  void crash();

  // The bytes of a URL, without faults, for final checks of a test; no_entry.
  result<std::string> contents(const std::string &url) const;

  // Replace the bytes of a URL, without faults and as if synced, for a test that damages them.
  // Creates the file if it does not exist.
  void contents_set(const std::string &url, std::string_view bytes);

 private:
  struct state;
  class queue;
  std::shared_ptr<state> state_;
};

}  // namespace tanada::sim
