// GPUDirect Storage through cuFile, which is loaded at run time.
#include "backends/cuda/direct.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/mutex.hpp"
#include "backends/cuda/message.hpp"

namespace tanada::backends::cuda {
namespace {

// The part of cuFile's binary interface that is used here. It has not changed since its first
// release. (cuFile's header is in a package of the toolkit that compilers do not need.)
namespace cufile {
struct error {
  int code;         // 0: success; from 5001 on cuFile's own
  int driver_code;  // CUresult
};
struct file {
  int type;  // 1: a Linux file descriptor
  union {
    int descriptor;
    void *handle;
  };
  const void *operations;
};
constexpr int linux_descriptor = 1, allow_compatibility_mode = 1;
static_assert(sizeof(file) == 24);
}  // namespace cufile

struct library {
  cufile::error (*driver_open)() = nullptr;
  cufile::error (*set_bool)(int parameter, bool value) = nullptr;
  cufile::error (*handle_register)(void **handle, cufile::file *description) = nullptr;
  void (*handle_deregister)(void *handle) = nullptr;
  ssize_t (*read)(void *handle, void *base, size_t size, off_t file_offset, off_t base_offset) =
      nullptr;
};

// Opened at most once in a process, because cuFile has one driver for each process. Never closed,
// since threads may be inside.
struct file_driver {
  tanada::mutex mutex;
  bool tried = false;
  tnd_status code = TND_OK;
  char reason[256] = "";
  library calls;
};
file_driver &the_driver() {
  static file_driver &instance = *new file_driver;
  return instance;
}

template <class Function>
bool find(void *handle, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

tnd_status load(library &calls) {
  void *const file = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr)
    return set_error(-TND_ENOPLUGIN,
                     "GPUDirect Storage needs libcufile.so.0 (package libcufile-13-0): {}",
                     dlerror());
  bool const whole = find(file, "cuFileDriverOpen", calls.driver_open) &&
                     find(file, "cuFileSetParameterBool", calls.set_bool) &&
                     find(file, "cuFileHandleRegister", calls.handle_register) &&
                     find(file, "cuFileHandleDeregister", calls.handle_deregister) &&
                     find(file, "cuFileRead", calls.read);
  return whole
             ? TND_OK
             : set_error(-TND_ENOPLUGIN, "libcufile.so.0 is too old: CUDA 12.8 or newer is needed");
}

bool has_kernel_driver() {
  return access("/proc/driver/nvidia-fs/version", R_OK) == 0;
}

constexpr char no_kernel_driver[] =
    "cuFile would copy by the processor: the kernel module nvidia-fs is not loaded";

tnd_status open_driver(file_driver &state, bool compatible_too) {
  if (!has_kernel_driver() && !compatible_too)
    return set_error(-ENOTSUP, "{}", no_kernel_driver);
  if (tnd_status const code = load(state.calls); code != TND_OK)
    return code;
  // Set before the driver opens; if this fails, the value of cufile.json remains.
  (void)state.calls.set_bool(cufile::allow_compatibility_mode, compatible_too);
  cufile::error const opened = state.calls.driver_open();
  if (opened.code != 0)
    return set_error(-ENOTSUP,
                     "cuFileDriverOpen: cuFile error {}, CUDA error {}",
                     opened.code,
                     opened.driver_code);
  return TND_OK;
}

}  // namespace

tnd_status direct_prepare(uint32_t device_index, int compatible_too, int *compatible) {
  file_driver &state = the_driver();
  tanada::lock_guard const lock{state.mutex};
  if (!state.tried || (state.code != TND_OK && compatible_too != 0)) {
    if (cudaSetDevice(int(device_index)) != cudaSuccess)
      return set_error(-ENODEV, "cannot open GPU {}", device_index);
    state.tried = true;
    state.code = open_driver(state, compatible_too != 0);
  } else if (state.code != TND_OK) {
    return set_error(state.code, "{}", no_kernel_driver);
  }
  if (state.code != TND_OK)
    return state.code;
  *compatible = has_kernel_driver() ? 0 : 1;
  if (*compatible != 0)
    (void)set_error(TND_OK, "{}", no_kernel_driver);
  return TND_OK;
}

tnd_status direct_open(int descriptor, uint64_t *file) {
  cufile::file description{cufile::linux_descriptor, {descriptor}, nullptr};
  void *handle = nullptr;
  cufile::error const registered = the_driver().calls.handle_register(&handle, &description);
  if (registered.code != 0)
    return set_error(-ENOTSUP, "cuFile cannot register the file: error {}", registered.code);
  *file = reinterpret_cast<uint64_t>(handle);
  return TND_OK;
}

void direct_close(uint64_t file) {
  the_driver().calls.handle_deregister(reinterpret_cast<void *>(file));
}

tnd_status direct_read(uint32_t device_index,
                       uint64_t file,
                       uint64_t offset,
                       void *target,
                       size_t size,
                       size_t *moved) {
  *moved = 0;
  if (cudaSetDevice(int(device_index)) != cudaSuccess)
    return set_error(-TND_EDEVICE, "cannot open GPU {}", device_index);
  while (*moved < size) {
    ssize_t const got = the_driver().calls.read(reinterpret_cast<void *>(file),
                                                static_cast<char *>(target) + *moved,
                                                size - *moved,
                                                off_t(offset + *moved),
                                                0);
    if (got == 0)
      break;
    if (got == -1 && errno == EINTR)
      continue;
    if (got == -1)
      return set_error(-errno, "cuFileRead: errno {}", errno);
    if (got < 0)
      return set_error(-EIO, "cuFileRead: cuFile error {}", -got);
    *moved += size_t(got);
  }
  // The processor notifies a running kernel of these bytes. They must be visible to it before that.
  cudaError_t const flushed = cudaDeviceFlushGPUDirectRDMAWrites(
      cudaFlushGPUDirectRDMAWritesTargetCurrentDevice, cudaFlushGPUDirectRDMAWritesToOwner);
  if (flushed == cudaSuccess || flushed == cudaErrorNotSupported)
    return TND_OK;
  return set_error(-TND_EDEVICE, "cannot flush direct writes: {}", cudaGetErrorString(flushed));
}

}  // namespace tanada::backends::cuda
