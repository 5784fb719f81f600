// tests/e2e/gfile/gfile_actor.cuh: a block, warp or thread of gfile_stress, which changes the files
// it owns and reads all files.
#pragma once

#include "gfile_watcher.cuh"

namespace stress {

template <class Group>
class actor : watcher<Group> {
 public:
  TND_DEVICE actor(Group group, const round_task &task, u32 block, u32 slot)
      : base{group, task, block, slot},
        random_{task.seed ^ (u64(me_) + 1) * 0x9E3779B97F4A7C15ull},
        words_{task.scratch + u64(me_) * piece_words} {}

  TND_DEVICE void run() {
    for (u32 file = 0; file < task_.file_count; file++)
      if (task_.models[file].owner == me_)
        verify(file);
    for (u32 step = 0; step < task_.steps; step++) {
      if (group_.broadcast(load(task_.found->claimed)) != 0)
        return;
      u32 const file = draw_file();
      if (task_.models[file].owner == me_)
        own(file);
      else
        read_others(file);
    }
  }

 private:
  using base = watcher<Group>;
  using typename base::expectation;
  using typename base::view;
  using base::check_words, base::fine, base::floor_of, base::holds, base::leads, base::map_piece,
      base::own_expectation, base::owner_looks, base::planted, base::report, base::store,
      base::timed;
  using base::group_, base::task_, base::me_, base::instance_, base::files_;

  // One of its own in half of the cases.
  TND_DEVICE u32 draw_file() {
    u32 const drawn = random_.below(task_.file_count);
    if (random_.below(2) == 0)
      return drawn;
    for (u32 i = 0; i < task_.file_count; i++)
      if (u32 const file = (drawn + i) % task_.file_count; task_.models[file].owner == me_)
        return file;
    return drawn;
  }

  TND_DEVICE bool now_and_then() {
    return random_.below(4) == 0;
  }

  // ---- an owner's calls

  TND_DEVICE void begin_change(file_model &model) {
    store(model.changes, load(model.changes) + 1);
  }

  // Sizes and contents after truncation to `size` words, or growth.
  TND_DEVICE void set_size(file_model &model, u64 size) {
    group_.sync();
    for (u32 piece = group_.rank(); piece < model.piece_count; piece += group_.size()) {
      u64 const begin = u64(piece) * piece_words, rest = size > begin ? size - begin : 0;
      for (u64 *const each : {&model.written[piece], &model.published[piece]}) {
        holding what = unpacked(load(*each));
        if (what.count > rest)
          what.count = u32(rest);
        simt::device_atomic<u64>(*each).store_release(packed(what));
      }
    }
    if (leads())
      model.size = size;
    group_.sync();
  }

  TND_DEVICE void end_change(file_model &model, bool good) {
    if (!good) {
      set_size(model, 0);
      store(model.blurred, 1u);
    }
    store(model.changes, load(model.changes) + 1);
  }

  // Data written before a gfsync or gclose that returned ok are there; data before one that failed
  // may not be.
  TND_DEVICE void settle(file_model &model, bool good) {
    group_.sync();
    for (u32 piece = group_.rank(); piece < model.piece_count; piece += group_.size()) {
      u64 &from = good ? model.written[piece] : model.published[piece],
          &to = good ? model.published[piece] : model.written[piece];
      simt::device_atomic<u64>(to).store_release(load(from));
    }
    group_.sync();
  }

  TND_DEVICE int open_own(u32 file, int flags) {
    file_model &model = task_.models[file];
    bool const change = model.exists == 0 || (flags & g_trunc) != 0;
    group_.sync();
    if (change)
      begin_change(model);
    int fd = -1;
    bool const good =
        fine(file, timed(file, [&] { return gopen(group_, files_, model.url, flags, &fd); }));
    if (change) {
      set_size(model, 0);
      store(model.exists, 1u);
      end_change(model, good);
    }
    return good ? fd : -1;
  }

  TND_DEVICE void close_own(u32 file, int fd) {
    settle(task_.models[file], fine(file, timed(file, [&] { return gclose(group_, files_, fd); })));
  }

