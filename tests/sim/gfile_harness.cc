#include "gfile_harness.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "gfile_actor.hpp"
#include <tanada/device/detail/simt/host/executor.hpp>

namespace gfile_sim {

using tanada::seams::store_completion;
using tanada::tier::page_state;
namespace word = tanada::tier::word;

namespace {

constexpr u64 slack_ns = 3'000'000;   // a call detects its time limit this late at most
constexpr u64 turns_max = 3'000'000;  // a run that takes more steps hangs
constexpr u64 long_timeout_ns = 60'000'000'000;

bool one_of(status code, std::initializer_list<status> set) {
  return std::find(set.begin(), set.end(), code) != set.end();
}

}  // namespace

gfile_run::gfile_run(const setting &given) : setting_{given}, world_{given.seed} {
  draw_faults();
  draw_shape();
  create_session();
  create_files();
}

gfile_run::~gfile_run() {
  outside_.reset();
  if (setting_.planted == plant::kept_page || why_.empty())
    return;
  (void)session_.release();  // it may be in any state; the run has failed anyway
}

void gfile_run::fail(const std::string &what) {
  if (why_.empty())
    why_ = "at " + std::to_string(world_.now_ns()) + " ns: " + what;
}

const std::string &gfile_run::run() {
  u64 const phases = 1 + world_.random.below(3);
  for (u64 i = 0; i < phases && why_.empty(); i++)
    phase();
  if (why_.empty())
    end();
  return why_;
}

const std::string &gfile_run::run(std::vector<step> script) {
  actors_[0].script = std::move(script);
  if (why_.empty())
    launch();
  if (why_.empty())
    end();
  return why_;
}

tnd_gfile_statistics gfile_run::statistics() {
  tnd_gfile_statistics all = TND_GFILE_STATISTICS_INIT;
  if (session_->get_statistics(all) != status::ok)
    fail("no statistics");
  return all;
}

void gfile_run::draw_faults() {
  auto &random = world_.random;
  faults_.delay_ns_min = 500;
  faults_.delay_ns_max = 1'000 + (random.chance(50) ? random.below(20'000) : random.below(300'000));
  faults_.reorder = random.chance(70);
  if (random.chance(30))
    faults_.version_grain_ns = 100'000 + random.below(5'000'000);
  if (setting_.planted == plant::lost_write)
    faults_.lost_write_percent = 20;
  timeout_ns_ = long_timeout_ns;
  if (setting_.sky == weather::fair)
    return;
  auto const maybe = [&](store_op_kind kind, status code, u64 percent_max) {
    if (random.chance(40))
      faults_.errors[size_t(kind)] = {u32(1 + random.below(percent_max)), code};
  };
  maybe(store_op_kind::open, open_error, 15);
  maybe(store_op_kind::close, close_error, 15);
  maybe(store_op_kind::read, read_error, 30);
  maybe(store_op_kind::stat, stat_error, 30);
  maybe(store_op_kind::truncate, truncate_error, 30);
  maybe(store_op_kind::sync, sync_error, 30);
  maybe(store_op_kind::unlink, unlink_error, 30);
  if (setting_.sky == weather::errors)
    return;
  maybe(store_op_kind::write, write_error, 30);
  if (random.chance(40)) {
    faults_.torn_write_percent = u32(1 + random.below(30));
    faults_.torn_write_code = torn_error;
  }
  if (random.chance(20))
    faults_.capacity = 10'000 + random.below(60'000);
  if (setting_.sky == weather::stalls)
    timeout_ns_ = 200'000 + random.below(2'000'000);
}

