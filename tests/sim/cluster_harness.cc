#include "sim/cluster_harness.hpp"

#include <algorithm>
#include <cstring>

#include "sim/cluster_mistakes.hpp"

namespace tanada::test {

using namespace wire::pool;

namespace {

constexpr size_t actor_count = 4, namespace_count = 2, name_count = 5;
constexpr uint64_t mib = 1 << 20, ms = 1'000'000;
constexpr uint64_t lease_s = 1, drift_percent = 20;
constexpr uint32_t outstanding_max = 3;
constexpr uint64_t wait_round_max = 300;  // of a handshake
constexpr size_t stamp_size = 16;         // of contents: value and size
constexpr uint64_t settle_round_max = 60'000;
constexpr uint64_t stop_ns_max = 5'000 * ms;  // of a server that cannot leave the cluster
// Where nothing else happens. The successors of hundreds of partitions compare them first.
constexpr uint64_t hand_over_ns_max = 3'000 * ms;

std::string object_of(const std::string &name) {
  return name.substr(name.find('/') + 1);
}

// One end of a connection, which the simulation can cut.
class severable_stream final : public seams::stream {
 public:
  severable_stream(std::unique_ptr<seams::stream> inner, std::shared_ptr<bool> is_severed)
      : inner_{std::move(inner)}, is_severed_{std::move(is_severed)} {}
  result<size_t> receive(std::span<const iovec> parts) override {
    if (*is_severed_)
      return status::peer_lost;
    return inner_->receive(parts);
  }
  result<size_t> send(std::span<const iovec> parts, int descriptor) override {
    if (*is_severed_)
      return status::peer_lost;
    return inner_->send(parts, descriptor);
  }
  status wait(bool to_receive, bool to_send, uint64_t deadline_ns) override {
    return *is_severed_ ? status::ok : inner_->wait(to_receive, to_send, deadline_ns);
  }
  std::string peer() const override {
    return "simulated";
  }

