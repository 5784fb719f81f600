// products/nixl/object_worker.hpp: a thread that moves bytes between memory and objects of a pool.
//
// It uses the public calls of tanada/pool.h and nothing of NIXL, so that it is built and tested
// without NIXL's headers.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/base/mutex.hpp"
#include "tanada/pool.h"

namespace tanada::nixl {

// A range of memory, and its place in an object.
struct piece {
  uint64_t offset;  // in the object
  void *memory;
  uint64_t size;
};

// The index of a GPU, or host memory.
inline constexpr uint32_t host_memory = UINT32_MAX;

// What one request does with one object.
struct task {
  std::string name;
  uint64_t object_size;  // as registered; 0: unknown
  uint32_t device;
  bool is_write;
  std::vector<piece> pieces;
  bool is_claimed = false;  // accessed by std::atomic_ref

  // A write of all bytes replaces the object. Other writes keep the object's other bytes.
  bool is_whole() const noexcept {
    return pieces.size() == 1 && pieces[0].offset == 0 &&
           (!is_write || object_size <= pieces[0].size);
  }
  bool is_whole_in_host_memory() const noexcept {
    return device == host_memory && is_whole();
  }
  uint64_t byte_count() const noexcept;
};

// Tasks that are posted together, once or repeatedly. A worker and the caller may both want to
// carry out a task: the one that claims it does.
struct request {
  std::vector<task> tasks;
  std::atomic<uint32_t> pending{0};  // tasks that were not carried out yet
  std::atomic<tnd_status> status{TND_OK};

  // Condition: no task is pending.
  void start();
  bool claim(size_t index);
  void finish(tnd_status result);
  uint64_t byte_count() const noexcept;
  bool is_done() const noexcept {
    return pending.load(std::memory_order_acquire) == 0;
  }
};

// A task of a request, which it keeps.
struct posted_task {
  std::shared_ptr<request> owner;
  size_t index;

  const task &get() const noexcept {
    return owner->tasks[index];
  }
  void finish(tnd_status result) const {
    owner->finish(result);
  }
};

struct worker_config {
  std::string url;
  std::string key_file;  // "": that of the environment
  uint32_t flags;        // of objects and commits: TND_POOL_EVICTABLE, TND_POOL_DURABLE
  bool is_local;         // the pool's memory is mapped: large objects are copied in the call
};

// Connections to the pool: one for host memory, and one for each GPU, made when it is first used.
class connection_table {
 public:
  explicit connection_table(const worker_config &config) : config_{config} {}
  ~connection_table();
  connection_table(const connection_table &) = delete;
  connection_table &operator=(const connection_table &) = delete;

  // Thread safety: any thread. `pool` stays connected until the table is destroyed.
  tnd_status connect(uint32_t device, tnd_pool **pool);

  // Whether an object was read before, of those that are remembered. A local pool's client then
  // often needs no round trip to read it again. Thread safety: one thread at a time.
  bool was_read(const std::string &name);

 private:
  const worker_config &config_;
  std::unordered_set<std::string> read_names_;
  mutex mutex_;
  std::map<uint32_t, tnd_pool *> pools_ TND_GUARDED_BY(mutex_);
};

// Carries out tasks in the order of their posts. All tasks of an object go to one worker: two
// requests that write different ranges of it at a time keep the bytes of each other.
class object_worker {
 public:
  explicit object_worker(const worker_config &config);
  ~object_worker();  // tasks that were not begun fail with -ECANCELED
  object_worker(const object_worker &) = delete;
  object_worker &operator=(const object_worker &) = delete;

  connection_table &connections() noexcept {
    return connections_;
  }
  void post(posted_task posted);

 private:
  void run();

  const worker_config &config_;
  connection_table connections_;
  mutex mutex_;
  condition_variable posted_;
  std::deque<posted_task> queue_ TND_GUARDED_BY(mutex_);
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Carry out claimed tasks in the calling thread. No other thread may poll the connections.
void carry_out(connection_table &connections,
               const worker_config &config,
               std::span<const posted_task> batch);

// End a request early: tasks that were not begun fail with -ECANCELED, others are waited for. Each
// ends by the timeout of its connection.
void cancel(request &posted);

}  // namespace tanada::nixl
