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

TND_DEVICE inline device_state &state_of(gfile_ref files) {
  return *static_cast<device_state *>(files.state);
}

// The URL of an open descriptor, or nullptr.
TND_DEVICE inline const char *url_of(device_state &state, int fd) {
  descriptor *const file = find_descriptor(state, fd);
  return file == nullptr ? nullptr : file->url;
}

// Record the failure of a call on `fd`; leader only.
TND_DEVICE inline void record_fault(
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

struct range_call {
  int fd;
  u64 offset, size;
  direction dir;
  site call_site;
};

// Leader only. Check the range, with the host's view of the file where the local one is in doubt. A
// gwrite gets the host's view with its frame anyway.
TND_DEVICE inline range_check check_view(device_state &state,
                                         const range_call &call,
                                         u64 deadline_ns) {
  range_check const result = check_range(state, call.fd, call.offset, call.size, call.dir);
  if (!result.is_doubtful || result.status != status::ok || call.dir == direction::write)
    return result;
  status const code = refresh_view(state, result.node, deadline_ns);
  if (code != status::ok)
    return {code, 0, 0, 0, 0};
  return check_range(state, call.fd, call.offset, call.size, call.dir);
}

// Leader only; 0 in the other threads.
TND_DEVICE inline u64 leader_deadline(any_group group, gfile_ref files) {
  return group.rank() == 0 ? deadline_of(files.timeout_ns) : 0;
}

// Check the range in the leader, which has the deadline of the call, and broadcast the result.
TND_DEVICE_CALL inline range_check begin_range(
    any_group group, gfile_ref files, const range_call &call, const void *buffer, u64 deadline_ns) {
  if (files.state == nullptr)
    return {status::bad_state, 0, 0, 0, 0};
  range_check result{status::fault, 0, 0, 0, 0};
  if (group.rank() == 0 && (buffer != nullptr || call.size == 0))
    result = check_view(state_of(files), call, deadline_ns);
  return share(group, result);
}

TND_DEVICE inline void end_range(any_group group,
                                 gfile_ref files,
                                 const range_call &call,
                                 status code) {
  if (code != status::ok && code != status::bad_state && group.rank() == 0)
    record_fault(state_of(files), code, call.call_site, call.fd, call.offset);
}

TND_DEVICE_CALL inline void begin_read(long_read &r, gfile_ref files, const read_call &call) {
  read_view const &view = call.view;
  r.deadline_ns = leader_deadline(r.group, files);
  r.file = {status::ok, view.node(), view.file_key(), 0, view.file_size(), view.epoch()};
  r.hint = view.expects_miss() ? page_hint::missing : page_hint::absent;
  if (view.is_known() && r.offset < view.file_size())
    return;
  range_call const range{call.fd, r.offset, r.size, direction::read, site::read};
  r.file = begin_range(r.group, files, range, r.buffer, r.deadline_ns);
  r.hint = page_hint::unknown;
}

// The long path of gread.
TND_DEVICE inline transfer_result read_by_request(any_group group,
                                                  gfile_ref files,
                                                  const read_call &call) {
  long_read absent{
      state_of(files), group, {}, static_cast<u8 *>(call.buffer), call.offset, call.size, 0, {}};
  long_read &r = simt::in_memory(absent);
  begin_read(r, files, call);
  return r.file.status == status::ok ? read(r) : transfer_result{r.file.status, 0};
}

TND_DEVICE inline transfer_result end_read(any_group group,
                                           gfile_ref files,
                                           const read_call &call,
                                           const transfer_result &result) {
  if (result.status != status::ok)
    end_range(group,
              files,
              {call.fd, call.offset, call.size, direction::read, site::read},
              result.status);
  return result;
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
  read_call values{fd, buffer, offset, size, view};
  gfile_ref ref = files;
  any_group members{kind};
  read_call &call = simt::in_memory(values);
  gfile_ref &instance = simt::in_memory(ref);
  any_group &group = simt::in_memory(members);
  if (HasShortPath && is_short_miss(state_of(instance), call)) {
    miss_outcome const outcome = read_by_warp(state_of(instance), call, instance.timeout_ns);
    if (outcome.is_done)
      return end_read(
          group, instance, call, {outcome.status, outcome.status == status::ok ? call.size : 0});
  }
  return end_read(group, instance, call, read_by_request(group, instance, call));
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
  if (group.rank() == 0 && buffer != nullptr)
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
  if (group.rank() == 0)
    count_resident(result, view.node(), target);
  return target.end - target.begin;
}

TND_DEVICE_CALL inline transfer_result write_range(
    simt::group_kind kind, gfile_ref files, int fd, const void *buffer, u64 offset, u64 size) {
  range_call values{fd, offset, size, direction::write, site::write};
  gfile_ref ref = files;
  range_call &call = simt::in_memory(values);
  gfile_ref &instance = simt::in_memory(ref);
  any_group const group{kind};
  u64 const deadline_ns = leader_deadline(group, instance);
  range_check const file = begin_range(group, instance, call, buffer, deadline_ns);
  transfer_result result{file.status, 0};
  if (file.status == status::ok) {
    const u8 *const bytes = static_cast<const u8 *>(buffer);
    long_write range{state_of(instance), group, file, bytes, call.offset, call.size, deadline_ns};
    result = write(simt::in_memory(range));
  }
  end_range(any_group{kind}, instance, call, result.status);
  return result;
}

TND_DEVICE_CALL inline map_outcome map_page(any_group group, gfile_ref files, int fd, u64 offset) {
  range_call const call{fd, offset, 0, direction::read, site::map};
  u64 const deadline_ns = leader_deadline(group, files);
  range_check const file = begin_range(group, files, call, nullptr, deadline_ns);
  map_outcome result{file.status, nullptr, 0};
  if (file.status == status::ok)
    result = map(group, state_of(files), simt::in_memory(file), offset, deadline_ns);
  end_range(group, files, simt::in_memory(call), result.status);
  return result;
}

// Check a list of rows. A failure is recorded.
template <class Group>
TND_DEVICE inline range_check begin_rows(Group group,
                                         gfile_ref files,
                                         int fd,
                                         const void *buffer,
                                         const row_list &rows,
                                         u64 deadline_ns) {
  range_call const call{fd, 0, rows.count, direction::read, site::read};
  bool const has_size = rows.row_size != 0 && rows.count <= file_size_max / rows.row_size;
  range_check file = begin_range(any_group{simt::kind_of(group)},
                                 files,
                                 call,
                                 rows.numbers == nullptr ? nullptr : buffer,
                                 deadline_ns);
  if (file.status == status::ok && !has_size)
    file.status = status::invalid;
  end_range(any_group{simt::kind_of(group)}, files, call, file.status);
  return file;
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
  d::range_check const file = d::begin_rows(group, files, fd, buffer, list, deadline_ns);
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
