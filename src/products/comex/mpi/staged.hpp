// products/comex/mpi/staged.hpp: large messages that MPI has in a file's memory, in the place of
// the program's: so that the program's may leave while MPI waits.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "seams/os/file_buffer.hpp"

namespace tanada::comex {

enum class message_direction : uint8_t { sent, received };

// The bytes of one message. The system writes them to the folder of TND_COMEX_SWAP and takes them
// back when it has no other memory: they are no part of the budget.
class staged_message {
 public:
  // Smaller messages are not worth a file: MPI has the program's memory.
  static constexpr size_t size_min = size_t{1} << 20;

  // Null: MPI is to have the program's memory itself. Either the memory cannot leave, is small or
  // has gaps; or the folder is missing or full; or another thread than comex_init's calls.
  static std::unique_ptr<staged_message> create(void *memory, size_t size,
                                                message_direction direction);
  static std::unique_ptr<staged_message> create(const void *memory, int count, MPI_Datatype type,
                                                message_direction direction);

  void *data() const noexcept {
    return buffer_->data();
  }
  // Called once, when MPI is done: copies what was received to the program's memory, which must be
  // resident.
  void finish() noexcept;

 private:
  staged_message(std::unique_ptr<port::file_buffer> buffer, void *memory,
                 message_direction direction)
      : buffer_{std::move(buffer)}, memory_{memory}, direction_{direction} {}

  std::unique_ptr<port::file_buffer> const buffer_;
  void *const memory_;
  message_direction const direction_;
};

using staged_pointer = std::unique_ptr<staged_message>;

// The same for a call that has the buffer until end_staged_buffer() of what this returns. Null: the
// program's memory has to do.
void *stage_buffer(void *buffer, size_t size) noexcept;
// False: it was not staged.
bool end_staged_buffer(void *used, bool is_written) noexcept;

// What MPI is to have.
inline void *data_of(const staged_pointer &staged, const void *memory) noexcept {
  return staged ? staged->data() : const_cast<void *>(memory);
}

}  // namespace tanada::comex
