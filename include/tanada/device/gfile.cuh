// tanada/device/gfile.cuh: files from inside kernels. For nvcc, NVRTC (C++17) and, on the host
// executor, any C++17 compiler. This file is the contract; bodies are in detail/gfile/.
//
// The paper: Matsumiya, Takahashi, Oyama, "Accessing a distributed file system from GPU code",
// table 2 and figure 4, with the calls its section 7 lists as missing. Every call comes in four
// forms:
//
//   gread(fd, buffer, offset, size)
//       the paper's: one thread, the instance of ginitialize()
//   gread(group, fd, buffer, offset, size)
//       a group: this_thread, this_warp or this_block
//   gread(files, fd, buffer, offset, size)
//       one thread, the instance that gave the gfile_ref
//   gread(group, files, fd, buffer, offset, size)
//       both
//
// Under NVRTC the forms without a gfile_ref read the variable `tnd_gfile_module_ref` of the module:
// set it with cuModuleGetGlobal, or pass a gfile_ref.
//
// What holds for every call:
//   Group:      collective; every thread of `group` calls it with equal arguments, in converged
//               flow.
//   Result:     equal in every thread of the group. Never traps, never prints.
//   Waiting:    at most files.timeout_ns from the call. Holds no cache page while it waits for
//               another group, so groups cannot block one another whatever the size of the cache.
//   Errors:     the first call that fails, in the whole instance, fills the fault record
//               (tnd_gfile_get_fault).
//   Visibility: on return the bytes read are visible to the group, and bytes written are seen by
//               any later gread of the instance that is ordered after the return.
#pragma once

#include "detail/base/status.hpp"
#include "detail/simt/group.hpp"
#include "detail/simt/launch.hpp"