 private:
  std::unique_ptr<seams::stream> inner_;
  std::shared_ptr<bool> is_severed_;
};

}  // namespace

// What a server has is destroyed in the opposite order: sessions first.
struct cluster_run::server {
  explicit server(sim::world &world, int64_t skew) : clock{world, skew} {}
  skewed_clock clock;
  std::unique_ptr<mistaken_coordinator> coordinator;
  std::unique_ptr<poold::cluster_node> node;
  std::unique_ptr<mistaken_gate> gate;
  std::unique_ptr<mistaken_journal> journal;
  std::unique_ptr<poold::pool_memory> memory;
  std::unique_ptr<poold::catalog> objects;
  std::unique_ptr<poold::service> service;
  std::shared_ptr<poold::mailbox> mailbox;
  std::map<uint64_t, std::unique_ptr<poold::session>> sessions;
  bool is_up = false;
  uint64_t paused_until_ns = 0, started_ns = 0;
  uint64_t stop_ns = 0;  // when it ends, because it was stopped; 0: it was not
};

cluster_run::cluster_run(const cluster_setting &setting)
    : setting_{setting}, world_{setting.seed}, store_{world_, {}} {
  copies_ = 1 + uint32_t(world_.random.below(3));
  if (setting.mistake != cluster_mistake::none)
    copies_ = std::max(copies_, 2u);
  server_count_ = copies_ + 1 + world_.random.below(2);
  bool const is_skewed = setting.weather == cluster_weather::all;
  for (size_t i = 0; i < server_count_; i++) {
    int64_t skew =
        is_skewed ? int64_t(world_.random.below(2 * drift_percent * 4)) - int64_t(drift_percent * 4)
                  : 0;
    if (setting.mistake == cluster_mistake::slow_clock)
      skew = -600;
    servers_.push_back(std::make_unique<server>(world_, skew));
    start(i);
  }
  actors_.resize(actor_count);
  bool const has_etcd_faults =
      setting.weather == cluster_weather::etcd || setting.weather == cluster_weather::all;
  if (has_etcd_faults) {
    store_.faults.watch_delay_ns_max = 200 * ms;
    store_.faults.lease_delay_ns_max = 500 * ms;
    store_.faults.lose_request_permyriad = 200;
    store_.faults.lose_answer_permyriad = 200;
    store_.faults.break_permyriad = 200;
    store_.faults.late_permyriad = 200;
    store_.faults.lose_renewal_permyriad = 500;
    store_.faults.cut_watch_permyriad = 100;
  }
}

cluster_run::~cluster_run() {
  for (actor &client : actors_)
    client.channel.reset();
  for (size_t i = 0; i < servers_.size(); i++)
    crash(i);
}

void cluster_run::fail(std::string reason) {
  if (failure_.empty())
    failure_ = std::move(reason);
}

// ---- servers

void cluster_run::start(size_t index) {
  server &started = *servers_[index];
  started.coordinator = std::make_unique<mistaken_coordinator>(
      store_.open({.request_timeout_ns = 500 * ms, .watch_timeout_ns = 2000 * ms}),
      setting_.mistake);
  poold::membership_options member;
  member.prefix = "/tanada/test/";
  member.self.self = {"s" + std::to_string(index), next_run_++};
  member.self.address = std::to_string(index);
  member.copies = copies_;
  member.new_identity = "cluster of " + member.self.self.server;
  member.lease_s = lease_s;
  member.drift_percent = drift_percent;
  member.clock = &started.clock;
  started.node.reset(new poold::cluster_node{
      {.member = member,
       .key = {},
       .dial = [this, index](const std::string &address,
                             uint64_t) { return dial(index, std::stoul(address)); },
       .page_size = 1 + size_t(world_.random.below(5))},
      *started.coordinator,
      nullptr});
  started.gate = std::make_unique<mistaken_gate>(started.node->changes(), setting_.mistake);
  started.journal = std::make_unique<mistaken_journal>(started.node->changes(), setting_.mistake);
  auto memory = poold::pool_memory::create(
      {.capacity = 64 * mib, .segment_size = 2 * mib, .prefault = false});
  TND_ASSERT(memory.ok());
  started.memory = std::move(memory).value();
  started.objects = std::make_unique<poold::catalog>(
      *started.memory, started.journal.get(), poold::catalog_options{});
  started.node->attach(*started.objects);
  started.service.reset(
      new poold::service{.memory = *started.memory, .objects = *started.objects, .keys = {}});
  started.service->cluster = started.gate.get();
  started.service->limits.turn_size = world_.random.between(1'000, 100'000);
  started.mailbox = std::make_shared<poold::mailbox>();
  started.is_up = true;
  started.paused_until_ns = 0;
  started.started_ns = world_.now_ns();
  started.stop_ns = 0;
}

// Everything in memory is lost, and nothing is sent.
void cluster_run::crash(size_t index) {
  server &crashed = *servers_[index];
  if (!crashed.is_up)
    return;
  crashed.is_up = false;
  store_.set_reachable(crashed.coordinator->inner(), false);
  sever(index);
  crashed.sessions.clear();
  crashed.node.reset();
  crashed.service.reset();
  crashed.objects.reset();
  crashed.memory.reset();
  crashed.journal.reset();
  crashed.gate.reset();
  crashed.coordinator.reset();
}

// As by a signal: it leaves the cluster before it ends.
void cluster_run::stop(size_t index) {
  server &stopped = *servers_[index];
  stopped.node->begin_leaving();
  stopped.gate->is_leaving = true;
  stopped_ns_ = world_.now_ns();
  stopped.stop_ns = stopped_ns_ + stop_ns_max;
}

// A server that has left the cluster may go on for a while.
void cluster_run::end_stops() {
  for (size_t i = 0; i < server_count_; i++) {
    server &candidate = *servers_[i];
    if (!candidate.is_up || candidate.stop_ns == 0)
      continue;
    bool const is_due = world_.now_ns() >= candidate.stop_ns;
    if (is_due || (candidate.node->has_left() && world_.random.chance(1)))
      crash(i);
  }
  bool const is_timed = stopped_ns_ != 0 && setting_.weather == cluster_weather::stops;
  if (!is_timed)
    return;
  uint32_t partition = 0;
  while (partition < poold::partition_count && is_served(partition))
    partition++;
  if (partition == poold::partition_count)
    stopped_ns_ = 0;
  else if (world_.now_ns() > stopped_ns_ + hand_over_ns_max)
    fail(describe_partition(partition) + " is not served after a stop");
}

std::string cluster_run::describe_partition(uint32_t partition) const {
  std::string text = "partition " + std::to_string(partition);
  for (auto const &candidate : servers_) {
    if (!candidate->is_up)
      continue;
    auto const map = candidate->node->describe().map;
    text += "; " + candidate->node->changes().self().server +
            (candidate->stop_ns != 0 ? ", stopping, has " : " has ") +
            (map == nullptr ? "no map" : "epoch " + std::to_string(map->epoch));
    if (map == nullptr)
      continue;
    for (const poold::replica &run : map->partitions[partition].replicas)
      text += " " + run.server;
    for (const poold::replica &run : map->partitions[partition].joining)
      text += " +" + run.server;
    (void)candidate->node->changes().check_serving(partition);
    text += ": " + last_message();
  }
  return text;
}

bool cluster_run::is_served(uint32_t partition) const {
  return std::ranges::any_of(servers_, [&](auto const &candidate) {
    return candidate->is_up && candidate->stop_ns == 0 &&
           candidate->node->changes().check_serving(partition) == status::ok;
  });
}

void cluster_run::pause(size_t index) {
  servers_[index]->paused_until_ns = world_.now_ns() + world_.random.between(ms, 3'000 * ms);
}

void cluster_run::sever(size_t index) {
  for (connection &each : connections_)
    if (each.from == index || each.to == index)
      *each.is_severed = true;
  std::erase_if(connections_, [](const connection &each) { return *each.is_severed; });
}

void cluster_run::set_cut(size_t first, size_t second, bool is_cut) {
  cuts_[std::minmax(first, second)] = is_cut;
  if (!is_cut)
    return;
  for (connection &each : connections_)
    if (std::minmax(each.from, each.to) == std::minmax(first, second))
      *each.is_severed = true;
}

result<std::unique_ptr<seams::stream>> cluster_run::dial(size_t from, size_t to) {
  server &target = *servers_[to];
  auto const cut = cuts_.find(std::minmax(from, to));
  if (!target.is_up || (cut != cuts_.end() && cut->second))
    return status::peer_lost;
  sim::stream_faults faults;
  faults.again_percent = uint32_t(world_.random.below(20));
  faults.chunk_size_max = world_.random.chance(20) ? world_.random.between(1, 500) : 1 << 17;
  faults.window_size = world_.random.between(1'000, 100'000);
  auto [here, there] =
      sim::stream_pair_create(world_, faults, [this, round = uint64_t{0}]() mutable {
        return ++round < wait_round_max && pump();
      });
  auto const is_severed = std::make_shared<bool>(false);
  connections_.push_back({from, to, is_severed});
  uint64_t const id = next_session_++;
  target.sessions[id] = std::make_unique<poold::session>(
      *target.service,
      std::make_unique<severable_stream>(std::move(there), is_severed),
      id,
      target.mailbox,
      world_.now_ns());
  return std::unique_ptr<seams::stream>{
      std::make_unique<severable_stream>(std::move(here), is_severed)};
}

void cluster_run::pump_server(size_t index) {
  server &pumped = *servers_[index];
  if (!pumped.is_up || world_.now_ns() < pumped.paused_until_ns)
    return;
  for (auto const &answer : std::exchange(pumped.journal->early, {}))
    answer();
  pumped.node->progress();
  for (const poold::deferred_reply &reply : pumped.mailbox->take())
    if (auto const it = pumped.sessions.find(reply.session); it != pumped.sessions.end())
      it->second->finish_deferred(reply);
  for (auto it = pumped.sessions.begin(); it != pumped.sessions.end();) {
    bool const has_ended = it->second->progress(world_.now_ns()) == poold::session::outcome::ended;
    it = has_ended ? pumped.sessions.erase(it) : std::next(it);
  }
}

// Time passes, and each server does something. False: too much has happened.
bool cluster_run::pump() {
  if (++pump_count_ > 10'000'000)
    return false;
  world_.advance(world_.random.below(2 * ms));
  for (size_t i = 0; i < servers_.size(); i++)
    if (world_.random.chance(80))
      pump_server(i);
  return true;
}

// ---- what happens to them

// Servers whose memory was lost, or that have not become replicas again, so that another loss could
// lose acknowledged objects.
size_t cluster_run::lost_count() const {
  std::shared_ptr<const poold::cluster_map> newest;
  for (auto const &each : servers_)
    if (each->is_up) {
      auto const map = each->node->describe().map;
      if (map != nullptr && (newest == nullptr || map->epoch > newest->epoch))
        newest = map;
    }
  if (newest == nullptr)
    return server_count_;
  size_t missing = 0;
  for (const poold::partition_record &partition : newest->partitions) {
    size_t up = 0;
    for (const poold::replica &run : partition.replicas)
      for (auto const &each : servers_)
        up += each->is_up && each->stop_ns == 0 && each->node->describe().map != nullptr &&
              each->gate != nullptr && run == each->node->changes().self();
    missing = std::max(missing, size_t(copies_) - std::min<size_t>(copies_, up));
  }
  return missing;
}

void cluster_run::disturb() {
  uint64_t const now_ns = world_.now_ns();
  if (now_ns < disturbed_ns_ + 300 * ms || setting_.weather == cluster_weather::fair)
    return;
  disturbed_ns_ = now_ns;
  bool const all = setting_.weather == cluster_weather::all;
  size_t const index = world_.random.below(server_count_),
               other = world_.random.below(server_count_ + actor_count);
  switch (world_.random.below(8)) {
    case 0:
      if (all || setting_.weather == cluster_weather::crashes) {
        if (!servers_[index]->is_up)
          start(index);
        else if (lost_count() + 1 < copies_)
          crash(index);
      }
      break;
    case 7:
      if ((all || setting_.weather == cluster_weather::stops) && servers_[index]->is_up &&
          servers_[index]->stop_ns == 0 && lost_count() + 1 < copies_)
        stop(index);
      break;
    case 1:
      if (all || setting_.weather == cluster_weather::pauses)
        pause(index);
      break;
    case 2:
    case 3:
      if ((all || setting_.weather == cluster_weather::cuts) && index != other)
        set_cut(index, other, world_.random.chance(40));
      break;
    case 4:
      if ((all || setting_.weather == cluster_weather::etcd) && servers_[index]->is_up)
        store_.set_reachable(servers_[index]->coordinator->inner(), world_.random.chance(60));
      break;
    case 5:
      if (all || setting_.weather == cluster_weather::etcd)
        store_.set_down(world_.random.chance(30));
      break;
    case 6:
      if (!servers_[index]->is_up)
        start(index);
      break;
    default:
      break;
  }
}

void cluster_run::heal() {
  store_.faults = {};
  store_.set_down(false);
  cuts_.clear();
  for (size_t i = 0; i < server_count_; i++) {
    servers_[i]->paused_until_ns = 0;
    if (servers_[i]->is_up && servers_[i]->stop_ns != 0)
      crash(i);
    if (!servers_[i]->is_up)
      start(i);
    store_.set_reachable(servers_[i]->coordinator->inner(), true);
  }
}

// ---- clients

std::string cluster_run::random_name() {
  return "n" + std::to_string(world_.random.below(namespace_count)) + "/" +
         std::to_string(world_.random.below(name_count));
}

std::vector<std::byte> cluster_run::contents(value_id value) {
  sim::prng random{value * 31 + 7};
  size_t const size = stamp_size + random.below(random.chance(10) ? 100'000 : 500);
  std::vector<std::byte> bytes(size);
  for (size_t i = stamp_size; i < size; i++)
    bytes[i] = std::byte(random.next());
  uint64_t const stamp[2] = {value, size};
  std::memcpy(bytes.data(), stamp, sizeof stamp);
  return bytes;
}

// The value whose contents these bytes are, whole; otherwise the run fails.
value_id cluster_run::value_of(std::span<const std::byte> bytes) {
  uint64_t stamp[2] = {0, 0};
  if (bytes.size() >= sizeof stamp)
    std::memcpy(stamp, bytes.data(), sizeof stamp);
  bool const is_known = stamp[0] > 0 && stamp[0] < next_value_ && stamp[1] == bytes.size();
  if (!is_known || !std::ranges::equal(contents(stamp[0]), bytes))
    fail("an object has bytes that nobody put");
  return stamp[0];
}

// An actor is a client of one namespace, that of its number. It looks for the primary at any
// server.
bool cluster_run::connect(size_t index) {
  actor &client = actors_[index];
  if (client.channel != nullptr && !client.channel->is_broken())
    return true;
  if (client.outstanding > 0 || world_.now_ns() < client.retry_ns)
    return false;
  client.channel.reset();
  client.retry_ns = world_.now_ns() + world_.random.below(50 * ms);
  client.at = world_.random.below(server_count_);
  client.reads_backup = world_.random.chance(30);
  auto connection = dial(server_count_ + index, client.at);
  if (!connection.ok())
    return false;
  auto opened =
      pool::channel::open(std::move(connection).value(),
                          "n" + std::to_string(index % namespace_count),
                          nullptr,
                          seams::deadline_after(seams::monotonic_clock().now_ns(), 60'000'000'000),
                          client.reads_backup);
  if (!opened.ok())
    return false;
  client.channel = std::move(opened).value();
  return true;
}

void cluster_run::act(size_t index) {
  actor &client = actors_[index];
  if (client.channel != nullptr) {
    (void)client.channel->progress(0);
    // A client does not wait for ever.
    if (client.outstanding > 0 && world_.random.below(400) == 0)
      client.channel->end(status::timed_out);
  }
  if (!connect(index) || client.outstanding >= outstanding_max)
    return;
  uint64_t const choice = world_.random.below(10);
  // Another server may be the better one.
  if (client.reads_backup && world_.random.chance(2))
    return client.channel->end(status::canceled);
  if (client.reads_backup)
    return choice < 2 ? list(index) : get(index);
  switch (choice) {
    case 0:
    case 1:
    case 2:
      return put(index, world_.random.chance(20));
    case 3:
      return remove(index);
    case 4:
      return rename(index);
    case 5:
      return list(index);
    default:
      return get(index);
  }
}

void cluster_run::end_change(history::operation_id id, status code, failure_cause cause) {
  uint64_t const now_ns = world_.now_ns();
  if (code == status::ok)
    history_.end_ok(id, now_ns);
  else if (code == status::exists)
    history_.end_failed(id, now_ns, failure_cause::exists);
  else if (code == status::no_entry)
    history_.end_failed(id, now_ns, cause);
  else if (code == status::no_space)
    history_.end_failed(id, now_ns, failure_cause::unspecified);
  else
    history_.end_unknown(id, now_ns);
}

void cluster_run::put(size_t index, bool is_exclusive) {
  actor &client = actors_[index];
  std::string const name = random_name();
  std::string const full = "n" + std::to_string(index % namespace_count) + "/" + object_of(name);
  value_id const value = next_value_++;
  auto const bytes = std::make_shared<std::vector<std::byte>>(contents(value));
  auto const id = is_exclusive ? history_.put_exclusive(now_of(index), full, value)
                               : history_.put(now_of(index), full, value);
  put_request request;
  request.name = object_of(name);
  request.terms.flags = is_exclusive ? poold::flag_exclusive : 0;
  client.outstanding++;
  client.channel->post(kind::put,
                       request,
                       {{bytes->data(), bytes->size()}},
                       {},
                       [this, index, id, bytes](const pool::reply &received) {
                         actors_[index].outstanding--;
                         end_change(id, received.code, failure_cause::unspecified);
                       });
}

void cluster_run::get(size_t index) {
  actor &client = actors_[index];
  std::string const name = object_of(random_name());
  auto const id =
      history_.get(now_of(index), "n" + std::to_string(index % namespace_count) + "/" + name);
  auto const bytes = std::make_shared<std::vector<std::byte>>(200'000);
  get_request request;
  request.name = name;
  request.capacity = bytes->size();
  client.outstanding++;
  client.channel->post(kind::get,
                       request,
                       {},
                       {{bytes->data(), bytes->size()}},
                       [this, index, id, bytes](const pool::reply &received) {
                         actors_[index].outstanding--;
                         count_read(index, received.code);
                         if (received.code == status::ok)
                           history_.end_get(
                               id,
                               world_.now_ns(),
                               observation::value(value_of({bytes->data(), received.data_size})));
                         else if (received.code == status::no_entry)
                           history_.end_get(id, world_.now_ns(), observation::absent());
                         else
                           history_.end_unknown(id, world_.now_ns());
                       });
}

void cluster_run::remove(size_t index) {
  actor &client = actors_[index];
  std::string const name = object_of(random_name());
  auto const id =
      history_.remove(now_of(index), "n" + std::to_string(index % namespace_count) + "/" + name);
  flags_request request;
  request.name = name;
  client.outstanding++;
  client.channel->post(
      kind::remove, request, {}, {}, [this, index, id](const pool::reply &received) {
        actors_[index].outstanding--;
        end_change(id, received.code, failure_cause::not_found);
      });
}

void cluster_run::rename(size_t index) {
  actor &client = actors_[index];
  std::string const space = "n" + std::to_string(index % namespace_count) + "/";
  rename_request request;
  request.name = object_of(random_name());
  do
    request.new_name = object_of(random_name());
  while (request.new_name == request.name);
  auto const id = history_.rename(now_of(index), space + request.name, space + request.new_name);
  client.outstanding++;
  client.channel->post(
      kind::rename, request, {}, {}, [this, index, id](const pool::reply &received) {
        actors_[index].outstanding--;
        end_change(id, received.code, failure_cause::not_found);
      });
}

void cluster_run::list(size_t index) {
  actor &client = actors_[index];
  std::string const space = "n" + std::to_string(index % namespace_count) + "/";
  std::vector<std::string> names;
  for (size_t i = 0; i < name_count; i++)
    names.push_back(space + std::to_string(i));
  auto const id = history_.list(now_of(index), names);
  client.outstanding++;
  client.channel->post(
      kind::list, list_request{}, {}, {}, [this, index, id, space](const pool::reply &received) {
        actors_[index].outstanding--;
        count_read(index, received.code);
        list_reply listing;
        bool const is_good =
            received.code == status::ok && wire::decode(received.body, listing) == status::ok;
        if (!is_good)
          return history_.end_unknown(id, world_.now_ns());
        std::vector<name_observation> observed;
        for (const list_entry &entry : listing.entries)
          observed.emplace_back(space + entry.name, observation::present());
        history_.end_list(id, world_.now_ns(), observed);
      });
}

// ---- the run

std::string cluster_run::run(uint32_t step_count) {
  for (uint32_t i = 0; i < step_count && failure_.empty(); i++) {
    pump();
    end_stops();
    disturb();
    for (size_t index = 0; index < actors_.size(); index++)
      if (world_.random.chance(50))
        act(index);
  }
  if (failure_.empty())
    fail(settle());
  for (actor &client : actors_)
    client.channel.reset();
  if (failure_.empty())
    fail(check(history_, {.has_atomic_lists = true}));
  world_.note(history_.operations().size());
  return failure_;
}

// Without faults, the cluster must come to rest: every partition has all copies, and they are
// equal. Each client reads every name once more.
std::string cluster_run::settle() {
  heal();
  std::string difference = "never looked";
  for (uint64_t round = 0; round < settle_round_max; round++) {
    pump();
    for (actor &client : actors_)
      if (client.channel != nullptr)
        (void)client.channel->progress(0);
    if (round % 200 == 199) {
      difference = compare_copies();
      if (difference.empty())
        break;
    }
  }
  if (!difference.empty())
    return "the cluster does not come to rest: " + difference;
  for (int i = 0; i < 4'000; i++) {
    pump();
    size_t const index = world_.random.below(actors_.size());
    actor &client = actors_[index];
    if (client.channel != nullptr)
      (void)client.channel->progress(0);
    if (connect(index) && client.outstanding < outstanding_max && world_.random.chance(20))
      get(index);
  }
  return {};
}

// Empty: all servers have the same map, every partition has its copies, and they are equal.
std::string cluster_run::compare_copies() {
  auto const map = servers_[0]->node->describe().map;
  for (auto const &each : servers_)
    if (map == nullptr || each->node->describe().map == nullptr ||
        *each->node->describe().map != *map)
      return "servers have different maps";
  using entry = std::tuple<std::string, std::string, uint64_t, size_t>;
  for (uint32_t i = 0; i < poold::partition_count; i++) {
    const poold::partition_record &partition = map->partitions[i];
    if (partition.replicas.size() != copies_ || !partition.joining.empty())
      return "partition " + std::to_string(i) + " has " +
             std::to_string(partition.replicas.size()) + " of " + std::to_string(copies_) +
             " copies, and " + std::to_string(partition.joining.size()) + " are joining";
    for (auto const &candidate : servers_) {
      bool const has_left = candidate->objects->visit_objects(
          [&](const std::string &name) { return poold::partition_of(name) == i; },
          {},
          0,
          [](auto const &, auto const &) { return false; });
      if (has_left && !candidate->node->changes().holds(i))
        return "a server has objects of partition " + std::to_string(i) + ", which is elsewhere";
    }
    std::optional<std::vector<entry>> first;
    for (const poold::replica &run : partition.replicas) {
      auto const owner = std::ranges::find_if(
          servers_, [&](auto const &each) { return each->node->changes().self() == run; });
      if (owner == servers_.end())
        return "partition " + std::to_string(i) + " is at a server that does not run";
      if (&run == &partition.replicas.front() &&
          (*owner)->node->changes().check_serving(i) != status::ok)
        return "the primary of partition " + std::to_string(i) + " does not serve";
      std::vector<entry> names;
      (void)(*owner)->objects->visit_objects(
          [&](const std::string &name) { return poold::partition_of(name) == i; },
          {},
          SIZE_MAX,
          [&](const poold::catalog::object_place &place, const poold::object_ref &object) {
            names.emplace_back(
                place.namespace_name, place.name, object->metadata.version, object->metadata.size);
            return true;
          });
      if (first && *first != names)
        return "copies of partition " + std::to_string(i) + " differ";
      first = std::move(names);
    }
  }
  return {};
}

}  // namespace tanada::test
