#include "seams/os/area.hpp"

#include <boost/interprocess/indexes/iset_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <new>

#include "core/base/log.hpp"

namespace tanada::port {

namespace {

namespace interprocess = boost::interprocess;

constexpr size_t alignment = 16;

// No locks: whoever has the area excludes others. The index of names stays empty.
using segment = interprocess::basic_managed_external_buffer<
    char, interprocess::rbtree_best_fit<interprocess::null_mutex_family>, interprocess::iset_index>;

}  // namespace

struct area::manager {
  manager(void *begin, size_t size) : pieces{interprocess::create_only, begin, size} {}

  segment pieces;
};

area::area(std::unique_ptr<manager> made) : manager_{std::move(made)} {}
area::~area() = default;

result<std::unique_ptr<area>> area::create(std::span<std::byte> memory) {
  void *begin = memory.data();
  size_t size = memory.size();
  bool const is_aligned = std::align(alignment, 1, begin, size) != nullptr;
  try {
    if (is_aligned)
      return std::unique_ptr<area>{new area{std::make_unique<manager>(begin, size)}};
  } catch (const interprocess::interprocess_exception &) {
    // Too small, too.
  }
  return fail(status::invalid, "an area of %zu bytes is too small", memory.size());
}

void *area::allocate(size_t size) noexcept {
  return manager_->pieces.allocate_aligned(size, alignment, std::nothrow);
}

void area::release(void *piece) noexcept {
  manager_->pieces.deallocate(piece);
}

size_t area::free_size() const noexcept {
  return manager_->pieces.get_free_memory();
}

}  // namespace tanada::port
