// tanada/device/gfile.cuh: files from inside kernels. For nvcc, NVRTC (C++17) and, on the host
// executor, any C++17 compiler. This file is the contract; bodies are in detail/gfile/.
//
// The paper: Matsumiya, Takahashi, Oyama, "Accessing a distributed file system from GPU code",
// table 2 and figure 4, with the calls its section 7 lists as missing. Every call but
// gpage_size() comes in four forms:
//
//   gread(fd, buffer, offset, size)
//       the paper's: one thread, the instance of ginitialize()
//   gread(group, fd, buffer, offset, size)
//       a group: this_thread, this_warp or this_block
//   gread(files, fd, buffer, offset, size)
//       one thread, the instance of the gfile_ref
//   gread(group, files, fd, buffer, offset, size)
//       both
//
// gpage_size(files) is not collective, and cannot fail.
//
// Under NVRTC the forms without a gfile_ref read the variable `tnd_gfile_module_ref` of the module:
// set it with cuModuleGetGlobal, or pass a gfile_ref.
//
// For every other call:
//   Group:      collective; every thread of `group` calls it with equal arguments, in converged
//               flow. Only the address `fd` of gopen may differ between threads.
//   Result:     equal in every thread of the group. Never traps, never prints.
//   Waiting:    at most files.timeout_ns from the call. A call holds no cache page while it waits
//               for another group, so groups cannot deadlock, whatever the size of the cache.
//   Errors:     bad_state, if there is no instance. The first other failure, in the whole instance,
//               fills the fault record (tnd_gfile_get_fault).
//   Visibility: on return the bytes read are visible to the group, and bytes written are seen by
//               any later gread of the instance that is ordered after the return.
//   Write-back: bytes of gwrite reach the store in the background. If that fails, the cache drops
//               them, and a later gread may return the store's bytes. Each descriptor of the file
//               that was open returns the error once, from gfsync or its last gclose. While callers
//               share the descriptor, each gfsync of theirs returns it. If no such call has,
//               tnd_gfile_wait() or tnd_gfile_destroy() does.
//   Size limit: the smaller of 2^36 pages and 2^52 - 1 bytes.
#pragma once

#include "detail/base/status.hpp"
#include "detail/simt/group.hpp"
#include "detail/simt/launch.hpp"