  TND_DEVICE void write_piece(u32 file, int fd, u32 piece) {
    file_model &model = task_.models[file];
    u32 const version = model.begun[piece] + 1,
              shift = planted(plant::misplaced) || planted(plant::mapped) ? 1 : 0;
    store(model.begun[piece], version);
    for (u32 i = group_.rank(); i < piece_words; i += group_.size())
      words_[i] = word_of(
          file, u64(piece) * piece_words + i + shift, version + (planted(plant::future) ? 1 : 0));
    group_.sync();
    bool const loses = planted(plant::lost) || planted(plant::stale) || planted(plant::unclosed) ||
                       planted(plant::unsynced);
    bool const grows = u64(piece + 1) * piece_words > model.size;
    gio_result const done =
        loses && !grows && now_and_then() ? gio_result{status::ok, piece_size} : timed(file, [&] {
          return gwrite(group_, files_, fd, words_, u64(piece) * piece_size, piece_size);
        });
    if (!fine(file, done.status) || model.blurred != 0)
      return;
    if (done.size != piece_size && leads())
      report(wrong::count, file, piece, done.size, piece_size);
    store(model.written[piece], packed({version, piece_words}));
    u64 const end = u64(piece + 1) * piece_words;
    if (leads() && model.size < end)
      model.size = end;
    group_.sync();
  }

  TND_DEVICE void read_own(u32 file, int fd, u32 piece) {
    file_model &model = task_.models[file];
    expectation const want = own_expectation(model, piece);
    u64 const begin = u64(piece) * piece_words, rest = model.size > begin ? model.size - begin : 0;
    u64 const wanted = want.exact ? (rest < piece_words ? rest : piece_words) : want.what.count;
    u64 const asked = piece_size - (planted(plant::shortened) ? 8 : 0);
    gio_result const done = timed(
        file, [&] { return gread(group_, files_, fd, words_, u64(piece) * piece_size, asked); });
    if (!fine(file, done.status))
      return;
    bool const right = want.exact ? done.size == wanted * 8 : done.size >= wanted * 8;
    if (!right && leads())
      report(want.exact ? wrong::count : want.otherwise, file, begin, done.size, wanted * 8);
    check_words(file, begin, words_, done.size / 8, piece, want);
  }

  TND_DEVICE void stat_own(u32 file, int fd) {
    gstat_result const seen = timed(file, [&] { return gfstat(group_, files_, fd); });
    u64 const wanted = task_.models[file].size * 8;
    if (fine(file, seen.status) && task_.floors_only == 0 && owner_looks() && seen.size != wanted &&
        leads())
      report(wrong::size, file, 0, seen.size, wanted);
    group_.sync();
  }

  // Truncates it, and in half of the cases extends it again, to its old size or another: zeros.
  TND_DEVICE void cut(u32 file, int fd) {
    file_model &model = task_.models[file];
    u64 const old = model.size, to = random_.below(u32(old) + 1);
    u64 const sizes[] = {
        to, random_.below(2) == 0 ? old : random_.below(model.piece_count * piece_words)};
    bool const grows = planted(plant::uncut) || random_.below(2) == 0;
    group_.sync();
    begin_change(model);
    bool good = true;
    for (u32 i = 0; i < (grows ? 2u : 1u) && good; i++) {
      bool const left_out = planted(plant::resized) || planted(plant::uncut);
      u64 const size = planted(plant::uncut) && i == 1 ? old : sizes[i];
      if (!left_out)
        good = fine(file, timed(file, [&] { return gftruncate(group_, files_, fd, size * 8); }));
      set_size(model, size);
    }
    end_change(model, good);
    stat_own(file, fd);
  }

