// parts/registered.h: symmetric memory that a program has created itself. On the host executor the
// program's pages and pieces of the heap are the same memory. Not for direct inclusion.
#pragma once

#include <sys/mman.h>

#include <map>
#include <mutex>

namespace tanada::nvshmem {

struct registered_memory {
  std::mutex mutex;
  std::map<void *, void *> programs;  // the program's address, by that in the heap

  static registered_memory &instance() {
    static registered_memory &table = *new registered_memory;
    return table;
  }
};

// Show a piece of the heap at the program's address, with what the program has stored there.
inline bool show_at(void *piece, void *addr, size_t size) {
  memcpy(piece, addr, size);
  return mremap(piece, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, addr) == addr;
}
// Give the program pages of its own again, with what is in the heap.
inline bool hide_at(const void *piece, void *addr, size_t size) {
  void *const pages =
      mmap(addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (pages != addr)
    return false;
  memcpy(addr, piece, size);
  return true;
}

inline void *register_memory(void *addr, size_t size) {
  if (shmemx_device_kind() != SHMEMX_DEVICE_HOST) {
    fprintf(stderr,
            "nvshmemx_buffer_register_symmetric: only memory of the host executor can be "
            "registered: allocate with nvshmem_malloc\n");
    return nullptr;
  }
  size_t const page = 4096;
  if (size == 0 || size % page != 0 || reinterpret_cast<uintptr_t>(addr) % page != 0)
    return nullptr;
  void *const piece = shmemg_align(page, size);
  if (piece == nullptr)
    return nullptr;
  if (!show_at(piece, addr, size)) {
    shmemg_free(piece);
    return nullptr;
  }
  registered_memory &table = registered_memory::instance();
  std::lock_guard const lock{table.mutex};
  table.programs[piece] = addr;
  return piece;
}

inline int unregister_memory(void *piece, size_t size) {
  registered_memory &table = registered_memory::instance();
  void *addr = nullptr;
  {
    std::lock_guard const lock{table.mutex};
    auto const position = table.programs.find(piece);
    if (position == table.programs.end())
      return NVSHMEMX_ERROR_INVALID_VALUE;
    addr = position->second;
    table.programs.erase(position);
  }
  shmem_barrier_all();  // no PE uses it any more
  bool const is_hidden = hide_at(piece, addr, size);
  shmemg_free(piece);
  return is_hidden ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INTERNAL;
}

}  // namespace tanada::nvshmem

// Collective, with equal sizes. Returns the symmetric address of the memory; null: none.
inline void *nvshmemx_buffer_register_symmetric(void *buf_ptr, size_t size, int) {
  (void)cudaDeviceSynchronize();
  return tanada::nvshmem::register_memory(buf_ptr, size);
}
inline int nvshmemx_buffer_unregister_symmetric(void *mmap_ptr, size_t size) {
  (void)cudaDeviceSynchronize();
  return tanada::nvshmem::unregister_memory(mmap_ptr, size);
}
// Local memory needs no registration: every call takes any memory.
inline int nvshmemx_buffer_register(void *, size_t) {
  return NVSHMEMX_SUCCESS;
}
inline int nvshmemx_buffer_unregister(void *) {
  return NVSHMEMX_SUCCESS;
}
inline void nvshmemx_buffer_unregister_all() {}
