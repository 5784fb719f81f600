// Random operations of many blocks on many files, checked against what was written.
//
//   gfile_stress[_cuda] [--seconds N] [--seed N] [--blocks N] [--threads N] [--files N] [--errors-allowed 1] [--plant NAME] --root URL ...
//
// A word of a file says where it lies and which write of its owner put it there: file, index and version. Each file has one
// owner, a block, which knows the version of each of its pieces, and cuts, deletes and makes it anew now and then; the
// other blocks, their warps and threads read it and check that each word was written at its place, none is newer than the
// owner has begun, and none older than what was there before the read began unless the file was cut meanwhile. Rounds draw
// page size, tiers, replacement and paths from the seed. After each round the host reads what it can (plain paths) and
// compares all of it.
//
// --errors-allowed: calls may fail, as when servers are killed or a disk is full; what succeeds must be right all the same,
// and what a gfsync or gclose acknowledged must be in the file. --plant: a mistake is made now and then, which must be
// found: see plants. Exit status 1 and one line at the first wrong word.
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
#include "gfile_model.cuh"

namespace stress {
namespace {

using examples::on_gpu;
constexpr u32 steps_a_round = on_gpu ? 400 : 60;

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
    u32 const cuts = load(model.cuts);
    block.sync();
    if (mine && random.below(12) == 0) {
      bool const unlinks = random.below(2) == 0;
      fd = remake_file(task, file, unlinks, random);
      if (fd < 0) continue;
    } else {
      status opened = gopen(block, task.files, model.url, mine ? g_rdwr | g_creat : g_rdonly, &fd);
      if (opened == status::ok && plants_now(task, plant::failed, random)) opened = status::io;
      // While its owner deletes it and makes it anew a file is not there.
      if (opened == status::no_entry && !mine && (cuts % 2 != 0 || load(model.cuts) != cuts)) continue;
      if (!fine(task, opened, file)) continue;
    }
    for (u32 k = 0, count = 1 + random.below(4); k < count; k++) {
      u32 const piece = random.below(model.piece_count), action = random.below(12);
      if (mine && action < 5) write_piece(task, file, fd, piece, words, random);
      else if (action == 11 && mine) cut_file(task, file, fd, piece, random);
      else if (action == 10 && mine) check_size(task, file, fd, random);
      else if (action == 9) map_piece(task, file, fd, piece);
      else if (action == 8) (void)fine(task, gprefetch(block, task.files, fd, 0, u64(model.piece_count) * piece_words * 8), file);
      else if (action == 7 && mine) publish(task, file, gfsync(block, task.files, fd));
      else read_piece(task, file, fd, piece, words, mine, cuts, random);
    }
    status const closed = gclose(block, task.files, fd);
    if (mine) publish(task, file, closed);
    else (void)fine(task, closed, file);
  }
}

// ---- the host

struct options {
  double seconds = 10;
  u64 seed = 1;
  u32 blocks = on_gpu ? 64 : 6, threads = on_gpu ? 256 : 32, files = 24, errors_allowed = 0;
  plant planted = plant::none;
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

// An instance has ended with an error: what was acknowledged, and nothing written since, is known.
void forget_unsynced(file_model &model) {
  model.end_piece = end_unknown;
  for (u32 piece = 0; piece < model.piece_count; piece++)
    if (model.settled[piece] != model.synced[piece] || (model.settled[piece] != version_cut && model.settled[piece] != model.versions[piece]))
      model.settled[piece] = 0;
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
      u32 const settled = model.settled[piece];
      if (settled == 0) continue;
      for (u64 i = 0; i < piece_words; i++) {
        u64 const index = u64(piece) * piece_words + i, wanted = settled == version_cut ? 0 : word_of(file, index, settled);
        u64 const seen = ssize_t(index * 8 + 8) <= got ? words[index] : 0;
        if (seen != wanted && found.kind == nothing) found = {wanted == 0 ? not_cut : lost, file, ~0u, index, seen, wanted};
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
                          steps_a_round, made ? 0u : 1u, u32(wanted.errors_allowed != 0 || !made), wanted.planted};  // at first files are missing
    simt::launch({wanted.blocks}, {wanted.threads}, run_round, task);
    tnd_status const waited = tnd_gfile_wait(gfile, 300'000'000'000ull);
    if (wanted.errors_allowed == 0) check(waited, "wait");
    found = first.to_host()[0];
    models = shared.to_host();
    tnd_status const ended = tnd_gfile_destroy(gfile);
    if (wanted.errors_allowed == 0) check(ended, "destroy");
        if (waited != TND_OK || ended != TND_OK)
      for (file_model &model : models)
        forget_unsynced(model);
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

plant plant_of(const std::string &name) {
  for (const plant_name &each : plants)
    if (name == each.name) return each.what;
  throw std::runtime_error("no such plant: " + name);
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
    else if (name == "--plant") wanted.planted = plant_of(value);
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
