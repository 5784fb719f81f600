// tests/sim/pool_life_clients.cc: the clients of a pool_life.
#include <cstring>

#include "sim/pool_life.hpp"

namespace tanada::test {
namespace {

using kind = name_change::kind;

constexpr size_t name_count = 4, posted_count_max = 4;
constexpr uint64_t short_timeout_ns = 100'000'000, call_timeout_ns = 2'000'000'000,
                   patience_ns = 20'000'000'000;  // world's time
constexpr uint64_t size_max = 320'000;            // bytes of an object, at most
constexpr uint64_t write_count_max = 40;          // of an object
constexpr uint64_t posted_size_max = 64 << 10;    // of an object that is never striped

tnd_pool_box box_of(uint64_t offset, uint64_t size) {
  return {offset, size, {1, 1}, {0, 0}, {0, 0}};
}

}  // namespace

void pool_life::begin_call() {
  call_deadline_ns_ =
      world_.now_ns() + (setting_.over == sky::slow ? short_timeout_ns : call_timeout_ns);
  late_count_ = 0;
}

// Errors that may happen without a mistake. The daemon's end breaks connections in all weathers.
bool pool_life::is_excused(status code) const {
  switch (code) {
    case status::peer_lost:
    case status::stale:
    case status::again:
      return true;  // retry: a set whose objects were lost with their connection
    case status::io:
      // Or the disk does not answer in time with what is only there.
      return setting_.over == sky::errors || tells_lies() ||
             (setting_.over == sky::slow && setting_.kept_on == medium::tiers);
    case status::no_space:
      return setting_.over == sky::full;
    case status::timed_out:
      return setting_.over == sky::slow;
    default:
      return false;
  }
}

bool pool_life::connected(actor &who) {
  if (who.client != nullptr)
    return true;
  pool::client_settings settings;
  settings.timeout_ns = 600'000'000'000;  // of the system's clock; the world's is the one that
                                          // counts
  settings.dial = [this, index = who.index](const pool::server_place &, uint64_t) {
    return dial(index);
  };
  begin_call();
  auto made = pool::client::connect({"simulated", 1, who.space, {}}, std::move(settings));
  call_deadline_ns_ = never;
  if (made.ok())
    who.client = std::move(made).value();
  else if (!is_excused(made.error()))
    wrong("connecting: status " + std::to_string(int(made.error())));
  return who.client != nullptr;
}

// Bytes that identify the contents.
uint64_t pool_life::new_contents(uint64_t size) {
  if (size < sizeof(uint64_t))
    return 1;
  uint64_t const id = next_id_++;
  std::string bytes(size, '\0');
  sim::prng random{id};
  for (size_t at = 0; at < size; at += 7)
    bytes[at] = char(random.next());
  std::memcpy(bytes.data(), &id, sizeof id);
  contents_[id] = std::move(bytes);
  return id;
}

// Sizes below and above 64 KiB, from which on objects are page-aligned; smaller in a full pool, so
// that something fits.
uint64_t pool_life::drawn_size() {
  auto &random = world_.random;
  uint64_t const most = setting_.over == sky::full ? 60'000
                        : random.chance(40)        ? size_max
                                                   : 140'000;
  return sizeof(uint64_t) + random.below((random.chance(25) ? most : 5'000) - sizeof(uint64_t));
}

std::string pool_life::drawn_name(const actor &who) {
  return std::to_string(who.index) + "/" + std::to_string(world_.random.below(name_count));
}

name_change pool_life::drawn_put(actor &who) {
  auto &random = world_.random;
  name_change change;
  bool const is_empty = !has_holes() && random.chance(5);  // objects without contents are all alike
  uint64_t const size = is_empty ? 0 : drawn_size();
  change.made = {
      {drawn_name(who), {new_contents(size), random.chance(70) ? 0 : uint32_t(random.below(4))}}};
  change.exclusive = random.chance(10);
  change.durable = drawn_durable();
  return change;
}

void pool_life::send(actor &who, name_change change) {
  change.begun = ++tick_;
  who.model.sent(std::move(change));
}

// An answer to the oldest outstanding change. `life`: the daemon's life in which it was sent;
// requests of a daemon that has ended are settled.
void pool_life::settle(actor &who, status code, uint64_t life, const std::string &what) {
  bool const refused = code == status::no_entry || code == status::exists;
  if (code != status::ok && !refused && !is_excused(code))
    wrong(what + ": status " + std::to_string(int(code)));
  if (life != life_)
    return;  // recovery has decided
  name_change const change = who.model.on_the_way().front();
  outcome const told = code == status::ok ? outcome::done
                       : refused          ? outcome::refused
                                          : outcome::unknown;
  counted_.unknown += told == outcome::unknown;
  if (!who.model.settled(told, ++tick_))
    return wrong(what + ": cannot have status " + std::to_string(int(code)));
  if (told != outcome::done || !change.durable)
    return;
  counted_.durable++;
  for (actor &other : actors_)
    if (other.index != who.index)
      other.model.durable_since(change.begun);
}

void pool_life::check_version(uint64_t version, uint64_t floor) {
  if (version <= floor)
    wrong("version " + std::to_string(version) + " comes after " + std::to_string(floor));
  highest_version_ = std::max(highest_version_, version);
}

void pool_life::put(actor &who) {
  if (!who.out.empty())
    reap(who);  // detects the end of the connection
  if (who.out.size() >= posted_count_max || !wrong_.empty())
    return;
  name_change change = drawn_put(who);
  auto const &[name, object] = change.made.front();
  if (keeping_.is_tiered && contents_.at(object.id).size() > posted_size_max)
    return put_striped(who, change);
  request made{
      who.next_context++, life_, highest_version_, change.durable, contents_.at(object.id)};
  tnd_pool_request asked{};
  asked.struct_size = sizeof asked;
  asked.kind = TND_POOL_REQUEST_PUT;
  asked.name = name.c_str();
  asked.context = made.context;
  asked.size = made.bytes.size();
  asked.flags = object.flags | (change.exclusive ? TND_POOL_EXCLUSIVE : 0) |
                (change.durable ? TND_POOL_DURABLE : 0);
  asked.checksum_kind = uint32_t(world_.random.below(3));
  who.out.push_back(std::move(made));  // the bytes stay where they are
  asked.memory = who.out.back().bytes.data();
  begin_call();
  status const code = who.client->post(asked, nullptr);
  call_deadline_ns_ = never;
  if (code != status::ok) {
    who.out.pop_back();
    if (!is_excused(code))
      wrong("posting: status " + std::to_string(int(code)));
    return;
  }
  who.out.back().life = life_;  // connecting may have taken a while
  send(who, std::move(change));
}

// Only the checksum that the client requests identifies the contents of a damaged striped object,
// because the log has one of each stripe.
uint32_t pool_life::drawn_checksum_kind() {
  return uint32_t(keeping_.is_tiered ? world_.random.between(1, 2) : world_.random.below(3));
}

// A large object is put while the client waits, so it is known before.
void pool_life::put_striped(actor &who, const name_change &change) {
  settle_all(who);
  if (!wrong_.empty())
    return;
  auto const &[name, object] = change.made.front();
  std::string const &bytes = contents_.at(object.id);
  wire::pool::commit_terms terms;
  terms.flags = object.flags | (change.exclusive ? TND_POOL_EXCLUSIVE : 0) |
                (change.durable ? TND_POOL_DURABLE : 0);
  terms.checksum_kind = drawn_checksum_kind();
  change_by(who, change, "striped put", [&] {
    return who.client->put(name, bytes.data(), bytes.size(), terms);
  });
}

// The available completions. Returns their number; `unsure`: one does not show whether the change
// was made.
size_t pool_life::take_completions(actor &who, bool &unsure) {
  tnd_pool_completion done[posted_count_max];
  uint32_t count = 0;
  who.client->poll(done, 0, count);
  for (uint32_t i = 0; i < count && wrong_.empty(); i++) {
    request const asked = std::move(who.out.front());
    who.out.pop_front();
    if (asked.context != done[i].context)
      wrong("completions are out of order");
    status const code = status(done[i].status);
    if (code == status::ok)
      check_version(done[i].version, asked.version_floor);
    else if (code != status::exists)
      unsure = true;
    settle(who, code, asked.life, "put");
  }
  return count;
}

void pool_life::reap(actor &who) {
  bool unsure = false;
  if (take_completions(who, unsure) == 0)
    (void)pump();
  if (unsure && wrong_.empty())
    resync(who);
}

// A client that gets no answer closes the connection.
void pool_life::settle_all(actor &who) {
  uint64_t const deadline_ns =
      world_.now_ns() + (setting_.over == sky::slow ? short_timeout_ns : patience_ns);
  while (!who.out.empty() && wrong_.empty() && world_.now_ns() < deadline_ns)
    reap(who);
  if (!who.out.empty() && setting_.over != sky::slow)
    return wrong("a request has no completion");
  if (!who.out.empty())
    resync(who);
}

// After an inconclusive answer: once the daemon has finished the old connection, a query decides.
void pool_life::resync(actor &who) {
  who.client->disconnect();
  bool unsure = false;
  while (!who.out.empty() && wrong_.empty())
    (void)take_completions(who, unsure);
  auto const is_served = [&] {
    auto const &all = daemon_->sessions;
    return std::any_of(all.begin(), all.end(), [&](auto &each) { return each.actor == who.index; });
  };
  uint64_t const deadline_ns = world_.now_ns() + patience_ns;
  while (wrong_.empty() && (daemon_ == nullptr || is_served())) {
    (void)pump();
    if (world_.now_ns() > deadline_ns)
      return wrong("the daemon keeps a connection that has ended");
  }
  std::vector<held_names> found;
  if (!wrong_.empty() || !look(found))
    return;
  if (!who.model.seen(found[who.index]))
    wrong("the pool holds names that client " + std::to_string(who.index) + " never had like that");
}

// A change by a synchronous call. The connection exists before, so that the call goes to the
// current daemon.
void pool_life::change_by(actor &who,
                          name_change change,
                          const std::string &what,
                          const std::function<status()> &call) {
  begin_call();
  status const code = who.client->ensure_connected(false);
  uint64_t const lived = life_;
  if (code != status::ok) {
    call_deadline_ns_ = never;
    if (!is_excused(code))
      wrong("connecting again: status " + std::to_string(int(code)));
    return;
  }
  begin_call();
  send(who, std::move(change));
  status const told = call();
  call_deadline_ns_ = never;
  settle(who, told, lived, what);
  if (told != status::ok && told != status::no_entry && told != status::exists && wrong_.empty())
    resync(who);
}

void pool_life::rename(actor &who) {
  name_change change{
      .what = kind::rename, .made = {}, .name = drawn_name(who), .new_name = drawn_name(who)};
  change.exclusive = world_.random.chance(20);
  change.durable = drawn_durable();
  uint32_t const flags =
      (change.exclusive ? TND_POOL_EXCLUSIVE : 0) | (change.durable ? TND_POOL_DURABLE : 0);
  change_by(who, change, "rename", [&] {
    return who.client->rename(change.name, change.new_name, flags);
  });
}

void pool_life::remove(actor &who) {
  name_change change{.what = kind::remove, .made = {}, .name = drawn_name(who), .new_name = {}};
  change.durable = drawn_durable();
  change_by(who, change, "remove", [&] {
    return who.client->remove(change.name, change.durable ? TND_POOL_DURABLE : 0);
  });
}

void pool_life::set_flags(actor &who) {
  name_change change{.what = kind::set_flags, .made = {}, .name = drawn_name(who), .new_name = {}};
  change.flags = uint32_t(world_.random.below(4));
  change_by(
      who, change, "set_flags", [&] { return who.client->set_flags(change.name, change.flags); });
}

// An object with its size, without one or with one that is too small; or the newest version with
// some bytes changed.
status pool_life::begin_object(actor &who, written_object &target) {
  auto &random = world_.random;
  auto &[name, object] = target.change.made.back();
  uint32_t const flags = object.flags | (target.change.exclusive ? TND_POOL_EXCLUSIVE : 0);
  held_names const before = who.model.likely();
  auto const old = before.find(name);
  bool const keeps = target.set.empty() && old != before.end() && old->second.flags % 2 == 0 &&
                     old->second.id > 1 && random.chance(50);
  target.bytes = contents_.at(object.id);
  uint64_t const size = target.bytes.size();
  uint64_t const given = keeps || random.chance(40) ? size
                         : random.chance(50)        ? 0
                                                    : random.below(size + 1);
  // From single bytes to more than all of it, and as many writes as a run has time for.
  target.step_size_max =
      std::max<uint64_t>(size / write_count_max + 1, uint64_t{1} << random.below(19));
  counted_.grown += given < size;
  begin_call();
  TND_TRY(who.client->create(
      name, given, flags | (keeps ? TND_POOL_KEEP : 0), target.set, target.made));
  target.life = life_;
  held_names const &now = who.model.likely();  // the daemon may have changed since before the call
  if (keeps && now.contains(name) && target.made.about.size > size) {
    // Its head is new, including the bytes that identify the contents.
    target.bytes += contents_.at(now.at(name).id).substr(size);
    if (object.id == 1)
      return status::stale;  // nothing identifies the contents
  }
  return status::ok;
}

// The object is complete when it returns ok with written_size equal to the contents' size.
status pool_life::write_step(actor &who, written_object &target) {
  uint64_t const id = target.change.made.back().second.id, end = contents_.at(id).size();
  uint64_t const low = target.step_size_max > 2 * write_count_max ? target.step_size_max / 2 : 1;
  uint64_t const size = std::min<uint64_t>(world_.random.between(low, target.step_size_max),
                                           end - target.written_size);
  if (size > 0) {
    begin_call();
    TND_TRY(who.client->write(target.made,
                              box_of(target.written_size, size),
                              {target.bytes.data() + target.written_size, false}));
  }
  target.written_size += size;
  if (target.written_size == end && target.life == life_)
    contents_[id] = target.bytes;
  return status::ok;
}

// Alternates between objects, so that their extents interleave.
status pool_life::write_objects(actor &who, std::vector<written_object> &targets) {
  for (written_object &each : targets)
    TND_TRY(begin_object(who, each));
  std::vector<std::pair<written_object *, uint64_t>> left;
  for (written_object &each : targets)
    left.emplace_back(&each, contents_.at(each.change.made.back().second.id).size());
  while (!left.empty()) {
    size_t const which = world_.random.below(left.size());
    TND_TRY(write_step(who, *left[which].first));
    if (left[which].first->written_size == left[which].second)
      left.erase(left.begin() + long(which));
  }
  return status::ok;
}

// A call that changes no names.
void pool_life::note(actor &who, status code, const std::string &what) {
  call_deadline_ns_ = never;
  if (code == status::ok || code == status::no_entry || code == status::exists)
    return;
  if (!is_excused(code))
    return wrong(what + ": status " + std::to_string(int(code)));
  resync(who);
}

// Returns whether the connection is unchanged.
bool pool_life::commit_object(actor &who, written_object &target) {
  uint64_t const floor = highest_version_, lived = life_;
  wire::pool::commit_terms terms;
  terms.flags = target.change.durable ? TND_POOL_DURABLE : 0;
  terms.checksum_kind = drawn_checksum_kind();
  uint64_t version = 0;
  change_by(who, target.change, "commit", [&] {
    return who.client->commit(target.made, terms, version);
  });
  if (version != 0)
    check_version(version, floor);
  return wrong_.empty() && life_ == lived;
}

void pool_life::write_in_parts(actor &who) {
  std::vector<written_object> targets;
  for (uint64_t count = world_.random.chance(60) ? 1 : world_.random.between(2, 3);
       targets.size() < count;) {
    targets.push_back({drawn_put(who), {}});
  }
  status const code = write_objects(who, targets);
  call_deadline_ns_ = never;
  bool going_on = code == status::ok;
  for (written_object &each : targets) {
    if (going_on && !world_.random.chance(15))
      going_on = commit_object(who, each);
    if (who.client != nullptr)
      who.client->close(each.made);  // some are never committed
  }
  if (code != status::ok)
    note(who, code, "writing in parts");
}

void pool_life::commit_set(actor &who) {
  std::string const set = std::to_string(who.index) + "/set" + std::to_string(next_id_);
  name_change all = drawn_put(who);
  all.exclusive = false;
  size_t const count = world_.random.between(1, 3);
  auto drawn = std::exchange(all.made, {});
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      drawn = drawn_put(who).made;
    auto const same = [&](auto const &each) {
      return each.first == drawn.front().first;
    };
    if (std::any_of(all.made.begin(), all.made.end(), same))
      continue;
    all.made.push_back(drawn.front());
    std::vector<written_object> target(1);
    target[0].change = all;
    target[0].set = set;
    status code = write_objects(who, target);
    uint64_t version = 0;
    begin_call();
    if (code == status::ok)
      code = who.client->commit(target[0].made, {}, version);
    who.client->close(target[0].made);
    if (code != status::ok)
      return note(who, code, "an object of a set");
  }
  call_deadline_ns_ = never;
  size_t const made = all.made.size();
  uint32_t const flags = all.durable ? TND_POOL_DURABLE : 0;
  change_by(who, all, "set_commit", [&] { return who.client->set_commit(set, made, flags); });
}

// A client whose names this client sees, itself included.
const pool_life::actor &pool_life::drawn_neighbour(const actor &who) {
  std::vector<const actor *> neighbours;
  for (const actor &each : actors_) {
    if (each.space == who.space)
      neighbours.push_back(&each);
  }
  return *neighbours[world_.random.below(neighbours.size())];
}

// Any client of the same namespace.
void pool_life::get(actor &who) {
  actor const &owner = drawn_neighbour(who);
  std::string const name = drawn_name(owner);
  auto allowed = owner.model.readable(name);
  uint64_t const life = life_;
  std::string bytes(2 * size_max, '\0');
  wire::pool::info about{};
  begin_call();
  status const code = who.client->get(name, bytes.data(), bytes.size(), about, true);
  call_deadline_ns_ = never;
  if (code != status::ok && code != status::no_entry)
    return note(who, code, "get");
  uint64_t id = code == status::ok ? 1 : 0;
  if (code == status::ok) {
    bytes.resize(about.size);
    if (bytes.size() >= sizeof id)
      std::memcpy(&id, bytes.data(), sizeof id);
    if (!contents_.contains(id) || contents_.at(id) != bytes)
      return wrong("get: " + name + " is a mix of bytes");
  }
  allowed.merge(owner.model.readable(name));
  if (life_ <= life + 1 && !allowed.contains(id))
    wrong("get: " + name + " is not what it should be");
}

void pool_life::list(actor &who) {
  actor const &owner = drawn_neighbour(who);
  uint64_t const life = life_;
  wire::pool::list_reply found;
  begin_call();
  status const code = who.client->list_some(
      {.prefix = std::to_string(owner.index) + "/", .after = {}, .delimiter = {}}, found);
  if (code != status::ok)
    return note(who, code, "list");
  call_deadline_ns_ = never;
  for (size_t i = 0; i < name_count && life == life_; i++) {
    std::string const name = std::to_string(owner.index) + "/" + std::to_string(i);
    bool const shown = std::any_of(
        found.entries.begin(), found.entries.end(), [&](auto &one) { return one.name == name; });
    auto const ids = owner.model.readable(name);
    if (shown ? ids == std::set<uint64_t>{0} : !ids.contains(0))
      wrong("list: " + name + (shown ? " is shown" : " is missing"));
  }
}

void pool_life::step(actor &who) {
  world_.note(who.index);
  if (!connected(who))
    return;
  uint64_t const drawn = world_.random.below(16);
  if (drawn < 5)
    return put(who);
  if (drawn < 6)
    return (void)pump();
  if (drawn < 7)
    return reap(who);
  settle_all(who);
  if (!wrong_.empty())
    return;
  switch (drawn) {
    case 7:
      return rename(who);
    case 8:
      return remove(who);
    case 9:
      return set_flags(who);
    case 10:
    case 11:
      return write_in_parts(who);
    case 12:
      return commit_set(who);
    case 13:
      return list(who);
    default:
      return get(who);
  }
}

// With a working disk and free space, every client succeeds, and durable data are recovered.
void pool_life::last_words() {
  ends_ = false;
  faults_ = {.volatile_cache = true};
  store_->faults_set(faults_);
  store_->heal();
  for (actor &each : actors_) {
    if (each.client != nullptr)
      settle_all(each);
    uint64_t const deadline_ns = world_.now_ns() + patience_ns;
    while (wrong_.empty() && !connected(each) && world_.now_ns() < deadline_ns)
      (void)pump();
    if (wrong_.empty() && each.client == nullptr)
      wrong("a client cannot connect again");
    for (size_t i = 0; i < name_count && wrong_.empty(); i++)
      remove(each);
  }
  while (daemon_ == nullptr && wrong_.empty())
    (void)pump();
  if (!wrong_.empty())
    return;
  stop_in_order();
  restart();
}

std::string pool_life::run(uint32_t step_count) {
  for (uint32_t i = 0; i < step_count && wrong_.empty(); i++) {
    step(actors_[world_.random.below(actors_.size())]);
    world_.note(highest_version_);
  }
  if (wrong_.empty())
    last_words();
  return wrong_;
}

}  // namespace tanada::test
