// examples/fdtd/slabs.hpp: the slab of each PE, and the job of the PEs that share the grid.
#pragma once

#include <shmem.h>
#include <shmemg.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "../common/device_memory.hpp"

namespace fdtd {

using tanada::u32;
using tanada::u64;
using tanada::u8;

/// Divides the planes 0 to n - 1 along z into one slab for each PE, in order, of sizes that differ
/// by at most one.
struct slabs {
  u32 n, count;

  u32 first(u32 pe) const {
    return u32(u64(pe) * n / count);
  }
  u32 last(u32 pe) const {
    return first(pe + 1);
  }  ///< the plane after the slab
  u32 planes(u32 pe) const {
    return last(pe) - first(pe);
  }
  u32 planes_max() const {
    return (n + count - 1) / count;
  }
  u32 owner(u32 plane) const {
    u32 pe = 0;
    while (plane >= last(pe))
      pe++;
    return pe;
  }
};

/// The PE's membership in its job, as a scope. A program that no launcher started is a job of one
/// PE.
class job {
 public:
  /// `device_heap_size`: the value of SHMEM_DEVICE_SYMMETRIC_SIZE unless it is set. `kernels_call`:
  /// kernels communicate, too. Throws.
  job(u64 device_heap_size, bool kernels_call) {
    (void)::setenv("SHMEM_DEVICE_SYMMETRIC_SIZE", std::to_string(device_heap_size).c_str(), 0);
    int const wanted = SHMEM_DEVICE_HOST_INIT | (kernels_call ? SHMEM_DEVICE_KERNEL_INIT : 0);
    int provided = 0;
    // Snapshots have threads of their own, which also communicate between PEs.
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE | wanted, &provided) != 0 ||
        (provided & wanted) != wanted)
      throw std::runtime_error("cannot start OpenSHMEM with memory of devices");
    void *const anywhere = shmemg_malloc(1);
    if (anywhere == nullptr)
      throw std::runtime_error("the device heap is too small: set SHMEM_DEVICE_SYMMETRIC_SIZE");
    device_ = examples::use_device_of(anywhere);
    shmemg_free(anywhere);
  }
  job(const job &) = delete;
  job &operator=(const job &) = delete;
  ~job() {
    shmem_finalize();
  }

  u32 me() const {
    return u32(shmem_my_pe());
  }
  u32 count() const {
    return u32(shmem_n_pes());
  }
  u32 device() const {
    return device_;
  }  ///< the GPU of the node on which kernels run; 0 without a GPU

 private:
  u32 device_ = 0;
};

/// The largest amount of symmetric device memory, in bytes, that a run on `n`^3 cells takes, for
/// any number of PEs.
inline u64 device_heap_size(u64 n, u32 snapshot_buffers) {
  u64 const fields = 6 * (n + 2) * (n + 2) * (n + 2),
            copies = u64(snapshot_buffers + 1) * n * n * (n + 1) / 2;
  return (fields + copies + 4 * n * n) * sizeof(float) + (u64(4) << 20);
}

}  // namespace fdtd
