// onesided/swap/swap_object.hpp: where pages are that left DRAM: an object of a store for each
// process of a node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "seams/store/store.hpp"

namespace tanada::comex::swap {

// Page `i` of a process lies at i * page_size of its object, or nowhere yet. Objects are made for
// their owner alone, by names nobody else has, and lose them at once: they end with the process
// that has made them, whatever becomes of it.
//
// Thread safety: one thread at a time.
class swap_objects {
 public:
  // Objects below `url`, a folder: "file:///scratch", "pool://node/swap". Waits for the store, at
  // most timeout_ns for each. What the store says, with a message that names the URL. The store
  // outlives them.
  static result<std::unique_ptr<swap_objects>> create(port::store &from, const std::string &url,
                                                      uint32_t count, uint32_t queue_depth,
                                                      uint64_t timeout_ns);
  ~swap_objects();  // gives back what they take; waits as create() does
  swap_objects(const swap_objects &) = delete;
  swap_objects &operator=(const swap_objects &) = delete;

  port::store_queue &queue() const noexcept {
    return *queue_;
  }
  port::store_file file(uint32_t index) const noexcept {
    return files_[index];
  }
  uint32_t count() const noexcept {
    return uint32_t(files_.size());
  }
  const std::string &url() const noexcept {
    return url_;
  }

 private:
  swap_objects() = default;
  status open(const std::string &name);
  port::store_completion perform(port::store_op op);
  void close(uint32_t index);

  std::unique_ptr<port::store_queue> queue_;
  std::string url_;
  std::vector<port::store_file> files_;
  std::vector<std::string> names_;
  uint64_t timeout_ns_ = 0;
  bool is_stuck_ = false;  // the store does not answer
};

}  // namespace tanada::comex::swap
