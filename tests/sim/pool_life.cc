#include "sim/pool_life.hpp"

#include <cstring>

#include "products/poold/log/log_file.hpp"

namespace tanada::test {
namespace {

using seams::store_op_kind;

constexpr size_t actor_count = 4;
constexpr uint64_t kib = 1 << 10, mib = 1 << 20, ms = 1'000'000;
constexpr uint64_t pool_size = 12 * mib, quota_size = 300 * kib;
// The memory that stripes are for: objects of more than 64 to 128 KiB have some of 16 to 32 KiB.
constexpr uint64_t striped_memory_min = 256 * kib, striped_memory_max = 512 * kib;
constexpr std::byte initial_byte{0xa7};   // of persistent memory: uncleared memory is not zero
constexpr uint32_t start_count_max = 20;  // tries, of which the last ones have a working disk
const std::string folder = "sim://log/";

// A connection that ends with the daemon's machine: data in flight are lost immediately.
class resettable_stream final : public seams::stream {
 public:
  resettable_stream(std::unique_ptr<seams::stream> real, std::shared_ptr<bool> reset)
      : real_{std::move(real)}, reset_{std::move(reset)} {}

  result<size_t> receive(std::span<const iovec> parts) override {
    if (*reset_)
      return status::peer_lost;
    return real_->receive(parts);
  }
  result<size_t> send(std::span<const iovec> parts, int descriptor) override {
    if (*reset_)
      return status::peer_lost;
    return real_->send(parts, descriptor);
  }
  status wait(bool to_receive, bool to_send, uint64_t deadline_ns) override {
    return *reset_ ? status::ok : real_->wait(to_receive, to_send, deadline_ns);
  }
  std::string peer() const override {
    return real_->peer();
  }

 private:
  std::unique_ptr<seams::stream> const real_;
  std::shared_ptr<bool> const reset_;
};

disk_fault planted_fault(mistake planted) {
  switch (planted) {
    case mistake::unsynced_file:
      return disk_fault::no_effect;
    case mistake::short_sync:
      return disk_fault::short_sync;
    case mistake::early_name:
      return disk_fault::late_sync;
    default:
      return disk_fault::none;
  }
}

sim::flush_fault planted_flush_fault(mistake planted) {
  switch (planted_fault(planted)) {
    case disk_fault::no_effect:
      return sim::flush_fault::no_effect;
    case disk_fault::short_sync:
      return sim::flush_fault::first_line;
    case disk_fault::late_sync:
      return sim::flush_fault::late;
    case disk_fault::none:
      return sim::flush_fault::reliable;
  }
  return sim::flush_fault::reliable;
}

}  // namespace

pool_life::pool_life(const life_setting &setting) : setting_{setting}, world_{setting.seed} {
  faults_ = draw_faults();
  store_ = std::make_unique<sim::store>(world_, faults_);
  draw_log_options();
  bool const is_persistent = setting_.kept_on == medium::persistent;
  if (setting_.kept_on == medium::file || is_persistent)
    disk_ = std::make_unique<backing_disk>(pool_size);
  if (disk_ != nullptr)
    disk_->set_fault(planted_fault(setting_.planted));
  if (is_persistent) {
    persistent_ = std::make_unique<sim::persistent_memory>(pool_size, initial_byte);
    persistent_->set_fault(planted_flush_fault(setting_.planted));
  }
  contents_[1] = "";
  for (uint64_t i = world_.random.between(1, actor_count); i > 0; i--) {
    spaces_.push_back("space" + std::to_string(i));
  }
  // An evictable object that a failed log does not have is evicted when memory is needed.
  bool const evicts =
      setting.over == sky::full || (setting.kept_on == medium::tiers && has_holes());
  for (size_t i = 0; i < actor_count; i++) {
    name_model model{has_holes(), evicts};
    actors_.push_back({i, spaces_[i % spaces_.size()], std::move(model)});
  }
  restart();
}

pool_life::~pool_life() {
  actors_.clear();
  daemon_.reset();
}

void pool_life::wrong(std::string what) {
  if (wrong_.empty())
    wrong_ = std::move(what);
}

sim::store_faults pool_life::draw_faults() {
  auto &random = world_.random;
  sim::store_faults faults;
  faults.volatile_cache = true;
  faults.delay_ns_max = 1'000 + random.below(random.chance(30) ? 2 * ms : 100'000);
  if (setting_.over == sky::errors) {
    for (auto const kind : {store_op_kind::open,
                            store_op_kind::write,
                            store_op_kind::truncate,
                            store_op_kind::sync,
                            store_op_kind::unlink,
                            store_op_kind::sync_names,
                            store_op_kind::read}) {
      if (random.chance(50))
        faults.errors[size_t(kind)] = {uint32_t(random.below(10)), status::io};
    }
    if (random.chance(50))
      faults.torn_write_percent = uint32_t(random.below(10));
  }
  if (setting_.over == sky::full && random.chance(60))
    faults.capacity = 100 * kib + random.below(400 * kib);
  if (setting_.over == sky::lies) {
    faults.lost_write_percent = uint32_t(random.below(6));
    faults.misdirected_write_percent = uint32_t(random.below(6));
  }
  if (setting_.planted == mistake::unsynced) {
    for (auto const kind : {store_op_kind::sync, store_op_kind::sync_names})
      faults.errors[size_t(kind)] = {100, status::ok};
  }
  return faults;
}

