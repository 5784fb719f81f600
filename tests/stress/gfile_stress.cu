// Random operations of many blocks on many files, checked against what was written.
//
//   gfile_stress[_cuda] [--seconds N] [--seed N] [--blocks N] [--threads N] [--files N] [--errors-allowed 1] [--plant 1] --root URL ...
//
// A word of a file says where it lies and which write of its owner put it there: file, index and version. Each file has one
// owner, a block, which knows the version of each of its pieces; the other blocks read it and check that each word was
// written at its place, and none is newer than the owner has begun. Rounds draw page size, tiers, replacement and paths
// from the seed. After each round the host reads what it can (plain paths) and compares all of it.
//
// --errors-allowed: calls may fail, as when servers are killed; what succeeds must be right all the same. --plant: owners
// lose a write now and then, which must be found. Exit status 1 and one line at the first wrong word.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "../../examples/common/device_memory.hpp"

namespace stress {
namespace {

using examples::on_gpu;
using namespace tanada;

constexpr u32 piece_words = 640;  // of a file's unit of writing: crosses pages
constexpr u32 pieces_max = 64;
constexpr u32 steps_a_round = on_gpu ? 400 : 60;

// word = file:12 | index:28 | version:24
TND_HD inline u64 word_of(u32 file, u64 index, u32 version) { return u64(file) << 52 | index << 24 | version; }

struct file_model {
  char url[256];
  u32 versions[pieces_max];  // last begun; written by the owner, read by all
  u32 settled[pieces_max];   // last that gwrite reported done
  u32 piece_count, owner;
};

struct finding {
  u32 kind;  // 0: none; see names below
  u32 file, block;
  u64 index, seen, wanted;
};
const char *const kinds[] = {"none", "a word of another place", "a version that nobody wrote", "the owner's own write is not there",
                             "a call failed", "a short read"};

struct round_task {
  gfile_ref files;
  file_model *models;
  u64 *scratch;  // two pieces a block
  finding *found;
  u64 seed;
  u32 file_count, steps, create, errors_allowed, plant;
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

TND_DEVICE inline bool fine(const round_task &task, status code, u32 file) {
  if (code == status::ok) return true;
  if (task.errors_allowed == 0 && this_block{}.rank() == 0)
    report(task, {4, file, u32(simt::block_rank()), 0, u64(u32(-int(code))), 0});
  return false;
}

// Check one piece; the words that were never written are zeros.
TND_DEVICE inline void check_piece(const round_task &task, u32 file, u32 piece, const u64 *words, u64 count, u32 exact) {
  this_block const block{};
  u32 const newest = simt::device_atomic<u32>(task.models[file].versions[piece]).load_acquire();
  for (u64 i = block.rank(); i < count; i += block.size()) {
    u64 const index = u64(piece) * piece_words + i, seen = words[i];
    u32 const version = u32(seen & 0xffffff);
    bool const unwritten = seen == 0 && exact == 0;
    if (!unwritten && seen != word_of(file, index, version)) report(task, {1, file, u32(simt::block_rank()), index, seen, word_of(file, index, exact)});
    else if (version > newest) report(task, {2, file, u32(simt::block_rank()), index, seen, newest});
    else if (exact != 0 && version != exact) report(task, {3, file, u32(simt::block_rank()), index, seen, word_of(file, index, exact)});
  }
  block.sync();
}

TND_DEVICE inline void write_piece(const round_task &task, u32 file, int fd, u32 piece, u64 *words, step_random &random) {
  this_block const block{};
  file_model &model = task.models[file];
  u32 const version = model.versions[piece] + 1;
  block.sync();
  if (block.rank() == 0) simt::device_atomic<u32>(model.versions[piece]).store_release(version);
  for (u32 i = block.rank(); i < piece_words; i += block.size()) words[i] = word_of(file, u64(piece) * piece_words + i, version);
  block.sync();
  bool const lose = task.plant != 0 && random.below(8) == 0;
  u64 const offset = u64(piece) * piece_words * 8;
  gio_result const done = lose ? gio_result{status::ok, piece_words * 8} : gwrite(block, task.files, fd, words, offset, piece_words * 8);
  bool const good = fine(task, done.status, file) && done.size == piece_words * 8;
  if (block.rank() == 0) simt::device_atomic<u32>(model.settled[piece]).store_release(good ? version : 0);  // 0: not known
  block.sync();
}

TND_DEVICE inline void read_piece(const round_task &task, u32 file, int fd, u32 piece, u64 *words, bool mine) {
  this_block const block{};
  file_model &model = task.models[file];
  u32 const exact = mine ? model.settled[piece] : 0;
  gio_result const done = gread(block, task.files, fd, words, u64(piece) * piece_words * 8, piece_words * 8);
  if (!fine(task, done.status, file)) return;
  if (exact != 0 && done.size != piece_words * 8 && block.rank() == 0) report(task, {5, file, u32(simt::block_rank()), piece, done.size, piece_words * 8});
  check_piece(task, file, piece, words, done.size / 8, exact);
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
    if (word != 0 && word != word_of(file, index, u32(word & 0xffffff))) report(task, {1, file, u32(simt::block_rank()), index, word, 0});
  }
  (void)fine(task, gunmap(block, task.files, seen.bytes), file);
}

TND_KERNEL TND_LAUNCH_BOUNDS(512) void run_round(round_task task) {
  this_block const block{};
  u32 const me = u32(simt::block_rank());
  step_random random{task.seed ^ (u64(me) + 1) * 0x9E3779B97F4A7C15ull};
  u64 *const words = task.scratch + u64(me) * piece_words;
  for (u32 file = me; task.create != 0 && file < task.file_count; file += simt::grid_size_x()) {
    int fd = -1;
    if (fine(task, gopen(block, task.files, task.models[file].url, g_rdwr | g_creat, &fd), file)) (void)gclose(block, task.files, fd);
  }
  for (u32 step = 0; step < task.steps; step++) {
    if (block.broadcast(simt::device_atomic<u32>(task.found->kind).load_relaxed()) != 0) return;
    u32 const file = random.below(task.file_count);
    file_model &model = task.models[file];
    bool const mine = model.owner == me;
    int fd = -1;
    int const flags = mine ? g_rdwr | g_creat : g_rdonly;
    status const opened = gopen(block, task.files, model.url, flags, &fd);
    if (!fine(task, opened, file)) continue;
    for (u32 k = 0, count = 1 + random.below(4); k < count; k++) {
      u32 const piece = random.below(model.piece_count), action = random.below(10);
      if (mine && action < 5) write_piece(task, file, fd, piece, words, random);
      else if (action == 9) map_piece(task, file, fd, piece);
      else if (action == 8) (void)fine(task, gprefetch(block, task.files, fd, 0, u64(model.piece_count) * piece_words * 8), file);
      else if (action == 7 && mine) (void)fine(task, gfsync(block, task.files, fd), file);
      else read_piece(task, file, fd, piece, words, mine);
    }
    (void)fine(task, gclose(block, task.files, fd), file);
  }
}

// ---- the host

struct options {
  double seconds = 10;
  u64 seed = 1;
  u32 blocks = on_gpu ? 64 : 6, threads = on_gpu ? 256 : 32, files = 24, errors_allowed = 0, plant = 0;
  std::vector<std::string> roots;
};

void check(tnd_status code, const char *what) {
  if (code != TND_OK) throw std::runtime_error(std::string(what) + ": " + tnd_status_name(code) + ": " + tnd_last_message());
}

tnd_gfile_config draw_config(std::mt19937_64 &random) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  config.page_size = 4096u << random() % 5;
  config.device_tier_size = config.page_size * (1 + random() % 200);
  config.host_tier_size = config.page_size * (8 + random() % 400);
  config.replacement = u32(random() % 3);
  config.service_threads = u32(1 + random() % 4);
  config.direct = random() % 2 == 0 ? TND_GFILE_DIRECT_ON : TND_GFILE_DIRECT_AUTO;
  config.direct_window_size = config.page_size * (1 + random() % 64);
  config.mapping = random() % 4 == 0 ? TND_GFILE_MAPPING_OFF : TND_GFILE_MAPPING_AUTO;
  config.file_count_max = 64;
  return config;
}

// Files of plain paths, word by word, after the instance has ended.
void compare_from_host(const std::vector<file_model> &models, finding &found) {
  for (u32 file = 0; file < models.size(); file++) {
    file_model const &model = models[file];
    if (model.url[0] != '/') continue;
    int const fd = open(model.url, O_RDONLY | O_CLOEXEC);
    std::vector<u64> words(u64(model.piece_count) * piece_words);
    ssize_t const got = fd < 0 ? 0 : pread(fd, words.data(), words.size() * 8, 0);
    if (fd >= 0) close(fd);
    for (u32 piece = 0; piece < model.piece_count; piece++) {
      if (model.settled[piece] == 0) continue;
      for (u64 i = 0; i < piece_words; i++) {
        u64 const index = u64(piece) * piece_words + i, wanted = word_of(file, index, model.settled[piece]);
        u64 const seen = ssize_t(index * 8 + 8) <= got ? words[index] : 0;
        if (seen != wanted && found.kind == 0) found = {3, file, ~0u, index, seen, wanted};
      }
    }
  }
}

int run(const options &wanted) {
  std::mt19937_64 random{wanted.seed};
  std::vector<file_model> models(wanted.files);
  for (u32 file = 0; file < wanted.files; file++) {
    std::string const url = wanted.roots[file % wanted.roots.size()] + "stress-" + std::to_string(getpid()) + "-" + std::to_string(file);
    models[file] = {};
    url.copy(models[file].url, sizeof models[file].url - 1);
    models[file].piece_count = u32(1 + random() % pieces_max);
    models[file].owner = file % wanted.blocks;
  }
  auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(wanted.seconds);
  u32 rounds = 0;
  finding found{};
  bool made = false;
  while ((!made || std::chrono::steady_clock::now() < end) && found.kind == 0) {
    tnd_gfile_config config = draw_config(random);
    if (wanted.errors_allowed != 0) config.timeout_ns = 1'000'000'000;
    tnd_gfile *gfile = nullptr;
    check(tnd_gfile_create(&config, &gfile), "tnd_gfile_create");
    tnd_gfile_ref const ref = tnd_gfile_get_ref(gfile);
    examples::device_array<file_model> shared{models};
    examples::device_array<u64> scratch(u64(wanted.blocks) * piece_words);
    examples::device_array<finding> first(1);
    round_task const task{{ref.state, ref.timeout_ns}, shared.data(), scratch.data(), first.data(), random(), wanted.files,
                          steps_a_round, made ? 0u : 1u, u32(wanted.errors_allowed != 0 || !made), wanted.plant};  // at first files are missing
    simt::launch({wanted.blocks}, {wanted.threads}, run_round, task);
    tnd_status const waited = tnd_gfile_wait(gfile, 300'000'000'000ull);
    if (wanted.errors_allowed == 0) check(waited, "wait");
    found = first.to_host()[0];
    models = shared.to_host();
    tnd_status const ended = tnd_gfile_destroy(gfile);
    if (wanted.errors_allowed == 0) check(ended, "destroy");
    // What was not written back for good may be old: nothing is known of it any more.
    if (waited != TND_OK || ended != TND_OK)
      for (file_model &model : models)
        for (u32 &settled : model.settled) settled = 0;
    if (found.kind == 0) compare_from_host(models, found);
    made = true;
    rounds++;
  }
  for (const file_model &model : models)
    if (model.url[0] == '/') unlink(model.url);
  if (found.kind == 0) {
    std::printf("%u rounds of %u steps in %u blocks on %u files: every word is right\n", rounds, steps_a_round, wanted.blocks, wanted.files);
    return 0;
  }
  std::printf("wrong in round %u: %s: file %u (%s), block %d, word %llu, seen %016llx, wanted %016llx; replay: --seed %llu --blocks %u "
              "--threads %u --files %u\n",
              rounds, kinds[found.kind], found.file, models[found.file].url, int(found.block), (unsigned long long)found.index,
              (unsigned long long)found.seen, (unsigned long long)found.wanted, (unsigned long long)wanted.seed, wanted.blocks,
              wanted.threads, wanted.files);
  return 1;
}

options parse(int argc, char **argv) {
  options wanted;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const name = argv[i], value = argv[i + 1];
    u64 const number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--seconds") wanted.seconds = double(number);
    else if (name == "--seed") wanted.seed = number;
    else if (name == "--blocks") wanted.blocks = u32(number);
    else if (name == "--threads") wanted.threads = u32(number);
    else if (name == "--files") wanted.files = u32(number);
    else if (name == "--errors-allowed") wanted.errors_allowed = u32(number);
    else if (name == "--plant") wanted.plant = u32(number);
    else if (name == "--root") wanted.roots.push_back(value);
    else throw std::runtime_error("see the head of tests/stress/gfile_stress.cu for the options");
  }
  if (wanted.roots.empty()) throw std::runtime_error("--root URL is missing");
  if (wanted.files == 0 || wanted.files > 60) throw std::runtime_error("--files is 1 to 60");
  return wanted;
}

}  // namespace
}  // namespace stress

int main(int argc, char **argv) {
  try {
    return stress::run(stress::parse(argc, argv));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gfile_stress: %s\n", error.what());
    return 2;
  }
}
