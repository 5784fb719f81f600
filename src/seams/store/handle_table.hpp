// seams/store/handle_table.hpp: open files by number. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>

#include "core/base/mutex.hpp"
#include "seams/store/store.hpp"
#include "seams/store/striped_mutex.hpp"

namespace tanada::seams {

// Numbers are never reused, so a number kept past its close finds nothing instead of another file.
// A thread that found a file keeps it alive, closed or not.
template <class File>
class handle_table {
 public:
  store_file insert(std::shared_ptr<File> file) {
    store_file const id = next_id_.fetch_add(1, std::memory_order_relaxed);
    shard &home = shard_of(id);
    unique_lock const lock{home.mutex};
    home.files.emplace(id, std::move(file));
    return id;
  }

  std::shared_ptr<File> find(store_file id) const {
    shard &home = shard_of(id);
    shared_lock const lock{home.mutex};
    auto const it = home.files.find(id);
    return it == home.files.end() ? nullptr : it->second;
  }

  // Calls `function` with the file, which stays open meanwhile; insert and remove may wait. False:
  // there is no such file. Cheaper than find() where many threads use one file.
  template <class Function>
  bool visit(store_file id, Function function) const {
    shard &home = shard_of(id);
    shared_lock const lock{home.mutex};
    auto const it = home.files.find(id);
    if (it == home.files.end())
      return false;
    function(*it->second);
    return true;
  }

  std::shared_ptr<File> remove(store_file id) {
    shard &home = shard_of(id);
    unique_lock const lock{home.mutex};
    auto node = home.files.extract(id);
    return node ? std::move(node.mapped()) : nullptr;
  }

 private:
  // Threads that open and close files at the same time mostly take different locks.
  struct shard {
    striped_mutex mutex;
    std::unordered_map<store_file, std::shared_ptr<File>> files;  // guarded by mutex
  };
  static constexpr size_t shard_count = 16;

  shard &shard_of(store_file id) const {
    return shards_[id % shard_count];
  }

  mutable std::array<shard, shard_count> shards_;
  std::atomic<store_file> next_id_ = 1;
};

}  // namespace tanada::seams
