// tests/e2e/gfile/gfile_watcher.cuh: a group of threads of gfile_stress that checks what it reads.
#pragma once

#include "gfile_model.cuh"

namespace stress {

template <class T>
TND_DEVICE T load(T &shared) {
  return simt::device_atomic<T>(shared).load_acquire();
}

template <class Group>
class watcher {
 protected:
  TND_DEVICE watcher(Group group, const round_task &task, u32 block, u32 slot)
      : group_{group},
        task_{task},
        me_{block * slots_a_block + slot},
        instance_{instance_of(block, task.instance_count)},
        files_{task.instances[instance_]} {}

  struct expectation {
    holding what;
    bool exact;
    wrong otherwise;
  };

  // What a reader may rely on while the file is only written, and its view is not an older one.
  struct view {
    u32 file, changes;
    bool same_instance, firm;
  };

  TND_DEVICE bool leads() const {
    return group_.rank() == 0;
  }

  TND_DEVICE void report(wrong what, u32 file, u64 index, u64 seen, u64 wanted) const {
    u32 none = 0;
    if (simt::device_atomic<u32>(task_.found->claimed).compare_exchange_relaxed(none, 1u))
      task_.found->what = {what, file, me_, instance_, index, seen, wanted};
  }

  // Runs one call and checks its duration.
  template <class Call>
  TND_DEVICE auto timed(u32 file, Call call) {
    u64 const begin_ns = simt::now_ns();
    auto const result = call();
    u64 const took_ns = simt::now_ns() - begin_ns;
    if (leads())
      (void)simt::device_atomic<u64>(task_.found->calls).fetch_add_relaxed(1);
    if (leads() && took_ns > task_.limit_ns)
      report(wrong::late, file, 0, took_ns, task_.limit_ns);
    return result;
  }

  TND_DEVICE bool fine(u32 file, status code) const {
    if (code != status::ok && leads())
      (void)simt::device_atomic<u64>(task_.found->failed_calls).fetch_add_relaxed(1);
    if (code != status::ok && task_.errors_allowed == 0 && leads())
      report(wrong::failed, file, 0, u64(u32(-int(code))), 0);
    return code == status::ok;
  }

  template <class T>
  TND_DEVICE void store(T &shared, T value) const {
    group_.sync();
    if (leads())
      simt::device_atomic<T>(shared).store_release(value);
    group_.sync();
  }

  TND_DEVICE bool planted(plant what) const {
    return task_.planted == what;
  }
  TND_DEVICE bool owner_looks() const {
    return !planted(plant::stale) && !planted(plant::unclosed) && !planted(plant::mapped) &&
           !planted(plant::shrunk) && !planted(plant::undeleted_for_others);
  }

  // ---- checks

  // `count` words from index `first` of the file; for those of `piece` more is known.
  TND_DEVICE void check_words(
      u32 file, u64 first, const u64 *words, u64 count, u32 piece, const expectation &want) const {
    file_model &model = task_.models[file];
    for (u64 i = group_.rank(); i < count; i += group_.size()) {
      u64 const index = first + i, seen = words[i];
      u32 const at = u32(index % piece_words), version = u32(seen & 0xffffff);
      bool const known = index / piece_words == piece;
      bool const held = known && at < want.what.count;
      u64 const wanted = held ? word_of(file, index, want.what.version) : 0;
      if (seen == 0) {
        if (held)
          report(want.otherwise, file, index, seen, wanted);
      } else if (seen != word_of(file, index, version))
        report(wrong::place, file, index, seen, word_of(file, index, 0));
      else if (index / piece_words >= pieces_max ||
               version > load(model.begun[index / piece_words]))
        report(wrong::version, file, index, seen, wanted);
      else if (known && want.exact && !held)
        report(wrong::behind_cut, file, index, seen, 0);
      else if (held && (want.exact ? version != want.what.version : version < want.what.version))
        report(want.otherwise, file, index, seen, wanted);
    }
    group_.sync();
  }

  TND_DEVICE expectation own_expectation(file_model &model, u32 piece) const {
    if (!owner_looks())
      return {{0, 0}, false, wrong::own};
    if (task_.floors_only != 0)
      return {unpacked(load(model.published[piece])), false, wrong::acknowledged};
    return {unpacked(load(model.written[piece])), true, wrong::own};
  }

  // Whether the view still has what was known when it began.
  TND_DEVICE bool holds(const view &seen) const {
    return seen.firm &&
           simt::device_atomic<u32>(task_.models[seen.file].changes).fetch_add_acq_rel(0) ==
               seen.changes;
  }

  // What a reader must see of a piece at least; call it before the read.
  TND_DEVICE expectation floor_of(const view &seen, u32 piece, u64 published_before) const {
    file_model &model = task_.models[seen.file];
    bool const looks = !planted(plant::lost) && !planted(plant::mapped) &&
                       !planted(seen.same_instance ? plant::unclosed : plant::stale);
    if (!looks)
      return {{0, 0}, false, wrong::stale};
    if (!seen.same_instance)
      return {unpacked(published_before), false, wrong::closed};
    if (task_.floors_only != 0)
      return {unpacked(load(model.published[piece])), false, wrong::acknowledged};
    return {unpacked(load(model.written[piece])), false, wrong::stale};
  }

  // A mapped page: its whole words are checked as those of a read.
  TND_DEVICE status
  map_piece(u32 file, int fd, u32 piece, const expectation &before, const view *seen) {
    u64 const offset = u64(piece) * piece_size,
              page = offset / gpage_size(files_) * gpage_size(files_);
    gmap_result const got = timed(file, [&] { return gmap(group_, files_, fd, offset); });
    if (got.status == status::busy || got.status == status::range)
      return status::ok;
    if (got.status != status::ok)
      return got.status;
    expectation want = before;
    if (seen != nullptr && !holds(*seen))
      want.what = {0, 0};
    check_words(
        file, page / 8, reinterpret_cast<const u64 *>(got.bytes), got.size / 8, piece, want);
    return timed(file, [&] { return gunmap(group_, files_, got.bytes); });
  }

  Group const group_;
  const round_task &task_;
  u32 const me_, instance_;
  gfile_ref const files_;
};

}  // namespace stress
