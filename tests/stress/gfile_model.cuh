// tests/stress/gfile_model.cuh: what gfile_stress knows of its files, and the operations of a block that check it.
#pragma once

#include <tanada/device/gfile.cuh>

namespace stress {

using namespace tanada;

constexpr u32 piece_words = 640;  // of a file's unit of writing: crosses pages
constexpr u32 pieces_max = 64;

// word = file:12 | index:28 | version:24
TND_HD inline u64 word_of(u32 file, u64 index, u32 version) { return u64(file) << 52 | index << 24 | version; }

constexpr u32 version_cut = 0xffffffffu;  // of a piece: the owner cut it off, and it holds zeros or is not there

constexpr u32 end_unknown = 0xffffffffu;

// Written by the owner, read by all.
struct file_model {
  char url[256];
  u32 versions[pieces_max];  // last begun
  u32 settled[pieces_max];   // last that gwrite reported done; 0: not known
  u32 synced[pieces_max];    // what was settled at the last gfsync or gclose of the owner that succeeded
  u32 cuts;                  // how often a cut or a deletion was begun or ended
  u32 end_piece;             // the file ends before it; end_unknown after an error
  u32 piece_count, owner;
};

struct finding {
  u32 kind;  // 0: none; see names below
  u32 file, block;
  u64 index, seen, wanted;
};
enum kind : u32 { nothing, misplaced, too_new, lost, failed, cut_short, too_old, wrong_size, not_cut, made_twice };
const char *const kinds[] = {"none", "a word of another place", "a version that nobody wrote", "the owner's own write is not there",
                             "a call failed", "a short read", "a word older than what was there before", "a wrong size",
                             "a word that was cut off", "a file made that was there"};

// Mistakes, and what must be found of each.
enum class plant : u32 { none, lost, misplaced, too_new, failed, cut_short, too_old, wrong_size, not_cut, made_twice };
struct plant_name {
  const char *name;
  plant what;
};
constexpr plant_name plants[] = {{"lost", plant::lost},           {"misplaced", plant::misplaced},   {"too_new", plant::too_new},
                                 {"failed", plant::failed},       {"cut_short", plant::cut_short},   {"too_old", plant::too_old},
                                 {"wrong_size", plant::wrong_size}, {"not_cut", plant::not_cut},     {"made_twice", plant::made_twice}};

struct round_task {
  gfile_ref files;
  file_model *models;
  u64 *scratch;  // two pieces a block
  finding *found;
  u64 seed;
  u32 file_count, steps, create, errors_allowed;
  plant planted;
};

struct step_random {
  u64 state;
  TND_DEVICE u32 below(u32 limit) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return u32((state >> 33) % limit);
  }
};

TND_DEVICE inline void report(const round_task &task, const finding &what) {
  u32 none = 0;
  if (!simt::device_atomic<u32>(task.found->kind).compare_exchange_relaxed(none, what.kind)) return;
  task.found->file = what.file;
  task.found->block = what.block;
  task.found->index = what.index;
  task.found->seen = what.seen;
  task.found->wanted = what.wanted;
}

TND_DEVICE inline bool plants_now(const round_task &task, plant what, step_random &random) {
  return task.planted == what && random.below(4) == 0;
}

TND_DEVICE inline bool fine(const round_task &task, status code, u32 file) {
  if (code == status::ok) return true;
  if (task.errors_allowed == 0) report(task, {failed, file, u32(simt::block_rank()), 0, u64(u32(-int(code))), 0});
  return false;
}

TND_DEVICE inline u32 load(u32 &word) { return simt::device_atomic<u32>(word).load_acquire(); }
TND_DEVICE inline void store(u32 &word, u32 value) { simt::device_atomic<u32>(word).store_release(value); }

// What may be read of a piece, as known before the read: what the owner knows exactly, or the least version.
struct expectation {
  u32 exact;  // version_cut: nothing but zeros; 0: not known
  u32 least, cuts;
};
// Where writes may be lost only what was acknowledged is sure. `cuts_at_open`: a descriptor may be of the file as it was before
// it was made anew.
TND_DEVICE inline expectation expect(const round_task &task, file_model &model, u32 piece, bool mine, u32 cuts_at_open) {
  u32 const cuts = load(model.cuts), settled = load(model.settled[piece]), synced = load(model.synced[piece]);
  u32 const sure = task.errors_allowed == 0 ? settled : synced;
  bool const exact = mine && sure == settled;
  return {exact ? settled : 0, sure == version_cut || cuts % 2 != 0 || cuts != cuts_at_open ? 0 : sure, cuts};
}

