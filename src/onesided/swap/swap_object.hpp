// onesided/swap/swap_object.hpp: the swap objects: one object of a store for each process of a
// node, which holds its swapped-out pages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "seams/store/store.hpp"

namespace tanada::onesided::swap {

// Page `i` of a process lies at byte i * page_size of its object, unless it was never written.
// Objects are created with permissions only for their owner and under unique names, which are
// unlinked at once. So they end with the process that created them, however it ends.
//
// Thread safety: one thread at a time.
class swap_objects {
 public:
  // Creates objects below the folder `url`, such as "file:///scratch" or "pool://node/swap". Waits
  // at most timeout_ns for each store operation. Returns the store's error, with a message that
  // names the URL. The store outlives the objects.
  static result<std::unique_ptr<swap_objects>> create(seams::store &store,
                                                      const std::string &url,
                                                      uint32_t count,
                                                      uint32_t queue_depth,
                                                      uint64_t timeout_ns);
  ~swap_objects();  // frees the objects; waits as create() does
  swap_objects(const swap_objects &) = delete;
  swap_objects &operator=(const swap_objects &) = delete;

  seams::store_queue &queue() const noexcept {
    return *queue_;
  }
  seams::store_file file(uint32_t index) const noexcept {
    TND_ASSERT(index < files_.size());
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
  seams::store_completion perform(seams::store_op op);
  void close(uint32_t index);

  std::unique_ptr<seams::store_queue> queue_;
  std::string url_;
  std::vector<seams::store_file> files_;
  std::vector<std::string> names_;
  uint64_t timeout_ns_ = 0;
  bool is_unresponsive_ = false;  // the store does not answer
};

}  // namespace tanada::onesided::swap
