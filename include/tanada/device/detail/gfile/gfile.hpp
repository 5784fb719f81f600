// tanada/device/detail/gfile/gfile.hpp: bodies of tanada/device/gfile.cuh: collective calls around
// the leader's work, and their four forms. Not for direct inclusion.
#pragma once

#include "files.hpp"
#include "miss.hpp"
#include "module.hpp"
#include "rows.hpp"
#include "transfer.hpp"

namespace tanada {

namespace gfile::device {

// The URL of an open descriptor, or nullptr.
TND_DEVICE inline const char *url_of(device_state &state, int fd) {
  descriptor *const file = find_descriptor(state, fd);
  return file == nullptr ? nullptr : file->url;
}

// Record the failure of a call on `fd`; leader only.
TND_DEVICE_CALL inline void record_fault(
    device_state &state, status code, site call_site, int fd, u64 offset) {
  record_fault(state, code, {call_site, u64(fd), offset, url_of(state, fd)});
}

// The leader runs `action`, and the other threads of its group receive its status. `record` stores
// the first failure.
template <class Group, class Action, class Record>
TND_DEVICE inline status leader_does(Group group, gfile_ref files, Action action, Record record) {
  if (files.state == nullptr)
    return status::bad_state;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    code = action(state_of(files), deadline_of(files.timeout_ns));
    if (code != status::ok)
      record(state_of(files), code);
  }
  return status(int(group.broadcast(u32(int(code)))));
}

// A call on a range of a file. It is in memory, as a page_transfer is.
struct range_call {
  gfile_ref files;
  any_group group;
  int fd;
  const void *buffer;
  u64 offset, size;
  direction dir;
  site call_site;