void gfile_run::draw_shape() {
  auto &random = world_.random;
  config_.page_size = random.chance(85) ? 4096 : 8192;
  config_.device_tier_size = config_.page_size * (random.chance(25) ? 1 : 1 + random.below(20));
  config_.host_tier_size = config_.page_size * (random.chance(25) ? 1 : 1 + random.below(24));
  config_.replacement = u32(random.below(3));
  config_.service_threads = 0;
  config_.direct = random.chance(50) ? TND_GFILE_DIRECT_ON : TND_GFILE_DIRECT_OFF;
  config_.direct_window_size = config_.page_size * (1 + random.below(12));
  config_.file_count_max = random.chance(80) ? 64 : 8;
  // If all descriptors may be in use, opens wait for their whole time limit. Other calls keep
  // theirs: an abandoned gwrite may leave any of its bytes.
  name_timeout_ns_ = timeout_ns_;
  if (config_.file_count_max == 8 && timeout_ns_ == long_timeout_ns)
    name_timeout_ns_ = 1'000'000 + random.below(2'000'000);
  config_.timeout_ns = long_timeout_ns;
  group_ = setting_.alone ? group_kind::thread : group_kind(random.below(3));
  blocks_ = u32(1 + random.below(4));
  if (group_ == group_kind::thread) {
    groups_a_block_ = u32(1 + random.below(4));
    threads_ = groups_a_block_;
  } else if (group_ == group_kind::warp) {
    threads_ = random.chance(50) ? 32 : u32(33 + random.below(16));
    groups_a_block_ = (threads_ + 31) / 32;
  } else {
    // Whole warps take shorter paths.
    threads_ = random.chance(50) ? u32(32 + 32 * random.below(2)) : u32(2 + random.below(50));
  }
  if (setting_.alone) {
    blocks_ = 1;
    threads_ = 1;
    groups_a_block_ = 1;
  }
  preempt_permille_ = random.chance(20) ? 0 : u32(20 + random.below(400));
  resident_blocks_ = u32(1 + random.below(4));
}

void gfile_run::create_session() {
  auto registry = std::make_unique<tanada::backends::store_registry>();
  auto made_store = std::make_unique<relay_store>(world_, faults_, setting_.planted);
  store_ = made_store.get();
  store_->is_cached = world_.random.chance(60);
  registry->add(std::move(made_store));
  auto made = tanada::gfile::session::create(
      config_, {tanada::seams::host_gpu_open(), std::move(registry), &clock_});
  if (!made.ok())
    return fail("no session");
  session_ = std::move(made).value();
  outside_ = std::move(store_->under.queue_create(4)).value();
}

void gfile_run::create_files() {
  auto &random = world_.random;
  store_->under.faults_set({});
  u32 const actor_count = blocks_ * groups_a_block_;
  for (u64 i = 0, count = 1 + random.below(2); i < count; i++) {
    std::vector<u64> cuts;
    u64 at = 0;
    for (u64 k = 0, ranges = actor_count * (1 + random.below(3)); k < ranges; k++) {
      at += 1 + random.below(config_.page_size * 2);
      cuts.push_back(at);
    }
    u64 const initial = random.chance(50) ? 0 : 1 + random.below(at);
    shared_.emplace_back("sim://shared" + std::to_string(i), cuts, actor_count, initial);
    shared_.back().exists = initial != 0;
    if (initial != 0)
      put(shared_.back().url, shared_.back().initial_contents());
  }
  foreign_.url = "sim://foreign";
  foreign_.size = 1 + random.below(3 * config_.page_size);
  put(foreign_.url, foreign_.contents());
  foreign_writes_ = setting_.sky == weather::fair;
  actors_.resize(actor_count);
  for (u32 i = 0; i < actor_count; i++) {
    actor &made = actors_[i];
    made.index = i;
    made.buffer.resize(4 * config_.page_size);
    made.own.url = "sim://own" + std::to_string(i);
    for (u32 k = 0; k < shared_.size(); k++)
      made.slots.push_back({.kind = file_kind::shared, .file = k});
    made.slots.push_back({.kind = file_kind::shared, .file = 0});
    made.slots.push_back({.kind = file_kind::own, .file = 0});
    made.slots.push_back({.kind = file_kind::own, .file = 0});
    made.slots.push_back({.kind = file_kind::foreign, .file = 0});
  }
  store_->under.faults_set(faults_);
}

