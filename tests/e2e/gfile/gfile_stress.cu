// Random operations of many groups on many files, checked against what was written.
//
// gfile_stress[_cuda] [--seconds N] [--seed N] [--blocks N] [--threads N] [--files N]
//   [--instances N]
//                       [--errors-allowed 1] [--last-look 0] [--slack MS] [--plant NAME] --root URL
//                       ...    or: gfile_stress --plants
//
// Groups are blocks, warps and threads. The owner of a file writes, truncates, deletes and creates
// it again, and knows each word of it. The others check what they read: each word was written at
// its position, and is not newer than its owner has begun. It is not older than the earlier
// content, unless the file was truncated meanwhile. In rounds of two instances, readers in the
// other one must see what was closed before their open. Rounds draw instances, page size, tiers,
// replacement and paths from the seed. Each begins with a check of everything by fresh instances,
// and after each the host compares the files of plain paths. No call may take longer than its
// timeout and the slack.
//
// --errors-allowed: calls may fail, as when servers are killed or a disk is full. Successful calls
// must still be right, and data that a gfsync or gclose acknowledged must be in the file. This also
// holds at the end, when the store must work again (--last-look 0: it need not). --plant: a fault
// that must be found; see plants. Exit status 1 and one line at the first wrong word.
#include <tanada/gfile.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

#include "../../../examples/common/device_memory.hpp"
#include "gfile_actor.cuh"

