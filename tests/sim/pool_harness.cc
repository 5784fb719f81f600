#include "sim/pool_harness.hpp"

#include <algorithm>
#include <cstring>

namespace tanada::test {
namespace {

constexpr size_t actor_count = 3, name_count = 4;
constexpr uint64_t mib = 1 << 20, pump_count_max = 1'000'000;
constexpr uint64_t patience_ns =
    60'000'000'000;                // of the system's clock; pump_count_max is the limit that counts
constexpr size_t stamp_size = 16;  // of contents: version and size

}  // namespace

pool_run::pool_run(const pool_setting &setting) : setting_{setting}, world_{setting.seed} {
  uint64_t const capacity = setting.sky == weather::full ? 2 * mib : 8 * mib;
  auto memory = poold::pool_memory::create(
      {.capacity = capacity, .segment_size = 2 * mib, .prefault = false});
  TND_ASSERT(memory.ok());
  memory_ = std::move(memory).value();
  objects_ = std::make_unique<poold::catalog>(*memory_, nullptr, poold::catalog_options{});
  space_ = objects_->open_namespace("test", true).value();
  service_.reset(new poold::service{.memory = *memory_, .objects = *objects_, .keys = {}});
  service_->limits.turn_size = world_.random.between(1, 100'000);
  service_->limits.output_size_max = world_.random.between(1, 10'000);
  for (size_t i = 0; i < actor_count; i++) {
    pool::client_settings settings;
    settings.dial = [this](const pool::server_place &, uint64_t) {
      return dial();
    };
    auto client = pool::client::connect({"simulated", 1, "test", {}}, std::move(settings));
    actors_.emplace_back();
    if (client.ok())
      actors_.back().client = std::move(client).value();
  }
}

pool_run::~pool_run() {
  actors_.clear();
  sessions_.clear();
}

void pool_run::wrong(std::string what) {
  if (wrong_.empty())
    wrong_ = std::move(what);
}

result<std::unique_ptr<seams::stream>> pool_run::dial() {
  sim::stream_faults faults;
  faults.again_percent = uint32_t(world_.random.below(30));
  faults.chunk_size_max = world_.random.chance(30) ? world_.random.between(1, 100) : 1 << 17;
  faults.window_size = world_.random.between(100, 100'000);
  if (setting_.sky == weather::cuts)
    faults.cut_permyriad = 5;
  auto [here, there] = sim::stream_pair_create(world_, faults, [this] { return pump(); });
  sessions_.push_back(
      std::make_unique<poold::session>(*service_, std::move(there), next_session_++, mailbox_, 1));
  return std::move(here);
}

// Some sessions make progress. After this many rounds within one step, the awaited event will not
// come.
bool pool_run::pump() {
  if (++pump_count_ > pump_count_max)
    return false;
  for (size_t i = sessions_.size(); i > 0 && !sessions_.empty(); i--) {
    size_t const which = world_.random.below(sessions_.size());
    if (sessions_[which]->progress(1) == poold::session::outcome::ended)
      sessions_.erase(sessions_.begin() + long(which));
  }
  return true;
}

std::vector<char> pool_run::contents(const std::string &name, uint64_t version) {
  sim::prng random{std::hash<std::string>{}(name) * 31 + version};
  std::vector<char> bytes(stamp_size + random.below(random.chance(10) ? 300'000 : 3'000));
  for (size_t at = stamp_size; at < bytes.size(); at++)
    bytes[at] = char(random.next());
  uint64_t const stamp[2] = {version, bytes.size()};
  std::memcpy(bytes.data(), stamp, sizeof stamp);
  return bytes;
}

std::string pool_run::random_name(size_t owner) {
  return std::to_string(owner) + "/" + std::to_string(world_.random.below(name_count));
}

// Errors that may happen without a mistake of client or daemon.
bool pool_run::is_excused(status code) const {
  if (setting_.sky == weather::cuts && (code == status::peer_lost || code == status::stale))
    return true;
  return setting_.sky == weather::full && code == status::no_space;
}

void pool_run::post_put(actor &who, const std::string &name) {
  name_state &state = names_[name];
  request made{name, TND_POOL_REQUEST_PUT, (state.posted + 1) | 1, 0, {}};
  made.bytes = contents(name, made.version);
  if (setting_.planted == plant::torn_object && made.bytes.size() > 100)
    made.bytes[world_.random.between(stamp_size, 99)] ^= 1;
  tnd_pool_request asked{};
  asked.struct_size = sizeof asked;
  asked.kind = made.kind;
  asked.name = name.c_str();
  asked.memory = made.bytes.data();
  asked.size = made.bytes.size();
  asked.context = who.next_context;
  if (world_.random.chance(30))
    asked.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
  if (who.client->post(asked, nullptr) != status::ok)
    return;
  state.posted = made.version;
  who.out.emplace(who.next_context++, std::move(made));
}

void pool_run::post_get(actor &who, const std::string &name) {
  request made{
      name, TND_POOL_REQUEST_GET, 0, names_[name].acknowledged, std::vector<char>(400'000)};
  tnd_pool_request asked{};
  asked.struct_size = sizeof asked;
  asked.kind = made.kind;
  asked.name = name.c_str();
  asked.memory = made.bytes.data();
  asked.size = made.bytes.size();
  asked.context = who.next_context;
  if (who.client->post(asked, nullptr) != status::ok)
    return;
  who.out.emplace(who.next_context++, std::move(made));
}

// Synchronous calls follow earlier posted requests of the same client, so these are reaped first.
void pool_run::remove(actor &who, const std::string &name) {
  reap(who, true);
  name_state &state = names_[name];
  uint64_t const version = (state.posted + 2) & ~uint64_t{1};
  state.posted = version;
  status const code = who.client->remove(name, 0);
  if (code == status::ok || code == status::no_entry)
    state.acknowledged = version;
  else if (!is_excused(code))
    wrong("remove: status " + std::to_string(int(code)));
}

void pool_run::write_in_parts(actor &who, const std::string &name) {
  reap(who, true);
  name_state &state = names_[name];
  uint64_t const version = (state.posted + 1) | 1;
  auto const bytes = contents(name, version);
  pool::open_object object;
  status code =
      who.client->create(name, world_.random.chance(50) ? bytes.size() : 0, 0, {}, object);
  for (uint64_t at = 0; code == status::ok && at < bytes.size();) {
    uint64_t const size = std::min<uint64_t>(world_.random.between(1, 200'000), bytes.size() - at);
    code = who.client->write(
        object, {at, size, {1, 1}, {0, 0}, {0, 0}}, {const_cast<char *>(bytes.data()) + at, false});
    at += size;
  }
  uint64_t given = 0;
  if (code == status::ok) {
    if (world_.random.chance(20))
      return who.client->close(object);  // never committed
    state.posted = version;
    code = who.client->commit(object, {}, given);
    if (code == status::ok)
      state.acknowledged = version;
  }
  who.client->close(object);
  if (code != status::ok && !is_excused(code))
    wrong("writing in parts: status " + std::to_string(int(code)));
}

void pool_run::list(actor &who) {
  reap(who, true);
  auto const before = names_;
  wire::pool::list_reply found;
  wire::pool::list_request const request{.prefix = world_.random.chance(50) ? "" : "1/",
                                         .after = {},
                                         .delimiter = world_.random.chance(50) ? "" : "/"};
  status const code = who.client->list_some(request, found);
  if (code != status::ok) {
    if (!is_excused(code))
      wrong("list: status " + std::to_string(int(code)));
    return;
  }
  for (auto const &[name, state] : before) {
    if (!name.starts_with(request.prefix))
      continue;
    size_t const slash =
        request.delimiter.empty() ? std::string::npos : name.find('/', request.prefix.size());
    bool const is_below = slash != std::string::npos;
    std::string const entry = is_below ? name.substr(0, slash + 1) : name;
    auto const shown_count = std::count_if(
        found.entries.begin(), found.entries.end(), [&](const wire::pool::list_entry &one) {
          return one.name == entry && bool(one.is_prefix) == is_below;
        });
    bool const is_settled = state.posted == state.acknowledged;
    bool const must_be_shown = is_settled && state.acknowledged % 2 == 1;
    bool const may_be_shown = is_below || !is_settled || must_be_shown;
    if (shown_count > 1 || shown_count < must_be_shown || shown_count > may_be_shown)
      wrong("list: " + entry + " for " + name + " is shown " + std::to_string(shown_count) +
            " times");
  }
}

void pool_run::check_get(const request &asked, const tnd_pool_completion &done) {
  name_state const &state = names_[asked.name];
  status const code = status(done.status);
  if (code == status::no_entry) {
    bool const may_be_absent = asked.low % 2 == 0 || state.posted > asked.low;
    if (!may_be_absent)
      wrong("get: " + asked.name + " is not there and nobody removed it");
    return;
  }
  if (code != status::ok) {
    if (!is_excused(code))
      wrong("get: status " + std::to_string(int(code)));
    return;
  }
  uint64_t stamp[2] = {};
  if (done.size >= stamp_size)
    std::memcpy(stamp, asked.bytes.data(), sizeof stamp);
  auto const expected = contents(asked.name, stamp[0]);
  bool const whole = done.size == expected.size() &&
                     std::memcmp(asked.bytes.data(), expected.data(), expected.size()) == 0;
  if (!whole)
    wrong("get: " + asked.name + " is a mix of bytes");
  if (stamp[0] < asked.low)
    wrong("get: " + asked.name + " is an old version");
  if (stamp[0] > state.posted)
    wrong("get: " + asked.name + " is a version that nobody wrote");
}

void pool_run::settle(actor &who, const tnd_pool_completion &done) {
  auto const found = who.out.find(done.context);
  if (found == who.out.end())
    return wrong("a completion that nobody waits for");
  request const asked = std::move(found->second);
  who.out.erase(found);
  if (asked.kind == TND_POOL_REQUEST_GET)
    return check_get(asked, done);
  status const code = status(done.status);
  name_state &state = names_[asked.name];
  if (code == status::ok)
    state.acknowledged = std::max(state.acknowledged, asked.version);
  else if (!is_excused(code))
    wrong("put: status " + std::to_string(int(code)));
}

void pool_run::reap(actor &who, bool waits) {
  for (;;) {
    tnd_pool_completion done[8];
    uint32_t count = 0;
    who.client->poll(done, waits ? patience_ns : 0, count);
    for (uint32_t i = 0; i < count; i++)
      settle(who, done[i]);
    if (!waits || who.out.empty())
      return;
    if (count == 0)
      return wrong("a request has no completion");
  }
}

void pool_run::step(size_t index) {
  actor &who = actors_[index];
  pump_count_ = 0;
  world_.note(index);
  switch (world_.random.below(12)) {
    case 0:
      return remove(who, random_name(index));
    case 1:
      return write_in_parts(who, random_name(index));
    case 2:
      return list(who);
    case 3:
    case 4:
    case 5:
      return post_put(who, random_name(index));
    case 6:
    case 7:
    case 8:
      return post_get(who, random_name(world_.random.below(actor_count)));
    case 9:
      (void)pump();
      return;
    default:
      return reap(who, false);
  }
}

std::string pool_run::run(uint32_t step_count) {
  for (actor &who : actors_)
    if (who.client == nullptr)
      return setting_.sky == weather::cuts ? "" : "a client cannot connect";
  for (uint32_t i = 0; i < step_count && wrong_.empty(); i++) {
    if (setting_.planted == plant::lost_commit && world_.random.chance(5))
      (void)objects_->remove(space_, random_name(0), {});
    if (setting_.planted == plant::stale_object && world_.random.chance(40))
      (void)objects_->rename(space_, "1/0", "1/1", 0, {});
    step(world_.random.below(actor_count));
    for (auto const &[name, state] : names_)
      world_.note(state.acknowledged);
  }
  pump_count_ = 0;
  for (actor &who : actors_)
    if (wrong_.empty())
      reap(who, true);
  if (!wrong_.empty())
    return wrong_;
  for (auto const &[name, state] : names_)
    (void)objects_->remove(space_, name, {});
  actors_.clear();
  sessions_.clear();
  if (memory_->used() != 0)
    return std::to_string(memory_->used()) + " bytes of the pool are lost";
  return {};
}

}  // namespace tanada::test
