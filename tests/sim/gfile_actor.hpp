// The kernel of a gfile simulation: each group runs its script, and its leader compares results
// with the models.
#pragma once

#include <fcntl.h>

#include "gfile_harness.hpp"

namespace gfile_sim {

template <class Group>
class player {
 public:
  player(Group group, tanada::gfile_ref files, gfile_run &run, actor &me)
      : group_{group}, files_{files}, named_{files}, run_{run}, me_{me} {
    named_.timeout_ns = run.name_timeout_ns();
    for (slot const &each : me.slots)
      held_.push_back({each.fd, each.flags});
  }

  void play() {
    for (u32 i = 0; i < me_.script.size(); i++) {
      step const now = me_.script[i];
      if (leads())
        run_.tell(name_of(now.what), me_.index, now.slot, now.offset, now.size);
      if (held_[now.slot].fd < 0 && now.what != action::open && now.what != action::close &&
          now.what != action::unlink)
        open(now.slot, now.flags);
      switch (now.what) {
        case action::open:
          if (held_[now.slot].fd >= 0)
            close(now.slot);
          open(now.slot, now.flags);
          break;
        case action::close:
          close(now.slot);
          break;
        case action::read:
          read(now);
          break;
        case action::write:
          write(now);
          break;
        case action::sync:
          sync(now);
          break;
        case action::truncate:
          truncate(now);
          break;
        case action::unlink:
          unlink(now);
          break;
        case action::prefetch:
          prefetch(now);
          break;
        case action::map:
          map(now);
          break;
        case action::stat:
          stat(now);
          break;
        case action::rows:
          rows(now);
          break;
      }
    }
    group_.sync();
    if (leads())
      for (u32 i = 0; i < held_.size(); i++) {
        me_.slots[i].fd = held_[i].fd;
        me_.slots[i].flags = held_[i].flags;
      }
  }

 private:
  struct held {
    int fd, flags;
  };

  static const char *name_of(action what) {
    static constexpr const char *names[] = {"open",
                                            "close",
                                            "read",
                                            "write",
                                            "sync",
                                            "truncate",
                                            "unlink",
                                            "prefetch",
                                            "map",
                                            "stat",
                                            "rows"};
    return names[u32(what)];
  }

  bool leads() const {
    return group_.rank() == 0;
  }
  slot &at(u32 index) {
    return me_.slots[index];
  }
  bool may_read(u32 index) const {
    return (held_[index].flags & 3) != O_WRONLY;
  }
  bool may_write(u32 index) const {
    return (held_[index].flags & 3) != O_RDONLY;
  }

  const std::string &url_of(const slot &which) {
    if (which.kind == file_kind::shared)
      return run_.shared(which.file).url;
    return which.kind == file_kind::own ? me_.own.url : run_.foreign().url;
  }

  // Every thread must have the same result.
  void same_everywhere(const char *call, u64 mine) {
    if (group_.broadcast(mine) != mine)
      run_.fail(std::string{call} + ": another result in another thread of the group");
    if (leads())
      run_.note(mine);
  }

  // ---- open, close and operations on names

  status expect_open(slot &mine, int flags) {
    if (mine.kind != file_kind::own)
      return status::ok;
    bool const exists = me_.own.named != nullptr;
    if (!exists)
      return (flags & O_CREAT) != 0 ? status::ok : status::no_entry;
    if ((flags & O_EXCL) != 0)
      return status::exists;
    return status::ok;
  }

  // The descriptor that an open with these flags joins.
  slot *joined(const slot &mine, int flags) {
    if ((flags & O_EXCL) != 0)
      return nullptr;
    for (slot &other : me_.slots)
      if (&other != &mine && other.kind == file_kind::own && other.fd >= 0 &&
          other.flags == flags && other.joinable)
        return &other;
    return nullptr;
  }

  void opened(slot &mine, int flags) {
    if (mine.kind == file_kind::shared && (flags & O_CREAT) != 0)
      run_.shared(mine.file).exists = true;
    if (mine.kind != file_kind::own)
      return;
    mine.joinable = true;
    if (slot *const other = joined(mine, flags); other != nullptr) {
      mine.inode = other->inode;
      return;
    }
    if (me_.own.named == nullptr)
      me_.own.named = std::make_shared<std::string>();
    mine.inode = me_.own.named;
    if ((flags & O_TRUNC) != 0)
      mine.inode->clear();
  }