// Check words of a piece from word `first` of it on; words never written are zeros. Of what is known of others' pieces
// nothing holds once the file is cut.
template <class Group>
TND_DEVICE inline void check_words(const round_task &task, Group group, u32 file, u32 piece, u64 first, const u64 *words, u64 count,
                                   const expectation &known) {
  file_model &model = task.models[file];
  u32 const newest = load(model.versions[piece]), me = u32(simt::block_rank());
  u32 const least = load(model.cuts) == known.cuts ? known.least : 0;
  for (u64 i = group.rank(); i < count; i += group.size()) {
    u64 const index = u64(piece) * piece_words + first + i, seen = words[i];
    u32 const version = u32(seen & 0xffffff);
    if (known.exact == version_cut) {
      if (seen != 0) report(task, {not_cut, file, me, index, seen, 0});
      continue;
    }
    if (seen != 0 && seen != word_of(file, index, version)) report(task, {misplaced, file, me, index, seen, word_of(file, index, known.exact)});
    else if (version > newest) report(task, {too_new, file, me, index, seen, newest});
    else if (known.exact != 0 && version != known.exact) report(task, {lost, file, me, index, seen, word_of(file, index, known.exact)});
    else if (known.exact == 0 && version < least) report(task, {too_old, file, me, index, seen, least});
  }
  group.sync();
}

TND_DEVICE inline void write_piece(const round_task &task, u32 file, int fd, u32 piece, u64 *words, step_random &random) {
  this_block const block{};
  file_model &model = task.models[file];
  u32 const version = model.versions[piece] + 1;
  block.sync();
  if (block.rank() == 0) store(model.versions[piece], plants_now(task, plant::too_new, random) ? version - 2 : version);
  else (void)plants_now(task, plant::too_new, random);
  u64 const shift = plants_now(task, plant::misplaced, random) ? 1 : 0;
  for (u32 i = block.rank(); i < piece_words; i += block.size()) words[i] = word_of(file, u64(piece) * piece_words + i + shift, version);
  block.sync();
  bool const lose = (plants_now(task, plant::lost, random) || plants_now(task, plant::too_old, random)) && piece < model.end_piece;
  u64 const offset = u64(piece) * piece_words * 8;
  gio_result const done = lose ? gio_result{status::ok, piece_words * 8} : gwrite(block, task.files, fd, words, offset, piece_words * 8);
  bool const good = fine(task, done.status, file) && done.size == piece_words * 8;
  if (block.rank() == 0) {
    store(model.settled[piece], good ? version : 0);
    if (!good) model.end_piece = end_unknown;
    else if (model.end_piece != end_unknown && piece >= model.end_piece) model.end_piece = piece + 1;
  }
  block.sync();
}

// The owner reads the whole piece; of others a block, a warp or a thread, the last two a part of it.
TND_DEVICE inline void read_piece(const round_task &task, u32 file, int fd, u32 piece, u64 *words, bool mine, u32 cuts_at_open, step_random &random) {
  this_block const block{};
  file_model &model = task.models[file];
  expectation const known = expect(task, model, piece, mine && task.planted != plant::too_old, cuts_at_open);
  block.sync();  // the owner of the file may be ahead of us
  if (!mine && random.below(2) == 0) {
    constexpr u32 part_words = 24;
    u32 const first = random.below(piece_words - part_words);
    u64 const offset = (u64(piece) * piece_words + first) * 8;
    if (random.below(2) == 0) {
      if (block.rank() < 2) {  // each for itself
        u64 own[part_words];
        this_thread const thread{};
        gio_result const done = gread(thread, task.files, fd, own, offset, sizeof own);
        if (fine(task, done.status, file)) check_words(task, thread, file, piece, first, own, done.size / 8, known);
      }
    } else if (block.rank() < simt::warp_size) {
      this_warp const warp{};
      gio_result const done = gread(warp, task.files, fd, words, offset, part_words * 8);
      if (fine(task, done.status, file)) check_words(task, warp, file, piece, first, words, done.size / 8, known);
    }
    block.sync();
    return;
  }
  u64 const size = plants_now(task, plant::cut_short, random) ? 8 : piece_words * 8;
  gio_result const done = gread(block, task.files, fd, words, u64(piece) * piece_words * 8, size);
  if (!fine(task, done.status, file)) return;
  bool const whole = known.exact != 0 && known.exact != version_cut;
  if (whole && done.size != piece_words * 8 && block.rank() == 0)
    report(task, {cut_short, file, u32(simt::block_rank()), piece, done.size, piece_words * 8});
  check_words(task, block, file, piece, 0, words, done.size / 8, known);
}

TND_DEVICE inline void cut_piece(file_model &model, u32 piece, bool good) {
  store(model.synced[piece], 0);
  store(model.settled[piece], good ? version_cut : 0);
}