namespace tanada {

/// Non-owning view of an instance, from tnd_gfile_get_ref(); trivially copyable, passed by value.
struct gfile_ref {
  void *state = nullptr;
  u64 timeout_ns =
      0;  ///< limit of each call, nanoseconds; ~0: none. The holder may change its copy.
};

struct gio_result {
  tanada::status status;  ///< ok, or why the transfer stopped
  u64 size;               ///< bytes moved from the start of the range, whatever the status
};

/// gread and gwrite take it for a size, as the paper's gread(fd, a, 0, gfstat(fd)) does. They
/// return its status if gfstat failed. It is no number by itself: look at `status` before `size`.
struct gstat_result {
  tanada::status status;
  u64 size;  ///< bytes, with what this instance has written so far; 0 on error
};

struct gmap_result {
  tanada::status status;
  const u8 *bytes;  ///< the page's first byte, in device memory; nullptr on error
  u64 size;         ///< bytes of the file in the page; the rest of the page reads as zeros
};

/// Access and creation flags, Linux's numbers (fcntl.h has the same names as macros; these are for
/// NVRTC).
inline constexpr int g_rdonly = 00, g_wronly = 01, g_rdwr = 02, g_creat = 0100, g_excl = 0200,
                     g_trunc = 01000;

/// Longest URL, bytes without the terminating zero.
inline constexpr u32 gfile_url_size_max = 1023;

/// Open the file behind `url` (zero-terminated; a plain path or scheme://...; visible to the
/// leader's loads).
///
/// Threads and groups that open the same URL with the same flags share one descriptor and one host
/// open; each must close what it opened. An open that joins others sees their view; the first open
/// of a file revalidates what is cached of it (close-to-open). O_CREAT, O_EXCL and O_TRUNC act when
/// the file is opened, not when joined: blocks that open with O_TRUNC one after the other, and
/// close in between, each truncate. An O_EXCL open never joins; O_TRUNC without write access is
/// ignored.
///
/// Waits while as many files are open as the instance or the process can have; files that are
/// closed never count. Errors: invalid (flags, empty URL, unknown scheme), fault (null pointer),
/// name_too_long, no_entry, exists, access,
///         is_directory, too_many_files (none was closed in time), no_plugin (scheme known, plugin
///         or package missing), not_supported, timed_out, busy (another URL with the same 64-bit
///         hash is open), bad_state (no instance), and what the store says.
template <class Group>
TND_DEVICE status gopen(Group group, gfile_ref files, const char *url, int flags, int *fd);

/// Copy file bytes [offset, offset + size) to `buffer` (global or shared memory, any alignment).
///
/// size < requested only at the end of the file (ok) or on error; bytes past result.size are then
/// unspecified. Errors: bad_file (not open, or not for reading), too_big (offset + size passes 2^36
/// pages or 4 PiB), fault (null buffer),
///         timed_out, io and what the store says. Other files go on.
/// Cost:   a device-tier hit costs a lookup and a copy; a host-tier hit crosses PCIe without the
/// CPU.
template <class Group>
TND_DEVICE gio_result gread(Group group, gfile_ref files, int fd, void *buffer, u64 offset,
                            u64 size);
template <class Group>
TND_DEVICE gio_result gread(Group group, gfile_ref files, int fd, void *buffer, u64 offset,
                            gstat_result size);

/// Copy `buffer` to file bytes [offset, offset + size), growing the file as needed.
///
/// The bytes go to the host tier and from there to the store in the background; a failure there
/// shows at the next gfsync or last gclose of the file. Errors: bad_file (not open, or not for
/// writing), too_big, fault, timed_out.
template <class Group>
TND_DEVICE gio_result gwrite(Group group, gfile_ref files, int fd, const void *buffer, u64 offset,
                             u64 size);
template <class Group>
TND_DEVICE gio_result gwrite(Group group, gfile_ref files, int fd, const void *buffer, u64 offset,
                             gstat_result size);

/// Close. The last close of a file open for writing publishes it: dirty pages reach the store
/// first, and the first write-back error not returned yet is the status. The descriptor is gone
/// whatever the status.
///
/// The close of a descriptor for reading only is posted: the call returns before the host closes
/// the file. A later gopen or gunlink is served after it. Its failure is logged.
template <class Group>
TND_DEVICE status gclose(Group group, gfile_ref files, int fd);

/// Size of an open file. Errors: bad_file; timed_out, where a change of the file timed out before.
template <class Group>
TND_DEVICE gstat_result gfstat(Group group, gfile_ref files, int fd);

/// Delete the file behind `url`. Descriptors that are open stay readable as far as the store
/// allows. Errors: too_many_files when as many files as the instance can know are open and this is
/// none of them; timed_out: it
///         may still happen, and who opens the name once it has gets no descriptor of this file;
///         those of the store.
template <class Group>
TND_DEVICE status gunlink(Group group, gfile_ref files, const char *url);

/// Cut or extend (with zeros) to `size` bytes. Drops what is cached of the file. timed_out: it may
/// still happen, and calls that begin once it has see it.
template <class Group>
TND_DEVICE status gftruncate(Group group, gfile_ref files, int fd, u64 size);

/// Write back every dirty page of the file and make the store durable. Returns, once, the first
/// write-back error not returned yet.
template <class Group>
TND_DEVICE status gfsync(Group group, gfile_ref files, int fd);

/// Ask for [offset, offset + size) to be brought to the host tier; does not wait. A hint: only its
/// arguments can fail.
template <class Group>
TND_DEVICE status gprefetch(Group group, gfile_ref files, int fd, u64 offset, u64 size);

/// Pin in the device tier the page that holds `offset` and read it in place until gunmap. Errors:
/// those of gread; busy when every frame that could hold the page is still pinned at the deadline;
/// range at or past the end of the file.
template <class Group>
TND_DEVICE gmap_result gmap(Group group, gfile_ref files, int fd, u64 offset);

/// Give back a page of gmap. `bytes` must come from gmap, once each. Errors: invalid, and nothing
/// is given back, if no gmap holds a page there.
template <class Group>
TND_DEVICE status gunmap(Group group, gfile_ref files, const u8 *bytes);

/// Bytes of a page of this instance.
TND_DEVICE u32 gpage_size(gfile_ref files);

}  // namespace tanada

#include "detail/gfile/gfile.hpp"
