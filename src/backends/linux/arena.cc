// backends/linux/arena.cc: an allocator over a given piece of memory.
#include "seams/os/arena.hpp"

#include <boost/interprocess/indexes/iset_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <new>

#include "core/base/log.hpp"

namespace tanada::seams {

namespace {

namespace interprocess = boost::interprocess;

constexpr size_t alignment = 16;

// No locks: the owner of the area serializes calls. The index of names stays empty.
using segment = interprocess::basic_managed_external_buffer<
    char,
    interprocess::rbtree_best_fit<interprocess::null_mutex_family>,
    interprocess::iset_index>;

}  // namespace

struct arena::manager {
  manager(void *begin, size_t size) : pieces{interprocess::create_only, begin, size} {}

  segment pieces;
};

arena::arena(std::unique_ptr<manager> manager_object) : manager_{std::move(manager_object)} {}
arena::~arena() = default;

result<std::unique_ptr<arena>> arena::create(std::span<std::byte> memory) {
  void *begin = memory.data();
  size_t size = memory.size();
  bool const is_aligned = std::align(alignment, 1, begin, size) != nullptr;
  try {
    if (is_aligned)
      return std::unique_ptr<arena>{new arena{std::make_unique<manager>(begin, size)}};
  } catch (const interprocess::interprocess_exception &) {
    // Also thrown when the memory is too small.
  }
  return fail(status::invalid, "an area of {} bytes is too small", memory.size());
}

void *arena::allocate(size_t size) noexcept {
  return manager_->pieces.allocate_aligned(size, alignment, std::nothrow);
}

void arena::release(void *piece) noexcept {
  manager_->pieces.deallocate(piece);
}

size_t arena::free_size() const noexcept {
  return manager_->pieces.get_free_memory();
}

}  // namespace tanada::seams
