// tanada/device/detail/base/status.hpp: tnd_status as a distinct C++ type, for host and device
// code. C++17, no std headers: it must compile under NVRTC. The numbers are Linux's errno values;
// status.cc asserts that they are.
#pragma once

namespace tanada {

// A distinct type, so that a status cannot be passed, returned or compared as a size or an index.
// It becomes a tnd_status in one place only: the extern "C" functions.
enum class [[nodiscard]] status : int {
  ok = 0,
  not_permitted = -1,     // EPERM
  no_entry = -2,          // ENOENT
  interrupted = -4,       // EINTR
  io = -5,                // EIO
  bad_file = -9,          // EBADF: fd not open, or not open for this access
  again = -11,            // EAGAIN
  no_memory = -12,        // ENOMEM
  access = -13,           // EACCES
  fault = -14,            // EFAULT
  busy = -16,             // EBUSY
  exists = -17,           // EEXIST
  no_device = -19,        // ENODEV
  is_directory = -21,     // EISDIR
  invalid = -22,          // EINVAL
  too_many_files = -24,   // EMFILE
  too_big = -27,          // EFBIG
  no_space = -28,         // ENOSPC
  read_only = -30,        // EROFS
  range = -34,            // ERANGE
  name_too_long = -36,    // ENAMETOOLONG
  not_implemented = -38,  // ENOSYS
  overflow = -75,         // EOVERFLOW
  protocol = -71,         // EPROTO
  not_supported = -95,    // EOPNOTSUPP
  timed_out = -110,       // ETIMEDOUT
  stale = -116,           // ESTALE
  canceled = -125,        // ECANCELED
  corrupt = -4096,        // TND_ECORRUPT
  peer_lost = -4097,      // TND_EPEER
  device_lost = -4098,    // TND_EDEVICE
  no_plugin = -4099,      // TND_ENOPLUGIN
  bad_state = -4100,      // TND_ESTATE
};

}  // namespace tanada

// Return early with the callee's status: the only macro in this code base that hides control flow.
#define TND_TRY(expression)                                \
  do {                                                     \
    ::tanada::status const tnd_try_status_ = (expression); \
    if (tnd_try_status_ != ::tanada::status::ok)           \
      return tnd_try_status_;                              \
  } while (0)
