// tests/e2e/gfile/gfile_model.cuh: the expected content of gfile_stress's files, and the possible
// errors; shared by kernels and host.
//
// A word of a file contains its file, index and version, that is the number of the write. Each file
// has one owner, a group of threads, and only the owner writes, truncates and deletes it; pieces
// are written as a whole. Others may read all files at any time, hence the atomics: the owner's
// leader stores, any thread loads.
#pragma once

#include <tanada/device/gfile.cuh>

namespace stress {

using namespace tanada;

inline constexpr u32 piece_words = 640;  // of a file's unit of writing: crosses pages
inline constexpr u64 piece_size = piece_words * 8;
inline constexpr u32 pieces_max = 64;
inline constexpr u32 slots_a_block = 4;  // groups that act in a block, at most
inline constexpr u32 pieces_a_step = 4;

// word = file:12 | index:28 | version:24
TND_HD inline u64 word_of(u32 file, u64 index, u32 version) {
  return u64(file) << 52 | index << 24 | version;
}

// The content of a piece: `count` words of a version, followed by zeros.
struct holding {
  u32 version, count;
};
TND_HD inline u64 packed(holding what) {
  return u64(what.version) << 32 | what.count;
}
TND_HD inline holding unpacked(u64 word) {
  return {u32(word >> 32), u32(word)};
}

struct file_model {
  char url[256];
  u32 owner, owner_instance, piece_count;
  u32 exists;
  u32 changes;  // odd while its owner creates, truncates or deletes it
  u32 opens;    // descriptors open or being opened in the instance that is not its owner's
  u32 blurred;  // one of those changes failed: its content is unknown in this round
  u64 size;     // words; only for the owner
  u32 begun[pieces_max];      // versions
  u64 written[pieces_max];    // packed contents: what gwrite reported done,
  u64 published[pieces_max];  // and a gfsync or gclose after it
};

enum class wrong : u32 {
  nothing,
  place,
  version,
  own,
  stale,
  closed,
  acknowledged,
  behind_cut,
  count,
  size,
  failed,
  opened,
  access,
  late,
  file
};
inline const char *const wrong_names[] = {
    "nothing",
    "a word of another place",
    "a version that nobody wrote",
    "the owner's own write is not there",
    "an older word than was written before the read",
    "an older word than was closed before the open",
    "a word that gfsync acknowledged is gone",
    "a word behind a cut",
    "a read of another count",
    "another size",
    "a call failed",
    "an open that should have gone the other way",
    "a descriptor does what it must not",
    "a call took longer than its limit",
    "the file itself is another",
};

// Planted faults, each in the model, to show that a check finds it.
enum class plant : u32 {
  nothing,
  misplaced,
  future,
  lost,
  stale,
  unclosed,
  unsynced,
  uncut,
  shortened,
  resized,
  shrunk,
  failed,
  not_exclusive,
  undeleted,
  undeleted_for_others,
  vanished,
  readable,
  overdue,
  changed,
  cut_outside,
  mapped
};

struct planted {
  const char *name;
  plant what;
  wrong expected;
};
inline constexpr planted plants[] = {
    {"misplaced", plant::misplaced, wrong::place},  // words are written one position further
    {"future", plant::future, wrong::version},      // words of the next version
    {"lost", plant::lost, wrong::own},              // a write is skipped
    {"stale", plant::stale, wrong::stale},          // and only others of the instance check
    {"unclosed", plant::unclosed, wrong::closed},   // only the other instance checks
    {"unsynced",
     plant::unsynced,
     wrong::acknowledged},                          // calls may fail, and gfsync acknowledges it
    {"uncut", plant::uncut, wrong::behind_cut},     // a truncation and the growth after it are
                                                    // skipped
    {"shortened", plant::shortened, wrong::count},  // a read requests less
    {"resized", plant::resized, wrong::size},       // a truncation is skipped
    {"shrunk", plant::shrunk, wrong::size},         // others expect more than was written
    {"failed", plant::failed, wrong::failed},       // an invalid descriptor
    {"not_exclusive", plant::not_exclusive, wrong::opened},  // g_excl is left out
    {"undeleted", plant::undeleted, wrong::opened},          // gunlink is skipped
    {"undeleted_for_others",
     plant::undeleted_for_others,
     wrong::opened},                                   // and the owner does not check
    {"vanished", plant::vanished, wrong::opened},      // a deleted file is expected to exist
    {"readable", plant::readable, wrong::access},      // g_rdwr for g_wronly
    {"overdue", plant::overdue, wrong::late},          // calls have no time
    {"changed", plant::changed, wrong::file},          // the host writes a word
    {"cut_outside", plant::cut_outside, wrong::file},  // the host truncates a file
    {"mapped", plant::mapped, wrong::place},           // misplaced, and only readers of mapped
                                                       // pages check
};

constexpr bool each_check_has_a_plant() {
  for (u32 what = 1; what < sizeof wrong_names / sizeof wrong_names[0]; what++) {
    bool found = false;
    for (const planted &each : plants)
      found = found || each.expected == wrong(what);
    if (!found)
      return false;
  }
  return true;
}
static_assert(each_check_has_a_plant());

struct finding {
  wrong what;
  u32 file, actor, instance;
  u64 index, seen, wanted;
};

struct outcome {
  u32 claimed;  // set by the first check that found something
  finding what;
  u64 calls, failed_calls;
};

struct round_task {
  gfile_ref instances[2];
  file_model *models;
  u64 *scratch;  // a piece for each slot
  outcome *found;
  u64 seed, limit_ns;
  u32 instance_count, kind_shift, file_count, steps, errors_allowed;
  u32 floors_only;  // calls failed: acknowledged data are there, the rest is unknown
  plant planted;
};

// How the threads of a block act in a round: together, by warps or one by one.
enum class grouping : u32 { block, warps, threads };
TND_HD inline grouping grouping_of(u32 block, u32 shift) {
  return grouping((block + shift) % 3);
}
TND_HD inline u32 slot_count(grouping how, u32 thread_count) {
  if (how == grouping::block)
    return 1;
  u32 const wanted = how == grouping::warps ? (thread_count + 31) / 32 : thread_count;
  return wanted < slots_a_block ? wanted : slots_a_block;
}
// Blocks of all three kinds in each instance.
TND_HD inline u32 instance_of(u32 block, u32 instance_count) {
  return block / 3 % instance_count;
}

struct step_random {
  u64 state;
  TND_DEVICE u32 below(u32 limit) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return u32((state >> 33) % limit);
  }
};

}  // namespace stress