  u64 deadline_ns = 0;                             // leader
  range_check file = rejected(status::bad_state);  // the result of begin_range()
};

TND_DEVICE inline range_check check_range(device_state &state, const range_call &call) {
  return check_range(state, call.fd, call.offset, call.size, call.dir);
}

// Leader only. Check the range, with the host's view of the file where the local one is in doubt. A
// gwrite gets the host's view with its frame anyway.
TND_DEVICE inline range_check check_view(const range_call &call) {
  device_state &state = state_of(call.files);
  range_check const result = check_range(state, call);
  if (!result.is_doubtful || result.status != status::ok || call.dir == direction::write)
    return result;
  status const code = refresh_view(state, result.node, call.deadline_ns);
  return code == status::ok ? check_range(state, call) : rejected(code);
}

// Check the range in the leader, which also sets the deadline, and broadcast the result.
TND_DEVICE_CALL inline void begin_range(range_call &call) {
  simt::assume_on_stack(call);
  if (call.files.state == nullptr)
    return;
  range_check result = rejected(status::fault);
  if (call.group.rank() == 0) {
    call.deadline_ns = deadline_of(call.files.timeout_ns);
    if (call.buffer != nullptr || call.size == 0)
      result = check_view(call);
  }
  call.file = share(call.group, result);
}

TND_DEVICE inline void end_range(const range_call &call, status code) {
  if (code != status::ok && code != status::bad_state && call.group.rank() == 0)
    record_fault(state_of(call.files), code, call.call_site, call.fd, call.offset);
}

// Check the range where the caller knows no view of the file.
TND_DEVICE_CALL inline void begin_unknown_read(long_read &r, const read_call &call) {
  simt::assume_on_stack(r);
  simt::assume_on_stack(call);
  range_call range{
      call.files, r.group, call.fd, r.buffer, r.offset, r.size, direction::read, site::read};
  begin_range(simt::in_memory(range));
  r.file = range.file;
  r.deadline_ns = range.deadline_ns;
  r.hint = page_hint::unknown;
}

TND_DEVICE_CALL inline void begin_read(long_read &r, const read_call &call) {
  simt::assume_on_stack(r);
  simt::assume_on_stack(call);
  read_view const &view = call.view;
  if (!view.is_known() || r.offset >= view.file_size())
    return begin_unknown_read(r, call);
  r.deadline_ns = r.group.rank() == 0 ? deadline_of(call.files.timeout_ns) : 0;
  r.file = {status::ok, view.node(), view.file_key(), 0, view.file_size(), view.epoch()};
  r.hint = view.expects_miss() ? page_hint::missing : page_hint::absent;
}

// The long path of gread.
TND_DEVICE_CALL inline transfer_result read_by_request(const read_call &call) {
  simt::assume_on_stack(call);
  long_read absent{state_of(call.files),
                   call.group,
                   {},
                   static_cast<u8 *>(call.buffer),
                   call.offset,
                   call.size,
                   0,
                   {}};
  long_read &r = simt::in_memory(absent);
  begin_read(r, call);
  return r.file.status == status::ok ? read(r) : transfer_result{r.file.status, 0};
}

inline constexpr u64 not_resident = ~u64{0};

TND_DEVICE constexpr bool has_short_path(this_warp) {
  return true;
}
template <class Group>
TND_DEVICE constexpr bool has_short_path(Group) {
  return false;
}

// What is not in the device tier. The arguments are values, so that a kernel stores nothing for a
// call that it does not make. `HasShortPath`: for a warp's whole page.
template <bool HasShortPath>
TND_DEVICE_CALL transfer_result read_absent(simt::group_kind kind,
                                            gfile_ref files,
                                            int fd,
                                            void *buffer,
                                            u64 offset,
                                            u64 size,
                                            read_view view) {
  read_call values{files, any_group{kind}, fd, buffer, offset, size, view};
  read_call &call = simt::in_memory(values);
  miss_outcome outcome{false, status::ok};
  if (HasShortPath && is_short_miss(call))
    outcome = read_by_warp(call);
  transfer_result result{outcome.status, outcome.status == status::ok ? call.size : 0};
  if (!outcome.is_done)
    result = read_by_request(call);
  if (result.status != status::ok && call.group.rank() == 0)
    record_fault(state_of(call.files), result.status, site::read, call.fd, call.offset);
  return result;
}

// The short path of gread. Returns the bytes that were copied, or not_resident. In that case `view`
// receives the leader's view of the file, if it is known. Inlined, because in a function that is
// called each load would take two instructions more.
template <class Group>
TND_DEVICE inline u64 read_at_once(
    Group group, device_state &state, int fd, void *buffer, u64 offset, u64 size, read_view &view) {
  if (!can_hit(group))
    return not_resident;
  file_tables const tables = tables_of(state);
  resident_tier const tier = resident_tier_of(state);
  if (leads(group) && buffer != nullptr)
    view = view_of(tables, fd);
  view = share_view(group, view);
  u64 const file_size = view.file_size();
  if (!view.is_known() || offset >= file_size || size == 0)
    return not_resident;
  u64 const rest = file_size - offset;
  read_target const target{
      view.file_key(), static_cast<u8 *>(buffer), offset, offset + (size < rest ? size : rest)};
  resident_result const result = read_resident(group, state, tier, target);
  if (!result.is_copied)
    return not_resident;
  if (leads(group))
    count_resident(result, view.node(), target);
  return target.end - target.begin;
}

TND_DEVICE_CALL inline transfer_result write_range(
    simt::group_kind kind, gfile_ref files, int fd, const void *buffer, u64 offset, u64 size) {
  range_call values{
      files, any_group{kind}, fd, buffer, offset, size, direction::write, site::write};
  range_call &call = simt::in_memory(values);
  begin_range(call);
  transfer_result result{call.file.status, 0};
  if (call.file.status == status::ok) {
    long_write range{state_of(call.files),
                     call.group,
                     call.file,
                     static_cast<const u8 *>(call.buffer),
                     call.offset,
                     call.size,
                     call.deadline_ns};
    result = write(simt::in_memory(range));
  }
  end_range(call, result.status);
  return result;
}

TND_DEVICE_CALL inline map_outcome map_page(any_group group, gfile_ref files, int fd, u64 offset) {
  range_call values{files, group, fd, nullptr, offset, 0, direction::read, site::map};
  range_call &call = simt::in_memory(values);
  begin_range(call);
  map_outcome result{call.file.status, nullptr, 0};
  if (call.file.status == status::ok)
    result = map(call.group, state_of(call.files), call.file, call.offset, call.deadline_ns);
  end_range(call, result.status);
  return result;
}

// Check a list of rows. A failure is recorded.
TND_DEVICE_CALL inline range_check begin_rows(
    any_group group, gfile_ref files, int fd, const void *buffer, const row_list &rows) {
  const void *const target = rows.numbers == nullptr ? nullptr : buffer;
  range_call values{files, group, fd, target, 0, rows.count, direction::read, site::read};
  range_call &call = simt::in_memory(values);
  begin_range(call);
  bool const has_size = rows.row_size != 0 && rows.count <= file_size_max / rows.row_size;
  if (call.file.status == status::ok && !has_size)
    call.file.status = status::invalid;
  end_range(call, call.file.status);
  return call.file;
}

// A call that names a file by its descriptor.
template <class Group, class Action>
TND_DEVICE inline status leader_does(
    Group group, gfile_ref files, site call_site, int fd, Action action) {
  return leader_does(group, files, action, [=](device_state &state, status code) {
    record_fault(state, code, call_site, fd, 0);
  });
}

// A call that names a file by its URL.
struct named_call {
  site call_site;
  u64 flags;
  const char *url;
};
template <class Group, class Action>
TND_DEVICE inline status leader_does(Group group,
                                     gfile_ref files,
                                     const named_call &call,
                                     Action action) {
  return leader_does(group, files, action, [=](device_state &state, status code) {
    record_fault(state, code, {call.call_site, call.flags, 0, call.url});
  });
}

}  // namespace gfile::device