// Set up from outside, before anything runs.
void gfile_run::put(const std::string &url, const std::string &bytes) {
  auto const now = [&](store_op op) {
    (void)outside_->post(std::move(op));
    store_completion done[1];
    while (outside_->poll(done) == 0)
      world_.advance(1'000);
    return done[0].file;
  };
  store_op op;
  op.kind = store_op_kind::open;
  op.url = url;
  op.open_flags = {.read = true, .write = true, .create = true, .truncate = true};
  op.file = now(op);
  op.kind = store_op_kind::write;
  op.buffers = {{reinterpret_cast<std::byte *>(const_cast<char *>(bytes.data())), bytes.size()}};
  (void)now(op);
  op.kind = store_op_kind::close;
  (void)now(op);
}

step gfile_run::draw_step(actor &who) {
  auto &random = world_.random;
  static constexpr action actions[] = {
      action::open,     action::open,  action::close, action::close,    action::read,
      action::read,     action::read,  action::read,  action::write,    action::write,
      action::write,    action::write, action::sync,  action::truncate, action::unlink,
      action::prefetch, action::map,   action::stat,  action::rows,     action::rows};
  step made{actions[random.below(std::size(actions))],
            u32(random.below(who.slots.size())),
            0,
            0,
            0,
            ++stamp_};
  slot const &on = who.slots[made.slot];
  u64 const page = config_.page_size;
  u64 const file_size = on.kind == file_kind::shared    ? shared_[on.file].size_max()
                        : on.kind == file_kind::foreign ? foreign_.size
                                                        : 4 * page;
  made.offset = random.below(file_size + 10);
  made.size = random.chance(10) ? 0 : random.chance(30) ? random.below(64) : random.below(3 * page);
  if (made.what == action::read && random.chance(40)) {  // as the short paths of warps expect
    made.offset -= made.offset % page;
    made.size = page;
  }
  if (on.kind == file_kind::foreign)
    return made;
  made.flags = random.chance(60) ? O_RDWR : random.chance(60) ? O_WRONLY : O_RDONLY;
  if (on.kind == file_kind::shared && made.flags != O_RDONLY)
    made.flags |= O_CREAT;
  if (on.kind == file_kind::own && made.flags != O_RDONLY) {
    if (random.chance(70))
      made.flags |= O_CREAT | (random.chance(10) ? O_EXCL : 0);
    if (random.chance(15))
      made.flags |= O_TRUNC;
  }
  if (made.what == action::truncate)
    made.size = random.below(4 * page);
  if (made.what != action::write || on.kind != file_kind::shared)
    return made;
  shared_file const &file = shared_[on.file];
  u32 range = who.index;
  for (u32 turn = u32(random.below(file.range_count() / actors_.size())); turn > 0; turn--)
    range += u32(actors_.size());
  u64 const begin = file.range_begin(range), size = file.range_end(range) - begin;
  made.offset = random.chance(40) ? begin : begin + random.below(size);
  u64 const rest = begin + size - made.offset;
  made.size = random.chance(40) ? rest : 1 + random.below(rest);
  return made;
}

void gfile_run::write_script(actor &who) {
  who.script.clear();
  for (u64 i = 0, count = 3 + world_.random.below(14); i < count; i++)
    who.script.push_back(draw_step(who));
  if (!world_.random.chance(80))
    return;
  for (u32 i = 0; i < who.slots.size(); i++)
    who.script.push_back({action::close, i, 0, 0, 0, 0});
}

u64 gfile_run::kernel_now_ns() {
  if (setting_.planted == plant::jumping_clock && world_.random.chance(1))
    clock_skew_ns_ += 100'000'000'000;
  return world_.now_ns() + clock_skew_ns_;
}

void gfile_run::phase() {
  for (actor &each : actors_)
    write_script(each);
  launch();
}

void gfile_run::launch() {
  auto &random = world_.random;
  if (setting_.sky == weather::stalls && random.chance(70)) {
    stall_ns_ = world_.now_ns() + random.below(1'000'000);
    heal_ns_ = stall_ns_ + random.below(4'000'000);
  }
  tnd_gfile_ref const plain = session_->ref();
  tanada::gfile_ref const files{plain.state, timeout_ns_};
  tanada::simt::host::inline_options options;
  options.seed = random.next();
  options.preempt_permille = preempt_permille_;
  options.resident_blocks = resident_blocks_;
  options.between_turns = [this] {
    between();
  };
  options.clock_ns = [this] {
    return kernel_now_ns();
  };
  auto const kernel = [&] {
    u32 const block = u32(tanada::simt::block_rank()),
              thread = tanada::simt::thread_rank_in_block();
    if (group_ == group_kind::thread)
      player{tanada::this_thread{}, files, *this, actors_[block * groups_a_block_ + thread]}.play();
    else if (group_ == group_kind::warp)
      player{tanada::this_warp{}, files, *this, actors_[block * groups_a_block_ + thread / 32]}
          .play();
    else
      player{tanada::this_block{}, files, *this, actors_[block]}.play();
  };
  tanada::simt::host::run_inline({blocks_, 1, 1}, {threads_, 1, 1}, kernel, options);
  status const waited = session_->wait(0);
  if (waited == status::ok)
    return;
  if (setting_.sky == weather::fair)
    fail("wait: " + std::to_string(int(waited)));
  reported_all_ = true;
}

// What happens between two turns of the kernels: the host's service, the store, other nodes, time.
void gfile_run::between() {
  auto &random = world_.random;
  if (++turns_ > turns_max) {
    std::fprintf(
        stderr, "a run that does not end: TND_SIM_SEED=%llu\n", (unsigned long long)setting_.seed);
    std::abort();
  }
  if (!random.chance(20))
    (void)session_->service().step(0);
  world_.advance(random.chance(3) ? random.below(50'000) : 100 + random.below(2'000));
  if (stall_ns_ != 0 && world_.now_ns() >= stall_ns_) {
    store_->under.stall();
    stall_ns_ = 0;
  }
  if (stall_ns_ == 0 && heal_ns_ != 0 && world_.now_ns() >= heal_ns_) {
    store_->under.heal();
    heal_ns_ = 0;
  }
  if (foreign_writes_)
    write_foreign();
}

// Another node opens the foreign file, writes a new generation of it and closes it.
void gfile_run::write_foreign() {
  store_op op;
  op.file = foreign_handle_;
  store_completion done[1];
  if (foreign_busy_) {
    if (outside_->poll(done) == 0)
      return;
    foreign_busy_ = false;
    if (done[0].file != tanada::seams::no_store_file) {
      op.file = done[0].file;
      foreign_handle_ = op.file;
      foreign_.begun++;
      foreign_bytes_ = foreign_.contents();
      op.kind = store_op_kind::write;
      op.buffers = {{reinterpret_cast<std::byte *>(foreign_bytes_.data()), foreign_bytes_.size()}};
    } else if (done[0].size != 0) {
      foreign_.done = foreign_.begun;
      op.kind = store_op_kind::close;
    } else {
      foreign_next_ns_ = world_.now_ns() + world_.random.below(2'000'000);
      return;
    }
  } else if (world_.now_ns() >= foreign_next_ns_) {
    op.kind = store_op_kind::open;
    op.url = foreign_.url;
    op.open_flags = {.read = true, .write = true};
  } else {
    return;
  }
  foreign_busy_ = outside_->post(op) == status::ok;
}

bool gfile_run::judge(const char *call,
                      const std::string &url,
                      status code,
                      std::initializer_list<status> expected,
                      u64 began_ns) {
  u64 const took = world_.now_ns() - began_ns;
  if (setting_.told)
    std::printf("%12llu ns %-10s %-14s %d\n",
                (unsigned long long)world_.now_ns(),
                call,
                url.c_str(),
                int(code));
  std::string_view const name = call;
  bool const by_name = name == "gopen" || name == "gunlink";
  u64 const limit_ns = by_name ? name_timeout_ns_ : timeout_ns_;
  if (limit_ns != long_timeout_ns && took > limit_ns + slack_ns)
    fail(std::string{call} + " took " + std::to_string(took) + " ns; the limit is " +
         std::to_string(limit_ns));
  if (code == status::ok && one_of(code, expected))
    return true;
  // An open that joins another one gets its result, and the other may have begun earlier.
  bool const may_be_early = name == "gopen";
  if (code == status::timed_out && limit_ns != long_timeout_ns &&
      (took >= limit_ns || may_be_early)) {
    reported_.insert(url);
    return false;
  }
  if (code == status::too_many_files && config_.file_count_max < 64 && by_name)
    return false;
  if (one_of(code, expected))
    return true;
  bool known = false;
  if (setting_.sky != weather::fair) {
    if (name == "gread" || name == "gread_rows" || name == "gmap")
      known = one_of(code, {read_error});
    if (name == "gopen")
      known = one_of(code, {open_error, stat_error, truncate_error});
    if (name == "gclose")
      known = one_of(code, {open_error, close_error});
    if (name == "gfsync")
      known = one_of(code, {sync_error, close_error});
    if (name == "gftruncate")
      known = one_of(code, {truncate_error});
    if (name == "gunlink")
      known = one_of(code, {unlink_error});
  }
  if (in_doubt(url) && (by_name || name == "gmap"))
    known = known || one_of(code, {status::ok, status::no_entry, status::exists, status::range});
  if (lossy()) {
    bool const publishes = name == "gclose" || name == "gfsync";
    if (publishes)
      known = known || one_of(code, {write_error, torn_error, status::no_space});
    if (name == "gftruncate" || name == "gopen")
      known = known || code == status::no_space;
    // After an error was reported, the content of a file is unknown.
    if (reported_.count(url) != 0)
      known = known || one_of(code, {status::ok, status::no_entry, status::exists, status::range});
  }
  if (!known)
    fail(std::string{call} + " of " + url + ": status " + std::to_string(int(code)));
  reported_.insert(url);
  return false;
}

}  // namespace gfile_sim
