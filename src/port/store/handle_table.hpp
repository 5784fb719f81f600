// port/store/handle_table.hpp: open files by number. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "port/store/store.hpp"
#include "port/store/striped_mutex.hpp"

namespace tanada::port {

// Numbers are never used twice, so a number kept past its close finds nothing instead of another file. Whoever
// found a file keeps it alive, closed or not.
template <class File>
class handle_table {
 public:
  store_file insert(std::shared_ptr<File> file) {
    std::unique_lock lock{mutex_};
    store_file const id = next_id_++;
    files_.emplace(id, std::move(file));
    return id;
  }

  std::shared_ptr<File> find(store_file id) const {
    std::shared_lock lock{mutex_};
    auto const at = files_.find(id);
    return at == files_.end() ? nullptr : at->second;
  }

  // Call `function` with the file, which stays open meanwhile: insert and remove wait. False: there is none. Cheaper than
  // find() where many threads use one file.
  template <class Function>
  bool visit(store_file id, Function function) const {
    std::shared_lock lock{mutex_};
    auto const at = files_.find(id);
    if (at == files_.end()) return false;
    function(*at->second);
    return true;
  }

  std::shared_ptr<File> remove(store_file id) {
    std::unique_lock lock{mutex_};
    auto node = files_.extract(id);
    return node ? std::move(node.mapped()) : nullptr;
  }

 private:
  mutable striped_mutex mutex_;
  std::unordered_map<store_file, std::shared_ptr<File>> files_;
  store_file next_id_ = 1;
};

}  // namespace tanada::port
