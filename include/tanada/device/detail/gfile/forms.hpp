// tanada/device/detail/gfile/forms.hpp: the short forms of the device calls: for one thread, and
// for the instance of ginitialize(). They live in the namespace of the paper's calls, the global
// one, as well as in tanada. Not for direct inclusion.
#pragma once

namespace tanada {

#define TND_GFILE_FORMS(result, name, parameters, arguments)                  \
  template <class Group, decltype(static_cast<Group *>(nullptr)->rank()) = 0> \
  TND_DEVICE inline result name(Group group, TND_GFILE_LIST parameters) {     \
    return name(group, gfile_module_ref(), TND_GFILE_LIST arguments);         \
  }                                                                           \
  TND_DEVICE inline result name(gfile_ref files, TND_GFILE_LIST parameters) { \
    return name(this_thread{}, files, TND_GFILE_LIST arguments);              \
  }                                                                           \
  TND_DEVICE inline result name(TND_GFILE_LIST parameters) {                  \
    return name(this_thread{}, gfile_module_ref(), TND_GFILE_LIST arguments); \
  }
#define TND_GFILE_LIST(...) __VA_ARGS__

TND_GFILE_FORMS(status, gopen, (const char *url, int flags, int *fd), (url, flags, fd))
TND_GFILE_FORMS(gio_result,
                gread,
                (int fd, void *buffer, u64 offset, u64 size),
                (fd, buffer, offset, size))
TND_GFILE_FORMS(gio_result,
                gread,
                (int fd, void *buffer, u64 offset, gstat_result size),
                (fd, buffer, offset, size))
TND_GFILE_FORMS(gio_result,
                gread_rows,
                (int fd, void *buffer, const u64 *rows, u64 count, u64 row_size),
                (fd, buffer, rows, count, row_size))
TND_GFILE_FORMS(gio_result,
                gwrite,
                (int fd, const void *buffer, u64 offset, u64 size),
                (fd, buffer, offset, size))
TND_GFILE_FORMS(gio_result,
                gwrite,
                (int fd, const void *buffer, u64 offset, gstat_result size),
                (fd, buffer, offset, size))
TND_GFILE_FORMS(status, gclose, (int fd), (fd))
TND_GFILE_FORMS(gstat_result, gfstat, (int fd), (fd))
TND_GFILE_FORMS(status, gunlink, (const char *url), (url))
TND_GFILE_FORMS(status, gftruncate, (int fd, u64 size), (fd, size))
TND_GFILE_FORMS(status, gfsync, (int fd), (fd))
TND_GFILE_FORMS(status, gprefetch, (int fd, u64 offset, u64 size), (fd, offset, size))
TND_GFILE_FORMS(gmap_result, gmap, (int fd, u64 offset), (fd, offset))
TND_GFILE_FORMS(status, gunmap, (const u8 *bytes), (bytes))

#undef TND_GFILE_LIST
#undef TND_GFILE_FORMS

}  // namespace tanada

using tanada::gopen;
using tanada::gread;
using tanada::gread_rows;
using tanada::gwrite;
using tanada::gclose;
using tanada::gfstat;
using tanada::gunlink;
using tanada::gftruncate;
using tanada::gfsync;
using tanada::gprefetch;
using tanada::gmap;
using tanada::gunmap;