namespace tanada {

/// Non-owning view of an instance, from tnd_gfile_get_ref(); trivially copyable, passed by value.
struct gfile_ref {
  void *state = nullptr;  ///< of the instance, in device memory; nullptr: no instance
  u64 timeout_ns =
      0;  ///< limit of each call, nanoseconds; ~0: none. The holder may change its copy.
};

/// The result of a transfer.
struct gio_result {
  tanada::status status;  ///< ok, or why the transfer stopped
  u64 size;               ///< bytes moved from the start of the range, whatever the status
};

/// The result of gfstat. gread and gwrite accept it as a size, as in the paper's gread(fd, a, 0,
/// gfstat(fd)); if gfstat failed, they return its status. It does not convert to a number: check
/// `status` before using `size`.
struct gstat_result {
  tanada::status status;  ///< ok, or why the size is not known
  u64 size;               ///< bytes, including what this instance has written so far; 0 on error
};

/// The result of gmap.
struct gmap_result {
  tanada::status status;  ///< ok, or why no page was pinned
  const u8 *bytes;        ///< the page's first byte, in device memory; nullptr on error
  u64 size;               ///< bytes of the file in the page; the rest of the page reads as zeros
};

// Access and creation flags, with Linux's numbers (fcntl.h has the same names as macros; these are
// for NVRTC).
inline constexpr int g_rdonly = 00;    ///< open for reading
inline constexpr int g_wronly = 01;    ///< open for writing
inline constexpr int g_rdwr = 02;      ///< open for both
inline constexpr int g_creat = 0100;   ///< create the file if it does not exist
inline constexpr int g_excl = 0200;    ///< with g_creat: fail if it exists
inline constexpr int g_trunc = 01000;  ///< truncate the file to 0 bytes

/// Longest URL in bytes, without the terminating zero.
inline constexpr u32 gfile_url_size_max = 1023;

/// Open the file named by `url` (zero-terminated; a plain path or scheme://...; visible to the
/// leader's loads).
///
/// Threads and groups that open the same URL with the same flags share one descriptor and one host
/// open. Each must close what it opened. An open that joins an existing one gets its view. The
/// first open of a file revalidates its cached pages (close-to-open). O_CREAT, O_EXCL and O_TRUNC
/// act when the file is opened, not when an open is joined. Blocks that open with O_TRUNC one after
/// the other, and close in between, each truncate. An O_EXCL open never joins; O_TRUNC without
/// write access is ignored.
///
/// On success every thread stores the descriptor in its own *fd, so `fd` must be valid in every
/// thread. After a failure *fd is unchanged.
///
/// Waits while as many files are open as the instance or the process can have. Closed files do not
/// count.
///
/// Errors: invalid (flags, empty URL, unknown scheme), fault (null pointer in rank 0),
///         name_too_long, no_entry, exists, access, is_directory, too_many_files (no file was
///         closed before the timeout), no_plugin (scheme known, plugin or package missing),
///         not_supported, timed_out, busy (another URL with the same 64-bit hash is open), and
///         statuses of the store.
template <class Group>
TND_DEVICE status gopen(Group group, gfile_ref files, const char *url, int flags, int *fd);

/// Copy file bytes [offset, offset + size) to `buffer` (global or shared memory, any alignment).
///
/// The returned size is less than requested only at the end of the file (ok) or on error. Bytes of
/// the buffer after it are then unspecified. A range that ends past the size limit is also a short
/// read.
///
/// Errors: bad_file (not open, or not for reading), too_big (`offset` exceeds the size limit),
///         fault (null buffer), timed_out, io and statuses of the store. Other files are not
///         affected.
/// Cost:   a device-tier hit costs a lookup and a copy; a host-tier hit crosses PCIe without the
/// CPU.
template <class Group>
TND_DEVICE gio_result
gread(Group group, gfile_ref files, int fd, void *buffer, u64 offset, u64 size);
/// The same for as many bytes as gfstat returned.
template <class Group>
TND_DEVICE gio_result
gread(Group group, gfile_ref files, int fd, void *buffer, u64 offset, gstat_result size);

/// Gather rows of a file: row number n is file bytes [n * row_size, (n + 1) * row_size). The rows
/// that `rows` lists are copied to `buffer` in the list's order, without gaps.
///
/// `rows` has `count` numbers in memory of the device, which may repeat. What no tier has is
/// requested for many rows at once, and a page that several rows share is read once. A block's
/// warps copy different rows at the same time, so one call of a block is faster than one gread for
/// each row. Rows need not be aligned to pages.
///
/// The returned size is that of all rows, or 0 on error. After an error the whole buffer is
/// unspecified.
///
/// Errors: those of gread. range: a row is not, or not as a whole, in the file. invalid: `row_size`
///         is 0, or the rows are larger than the size limit. fault: a null buffer or list.
template <class Group>
TND_DEVICE gio_result gread_rows(
    Group group, gfile_ref files, int fd, void *buffer, const u64 *rows, u64 count, u64 row_size);

/// Copy `buffer` to file bytes [offset, offset + size), growing the file as needed.
///
/// The bytes go to the host tier, and from there to the store in the background: see Write-back.
///
/// Errors: bad_file (not open, or not for writing), too_big (the range ends past the size limit;
///         nothing was written), fault (null buffer), timed_out.
template <class Group>
TND_DEVICE gio_result
gwrite(Group group, gfile_ref files, int fd, const void *buffer, u64 offset, u64 size);
/// The same for as many bytes as gfstat returned.
template <class Group>
TND_DEVICE gio_result
gwrite(Group group, gfile_ref files, int fd, const void *buffer, u64 offset, gstat_result size);

/// Close what one gopen opened. While other opens of the descriptor remain, the call returns ok
/// without I/O.
///
/// The last close of a descriptor open for writing publishes the file, even if the URL is open with
/// other flags. Dirty pages reach the store first, and the status is the first write-back error
/// that no call has returned.
///
/// The caller's open has ended, whatever the status, and must not be closed again. After timed_out
/// the host still publishes the file. tnd_gfile_wait() or tnd_gfile_destroy() then returns a
/// write-back error that no other call has returned.
///
/// The close of a read-only descriptor is posted: the call returns before the host closes the file.
/// A later gopen or gunlink is served after it. A failure of a posted close is only logged.
///
/// Errors: bad_file (not open), timed_out, write-back errors and statuses of the store.
template <class Group>
TND_DEVICE status gclose(Group group, gfile_ref files, int fd);

/// Size of an open file. Errors: bad_file; timed_out, if an earlier change of the file timed out
/// and the host does not answer.
template <class Group>
TND_DEVICE gstat_result gfstat(Group group, gfile_ref files, int fd);

/// Delete the file named by `url`. Open descriptors stay readable as far as the store allows.
///
/// Errors: too_many_files: the instance already tracks as many open files as it can, and this
///         file is not one of them. timed_out: the deletion may still happen; once it has, a
///         gopen of the name gets no descriptor of this file. Statuses of the store.
template <class Group>
TND_DEVICE status gunlink(Group group, gfile_ref files, const char *url);

/// Truncate or extend (with zeros) to `size` bytes. Dirty pages are written back first, so earlier
/// writes below `size` are kept. Then the file's cached pages are dropped.
///
/// Errors: bad_file (not open, or not for writing), too_big (`size` exceeds the size limit, or is
///         2^36 pages). timed_out: the change may still happen; calls that begin after it see it.
///         Statuses of the store.
template <class Group>
TND_DEVICE status gftruncate(Group group, gfile_ref files, int fd, u64 size);

/// Write back every dirty page of the file and make the store durable. Returns, once, the first
/// write-back error that no call has returned.
template <class Group>
TND_DEVICE status gfsync(Group group, gfile_ref files, int fd);

/// Request that [offset, offset + size) be read into the host tier; does not wait. A hint: only its
/// arguments can fail.
template <class Group>
TND_DEVICE status gprefetch(Group group, gfile_ref files, int fd, u64 offset, u64 size);

/// Pin in the device tier the page that holds `offset`, and read it in place until gunmap. The
/// pointer stays valid after gclose, until tnd_gfile_destroy().
///
/// The mapped bytes do not change. After a gwrite or gftruncate, the mapping still has the old
/// bytes and size, while new calls of gread and gmap return the new ones.
///
/// Errors: those of gread; busy if every frame that could hold the page is still pinned at the
///         deadline; range at or past the end of the file.
template <class Group>
TND_DEVICE gmap_result gmap(Group group, gfile_ref files, int fd, u64 offset);

/// Release a page of gmap. `bytes` must come from gmap. Each collective gmap is released by one
/// collective gunmap, of any group. Errors: invalid, without effect, if no gmap holds a page there.
template <class Group>
TND_DEVICE status gunmap(Group group, gfile_ref files, const u8 *bytes);

/// Page size of this instance, in bytes; 0 if files.state is null.
TND_DEVICE u32 gpage_size(gfile_ref files);

}  // namespace tanada

#include "detail/gfile/gfile.hpp"