  void open(u32 index, int flags) {
    slot &mine = at(index);
    u64 const began = leads() ? run_.now_ns() : 0;
    if (leads())
      run_.tell("gopen", me_.index, index, u64(flags), 0);
    status wanted = status::ok;
    bool may_miss = false;
    if (leads()) {
      wanted = expect_open(mine, flags);
      may_miss = mine.kind == file_kind::shared && !run_.shared(mine.file).exists;
      if (mine.kind == file_kind::foreign && run_.foreign().open_count++ == 0)
        run_.foreign().floor = run_.foreign().done;
    }
    int fd = -1;
    status const code = gopen(group_, named_, url_of(mine).c_str(), flags, &fd);
    same_everywhere("gopen", u64(u32(fd)) << 32 | u32(int(code)));
    if (leads()) {
      (void)run_.judge(
          "gopen", url_of(mine), code, {wanted, may_miss ? status::no_entry : wanted}, began);
      if (code == status::ok)
        opened(mine, flags);
      else if (mine.kind == file_kind::foreign)
        run_.foreign().open_count--;
      bool const changes = mine.kind == file_kind::own && (flags & (O_CREAT | O_TRUNC)) != 0;
      if (changes && code == status::timed_out)
        run_.doubt(me_.own.url);
      mine.fd = fd;
      mine.flags = flags;
    }
    held_[index] = {code == status::ok ? fd : -1, flags};
  }

  void close(u32 index) {
    slot &mine = at(index);
    if (held_[index].fd < 0)
      return;
    u64 const began = leads() ? run_.now_ns() : 0;
    status const code = gclose(group_, files_, held_[index].fd);
    same_everywhere("gclose", u32(int(code)));
    held_[index].fd = -1;
    if (!leads())
      return;
    mine.fd = -1;
    mine.inode = nullptr;
    if (mine.kind == file_kind::foreign)
      run_.foreign().open_count--;
    (void)run_.judge("gclose", url_of(mine), code, {status::ok}, began);
  }

  void unlink(const step &now) {
    if (at(now.slot).kind != file_kind::own)
      return;
    u64 const began = leads() ? run_.now_ns() : 0;
    status const code = gunlink(group_, named_, me_.own.url.c_str());
    same_everywhere("gunlink", u32(int(code)));
    if (!leads())
      return;
    (void)run_.judge("gunlink",
                     me_.own.url,
                     code,
                     {me_.own.named == nullptr ? status::no_entry : status::ok},
                     began);
    if (code == status::timed_out)
      run_.doubt(me_.own.url);
    if (code != status::ok)
      return;
    me_.own.named = nullptr;
    for (slot &each : me_.slots)
      each.joinable = false;
  }

  void sync(const step &now) {
    if (held_[now.slot].fd < 0)
      return;
    u64 const began = leads() ? run_.now_ns() : 0;
    status const code = gfsync(group_, files_, held_[now.slot].fd);
    same_everywhere("gfsync", u32(int(code)));
    if (leads())
      (void)run_.judge("gfsync", url_of(at(now.slot)), code, {status::ok}, began);
  }

  void truncate(const step &now) {
    slot &mine = at(now.slot);
    if (held_[now.slot].fd < 0 || mine.kind != file_kind::own)
      return;
    u64 const began = leads() ? run_.now_ns() : 0;
    status const code = gftruncate(group_, files_, held_[now.slot].fd, now.size);
    same_everywhere("gftruncate", u32(int(code)));
    if (!leads())
      return;
    status const wanted = may_write(now.slot) ? status::ok : status::bad_file;
    if (run_.judge("gftruncate", me_.own.url, code, {wanted}, began) && code == status::ok)
      mine.inode->resize(now.size);
  }

  // ---- bytes

  // Whether the model has the size and permits every byte read.
  bool is_known(const slot &mine) const {
    bool const in_doubt = mine.kind == file_kind::own && run_.in_doubt(me_.own.url);
    return !run_.lossy() && !in_doubt;
  }

  void check_bytes(const char *call,
                   slot &mine,
                   const gfile_run::started &began,
                   const u8 *bytes,
                   u64 offset,
                   u64 size) {
    for (u64 i = 0; i < size; i++) {
      bool good = true;
      if (mine.kind == file_kind::shared)
        good = run_.shared(mine.file).accepts(offset + i, bytes[i], began.floor, run_.lossy());
      else if (mine.kind == file_kind::own)
        good = !is_known(mine) || u8((*mine.inode)[offset + i]) == bytes[i];
      else
        good = run_.foreign().accepts(offset + i, bytes[i]);
      if (good)
        continue;
      return run_.fail(std::string{call} + " of " + url_of(mine) + ": a wrong byte " +
                       std::to_string(bytes[i]) + " at " + std::to_string(offset + i) + ", byte " +
                       std::to_string(i) + " of " + std::to_string(size));
    }
  }

  struct size_range {
    u64 least, most;
  };
  // The largest size of the file now, given the state when the call began.
  size_range sizes(slot &mine, const gfile_run::started &began) {
    if (mine.kind == file_kind::foreign)
      return {run_.foreign().size, run_.foreign().size};
    if (!is_known(mine))
      return {0, ~u64{0}};
    if (mine.kind == file_kind::own)
      return {mine.inode->size(), mine.inode->size()};
    return {began.size_floor, run_.shared(mine.file).size_ceiling()};
  }