// The owner cuts its file after some piece; what was behind it must not come back.
TND_DEVICE inline void cut_file(const round_task &task, u32 file, int fd, u32 pieces_left, step_random &random) {
  this_block const block{};
  file_model &model = task.models[file];
  if (block.rank() == 0) store(model.cuts, model.cuts + 1);
  block.sync();
  status const code = plants_now(task, plant::not_cut, random) ? status::ok
                                                              : gftruncate(block, task.files, fd, u64(pieces_left) * piece_words * 8);
  bool const good = fine(task, code, file);
  for (u32 piece = pieces_left + block.rank(); piece < model.piece_count; piece += block.size()) cut_piece(model, piece, good);
  block.sync();
  if (block.rank() == 0) model.end_piece = good ? pieces_left : end_unknown;
  if (block.rank() == 0) store(model.cuts, model.cuts + 1);
  block.sync();
}

// The owner deletes its file, or opens it so that it is cut to nothing, and makes it anew. Returns the descriptor, or -1.
TND_DEVICE inline int remake_file(const round_task &task, u32 file, bool unlinks, step_random &random) {
  this_block const block{};
  file_model &model = task.models[file];
  if (block.rank() == 0) store(model.cuts, model.cuts + 1);
  block.sync();
  int fd = -1;
  status code = unlinks ? gunlink(block, task.files, model.url) : status::ok;
  // Where calls may fail, one that timed out may have done it all the same.
  if (code == status::no_entry && task.errors_allowed != 0) code = status::ok;
  if (code == status::ok) {
    int const flags = unlinks ? g_rdwr | g_creat | g_excl : g_rdwr | g_creat | g_trunc;
    code = gopen(block, task.files, model.url, flags, &fd);
  }
  if (!fine(task, code, file)) fd = -1;
  if (fd >= 0 && unlinks) {
    int again = -1;
    status const twice = plants_now(task, plant::made_twice, random) ? status::ok : gopen(block, task.files, model.url, g_rdwr | g_creat | g_excl, &again);
    if (twice == status::ok && block.rank() == 0) report(task, {made_twice, file, u32(simt::block_rank()), 0, 0, 0});
  }
  for (u32 piece = block.rank(); piece < model.piece_count; piece += block.size()) cut_piece(model, piece, fd >= 0);
  block.sync();
  if (block.rank() == 0) model.end_piece = fd >= 0 ? 0 : end_unknown;
  if (block.rank() == 0) store(model.cuts, model.cuts + 1);
  block.sync();
  return fd;
}

// The owner publishes what it wrote: what is acknowledged is in the file from now on, and after an error nothing is known.
TND_DEVICE inline void publish(const round_task &task, u32 file, status code) {
  this_block const block{};
  file_model &model = task.models[file];
  bool const good = fine(task, code, file);
  block.sync();
  for (u32 piece = block.rank(); piece < model.piece_count; piece += block.size()) {
    if (!good) store(model.settled[piece], 0);
    store(model.synced[piece], good ? model.settled[piece] : 0);
  }
  if (block.rank() == 0 && !good) model.end_piece = end_unknown;
  block.sync();
}

// The owner knows where its file ends.
TND_DEVICE inline void check_size(const round_task &task, u32 file, int fd, step_random &random) {
  this_block const block{};
  file_model &model = task.models[file];
  gstat_result const found = gfstat(block, task.files, fd);
  u64 const size = found.size + (plants_now(task, plant::wrong_size, random) ? 8 : 0), wanted = u64(model.end_piece) * piece_words * 8;
  if (fine(task, found.status, file) && model.end_piece != end_unknown && size != wanted && block.rank() == 0)
    report(task, {wrong_size, file, u32(simt::block_rank()), 0, size, wanted});
  block.sync();
}

// A mapped page: whole words of it are as good as read ones.
TND_DEVICE inline void map_piece(const round_task &task, u32 file, int fd, u32 piece) {
  this_block const block{};
  u64 const offset = u64(piece) * piece_words * 8, page = offset / gpage_size(task.files) * gpage_size(task.files);
  gmap_result const seen = gmap(block, task.files, fd, offset);
  if (seen.status == status::busy || seen.status == status::range || !fine(task, seen.status, file)) return;
  const u64 *const words = reinterpret_cast<const u64 *>(seen.bytes);
  for (u64 i = block.rank(); i < seen.size / 8; i += block.size()) {
    u64 const index = page / 8 + i, word = words[i];
    if (word != 0 && word != word_of(file, index, u32(word & 0xffffff))) report(task, {misplaced, file, u32(simt::block_rank()), index, word, 0});
  }
  (void)fine(task, gunmap(block, task.files, seen.bytes), file);
}

}  // namespace stress
