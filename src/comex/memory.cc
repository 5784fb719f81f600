// The heap of this process: pieces of it.
#include <sys/mman.h>

#include "comex/engine.hpp"
#include "port/memory/shared_memory.hpp"

namespace tanada::comex {
namespace {

constexpr size_t large = size_t{1} << 20;  // bytes: pages of pieces from here on go back to the system

}  // namespace

void *engine::allocate(size_t size) {
  auto const at = books_->allocate(size, 64);
  return at ? job_->heap().data() + *at : nullptr;
}

bool engine::release(void *piece) {
  auto const heap = job_->heap();
  auto const addr = reinterpret_cast<uintptr_t>(piece), begin = reinterpret_cast<uintptr_t>(heap.data());
  if (addr < begin || addr - begin >= heap.size()) return false;
  size_t const offset = addr - begin;
  auto const size = books_->size_of(offset);
  if (!size) return false;
  // Whole pages inside. A system that cannot keeps them.
  if (*size >= large) {
    size_t const page = port::page_size(), first = (offset + page - 1) / page * page, last = (offset + *size) / page * page;
    (void)madvise(heap.data() + first, last - first, MADV_REMOVE);
  }
  return books_->release(offset);
}

}  // namespace tanada::comex
