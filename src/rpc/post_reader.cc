// The host's side of the queue of requests that need no answer.
#include "rpc/post_reader.hpp"

#include "core/base/assert.hpp"

namespace tanada::rpc {

post_entry *post_reader::front() const noexcept {
  post_entry &entry = box_.entries[taken_count_ % post_count];
  u64 const posted = simt::system_atomic<u64>(entry.posted).load_acquire();
  return posted == taken_count_ + 1 ? &entry : nullptr;
}

void post_reader::release() noexcept {
  TND_ASSERT(front() != nullptr);
  simt::system_atomic<u64>(box_.taken_count).store_release(++taken_count_);
  // Kernels wait for free entries only where all are in use.
  if (taken_count_ % (post_count / 4) == 0)
    simt::host::wake_kernels();
}

}  // namespace tanada::rpc
