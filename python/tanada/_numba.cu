// _numba.cu: the device calls of gfile with names and signatures that Numba can declare. It is
// compiled to LTO-IR for the available GPU, so that the calls are inlined into kernels.
//
// Numba's ABI: the value goes to the first parameter, and the function returns 0. A gfile_ref is
// passed as its two numbers, pointers as integers.
#include <tanada/device/gfile.cuh>

using tanada::u64;

struct tnd_numba_open {
  int status, fd;
};
struct tnd_numba_size {
  int status;
  u64 size;
};
struct tnd_numba_page {
  int status;
  const tanada::u8 *bytes;
  u64 size;
};

#define TND_REF                                 \
  tanada::gfile_ref {                           \
    reinterpret_cast<void *>(state), timeout_ns \
  }
#define TND_CALL(group, name) extern "C" __device__ int tnd_numba_##group##_##name
#define TND_CALLS(group)                                                                          \
  TND_CALL(group, gopen)(tnd_numba_open * value, u64 state, u64 timeout_ns, u64 url, int flags) { \
    int fd = -1;                                                                                  \
    auto const *const text = reinterpret_cast<const char *>(url);                                 \
    int const status = int(tanada::gopen(tanada::this_##group{}, TND_REF, text, flags, &fd));     \
    *value = {status, fd};                                                                        \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gread)(tnd_numba_size * value,                                                  \
                         u64 state,                                                               \
                         u64 timeout_ns,                                                          \
                         int fd,                                                                  \
                         u64 buffer,                                                              \
                         u64 offset,                                                              \
                         u64 size) {                                                              \
    auto *const target = reinterpret_cast<void *>(buffer);                                        \
    auto const done = tanada::gread(tanada::this_##group{}, TND_REF, fd, target, offset, size);   \
    *value = {int(done.status), done.size};                                                       \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gwrite)(tnd_numba_size * value,                                                 \
                          u64 state,                                                              \
                          u64 timeout_ns,                                                         \
                          int fd,                                                                 \
                          u64 buffer,                                                             \
                          u64 offset,                                                             \
                          u64 size) {                                                             \
    auto const *const source = reinterpret_cast<const void *>(buffer);                            \
    auto const done = tanada::gwrite(tanada::this_##group{}, TND_REF, fd, source, offset, size);  \
    *value = {int(done.status), done.size};                                                       \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gfstat)(tnd_numba_size * value, u64 state, u64 timeout_ns, int fd) {            \
    auto const found = tanada::gfstat(tanada::this_##group{}, TND_REF, fd);                       \
    *value = {int(found.status), found.size};                                                     \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gclose)(int *value, u64 state, u64 timeout_ns, int fd) {                        \
    *value = int(tanada::gclose(tanada::this_##group{}, TND_REF, fd));                            \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gfsync)(int *value, u64 state, u64 timeout_ns, int fd) {                        \
    *value = int(tanada::gfsync(tanada::this_##group{}, TND_REF, fd));                            \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gftruncate)(int *value, u64 state, u64 timeout_ns, int fd, u64 size) {          \
    *value = int(tanada::gftruncate(tanada::this_##group{}, TND_REF, fd, size));                  \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gunlink)(int *value, u64 state, u64 timeout_ns, u64 url) {                      \
    *value = int(                                                                                 \
        tanada::gunlink(tanada::this_##group{}, TND_REF, reinterpret_cast<const char *>(url)));   \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gprefetch)(                                                                     \
      int *value, u64 state, u64 timeout_ns, int fd, u64 offset, u64 size) {                      \
    *value = int(tanada::gprefetch(tanada::this_##group{}, TND_REF, fd, offset, size));           \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gmap)(tnd_numba_page * value, u64 state, u64 timeout_ns, int fd, u64 offset) {  \
    auto const page = tanada::gmap(tanada::this_##group{}, TND_REF, fd, offset);                  \
    *value = {int(page.status), page.bytes, page.size};                                           \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gunmap)(int *value, u64 state, u64 timeout_ns, const tanada::u8 *bytes) {       \
    *value = int(tanada::gunmap(tanada::this_##group{}, TND_REF, bytes));                         \
    return 0;                                                                                     \
  }                                                                                               \
  TND_CALL(group, gpage_size)(unsigned *value, u64 state, u64 timeout_ns) {                       \
    *value = tanada::gpage_size(TND_REF);                                                         \
    return 0;                                                                                     \
  }

TND_CALLS(thread)
TND_CALLS(warp)
TND_CALLS(block)
