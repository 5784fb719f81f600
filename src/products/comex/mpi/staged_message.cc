// products/comex/mpi/staged_message.cc: creates the file buffers of large messages.
#include "products/comex/mpi/staged_message.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/log.hpp"
#include "products/comex/mpi/mpi_wait_scope.hpp"

namespace tanada::comex {
namespace {

// Bytes of a contiguous message; 0: it has gaps, or may refer to other memory.
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

// A received message may be shorter than its buffer, whose rest must not change. So the buffer is
// copied first in both directions.
staged_pointer staged_message::create(void *memory, size_t size, message_direction direction) {
  if (size < size_min || !is_swapping_thread())
    return nullptr;
  process_swapper &swapper = *current_swapper();
  if (swapper.folder().empty() || !swapper.is_swappable(memory, size))
    return nullptr;
  auto buffer = seams::file_buffer::create(swapper.folder(), size);
  if (!buffer.ok()) {
    log(log_level::info, "swapping: MPI uses the program's own memory: {}", last_message());
    return nullptr;
  }
  staged_pointer message{new staged_message{std::move(buffer).value(), memory, direction}};
  std::memcpy(message->data(), memory, size);
  return message;
}

staged_pointer staged_message::create(const void *memory,
                                      int count,
                                      MPI_Datatype type,
                                      message_direction direction) {
  if (!is_swapping_thread())
    return nullptr;
  return create(const_cast<void *>(memory), size_of(count, type), direction);
}

namespace {

// One thread at a time, as is_swapping_thread() ensures; calls nest.
std::vector<staged_pointer> &staged_buffers() {
  static auto &buffers = *new std::vector<staged_pointer>;  // programs may call during exit
  return buffers;
}

}  // namespace

void *stage_buffer(void *buffer, size_t size) noexcept {
  return guard_exceptions("MPI", [&]() -> void * {
    auto staged = staged_message::create(buffer, size, message_direction::received);
    if (!staged)
      return nullptr;
    staged_buffers().push_back(std::move(staged));
    return staged_buffers().back()->data();
  });
}

bool end_staged_buffer(void *used, bool is_written) noexcept {
  auto &buffers = staged_buffers();
  auto const it =
      std::find_if(buffers.begin(), buffers.end(), [used](const staged_pointer &message) {
        return message->data() == used;
      });
  if (it == buffers.end())
    return false;
  if (is_written)
    (*it)->finish();
  buffers.erase(it);
  return true;
}

void staged_message::finish() noexcept {
  if (direction_ == message_direction::received)
    std::memcpy(memory_, buffer_->data(), buffer_->size());
}

}  // namespace tanada::comex