namespace stress {
namespace {

using examples::on_gpu;
using clock = std::chrono::steady_clock;

constexpr u32 steps_a_round = on_gpu ? 400 : 60;
constexpr u64 host_wait_ns = 300'000'000'000;

TND_KERNEL TND_LAUNCH_BOUNDS(512) void run_round(round_task task) {
  u32 const block = u32(simt::block_rank()), thread = simt::thread_rank_in_block();
  grouping const how = grouping_of(block, task.kind_shift);
  u32 const slot = how == grouping::block   ? 0
                   : how == grouping::warps ? thread / simt::warp_size
                                            : thread;
  if (slot >= slot_count(how, simt::block_thread_count()))
    return;
  if (how == grouping::block)
    actor<this_block>{{}, task, block, slot}.run();
  else if (how == grouping::warps)
    actor<this_warp>{{}, task, block, slot}.run();
  else
    actor<this_thread>{{}, task, block, slot}.run();
}

// ---- the host

struct options {
  double seconds = 10;
  u64 seed = 1, slack_ms = 5000;
  u32 blocks = on_gpu ? 64 : 6, threads = on_gpu ? 256 : 64, files = 24, errors_allowed = 0,
      last_look = 1, instances = 2;
  planted mistake{"nothing", plant::nothing, wrong::nothing};
  std::vector<std::string> roots;
};

void check(tnd_status code, const char *what) {
  if (code != TND_OK)
    throw std::runtime_error(std::string(what) + ": " + tnd_status_name(code) + ": " +
                             tnd_last_message());
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

class program {
 public:
  explicit program(const options &wanted)
      : wanted_{wanted}, random_{wanted.seed}, models_(wanted.files) {
    name_files();
  }
  ~program() {
    remove_files();
  }

  int run() {
    auto const end = clock::now() + std::chrono::duration_cast<clock::duration>(
                                        std::chrono::duration<double>(wanted_.seconds));
    do
      run_one(steps_a_round, wanted_.errors_allowed);
    while (clock::now() < end && found_.what == wrong::nothing);
    // At the end nothing fails any more; a stopped server may need a while.
    for (u32 tries = 0; tries < 20 * wanted_.last_look && found_.what == wrong::nothing; tries++) {
      run_one(0, 0);
      if (wanted_.errors_allowed == 0 || found_.what != wrong::failed || tries == 19)
        break;
      found_ = {};
      std::this_thread::sleep_for(std::chrono::seconds{1});
    }
    if (found_.what != wrong::nothing)
      return tell();
    std::printf(
        "%u rounds in %u blocks on %u files, %llu calls of which %llu failed: every word is "
        "right\n",
        rounds_,
        wanted_.blocks,
        wanted_.files,
        (unsigned long long)calls_,
        (unsigned long long)failed_calls_);
    return 0;
  }

 private:
  void name_files() {
    generation_++;
    for (u32 file = 0; file < wanted_.files; file++) {
      file_model &model = models_[file];
      std::string const name =
          std::to_string(getpid()) + "-" + std::to_string(generation_) + "-" + std::to_string(file);
      model = {};
      (wanted_.roots[file % wanted_.roots.size()] + "stress-" + name)
          .copy(model.url, sizeof model.url - 1);
      model.piece_count = u32(1 + random_() % pieces_max);
    }
  }

  void remove_files() {
    for (const file_model &model : models_)
      if (model.url[0] == '/')
        unlink(model.url);
  }

  // Files are assigned to groups of all kinds, again in each round.
  void draw_owners(u32 instance_count, u32 kind_shift) {
    std::vector<u32> actors;
    for (u32 block = 0; block < wanted_.blocks; block++)
      for (u32 slot = 0; slot < slot_count(grouping_of(block, kind_shift), wanted_.threads); slot++)
        actors.push_back(block * slots_a_block + slot);
    u32 const first = u32(random_() % actors.size());
    for (u32 file = 0; file < wanted_.files; file++) {
      file_model &model = models_[file];
      model.owner = actors[(first + file * 7) % actors.size()];
      model.owner_instance = instance_of(model.owner / slots_a_block, instance_count);
      model.opens = 0;
      model.changes = 0;
      model.blurred = 0;
      if (wanted_.errors_allowed != 0)
        continue;
      // All of them are closed: every instance must see the written data.
      for (u32 piece = 0; piece < model.piece_count; piece++)
        model.published[piece] = model.written[piece];
    }
  }

  void run_one(u32 steps, u32 errors_allowed) {
    u32 const instance_count = u32(1 + random_() % wanted_.instances),
              kind_shift = u32(random_() % 3);
    draw_owners(instance_count, kind_shift);
    tnd_gfile *instances[2] = {};
    round_task task{};
    for (u32 i = 0; i < instance_count; i++) {
      tnd_gfile_config config = draw_config(random_);
      if (errors_allowed != 0)
        config.timeout_ns = 1'000'000'000;
      check(tnd_gfile_create(&config, &instances[i]), "tnd_gfile_create");
      tnd_gfile_ref const ref = tnd_gfile_get_ref(instances[i]);
      task.instances[i] = {ref.state, ref.timeout_ns};
    }
    examples::device_array<file_model> models{models_};
    examples::device_array<u64> scratch(u64(wanted_.blocks) * slots_a_block * piece_words);
    examples::device_array<outcome> found(1);
    task.models = models.data();
    task.scratch = scratch.data();
    task.found = found.data();
    task.seed = random_();
    task.limit_ns = wanted_.mistake.what == plant::overdue
                        ? 0
                        : task.instances[0].timeout_ns + wanted_.slack_ms * 1'000'000;
    task.instance_count = instance_count;
    task.kind_shift = kind_shift;
    task.file_count = wanted_.files;
    task.steps = steps;
    task.errors_allowed = errors_allowed;
    task.floors_only = wanted_.errors_allowed;
    task.planted = wanted_.mistake.what;
    simt::launch({wanted_.blocks}, {wanted_.threads}, run_round, task);
    tnd_status code = TND_OK;
    for (u32 i = 0; i < instance_count; i++)
      keep_first(code, tnd_gfile_wait(instances[i], host_wait_ns));
    outcome const seen = found.to_host()[0];
    found_ = seen.what;
    calls_ += seen.calls;
    failed_calls_ += seen.failed_calls;
    models_ = models.to_host();
    tnd_status ended = TND_OK;
    bool goes_on = false;
    for (u32 i = 0; i < instance_count; i++) {
      tnd_status const one = tnd_gfile_destroy(instances[i]);
      goes_on = goes_on || status(one) == status::timed_out;
      keep_first(ended, one);
    }
    if (errors_allowed == 0)
      check(code, "wait");
    if (errors_allowed == 0)
      check(ended, "destroy");
    if (found_.what == wrong::nothing)
      compare_from_host();
    // Operations in flight of such an instance may reach the files at any time.
    if (goes_on) {
      remove_files();
      name_files();
    }
    rounds_++;
  }

  static void keep_first(tnd_status &kept, tnd_status code) {
    if (kept == TND_OK)
      kept = code;
  }

  void compare_from_host() {
    plant const mistake = wanted_.mistake.what;
    if (mistake != plant::nothing && mistake != plant::changed && mistake != plant::cut_outside)
      return;  // kernels find it
    for (u32 file = 0; file < models_.size() && found_.what == wrong::nothing; file++) {
      file_model const &model = models_[file];
      if (model.url[0] != '/')
        continue;
      int const fd = open(model.url, O_RDWR | O_CLOEXEC);
      if (fd >= 0)
        plant_outside(fd);
      std::vector<u64> words(u64(model.piece_count) * piece_words);
      ssize_t const got = fd < 0 ? 0 : pread(fd, words.data(), words.size() * 8, 0);
      struct stat seen{};
      bool const there = fd >= 0 && fstat(fd, &seen) == 0;
      if (fd >= 0)
        close(fd);
      bool const exact = wanted_.errors_allowed == 0;
      if (exact && (there != (model.exists != 0) || u64(seen.st_size) != model.size * 8))
        found_ = {wrong::file,
                  file,
                  ~0u,
                  ~0u,
                  there ? u64(0) : ~u64{0},
                  u64(seen.st_size),
                  model.size * 8};
      for (u64 i = 0; i < words.size(); i++)
        compare_word(file, i, ssize_t(i * 8 + 8) <= got ? words[i] : 0, exact);
    }
  }

  void compare_word(u32 file, u64 index, u64 seen, bool exact) {
    file_model const &model = models_[file];
    u32 const piece = u32(index / piece_words);
    holding const what = unpacked(exact ? model.written[piece] : model.published[piece]);
    bool const held = index % piece_words < what.count;
    u64 const wanted = held ? word_of(file, index, what.version) : 0;
    bool const newer = seen > wanted && seen <= word_of(file, index, model.begun[piece]) &&
                       seen >= word_of(file, index, 1);
    bool const right = seen == wanted || (!exact && (newer || (seen == 0 && !held)));
    if (!right && found_.what == wrong::nothing)
      found_ = {wrong::file, file, ~0u, ~0u, index, seen, wanted};
  }

  void plant_outside(int fd) {
    u64 const word = 7;
    if (wanted_.mistake.what == plant::changed && pwrite(fd, &word, sizeof word, 0) < 0)
      std::perror("pwrite");
    if (wanted_.mistake.what == plant::cut_outside && ftruncate(fd, 0) != 0)
      std::perror("ftruncate");
  }

  int tell() {
    std::printf(
        "wrong in round %u: %s: file %u (%s), actor %d of instance %d, word %llu, seen %016llx, "
        "wanted %016llx; replay: --seed "
        "%llu --blocks %u --threads %u --files %u\n",
        rounds_,
        wrong_names[u32(found_.what)],
        found_.file,
        models_[found_.file].url,
        int(found_.actor),
        int(found_.instance),
        (unsigned long long)found_.index,
        (unsigned long long)found_.seen,
        (unsigned long long)found_.wanted,
        (unsigned long long)wanted_.seed,
        wanted_.blocks,
        wanted_.threads,
        wanted_.files);
    return 1;
  }

  options const wanted_;
  std::mt19937_64 random_;
  std::vector<file_model> models_;
  finding found_{};
  u32 rounds_ = 0, generation_ = 0;
  u64 calls_ = 0, failed_calls_ = 0;
};

planted plant_of(const std::string &name) {
  for (const planted &each : plants)
    if (name == each.name)
      return each;
  throw std::runtime_error("no such plant: " + name);
}

int list_plants() {
  for (const planted &each : plants)
    std::printf("%s: %s\n", each.name, wrong_names[u32(each.expected)]);
  return 0;
}

options parse(int argc, char **argv) {
  options wanted;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const name = argv[i], value = argv[i + 1];
    u64 const number = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "--seconds")
      wanted.seconds = std::strtod(value.c_str(), nullptr);
    else if (name == "--seed")
      wanted.seed = number;
    else if (name == "--blocks")
      wanted.blocks = u32(number);
    else if (name == "--threads")
      wanted.threads = u32(number);
    else if (name == "--files")
      wanted.files = u32(number);
    else if (name == "--instances")
      wanted.instances = u32(number);
    else if (name == "--errors-allowed")
      wanted.errors_allowed = u32(number);
    else if (name == "--last-look")
      wanted.last_look = u32(number != 0);
    else if (name == "--slack")
      wanted.slack_ms = number;
    else if (name == "--plant")
      wanted.mistake = plant_of(value);
    else if (name == "--root")
      wanted.roots.push_back(value);
    else
      throw std::runtime_error("see the head of tests/e2e/gfile/gfile_stress.cu for the options");
  }
  if (wanted.mistake.what == plant::unsynced)
    wanted.errors_allowed = 1;
  if (wanted.roots.empty())
    throw std::runtime_error("--root URL is missing");
  if (wanted.files == 0 || wanted.files > 60)
    throw std::runtime_error("--files is 1 to 60");
  if (wanted.instances < 1 || wanted.instances > 2)
    throw std::runtime_error("--instances is 1 or 2");
  return wanted;
}

}  // namespace
}  // namespace stress

int main(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    if (argc > 1 && std::string(argv[1]) == "--plants")
      return stress::list_plants();
    return stress::program{stress::parse(argc, argv)}.run();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gfile_stress: %s\n", error.what());
    return 2;
  }
}