  gfile_run::started start(slot &mine) {
    gfile_run::started began;
    began.at_ns = run_.now_ns();
    if (mine.kind == file_kind::shared) {
      began.floor = run_.shared(mine.file).floor();
      began.size_floor = run_.shared(mine.file).size_floor();
    }
    return began;
  }

  static u64 clip(u64 size, u64 file_size, u64 offset) {
    u64 const rest = offset < file_size ? file_size - offset : 0;
    return size < rest ? size : rest;
  }

  void read(const step &now) {
    if (held_[now.slot].fd < 0)
      return;
    slot &mine = at(now.slot);
    gfile_run::started began;
    if (leads()) {
      began = start(mine);
      std::fill(me_.buffer.begin(), me_.buffer.end(), u8(0xEE));
    }
    group_.sync();
    tanada::gio_result const got =
        gread(group_, files_, held_[now.slot].fd, me_.buffer.data(), now.offset, now.size);
    same_everywhere("gread", got.size << 32 | u32(int(got.status)));
    group_.sync();
    if (leads()) {
      bool const may = may_read(now.slot);
      bool const done = run_.judge(
          "gread", url_of(mine), got.status, {may ? status::ok : status::bad_file}, began.at_ns);
      size_range const limits = sizes(mine, began);
      bool const size_good =
          got.size <= now.size && got.size <= clip(now.size, limits.most, now.offset) &&
          (!done || !may || got.size >= clip(now.size, limits.least, now.offset));
      if (!size_good)
        run_.fail("gread of " + url_of(mine) + " at " + std::to_string(now.offset) + " gives " +
                  std::to_string(got.size) + " of " + std::to_string(now.size) +
                  " bytes; the file has " + std::to_string(limits.least) + " to " +
                  std::to_string(limits.most));
      else
        check_bytes("gread", mine, began, me_.buffer.data(), now.offset, got.size);
    }
    group_.sync();
  }

  // Seven rows about the step's range, two of them equal. Rows may lie past the end.
  void rows(const step &now) {
    if (held_[now.slot].fd < 0)
      return;
    constexpr u64 row_count = 7;
    slot &mine = at(now.slot);
    u64 const row_size = now.size / row_count + 1, first = now.offset / row_size;
    u64 const numbers[row_count] = {first, first + 3, first, first / 2, first + 1, 0, first + 2};
    gfile_run::started began;
    if (leads()) {
      began = start(mine);
      std::fill(me_.buffer.begin(), me_.buffer.end(), u8(0xEE));
    }
    group_.sync();
    tanada::gio_result const got = gread_rows(
        group_, files_, held_[now.slot].fd, me_.buffer.data(), numbers, row_count, row_size);
    same_everywhere("gread_rows", got.size << 32 | u32(int(got.status)));
    group_.sync();
    if (leads())
      check_rows(mine, began, got, {numbers, row_count, row_size}, may_read(now.slot));
    group_.sync();
  }

  struct row_call {
    const u64 *numbers;
    u64 count, row_size;
  };
  void check_rows(slot &mine,
                  const gfile_run::started &began,
                  tanada::gio_result got,
                  const row_call &call,
                  bool may) {
    u64 const end =
        (*std::max_element(call.numbers, call.numbers + call.count) + 1) * call.row_size;
    size_range const limits = sizes(mine, began);
    bool const may_lack = end > limits.least;
    status const wanted = may ? status::ok : status::bad_file;
    (void)run_.judge("gread_rows",
                     url_of(mine),
                     got.status,
                     {wanted, may && may_lack ? status::range : wanted},
                     began.at_ns);
    bool const is_ok = got.status == status::ok;
    if (got.size != (is_ok ? call.count * call.row_size : 0) || (is_ok && end > limits.most))
      return run_.fail("gread_rows of " + url_of(mine) + " to " + std::to_string(end) + " gives " +
                       std::to_string(got.size) + " bytes; the file has " +
                       std::to_string(limits.least) + " to " + std::to_string(limits.most));
    for (u64 i = 0; is_ok && i < call.count; i++)
      check_bytes("gread_rows",
                  mine,
                  began,
                  me_.buffer.data() + i * call.row_size,
                  call.numbers[i] * call.row_size,
                  call.row_size);
  }