void pool_life::draw_log_options() {
  auto &random = world_.random;
  keeping_.folder = folder;
  keeping_.with_data = setting_.kept_on == medium::flash || setting_.kept_on == medium::tiers;
  keeping_.is_tiered = setting_.kept_on == medium::tiers;
  keeping_.congestion_size = random.chance(30) ? random.between(1, 50 * kib) : 100 * mib;
  auto &options = log_options_;
  options.url = folder;
  options.with_data = keeping_.with_data;
  options.identity[0] = 42;
  options.file_size = random.between(16 * kib, 300 * kib);
  options.compact_above = random.between(20 * kib, 500 * kib);
  if (setting_.over == sky::full && random.chance(70))
    options.size_max = random.between(300 * kib, mib);
  options.group_size_max = random.between(1, 200 * kib);
  options.queue_count_max = uint32_t(random.chance(30) ? random.between(1, 4) : 4096);
  options.mark_delay_ns = random.below(2 * ms);
  options.retry_delay_ns = ms;
  options.io_timeout_ns = setting_.over == sky::slow ? random.between(20 * ms, 500 * ms) : never;
}

// As poold::daemon::start does.
status pool_life::start_daemon() {
  auto made = std::make_unique<daemon>();
  poold::memory_options room{.capacity = pool_size, .segment_size = 2 * mib, .prefault = false};
  room.segment_size = 2 * mib << world_.random.below(2);
  room.segment_count_max =
      uint32_t(world_.random.chance(20) ? world_.random.between(16, 24) : 1000);
  if (disk_ != nullptr)
    room.file = disk_->path();
  room.persistent = persistent_.get();
  auto memory = poold::pool_memory::create(room);
  TND_ASSERT(memory.ok());
  made->memory = std::move(memory).value();
  if (disk_ != nullptr && persistent_ == nullptr)
    disk_->set_mapping(made->memory->addr({0, 0, 0}));
  if (setting_.planted == mistake::whole_pages)
    plant_whole_pages(*store_, folder);
  if (persists()) {
    auto opened =
        poold::durable_journal::open_with(*store_, clock_, *made->memory, keeping_, log_options_);
    if (!opened.ok())
      return opened.error();
    made->journal = std::move(opened).value();
    made->front = std::make_unique<planted_journal>(*made->journal, setting_.planted);
  }
  poold::catalog_options limits;
  limits.clock = &clock_;
  if (keeping_.is_tiered)
    limits.cold = made->front.get();
  limits.has_all_stripes = keeping_.is_tiered;
  if (setting_.over == sky::full)
    limits.quotas = {{spaces_.back(), quota_size}};
  made->objects = std::make_unique<poold::catalog>(*made->memory, made->front.get(), limits);
  if (persists())
    TND_TRY(made->journal->restore(*made->objects));
  if (setting_.planted != mistake::old_versions)
    made->objects->raise_version(world_.now_ns());
  made->service.reset(
      new poold::service{.memory = *made->memory, .objects = *made->objects, .keys = {}});
  if (keeping_.is_tiered)
    restore_stripes(*made);
  made->service->limits.turn_size = world_.random.between(1, 100'000);
  made->service->limits.output_size_max = world_.random.between(1, 10'000);
  made->service->limits.use_wait_ns = 5 * ms;
  if (world_.random.chance(30))
    made->service->read_buffers =
        std::make_shared<poold::read_budget>(world_.random.below(100 * kib));
  daemon_ = std::move(made);
  return status::ok;
}

// As poold::daemon does. Stripes of objects that the log does not have are removed at once.
void pool_life::restore_stripes(daemon &made) {
  size_t const count = made.objects->set_aside_incomplete();
  if (count > 0 && !may_damage())
    wrong(std::to_string(count) + " objects lack stripes: one is damaged");
  made.stripes = std::make_unique<poold::local_stripes>(
      poold::local_stripes::options{
          .memory_size = world_.random.between(striped_memory_min, striped_memory_max),
          .period_ns = 50 * ms,
          .page_size = size_t(world_.random.between(1, 20)),
          .run = life_ + 1,
          .clock = &clock_},
      *made.objects);
  made.service->stripes = made.stripes.get();
  if (setting_.planted != mistake::kept_stripes)
    made.stripes->progress();
}

// A failing disk may fail the start; it works in the end. Nothing else may fail it.
void pool_life::restart() {
  uint64_t const before = counted_.lives;
  for (uint32_t tries = 0; daemon_ == nullptr && wrong_.empty(); tries++) {
    bool const works = tries >= start_count_max / 2 || world_.random.chance(50);
    if (works)
      store_->heal();
    store_->faults_set(
        works ? sim::store_faults{.volatile_cache = true, .capacity = faults_.capacity} : faults_);
    status const code = start_daemon();
    bool const excused = !works && is_excused(code);
    if (code != status::ok && !excused)
      return wrong("the daemon does not start: status " + std::to_string(int(code)));
    if (code != status::ok && world_.random.chance(50))
      store_->crash();
  }
  store_->faults_set(faults_);
  end_at_pump_ = pump_count_ + world_.random.between(20, world_.random.chance(50) ? 400 : 4000);
  life_++;
  counted_.lives = before + 1;
  if (setting_.planted == mistake::lost_memory && world_.random.chance(50))
    (void)daemon_->memory->allocate(0, 5000);
  check_recovered();
}

// All memory is lost: immediately, or after the writes in flight.
void pool_life::end_daemon() {
  bool const power_fails = world_.random.chance(65);
  if (!power_fails)
    world_.advance(world_.random.below(faults_.delay_ns_max));
  for (served &each : daemon_->sessions)
    *each.reset = true;
  counted_.demoted += daemon_->objects->statistics().demotions;
  counted_.promoted += daemon_->objects->statistics().promotions;
  daemon_.reset();
  if (disk_ != nullptr)
    disk_->set_mapping(nullptr);
  if (power_fails)
    store_->crash();
  if (power_fails && persistent_ != nullptr)
    persistent_->fail_power(world_.random);
  else if (power_fails && disk_ != nullptr)
    disk_->fail_power(world_.random);
  if (tells_lies())
    damage_disk();
  up_at_ns_ = world_.now_ns() + world_.random.below(3 * ms);
}

// As for a daemon that is asked to end: started requests are answered, and the log gets all that
// was appended.
void pool_life::stop_in_order() {
  uint64_t const deadline_ns = world_.now_ns() + 2'000 * ms;
  uint64_t const call_deadline_ns =
      std::exchange(call_deadline_ns_, never);  // of a client that waits meanwhile
  ends_ = false;
  auto const is_busy = [&] {
    auto const &all = daemon_->sessions;
    return std::any_of(all.begin(), all.end(), [](auto &each) { return !each.one->is_drained(); });
  };
  for (uint32_t i = 0; i < 10'000 && is_busy() && world_.now_ns() < deadline_ns; i++)
    pump();
  ends_ = true;
  call_deadline_ns_ = call_deadline_ns;
  bool const drained = persists() && daemon_->journal->drain(deadline_ns) == status::ok;
  for (actor &each : actors_)
    if (drained && !has_holes())
      each.model.all_durable();
  end_daemon();
}

// Bits that change in place.
void pool_life::damage_disk() {
  for (uint64_t file = 1; file < 200; file++) {
    auto const url = pool::file_url(folder, file);
    auto bytes = store_->contents(url);
    if (!bytes.ok() || bytes.value().empty() || !world_.random.chance(10))
      continue;
    std::string changed = std::move(bytes).value();
    changed[world_.random.below(changed.size())] ^= char(1 << world_.random.below(8));
    store_->contents_set(url, changed);
  }
}

result<std::unique_ptr<seams::stream>> pool_life::dial(size_t which) {
  if (daemon_ == nullptr)
    (void)pump();
  if (daemon_ == nullptr)
    return status::peer_lost;
  sim::stream_faults faults;
  faults.again_percent = uint32_t(world_.random.below(30));
  faults.chunk_size_max = world_.random.chance(20) ? world_.random.between(20, 500) : 1 << 17;
  faults.window_size = world_.random.between(500, 100'000);
  if (setting_.over == sky::cuts)
    faults.cut_permyriad = 10;
  auto [here, there] = sim::stream_pair_create(world_, faults, [this] { return pump(); });
  auto reset = std::make_shared<bool>(false);
  auto accepted = std::make_unique<poold::session>(
      *daemon_->service, std::move(there), next_session_++, daemon_->answers, world_.now_ns());
  daemon_->sessions.push_back({std::move(accepted), which, reset});
  return std::unique_ptr<seams::stream>{
      std::make_unique<resettable_stream>(std::move(here), std::move(reset))};
}

void pool_life::serve_one(size_t which) {
  auto &sessions = daemon_->sessions;
  auto const outcome = sessions[which].one->progress(world_.now_ns());
  bool const over =
      outcome == poold::session::outcome::ended || sessions[which].one->is_overdue(world_.now_ns());
  if (over)
    sessions.erase(sessions.begin() + long(which));
}

void pool_life::serve() {
  auto &sessions = daemon_->sessions;
  for (size_t i = sessions.size(); i > 0 && !sessions.empty(); i--)
    serve_one(world_.random.below(sessions.size()));
  for (const poold::deferred_reply &late : daemon_->answers->take()) {
    for (size_t i = 0; i < sessions.size(); i++) {
      if (sessions[i].one->id() != late.session)
        continue;
      sessions[i].one->finish_deferred(late);
      serve_one(i);
      break;
    }
  }
  if (!persists())
    return;
  need_memory();
  if (daemon_->stripes != nullptr && world_.random.chance(10))
    daemon_->stripes->progress();
  daemon_->front->answer_early();
  for (uint64_t turns = world_.random.below(3); turns > 0; turns--)
    (void)daemon_->journal->progress();
}

// Another namespace needs memory, so that objects leave it.
void pool_life::need_memory() {
  if (!keeping_.is_tiered || !world_.random.chance(3))
    return;
  uint64_t const entered = daemon_->objects->open_restored_namespace("other");
  (void)daemon_->objects->create_object(
      entered, world_.random.between(1, pool_size), 0, poold::allocation::may_wait);
}

void pool_life::advance_store() {
  if (setting_.over == sky::slow && world_.random.below(300) == 0) {
    store_->stall();
    world_.schedule(world_.now_ns() + world_.random.between(ms, 400 * ms),
                    [this] { store_->heal(); });
  }
  world_.advance(world_.random.below(world_.random.chance(10) ? ms : 30'000));
}

// Something happens. False: the waiter has reached its deadline.
bool pool_life::pump() {
  pump_count_++;
  if (world_.now_ns() >= call_deadline_ns_) {
    if (++late_count_ > 50)
      wrong("a call goes on behind its deadline");
    return false;
  }
  if (daemon_ == nullptr) {
    advance_store();
    if (world_.now_ns() >= up_at_ns_)
      restart();
    return daemon_ != nullptr;
  }
  serve();
  advance_store();
  if (ends_ && pump_count_ >= end_at_pump_) {
    if (world_.random.chance(15))
      stop_in_order();
    else
      end_daemon();
  }
  return true;
}

// Which contents a damaged object had.
uint64_t pool_life::damaged_contents(const poold::info &about) const {
  for (auto const &[id, bytes] : contents_) {
    if (bytes.size() != about.size)
      continue;
    if (pool::checksum_of(pool::checksum_kind(about.checksum_kind), bytes.data(), bytes.size()) ==
        about.checksum)
      return id;
  }
  return 0;
}

// Read an object's bytes from memory, or from the log, with a disk that works.
status pool_life::read_bytes(const poold::catalog::opened_object &held, std::string &bytes) {
  const poold::object &target = *held.object;
  if (!target.is_intact())
    return status::io;
  if (held.reader == nullptr) {
    std::vector<iovec> parts;
    target.append_parts(0, target.metadata.size, parts);
    for (const iovec &part : parts)
      bytes.append(static_cast<const char *>(part.iov_base), part.iov_len);
    return status::ok;
  }
  store_->heal();
  store_->faults_set({.volatile_cache = true, .capacity = faults_.capacity});
  bytes.resize(target.metadata.size);
  auto const buffer = reinterpret_cast<std::byte *>(bytes.data());
  bool is_done = false;
  status outcome = status::ok;
  held.reader->read(0, {{buffer, bytes.size()}}, [&](status code) {
    outcome = code;
    is_done = true;
  });
  for (uint32_t i = 0; i < 100'000 && !is_done; i++) {
    (void)daemon_->journal->progress();
    world_.advance(1'000);
  }
  store_->faults_set(faults_);
  if (!is_done)
    return status::timed_out;
  if (outcome != status::ok)
    return outcome;
  poold::logged_checksum const expected = held.reader->checksum();
  pool::checksum sum{expected.kind};
  sum.add(bytes.data(), bytes.size());
  return expected.matches(sum) ? status::ok : status::corrupt;
}

status pool_life::read_stripes(const poold::object &head,
                               const std::string &space,
                               std::string &bytes) {
  if (!head.is_intact())
    return status::io;
  auto const manifest = poold::catalog::manifest_of(head);
  if (!manifest.ok())
    return manifest.error();
  for (size_t i = 0; i < manifest.value().partitions.size(); i++) {
    uint64_t const entered = daemon_->objects->open_restored_namespace(
        wire::pool::stripe_space_name(space, manifest.value().partitions[i]));
    auto const stripe = daemon_->objects->open_bytes(
        entered, wire::pool::stripe_name(manifest.value().id, i), 0, false);
    if (!stripe.ok())
      return stripe.error();
    std::string part;
    TND_TRY(read_bytes(stripe.value(), part));
    bytes += part;
  }
  counted_.striped++;
  return bytes.size() == manifest.value().size ? status::ok : status::corrupt;
}

// The id of an object's contents; 0: unwritten bytes.
uint64_t pool_life::look_at(const std::string &space,
                            const std::string &name,
                            const poold::catalog::opened_object &held) {
  std::string bytes;
  status const code = held.object->striped != nullptr ? read_stripes(*held.object, space, bytes)
                                                      : read_bytes(held, bytes);
  if (code != status::ok) {
    if (!may_damage())
      wrong(name + " is damaged");
    poold::info about = held.object->client_metadata();
    if (held.reader != nullptr && held.object->striped == nullptr) {
      // The log has a checksum of every object.
      (void)daemon_->journal->progress();
      auto const logged = held.reader->checksum();
      about.checksum_kind = uint32_t(logged.kind);
      about.checksum = logged.value;
    }
    return damaged_contents(about);
  }
  uint64_t id = 1;
  if (bytes.size() >= sizeof id)
    std::memcpy(&id, bytes.data(), sizeof id);
  auto const known = contents_.find(id);
  return known != contents_.end() && known->second == bytes ? id : 0;
}

// The daemon's current state, by the names' owners. False: an object is not whole.
bool pool_life::look(std::vector<held_names> &found) {
  found.assign(actor_count, {});
  for (const std::string &space : spaces_) {
    uint64_t const entered = daemon_->objects->open_restored_namespace(space);
    std::vector<std::string> names;
    daemon_->objects->list(entered, {}, [&](const std::string &name, const auto *) {
      names.push_back(name);
      return true;
    });
    for (const std::string &name : names) {
      auto const held = daemon_->objects->open_bytes(entered, name, 0, false).value();
      uint64_t const id = look_at(space, name, held);
      if (id == 0)
        wrong(name + " has other bytes than anybody wrote");
      found[size_t(name[0] - '0')][name] = {id,
                                            held.object->flags.load() & poold::flags_of_clients};
    }
  }
  return wrong_.empty();
}

void pool_life::check_recovered() {
  if (daemon_ == nullptr || !wrong_.empty())
    return;
  std::vector<held_names> found;
  if (!look(found))
    return;
  for (actor &each : actors_) {
    counted_.recovered_objects += found[each.index].size();
    if (!persists() && !found[each.index].empty())
      wrong("a pool in memory came back with objects");
    if (tells_lies() || !persists())
      each.model.accept(found[each.index]);
    else if (!each.model.recovered(found[each.index]))
      wrong("the pool came back with names that client " + std::to_string(each.index) +
            " never had like that");
  }
  check_accounts();
  check_stripes();
}

// The namespaces of clients, and those of stripes.
std::vector<std::string> pool_life::all_spaces() const {
  std::vector<std::string> spaces = spaces_;
  for (auto const &entry : daemon_->objects->all_namespaces())
    if (wire::pool::is_hidden_namespace(entry.name))
      spaces.push_back(entry.name);
  return spaces;
}

// With nothing open, stripes belong to objects.
void pool_life::check_stripes() {
  for (const std::string &space : all_spaces()) {
    auto const stripes = wire::pool::stripe_space_parse(space);
    if (!stripes)
      continue;
    daemon_->objects->list(
        daemon_->objects->open_restored_namespace(space), {}, [&](const std::string &name, auto *) {
          auto const id = wire::pool::stripe_name_parse(name);
          bool const is_known =
              id && daemon_->objects->striped()->contains({stripes->namespace_name, *id});
          if (!is_known)
            wrong(space + " has stripes without an object");
          return is_known;
        });
  }
}

// With nothing open, memory holds exactly the objects.
void pool_life::check_accounts() {
  uint64_t all = 0, owned = 0;
  for (const std::string &space : all_spaces()) {
    uint64_t const entered = daemon_->objects->open_restored_namespace(space);
    uint64_t size = 0, count = 0, memory_size = 0;
    std::vector<std::string> names;
    daemon_->objects->list(entered, {}, [&](const std::string &name, const auto *) {
      names.push_back(name);
      return true;
    });
    for (const std::string &name : names) {
      auto const held = daemon_->objects->open(entered, name, 0, false).value();
      size += held->stored_size();
      if (held->striped != nullptr)
        size += held->striped->charged_size();
      memory_size += held->allocated_size();
      count++;
    }
    auto const told = daemon_->objects->statistics_for(entered);
    if (told.used != size || told.object_count != count)
      wrong("namespace " + space + " counts other bytes than it has");
    if (told.owned < memory_size)
      wrong("namespace " + space + " owns less than it uses");
    all += memory_size;
    owned += told.owned;
  }
  bool const is_sum = owned == daemon_->memory->usage().owned;
  bool const is_checked = setting_.planted == mistake::none;
  if (is_checked && !is_sum)
    wrong("namespaces own other memory than the pool counts");
  if (daemon_->memory->used() != all)
    wrong(std::to_string(daemon_->memory->used()) + " bytes are in use, " + std::to_string(all) +
          " by objects");
}

}  // namespace tanada::test