template <class Group>
TND_DEVICE status gopen(Group group, gfile_ref files, const char *url, int flags, int *fd) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gopen"};
  int opened = -1;
  status const code = d::leader_does(
      group,
      files,
      d::named_call{d::site::open, u64(flags), url},
      [&](gfile::device_state &state, u64 deadline_ns) {
        return fd == nullptr ? status::fault : d::open(state, url, flags, deadline_ns, opened);
      });
  opened = int(group.broadcast(u32(opened)));
  if (code == status::ok)
    *fd = opened;
  return code;
}

template <class Group>
TND_DEVICE gio_result
gread(Group group, gfile_ref files, int fd, void *buffer, u64 offset, u64 size) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gread"};
  if (files.state == nullptr)
    return {status::bad_state, 0};
  d::read_view view;
  u64 const read_size = d::read_at_once(group, d::state_of(files), fd, buffer, offset, size, view);
  if (read_size != d::not_resident)
    return {status::ok, read_size};
  d::transfer_result const result = d::read_absent<d::has_short_path(Group{})>(
      simt::kind_of(group), files, fd, buffer, offset, size, view);
  return {result.status, result.size};
}

template <class Group>
TND_DEVICE gio_result
gread(Group group, gfile_ref files, int fd, void *buffer, u64 offset, gstat_result size) {
  if (size.status != status::ok)
    return {size.status, 0};
  return gread(group, files, fd, buffer, offset, size.size);
}

template <class Group>
TND_DEVICE gio_result gread_rows(
    Group group, gfile_ref files, int fd, void *buffer, const u64 *rows, u64 count, u64 row_size) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gread_rows"};
  u64 const deadline_ns = d::deadline_of(files.timeout_ns);
  d::row_list const list{rows, count, row_size};
  d::range_check const file =
      d::begin_rows(simt::any_group{simt::kind_of(group)}, files, fd, buffer, list);
  if (file.status != status::ok)
    return {file.status, 0};
  u64 failed_row = 0;
  status const reader_code = d::read_share(
      group, d::state_of(files), {file, list, static_cast<u8 *>(buffer), deadline_ns}, failed_row);
  if (reader_code != status::ok && typename d::row_division<Group>::reader{}.rank() == 0)
    d::record_fault(d::state_of(files), reader_code, d::site::read, fd, failed_row * row_size);
  status const code = d::row_division<Group>::combine(group, reader_code);
  return {code, code == status::ok ? count * row_size : 0};
}