  // The known content of a file at the start of a round, checked by a fresh instance.
  TND_DEVICE void verify(u32 file) {
    file_model &model = task_.models[file];
    if (model.exists == 0)
      return;
    u64 known = 0;
    for (u32 piece = 0; piece < model.piece_count; piece++)
      known += load(model.published[piece]);
    if (task_.floors_only != 0 && known == 0)
      return;  // it may be lost
    int fd = -1;
    if (!fine(file, timed(file, [&] { return gopen(group_, files_, model.url, g_rdonly, &fd); })))
      return;
    stat_own(file, fd);
    for (u32 piece = 0; piece < model.piece_count; piece++)
      read_own(file, fd, piece);
    (void)fine(file, timed(file, [&] { return gclose(group_, files_, fd); }));
  }

  TND_DEVICE void remove(u32 file) {
    file_model &model = task_.models[file];
    if (model.exists == 0)
      return;
    group_.sync();
    begin_change(model);
    bool const left_out = planted(plant::undeleted) || planted(plant::undeleted_for_others);
    bool const good =
        left_out || fine(file, timed(file, [&] { return gunlink(group_, files_, model.url); }));
    set_size(model, 0);
    store(model.exists, planted(plant::vanished) ? 1u : 0u);
    end_change(model, good);
    if (task_.floors_only != 0 || !good || planted(plant::undeleted_for_others) ||
        planted(plant::vanished))
      return;
    int fd = -1;
    status const code = timed(file, [&] { return gopen(group_, files_, model.url, g_rdwr, &fd); });
    if (code != status::no_entry && leads())
      report(wrong::opened, file, 0, u64(u32(-int(code))), u64(u32(-int(status::no_entry))));
    if (code == status::ok)
      (void)gclose(group_, files_, fd);
  }

  // g_excl refuses an existing file.
  TND_DEVICE void open_exclusive(u32 file) {
    if (task_.models[file].exists == 0 || task_.floors_only != 0)
      return;
    int fd = -1;
    int const flags = g_rdwr | g_creat | (planted(plant::not_exclusive) ? 0 : g_excl);
    status const code =
        timed(file, [&] { return gopen(group_, files_, task_.models[file].url, flags, &fd); });
    if (code != status::exists && leads())
      report(wrong::opened, file, 0, u64(u32(-int(code))), u64(u32(-int(status::exists))));
    if (code == status::ok)
      (void)gclose(group_, files_, fd);
  }

  TND_DEVICE void own(u32 file) {
    file_model &model = task_.models[file];
    u32 const how = random_.below(16);
    if (how == 0)
      return remove(file);
    if (how == 1)
      return open_exclusive(file);
    bool const write_only = how == 2;
    bool const fresh = model.exists == 0 && task_.floors_only == 0 &&
                       !planted(plant::undeleted_for_others) && random_.below(2) == 0;
    int const access = write_only && !planted(plant::readable) ? g_wronly : g_rdwr;
    group_.sync();
    int const fd =
        open_own(file, access | g_creat | (fresh ? g_excl : 0) | (how == 3 ? g_trunc : 0));
    if (fd < 0)
      return;
    if (write_only) {
      gio_result const refused = gread(group_, files_, fd, words_, 0, 8);
      if (refused.status != status::bad_file && leads())
        report(wrong::access, file, 0, u64(u32(-int(refused.status))), 0);
    }
    for (u32 k = 0, count = 1 + random_.below(pieces_a_step); k < count; k++) {
      u32 const piece = random_.below(model.piece_count), action = random_.below(12);
      if (action < 5 || (write_only && action >= 9))
        write_piece(file, fd, piece);
      else if (action == 5)
        cut(file, fd);
      else if (action == 6)
        stat_own(file, fd);
      else if (action == 7)
        settle(model, fine(file, timed(file, [&] { return gfsync(group_, files_, fd); })));
      else if (action == 8 && !write_only)
        (void)fine(file, map_piece(file, fd, piece, own_expectation(model, piece), nullptr));
      else if (!write_only)
        read_own(file, fd, piece);
    }
    if (planted(plant::failed))
      (void)fine(file, gfsync(group_, files_, -1));
    close_own(file, fd);
  }

  // ---- a reader's

