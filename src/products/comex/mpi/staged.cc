#include "products/comex/mpi/staged.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/log.hpp"
#include "products/comex/mpi/outside.hpp"

namespace tanada::comex {
namespace {

// Bytes of a message of one piece; 0: it has gaps, or may lead to other memory.
size_t size_of(int count, MPI_Datatype type) noexcept {
  if (count <= 0 || type == MPI_DATATYPE_NULL || look_derived(type))
    return 0;
  int size = 0;
  MPI_Aint lowest = 0, extent = 0;
  if (PMPI_Type_size(type, &size) != MPI_SUCCESS ||
      PMPI_Type_get_extent(type, &lowest, &extent) != MPI_SUCCESS || lowest != 0 || extent != size)
    return 0;
  return size_t(count) * size_t(size);
}

}  // namespace

// What is received may be shorter than its buffer, whose rest stays as it is: it is copied first.
staged_pointer staged_message::create(void *memory, size_t size, message_direction direction) {
  if (size < size_min || !is_paced())
    return nullptr;
  swapping &away = *current_swapping();
  if (away.folder().empty() || !away.is_swappable(memory, size))
    return nullptr;
  auto buffer = port::file_buffer::create(away.folder(), size);
  if (!buffer.ok()) {
    log(log_level::info, "swapping: MPI has memory of the program itself: %s",
        last_message().c_str());
    return nullptr;
  }
  staged_pointer made{new staged_message{std::move(buffer).value(), memory, direction}};
  std::memcpy(made->data(), memory, size);
  return made;
}

staged_pointer staged_message::create(const void *memory, int count, MPI_Datatype type,
                                      message_direction direction) {
  if (!is_paced())
    return nullptr;
  return create(const_cast<void *>(memory), size_of(count, type), direction);
}

namespace {

// One thread at a time, as is_paced() has it: calls nest.
std::vector<staged_pointer> &staged_buffers() {
  static auto &all = *new std::vector<staged_pointer>;  // programs may call while they exit
  return all;
}

}  // namespace

void *stage_buffer(void *buffer, size_t size) noexcept {
  return fenced("MPI", [&]() -> void * {
    auto staged = staged_message::create(buffer, size, message_direction::received);
    if (!staged)
      return nullptr;
    staged_buffers().push_back(std::move(staged));
    return staged_buffers().back()->data();
  });
}

bool end_staged_buffer(void *used, bool is_written) noexcept {
  auto &all = staged_buffers();
  auto const found = std::find_if(
      all.begin(), all.end(), [used](const staged_pointer &each) { return each->data() == used; });
  if (found == all.end())
    return false;
  if (is_written)
    (*found)->finish();
  all.erase(found);
  return true;
}

void staged_message::finish() noexcept {
  if (direction_ == message_direction::received)
    std::memcpy(memory_, buffer_->data(), buffer_->size());
}

}  // namespace tanada::comex