template <class Group>
TND_DEVICE gio_result
gwrite(Group group, gfile_ref files, int fd, const void *buffer, u64 offset, u64 size) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gwrite"};
  d::transfer_result const result =
      d::write_range(simt::kind_of(group), files, fd, buffer, offset, size);
  return {result.status, result.size};
}

template <class Group>
TND_DEVICE gio_result
gwrite(Group group, gfile_ref files, int fd, const void *buffer, u64 offset, gstat_result size) {
  if (size.status != status::ok)
    return {size.status, 0};
  return gwrite(group, files, fd, buffer, offset, size.size);
}

template <class Group>
TND_DEVICE status gclose(Group group, gfile_ref files, int fd) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gclose"};
  return d::leader_does(
      group, files, d::site::close, fd, [&](gfile::device_state &state, u64 deadline_ns) {
        return d::close(state, fd, deadline_ns);
      });
}

template <class Group>
TND_DEVICE gstat_result gfstat(Group group, gfile_ref files, int fd) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gfstat"};
  u64 size = 0;
  status const code = d::leader_does(
      group, files, d::site::stat, fd, [&](gfile::device_state &state, u64 deadline_ns) {
        gfile::descriptor *const file = d::find_descriptor(state, fd);
        if (file == nullptr)
          return status::bad_file;
        TND_TRY(d::refresh_view(state, file->node, deadline_ns));
        size = gfile::size_of_word(
            simt::device_word<u64>(state.nodes[file->node].size).load_acquire());
        return status::ok;
      });
  return {code, group.broadcast(size)};
}

template <class Group>
TND_DEVICE status gunlink(Group group, gfile_ref files, const char *url) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gunlink"};
  return d::leader_does(group,
                        files,
                        d::named_call{d::site::unlink, 0, url},
                        [&](gfile::device_state &state, u64 deadline_ns) {
                          return d::unlink(state, url, deadline_ns);
                        });
}

template <class Group>
TND_DEVICE status gftruncate(Group group, gfile_ref files, int fd, u64 size) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gftruncate"};
  return d::leader_does(
      group, files, d::site::truncate, fd, [&](gfile::device_state &state, u64 deadline_ns) {
        return d::truncate(state, fd, size, deadline_ns);
      });
}

template <class Group>
TND_DEVICE status gfsync(Group group, gfile_ref files, int fd) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gfsync"};
  return d::leader_does(
      group, files, d::site::sync, fd, [&](gfile::device_state &state, u64 deadline_ns) {
        return d::sync(state, fd, deadline_ns);
      });
}

template <class Group>
TND_DEVICE status gprefetch(Group group, gfile_ref files, int fd, u64 offset, u64 size) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gprefetch"};
  return d::leader_does(group, files, d::site::prefetch, fd, [&](gfile::device_state &state, u64) {
    d::range_check const file = d::check_range(state, fd, offset, size, d::direction::read);
    return file.status == status::ok ? d::prefetch(state, file, offset, size) : file.status;
  });
}

template <class Group>
TND_DEVICE gmap_result gmap(Group group, gfile_ref files, int fd, u64 offset) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gmap"};
  d::map_outcome const result =
      d::map_page(simt::any_group{simt::kind_of(group)}, files, fd, offset);
  return {result.status, result.bytes, result.size};
}

template <class Group>
TND_DEVICE status gunmap(Group group, gfile_ref files, const u8 *bytes) {
  namespace d = gfile::device;
  simt::call_name const call_scope{"gunmap"};
  return d::leader_does(
      group, files, d::named_call{d::site::map, 0, nullptr}, [&](gfile::device_state &state, u64) {
        return d::unmap(state, bytes);
      });
}

TND_DEVICE inline u32 gpage_size(gfile_ref files) {
  return files.state == nullptr ? 0 : gfile::device::state_of(files).page_size;
}

}  // namespace tanada

#include "forms.hpp"