  TND_DEVICE void read_piece(const view &seen, int fd, u32 piece, const expectation &floor) {
    u32 const first = random_.below(2) == 0 ? 0 : random_.below(piece_words),
              count = random_.below(piece_words - first) + 1;
    u64 const begin = u64(piece) * piece_words + first;
    gio_result const done =
        timed(seen.file, [&] { return gread(group_, files_, fd, words_, begin * 8, count * 8); });
    expectation want = floor;
    bool const firm = holds(seen);
    // A file that another instance truncates returns errors where bytes are missing.
    if (done.status != status::ok && !firm && !seen.same_instance)
      return;
    if (!fine(seen.file, done.status))
      return;
    if (!firm)
      want.what = {0, 0};
    u32 const held = want.what.count > first ? want.what.count - first : 0,
              wanted = held < count ? held : count;
    if (done.size < wanted * 8 && leads())
      report(want.otherwise, seen.file, begin, done.size, wanted * 8);
    check_words(seen.file, begin, words_, done.size / 8, piece, want);
  }

  TND_DEVICE void stat_piece(const view &seen, int fd, u32 piece, const expectation &floor) {
    gstat_result const got = timed(seen.file, [&] { return gfstat(group_, files_, fd); });
    u64 const more = planted(plant::shrunk) ? pieces_max * piece_words : 0;
    u64 const wanted =
        floor.what.count == 0 ? 0 : (u64(piece) * piece_words + floor.what.count + more) * 8;
    if (fine(seen.file, got.status) && got.size < wanted && holds(seen) && leads())
      report(wrong::size, seen.file, u64(piece) * piece_words, got.size, wanted);
  }

  TND_DEVICE void read_others(u32 file) {
    file_model &model = task_.models[file];
    view seen{file, load(model.changes), model.owner_instance == instance_, false};
    u32 const exists = load(model.exists), count = 1 + random_.below(pieces_a_step);
    u32 pieces[pieces_a_step];
    u64 published[pieces_a_step];
    for (u32 k = 0; k < count; k++) {
      pieces[k] = random_.below(model.piece_count);
      published[k] = load(model.published[pieces[k]]);
    }
    seen.firm = (seen.changes & 1) == 0;
    if (!seen.same_instance) {
      // An open that joins a descriptor of its instance sees that view. The first one joins none
      // that was open before its check.
      u32 const before = leads() ? simt::device_atomic<u32>(model.opens).fetch_add_acq_rel(1) : 0;
      seen.firm = group_.broadcast(before) == 0 && seen.firm && task_.floors_only == 0;
    }
    int fd = -1;
    status const code =
        timed(file, [&] { return gopen(group_, files_, model.url, g_rdonly, &fd); });
    bool const firm = holds(seen) && task_.floors_only == 0;
    if (firm && (code == status::ok) != (exists != 0) && leads())
      report(wrong::opened, file, 0, u64(u32(-int(code))), exists);
    if (code == status::ok) {
      for (u32 k = 0; k < count; k++)
        read_one(seen, fd, pieces[k], published[k]);
      (void)fine(file, timed(file, [&] { return gclose(group_, files_, fd); }));
    } else if (code != status::no_entry && (firm || seen.same_instance))
      (void)fine(file, code);
    if (!seen.same_instance && leads())
      (void)simt::device_atomic<u32>(model.opens).fetch_add_acq_rel(~0u);
  }

  TND_DEVICE void read_one(const view &seen, int fd, u32 piece, u64 published) {
    u32 const action = random_.below(8);
    expectation const floor = floor_of(seen, piece, published);
    if (action == 0) {
      u64 const size = u64(task_.models[seen.file].piece_count) * piece_size;
      (void)fine(seen.file,
                 timed(seen.file, [&] { return gprefetch(group_, files_, fd, 0, size); }));
    } else if (action == 1)
      stat_piece(seen, fd, piece, floor);
    else if (action == 2) {
      status const code = map_piece(seen.file, fd, piece, floor, &seen);
      if (seen.same_instance || holds(seen))
        (void)fine(seen.file, code);
    } else if (!planted(plant::mapped))
      read_piece(seen, fd, piece, floor);
  }

  step_random random_;
  u64 *const words_;
};

}  // namespace stress
