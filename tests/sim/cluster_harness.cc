#include "sim/cluster_harness.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sim/cluster_mistakes.hpp"

namespace tanada::test {

using namespace wire::pool;

namespace {

constexpr size_t actor_count = 4;
constexpr uint64_t mib = 1 << 20;
constexpr uint64_t lease_s = 1, drift_percent = 20;
constexpr uint64_t wait_round_max = 300;  // of a handshake
constexpr uint64_t settle_round_max = 60'000;
constexpr uint64_t mistaken_round_max = 20'000;  // where the check shall fail
constexpr uint64_t stop_ns_max = 5'000 * ms;     // of a server that cannot leave the cluster
// Where nothing else happens. The successors of hundreds of partitions compare them first.
constexpr uint64_t hand_over_ns_max = 1'500 * ms;

constexpr uint64_t library_stripe_size = 20'000;

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

cluster_run::cluster_run(const cluster_setting &setting)
    : setting_{setting}, world_{setting.seed}, store_{world_, {}} {
  copies_ = 1 + uint32_t(world_.random.below(3));
  if (setting.weather == cluster_weather::exiles || setting.weather == cluster_weather::successions)
    copies_ = 3;
  if (setting.mistake != cluster_mistake::none)
    copies_ = std::max(copies_, 2u);
  server_count_ = copies_ + 1 + world_.random.below(2);
  bool const needs_disks =
      setting.weather == cluster_weather::restarts || setting.weather == cluster_weather::disks;
  storage_ = needs_disks ? cluster_storage::disks : cluster_storage(world_.random.below(3));
  bool const needs_tiers = setting.mistake == cluster_mistake::other_bytes;
  if (needs_tiers)
    storage_ = cluster_storage::disks;
  has_tiers_ = storage_ != cluster_storage::memory &&
               (needs_tiers || (setting.mistake == cluster_mistake::none && setting.seed % 2 == 0));
  if (setting.weather == cluster_weather::fragments) {
    copies_ = 3;
    storage_ = cluster_storage::memory;
    scheme_ = {4, 2};
    server_count_ = 6 + world_.random.below(2);
  }
  bool const is_skewed = setting.weather == cluster_weather::all;
  for (size_t i = 0; i < server_count_; i++) {
    int64_t skew =
        is_skewed ? int64_t(world_.random.below(2 * drift_percent * 4)) - int64_t(drift_percent * 4)
                  : 0;
    if (setting.mistake == cluster_mistake::slow_clock)
      skew = -600;
    servers_.push_back(std::make_unique<server>(world_, skew));
    bool const is_mixed = storage_ == cluster_storage::mixed;
    if (storage_ == cluster_storage::disks || (is_mixed && world_.random.chance(50)))
      servers_.back()->disk = std::make_unique<cluster_disk>(world_, has_tiers_);
    start(i);
  }
  actors_.resize(actor_count);
  if (setting.has_library)
    library_ = std::make_unique<library>(*this);
  bool const has_etcd_faults = setting.weather == cluster_weather::etcd ||
                               setting.weather == cluster_weather::all ||
                               setting.weather == cluster_weather::fragments;
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
  library_.reset();
  for (actor &client : actors_) {
    client.channel.reset();
    client.links.clear();
  }
  for (size_t i = 0; i < servers_.size(); i++)
    crash(i);
}

void cluster_run::fail(std::string reason) {
  if (failure_.empty())
    failure_ = std::move(reason);
}

// ---- servers

poold::membership_options cluster_run::member_options(size_t index) {
  server &started = *servers_[index];
  poold::membership_options member;
  member.prefix = "/tanada/test/";
  member.self.self = {"s" + std::to_string(index), next_run_++};
  member.self.address = std::to_string(index);
  member.self.is_durable = started.disk != nullptr ? 1 : 0;
  member.copies = copies_;
  member.new_identity = "cluster of " + member.self.self.server;
  if (started.disk != nullptr) {
    member.identity = started.disk->identity;
    member.store_identity = [disk = started.disk.get()](const std::string &identity) {
      disk->identity = identity;
      return status::ok;
    };
  }
  member.lease_s = lease_s;
  member.drift_percent = drift_percent;
  member.clock = &started.clock;
  return member;
}

// False: the disk fails.
bool cluster_run::open_log(size_t index) {
  server &started = *servers_[index];
  auto memory = poold::pool_memory::create(
      {.capacity = cluster_pool_size, .segment_size = 2 * mib, .prefault = false});
  TND_ASSERT(memory.ok());
  started.memory = std::move(memory).value();
  if (started.disk == nullptr)
    return true;
  auto opened = started.disk->open(started.clock, *started.memory);
  if (!opened.ok()) {
    started.memory.reset();
    started.disk->end_run(true);
    return false;
  }
  started.log = std::move(opened).value();
  started.local = std::make_unique<mistaken_log>(*started.log, setting_.mistake);
  if (has_tiers_)
    started.cold = std::make_unique<mistaken_cold_store>(*started.log, setting_.mistake);
  return true;
}

void cluster_run::start(size_t index) {
  server &started = *servers_[index];
  TND_ASSERT(!started.is_up);
  if (!open_log(index))
    return;
  started.coordinator = std::make_unique<mistaken_coordinator>(
      store_.open({.request_timeout_ns = 500 * ms, .watch_timeout_ns = 2000 * ms}),
      setting_.mistake);
  started.node.reset(new poold::cluster_node{
      {.member = member_options(index),
       .key = {},
       .dial = [this, index](const std::string &address,
                             uint64_t) { return dial(index, std::stoul(address)); },
       .page_size = 1 + size_t(world_.random.below(5)),
       .sweep_ns = 300 * ms},
      *started.coordinator,
      started.local.get()});
  started.gate =
      std::make_unique<mistaken_gate>(started.node->changes(), setting_.mistake, committed_);
  started.journal =
      std::make_unique<mistaken_journal>(started.node->changes(), setting_.mistake, versions_);
  poold::catalog_options limits;
  limits.clock = &started.clock;
  limits.cold = started.cold.get();
  if (setting_.mistake != cluster_mistake::equal_versions)
    limits.version_tag = started.node->changes().version_tags();
  started.objects =
      std::make_unique<poold::catalog>(*started.memory, started.journal.get(), std::move(limits));
  started.node->attach(*started.objects);
  started.service.reset(
      new poold::service{.memory = *started.memory, .objects = *started.objects, .keys = {}});
  started.service->cluster = started.gate.get();
  started.service->stripe_size = setting_.has_library ? library_stripe_size : 0;
  started.service->limits.turn_size = world_.random.between(1'000, 100'000);
  started.mailbox = std::make_shared<poold::mailbox>();
  started.is_up = true;
  started.reaches_etcd = true;
  started.paused_until_ns = 0;
  started.started_ns = world_.now_ns();
  started.stop_ns = 0;
  bool const is_restored =
      started.log == nullptr || started.log->restore(*started.objects) == status::ok;
  if (!is_restored)
    return crash(index);
  started.node->set_has_objects(started.objects->statistics().object_count > 0);
  started.node->set_has_losses(started.log != nullptr && started.log->has_losses());
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
  demotion_count_ += crashed.objects->statistics().demotions;
  crashed.objects.reset();
  crashed.cold.reset();
  crashed.local.reset();
  crashed.log.reset();
  crashed.memory.reset();
  if (crashed.disk != nullptr)
    crashed.disk->end_run(world_.random.chance(50));
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
    bool const has_ended = candidate.node->has_left() && world_.random.chance(1);
    if ((is_due || has_ended) && !is_needed(i))
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

bool cluster_run::is_up(size_t index) const {
  return servers_[index]->is_up;
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
  return dial_with(
      from,
      to,
      [this, round = uint64_t{0}]() mutable { return ++round < wait_round_max && pump(); },
      std::make_shared<bool>(false));
}

result<std::unique_ptr<seams::stream>> cluster_run::dial_with(size_t from,
                                                              size_t to,
                                                              std::function<bool()> pump,
                                                              std::shared_ptr<bool> is_severed) {
  server &target = *servers_[to];
  auto const cut = cuts_.find(std::minmax(from, to));
  if (!target.is_up || (cut != cuts_.end() && cut->second))
    return status::peer_lost;
  sim::stream_faults faults;
  faults.again_percent = uint32_t(world_.random.below(20));
  faults.chunk_size_max = world_.random.chance(20) ? world_.random.between(1, 500) : 1 << 17;
  faults.window_size = world_.random.between(1'000, 100'000);
  auto [here, there] = sim::stream_pair_create(world_, faults, std::move(pump));
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
  if (pumped.log != nullptr) {
    for (auto const &answer : std::exchange(pumped.local->early, {}))
      answer();
    (void)pumped.log->progress();
  }
  pumped.node->progress();
  need_memory(pumped);
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
// lose acknowledged objects. The map in etcd counts, because servers may not know it yet. A server
// whose lease has ended or is about to end counts as lost: it may be removed from the map before
// the one that crashes.
size_t cluster_run::lost_count() {
  auto const entry = store_.entries().find("/tanada/test/map");
  if (entry == store_.entries().end())
    return server_count_;
  auto const map = poold::decode_map(entry->second.value);
  if (!map.ok())
    return server_count_;
  auto const is_present = [&](const poold::replica &run) {
    auto const presence = store_.entries().find("/tanada/test/servers/" + run.server);
    if (presence == store_.entries().end())
      return false;
    auto const server = poold::decode_presence(presence->second.value);
    return server.ok() && server.value().self == run;
  };
  size_t missing = 0;
  for (uint32_t const number : used_partitions()) {
    size_t up = 0;
    for (const poold::replica &run : map.value().partitions[number].replicas)
      for (auto const &each : servers_)
        up += each->is_up && each->stop_ns == 0 && each->reaches_etcd && each->gate != nullptr &&
              each->node->describe().map != nullptr && each->paused_until_ns <= world_.now_ns() &&
              run == each->node->changes().self() && is_present(run);
    missing = std::max(missing, size_t(copies_) - std::min<size_t>(copies_, up));
  }
  return missing;
}

void cluster_run::disturb() {
  uint64_t const now_ns = world_.now_ns();
  if (now_ns < disturbed_ns_ + 300 * ms || setting_.weather == cluster_weather::fair)
    return;
  disturbed_ns_ = now_ns;
  if (storage_ != cluster_storage::memory && world_.random.chance(50))
    disturb_disks();
  if (lost_fragment_count(true) > scheme_.parity_count)
    fail("an object has lost more fragments than its code allows");
  bool const all =
      setting_.weather == cluster_weather::all || setting_.weather == cluster_weather::fragments;
  if (all && world_.random.chance(10))
    damage_fragment();
  bool const is_calm = now_ns < calm_until_ns_;
  size_t const index = world_.random.below(server_count_),
               other = world_.random.below(server_count_ + actor_count + (library_ ? 1 : 0));
  switch (world_.random.below(8)) {
    case 0:
      if (all || setting_.weather == cluster_weather::crashes) {
        if (!servers_[index]->is_up)
          start(index);
        else if (may_crash(index) && may_lose_fragments()) {
          crash(index);
          calm_until_ns_ = now_ns + 2 * lease_s * 1'000 * ms;
          if (setting_.weather == cluster_weather::fragments &&
              servers_[other % server_count_]->is_up && lost_count() + 1 < copies_ &&
              may_lose_fragments())
            crash(other % server_count_);
        }
      }
      break;
    case 7:
      if ((all || setting_.weather == cluster_weather::stops) && servers_[index]->is_up &&
          servers_[index]->stop_ns == 0 && may_crash(index) && may_lose_fragments())
        stop(index);
      break;
    case 1:
      if (!is_calm && (all || setting_.weather == cluster_weather::pauses))
        pause(index);
      break;
    case 2:
    case 3:
      if ((all || setting_.weather == cluster_weather::cuts) && index != other)
        set_cut(index, other, world_.random.chance(40));
      break;
    case 4:
      if (!is_calm && (all || setting_.weather == cluster_weather::etcd) && servers_[index]->is_up)
        set_etcd(index, world_.random.chance(60));
      break;
    case 5:
      if (all || setting_.weather == cluster_weather::etcd)
        store_.set_down(world_.random.chance(30));
      break;
    case 6:
      if (!servers_[index]->is_up && setting_.weather != cluster_weather::successions)
        start(index);
      break;
    default:
      break;
  }
}

// Whether the server may be lost. In a cluster of disks all may at once.
bool cluster_run::may_crash(size_t index) {
  bool const needs_copies =
      storage_ != cluster_storage::disks || setting_.weather == cluster_weather::stops;
  return needs_copies ? lost_count() + 1 < copies_ : !is_needed(index);
}

// The server has the only copy of something that its disk does not have yet.
bool cluster_run::is_needed(size_t index) {
  const server &candidate = *servers_[index];
  return storage_ == cluster_storage::disks && candidate.is_up &&
         !candidate.log->condition().is_whole && is_sole_copy(index);
}

// The server is the only one in the map for some partition.
bool cluster_run::is_sole_copy(size_t index) {
  auto const entry = store_.entries().find("/tanada/test/map");
  auto const map = entry == store_.entries().end() ? result<poold::cluster_map>{status::no_entry}
                                                   : poold::decode_map(entry->second.value);
  return !map.ok() || std::ranges::any_of(used_partitions(), [&](uint32_t number) {
    auto const &replicas = map.value().partitions[number].replicas;
    return replicas.size() == 1 && replicas[0].server == "s" + std::to_string(index);
  });
}

// The partitions that have objects.
std::vector<uint32_t> cluster_run::used_partitions() const {
  if (library_ != nullptr) {
    std::vector<uint32_t> all(poold::partition_count);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  std::vector<uint32_t> numbers{std::begin(cluster_stripe_partitions),
                                std::end(cluster_stripe_partitions)};
  for (size_t i = 0; i < cluster_namespace_count; i++)
    numbers.push_back(poold::partition_of(space_of(i)));
  return numbers;
}

// The power of all servers fails.
void cluster_run::crash_all() {
  for (size_t i = 0; i < server_count_; i++)
    if (!may_crash(i))
      return;
  for (size_t i = 0; i < server_count_; i++)
    crash(i);
  outage_count_++;
}

// The server starts again with an empty disk, or one with a damaged block.
void cluster_run::spoil_disk(size_t index, bool is_replaced) {
  server &target = *servers_[index];
  if (target.disk == nullptr || lost_count() + 1 >= copies_)
    return;
  crash(index);
  if (is_replaced)
    target.disk = std::make_unique<cluster_disk>(world_, has_tiers_);
  else if (target.disk->damage())
    damage_count_++;
  calm_until_ns_ = world_.now_ns() + 2 * lease_s * 1'000 * ms;
}

void cluster_run::disturb_disks() {
  size_t const index = world_.random.below(server_count_);
  cluster_disk *const disk = servers_[index]->disk.get();
  bool const has_outages =
      storage_ == cluster_storage::disks &&
      (has_weather(cluster_weather::restarts) || setting_.weather == cluster_weather::disks);
  bool const has_faults = disk != nullptr && has_weather(cluster_weather::disks);
  may_read_errors_ = may_read_errors_ || has_faults;
  switch (world_.random.below(4)) {
    case 0:
      if (has_outages)
        crash_all();
      break;
    case 1:
      if (has_faults)
        disk->draw_faults();
      break;
    case 2:
      if (has_faults)
        disk->heal();
      break;
    default:
      if (has_faults)
        spoil_disk(index, world_.random.chance(50));
      break;
  }
}

void cluster_run::heal() {
  store_.faults = {};
  store_.set_down(false);
  cuts_.clear();
  for (size_t i = 0; i < server_count_; i++) {
    servers_[i]->paused_until_ns = 0;
    if (servers_[i]->disk != nullptr)
      servers_[i]->disk->heal();
    set_etcd(i, true);
  }
  restart_ended();
}

// Servers that are stopped end, and start again like all others.
void cluster_run::restart_ended() {
  for (size_t i = 0; i < server_count_; i++) {
    bool const is_stopping = servers_[i]->is_up && servers_[i]->stop_ns != 0;
    if (is_stopping && !is_needed(i))
      crash(i);
    if (!servers_[i]->is_up)
      start(i);
  }
}

void cluster_run::set_etcd(size_t index, bool is_reachable) {
  if (!servers_[index]->is_up)
    return;
  servers_[index]->reaches_etcd = is_reachable;
  store_.set_reachable(servers_[index]->coordinator->inner(), is_reachable);
}

// ---- the run

std::string cluster_run::run(uint32_t step_count) {
  while (step_count_ < step_count && failure_.empty()) {
    step();
    use_library();
  }
  is_settling_ = true;
  if (failure_.empty())
    fail(settle());
  drop_clients();
  if (failure_.empty() && versions_.repeated != 0)
    fail("version " + std::to_string(versions_.repeated) + " was assigned twice");
  if (failure_.empty())
    fail(check(history_, {.has_atomic_lists = true}));
  world_.note(history_.operations().size());
  return failure_;
}

bool cluster_run::step() {
  step_count_++;
  bool const may_go_on = pump();
  end_stops();
  disturb();
  play();
  for (size_t index = 0; index < actors_.size(); index++)
    if (world_.random.chance(50))
      act(index);
  return may_go_on && failure_.empty();
}

// Without faults, the cluster must come to rest: every partition has all copies, and they are
// equal. Each client reads every name once more. A cluster of disks has another outage before that,
// so that only what the disks have counts.
std::string cluster_run::settle() {
  std::string difference = come_to_rest();
  if (difference.empty() && storage_ == cluster_storage::disks) {
    for (size_t i = 0; i < server_count_; i++)
      crash(i);
    difference = come_to_rest();
  }
  if (!difference.empty())
    return "the cluster does not come to rest: " + difference;
  read_all();
  return {};
}

// Empty: the cluster is as it should be. Otherwise what is wrong with it.
std::string cluster_run::come_to_rest() {
  heal();
  drop_clients();
  std::string difference = "never looked";
  uint64_t const round_max =
      setting_.mistake < cluster_mistake::swept_fragment ? settle_round_max : mistaken_round_max;
  for (uint64_t round = 0; round < round_max; round++) {
    pump();
    if (round % 200 != 199)
      continue;
    restart_ended();
    difference = compare_copies();
    if (difference.empty())
      difference = find_garbage();
    if (difference.empty())
      difference = find_lost_fragments();
    if (difference.empty())
      break;
  }
  return difference;
}

void cluster_run::read_all() {
  for (int i = 0; i < 4'000; i++) {
    pump();
    size_t const index = world_.random.below(actors_.size());
    actor &client = actors_[index];
    if (client.channel != nullptr)
      (void)client.channel->progress(0);
    for (auto &[partition, link] : client.links)
      if (link.channel != nullptr)
        (void)link.channel->progress(0);
    advance_striped(index);
    if (connect(index) && client.outstanding < cluster_outstanding_max && world_.random.chance(20))
      get(index);
  }
  for (int i = 0; i < 20 && library_ != nullptr && failure_.empty(); i++)
    library_get();
}

// Empty: each stripe belongs to an object that has a name.
std::string cluster_run::find_garbage() {
  std::set<poold::striped_key> present;
  for (auto const &each : servers_)
    (void)each->objects->visit_objects(
        [](const std::string &name) { return !is_hidden_namespace(name); },
        {},
        SIZE_MAX,
        [&](const poold::catalog::object_place &place, const poold::object_ref &object) {
          if (object->striped != nullptr)
            present.emplace(place.namespace_name, object->striped->id());
          return true;
        });
  std::string garbage;
  for (auto const &each : servers_)
    (void)each->objects->visit_objects(
        is_hidden_namespace,
        {},
        SIZE_MAX,
        [&](const poold::catalog::object_place &place, const poold::object_ref &) {
          auto const owner = hidden_space_owner(place.namespace_name);
          auto const id = stripe_name_parse(place.name);
          bool const is_used = owner && id && present.contains({*owner, *id});
          if (!is_used)
            garbage = "stripe " + place.name + " has no object";
          return true;
        });
  return garbage;
}

namespace {

using copy_entry = std::tuple<std::string, std::string, uint64_t, size_t>;

std::string difference_of(const std::vector<copy_entry> &lhs, const std::vector<copy_entry> &rhs) {
  std::string text = ": " + std::to_string(lhs.size()) + " and " + std::to_string(rhs.size());
  std::vector<copy_entry> only;
  std::set_symmetric_difference(
      lhs.begin(), lhs.end(), rhs.begin(), rhs.end(), std::back_inserter(only));
  for (auto const &[space, name, version, size] : only)
    text += ", " + space + "/" + name + " version " + std::to_string(version) + " of " +
            std::to_string(size);
  return text;
}

}  // namespace

// Empty: all servers have the same map, every partition has its copies, and they are equal.
std::string cluster_run::compare_copies() {
  for (auto const &each : servers_)
    if (!each->is_up)
      return "a server does not start";
  for (auto const &each : servers_)
    if (each->log != nullptr && !each->log->condition().is_whole)
      return "a log lacks changes";
  auto const map = servers_[0]->node->describe().map;
  for (auto const &each : servers_)
    if (map == nullptr || each->node->describe().map == nullptr ||
        *each->node->describe().map != *map)
      return "servers have different maps";
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
    std::optional<std::vector<copy_entry>> first;
    for (const poold::replica &run : partition.replicas) {
      auto const owner = std::ranges::find_if(
          servers_, [&](auto const &each) { return each->node->changes().self() == run; });
      if (owner == servers_.end())
        return "partition " + std::to_string(i) + " is at a server that does not run";
      if (&run == &partition.replicas.front() &&
          (*owner)->node->changes().check_serving(i) != status::ok)
        return "the primary of partition " + std::to_string(i) + " does not serve";
      std::vector<copy_entry> names;
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
        return "copies of partition " + std::to_string(i) + " differ" +
               difference_of(*first, names);
      first = std::move(names);
    }
  }
  return {};
}

}  // namespace tanada::test
