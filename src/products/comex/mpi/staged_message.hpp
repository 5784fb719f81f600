// products/comex/mpi/staged_message.hpp: large messages that MPI accesses in a file's memory in
// place of the program's. The program's memory can then be swapped out while MPI waits.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "seams/os/file_buffer.hpp"

namespace tanada::comex {

enum class message_direction : uint8_t { sent, received };

// The bytes of one message. The system writes them to the folder of TND_COMEX_SWAP, and reads them
// back, when it is short of other memory. They are no part of the budget.
class staged_message {
 public:
  // Smaller messages are not worth a file: MPI uses the program's memory.
  static constexpr size_t size_min = size_t{1} << 20;

  // Null: MPI must use the program's memory itself. Either the memory is not swappable, is small or
  // has gaps; or the folder is missing or full; or another thread than that of comex_init calls.
  static std::unique_ptr<staged_message> create(void *memory,
                                                size_t size,
                                                message_direction direction);
  static std::unique_ptr<staged_message> create(const void *memory,
                                                int count,
                                                MPI_Datatype type,
                                                message_direction direction);

  void *data() const noexcept {
    return buffer_->data();
  }
  // Called once, when MPI is done. Copies what was received to the program's memory, which must be
  // resident.
  void finish() noexcept;

 private:
  staged_message(std::unique_ptr<seams::file_buffer> buffer,
                 void *memory,
                 message_direction direction)
      : buffer_{std::move(buffer)}, memory_{memory}, direction_{direction} {}

  std::unique_ptr<seams::file_buffer> const buffer_;
  void *const memory_;
  message_direction const direction_;
};

using staged_pointer = std::unique_ptr<staged_message>;

// The same for a call that uses the buffer until end_staged_buffer(), which takes the result. Null:
// the call must use the program's memory.
void *stage_buffer(void *buffer, size_t size) noexcept;
// False: it was not staged.
bool end_staged_buffer(void *used, bool is_written) noexcept;

// The memory that MPI must use.
inline void *data_of(const staged_pointer &staged, const void *memory) noexcept {
  return staged ? staged->data() : const_cast<void *>(memory);
}

}  // namespace tanada::comex