  void write(const step &now) {
    slot &mine = at(now.slot);
    if (held_[now.slot].fd < 0 || mine.kind == file_kind::foreign)
      return;
    u64 const began = leads() ? run_.now_ns() : 0;
    bool const may = may_write(now.slot);
    if (leads()) {
      for (u64 i = 0; i < now.size; i++)
        me_.buffer[i] = value_at(now.offset + i, now.stamp);
      if (mine.kind == file_kind::shared && may)
        run_.shared(mine.file).begin_write(me_.index,
                                           {now.offset, now.offset + now.size, now.stamp});
    }
    tanada::gio_result const done =
        gwrite(group_, files_, held_[now.slot].fd, me_.buffer.data(), now.offset, now.size);
    same_everywhere("gwrite", done.size << 32 | u32(int(done.status)));
    group_.sync();
    if (!leads())
      return;
    bool const good = run_.judge(
        "gwrite", url_of(mine), done.status, {may ? status::ok : status::bad_file}, began);
    if (good && may && done.size != now.size)
      run_.fail("gwrite: ok and short");
    if (mine.kind == file_kind::shared && may)
      run_.shared(mine.file).end_write(me_.index);
    if (mine.kind == file_kind::own && may) {
      if (done.size > 0 && mine.inode->size() < now.offset + done.size)
        mine.inode->resize(now.offset + done.size);
      for (u64 i = 0; i < done.size; i++)
        (*mine.inode)[now.offset + i] = char(value_at(now.offset + i, now.stamp));
    }
  }

  void prefetch(const step &now) {
    if (held_[now.slot].fd < 0)
      return;
    u64 const began = leads() ? run_.now_ns() : 0;
    status const code = gprefetch(group_, files_, held_[now.slot].fd, now.offset, now.size);
    same_everywhere("gprefetch", u32(int(code)));
    status const wanted = may_read(now.slot) ? status::ok : status::bad_file;
    if (leads())
      (void)run_.judge("gprefetch", url_of(at(now.slot)), code, {wanted}, began);
  }

  static constexpr u64 map_timeout_ns = 20'000'000;

  void map(const step &now) {
    if (held_[now.slot].fd < 0)
      return;
    slot &mine = at(now.slot);
    gfile_run::started began;
    if (leads())
      began = start(mine);
    // If all frames are pinned it waits for its whole time limit.
    tanada::gfile_ref limited = files_;
    if (limited.timeout_ns > map_timeout_ns)
      limited.timeout_ns = map_timeout_ns;
    tanada::gmap_result const page = gmap(group_, limited, held_[now.slot].fd, now.offset);
    same_everywhere("gmap", page.size << 32 | u32(int(page.status)));
    bool keep = false;
    if (leads()) {
      check_map(now, mine, began, page);
      keep = page.status == status::ok && run_.keeps_page();
    }
    if (group_.broadcast(u32(keep)) != 0 || page.status != status::ok)
      return;
    status const code = gunmap(group_, files_, page.bytes);
    same_everywhere("gunmap", u32(int(code)));
    if (leads() && code != status::ok)
      run_.fail("gunmap: " + std::to_string(int(code)));
  }

  void check_map(const step &now,
                 slot &mine,
                 const gfile_run::started &began,
                 const tanada::gmap_result &page) {
    size_range const limits = sizes(mine, began);
    bool const may = may_read(now.slot);
    status const past = now.offset >= limits.least ? status::range : status::ok;
    (void)run_.judge("gmap",
                     url_of(mine),
                     page.status,
                     {may ? status::ok : status::bad_file,
                      may ? past : status::bad_file,
                      may ? status::busy : status::bad_file},
                     began.at_ns);
    if (page.status != status::ok)
      return;
    u32 const page_size = gpage_size(files_);
    u64 const begin = now.offset / page_size * page_size;
    if (page.size > clip(page_size, limits.most, begin) ||
        page.size < clip(page_size, limits.least, begin))
      return run_.fail("gmap of " + url_of(mine) + ": a size of " + std::to_string(page.size));
    check_bytes("gmap", mine, began, page.bytes, begin, page.size);
  }

  void stat(const step &now) {
    if (held_[now.slot].fd < 0)
      return;
    slot &mine = at(now.slot);
    gfile_run::started began;
    if (leads())
      began = start(mine);
    tanada::gstat_result const got = gfstat(group_, files_, held_[now.slot].fd);
    same_everywhere("gfstat", got.size << 32 | u32(int(got.status)));
    if (!leads())
      return;
    (void)run_.judge("gfstat", url_of(mine), got.status, {status::ok}, began.at_ns);
    size_range const limits = sizes(mine, began);
    if (got.size < limits.least || got.size > limits.most)
      run_.fail("gfstat of " + url_of(mine) + ": " + std::to_string(got.size) + ", not " +
                std::to_string(limits.least) + " to " + std::to_string(limits.most));
  }

  Group group_;
  tanada::gfile_ref files_, named_;  // named_: for calls by name, with their time limit
  gfile_run &run_;
  actor &me_;
  std::vector<held> held_;
};

}  // namespace gfile_sim
