// sim/store.hpp: port::store in a world: memory, with faults.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "seams/store/store.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// What goes wrong, and how often. All of it may change during a run.
struct store_faults {
  struct error {
    uint32_t percent = 0;
    status code = status::io;
  };
  std::array<error, port::store_op_kind_count>
      errors{};                     // by store_op_kind: the operation fails and changes nothing
  uint32_t torn_write_percent = 0;  // a part of a write arrives, then it fails
  status torn_write_code = status::io;
  uint32_t lost_write_percent =
      0;  // a write that says ok and changed nothing: what no store may do
  uint32_t misdirected_write_percent = 0;  // a write that says ok and went elsewhere, a multiple of
                                           // 4096 bytes away or into another file: likewise
  bool volatile_cache =
      false;  // what is not synced may be lost in crash(); set it before the first write
  uint64_t delay_ns_min = 1'000, delay_ns_max = 1'000;  // from post to completion
  bool reorder = true;               // else completions come in the order of the posts
  uint64_t capacity = ~uint64_t{0};  // bytes of all objects together; more is no_space
  uint64_t version_grain_ns = 0;  // versions change once a grain, as file systems' time stamps do
  bool poll_advances = false;     // a poll that finds nothing does the world's next thing
};

// Named bytes in memory. An operation takes effect at one moment between its post and its
// completion; both come from the world, so nothing happens while its clock stands still. Deadlines
// are in the world's time: an operation that its deadline overtakes is timed_out, and a write may
// have left a part behind.
//
// Thread-safe as the world is. The world outlives the store.
class store final : public port::store {
 public:
  store(world &owner, store_faults faults = {}, std::string scheme = "sim");
  ~store() override;

  std::string_view scheme() const noexcept override;
  result<std::unique_ptr<port::store_queue>> queue_create(uint32_t depth) override;

  void faults_set(const store_faults &faults);

  // Bytes of all objects, which store_faults::capacity bounds.
  uint64_t used_size() const;

  // Until heal(), operations posted or on their way do not complete but by their deadline.
  void stall();
  void heal();

  // The process that has files open ends. Before it, whoever has queues destroys them.
  void close_files();

  // The power fails: of what volatile_cache has not seen synced (bytes, sizes, names) some is there
  // and some is not, in sectors of 512 bytes. Before it, whoever has queues destroys them; files
  // that were open are not any more.
  void crash();

  // The bytes behind a URL, past all faults, for a test's last look; no_entry.
  result<std::string> contents(const std::string &url) const;

  // Put other bytes there, past all faults and as if synced, for a test that damages them. Makes
  // the file if there is none.
  void contents_set(const std::string &url, std::string_view bytes);

 private:
  struct state;
  class queue;
  std::shared_ptr<state> state_;
};

}  // namespace tanada::sim
