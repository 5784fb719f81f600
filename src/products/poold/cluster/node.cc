// A daemon's part in a cluster, and the threads that do it.
#include "products/poold/cluster/node.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t wait_max_ns = 100'000'000;
constexpr size_t purge_count_max = 1000, rewrite_count_max = 10'000;
constexpr uint64_t rewrite_pause_ns_min = 20'000'000, rewrite_pause_ns_max = 2'000'000'000;
constexpr int link_wait_max_ms = 50;
constexpr uint64_t link_serve_ns = 200'000;  // between two looks at the connection
constexpr uint64_t leave_poll_ns = 1'000'000;
constexpr uint64_t revocation_ns_max = 500'000'000;
constexpr int answer_wait_ms = 1, sweep_wait_ms = 200;
constexpr uint64_t link_connection_word = 1, link_wake_word = 0;

}  // namespace

cluster_node::cluster_node(options settings, seams::coordinator &store, journal *local)
    : options_{std::move(settings)},
      store_{store},
      changes_{make_changes(local)},
      membership_{store,
                  options_.member,
                  [this](cluster_map &candidate) {
                    return changes_.edit_map(candidate, membership_.present());
                  },
                  [this] {
                    is_changed_ = true;
                  }} {}

// Requests of sessions are passed to the cluster's thread.
replication::options cluster_node::make_changes(journal *local) {
  return {.self = options_.member.self.self,
          .local = local,
          .clock = options_.member.clock,
          .repair_bandwidth = options_.repair_bandwidth,
          .lease_end_ns = [this] { return membership_.lease_end_ns(); },
          .wake = [this] { wake(); },
          .silence_ns = [this] { return membership_.silence_ns(); },
          .protocol = [this] { return membership_.protocol(); },
          .drain =
              [this](auto const &server, bool is_draining, auto done) {
                post([this, server, is_draining, done = std::move(done)] {
                  membership_.set_draining(server, is_draining, done);
                });
              },
          .administer =
              [this](membership::administration request) {
                post([this, request = std::move(request)] { membership_.administer(request); });
              },
          .set_erasure =
              [this](auto const &setting, auto done) {
                post([this, setting, done = std::move(done)] {
                  membership_.set_erasure(setting.namespace_name, setting.scheme, done);
                });
              },
          .build = [this](auto const &request,
                          auto done) { return build_fragment(request, std::move(done)); },
          .sweep_ns = options_.sweep_ns};
}

bool cluster_node::build_fragment(const wire::pool::fragment_build_request &request,
                                  std::function<void(status)> done) {
  bool const is_added = builder_->add(request, std::move(done));
  sweeper_waker_.wake();
  return is_added;
}

cluster_node::~cluster_node() {
  stop();
  if (striped_ != nullptr)
    striped_->set_wake({});
}

void cluster_node::attach(catalog &objects) {
  objects_ = &objects;
  seams::clock *const clock = options_.member.clock;
  channels_ = std::make_unique<peer_channels>(peer_channels::options{
      .key = options_.key, .dial = options_.dial, .clock = clock, .version = [this] {
        return membership_.protocol();
      }});
  sweeper_ = std::make_unique<stripe_sweeper>(
      stripe_sweeper::options{.address = options_.member.self.address,
                              .clock = clock,
                              .period_ns = options_.sweep_ns,
                              .page_size = options_.page_size},
      *channels_,
      changes_,
      objects);
  reporter_ = std::make_unique<fragment_reporter>(
      fragment_reporter::options{
          .clock = clock, .period_ns = options_.sweep_ns, .page_size = options_.page_size},
      *channels_,
      changes_,
      objects);
  repairer_ = std::make_unique<fragment_repairer>(
      fragment_repairer::options{
          .clock = clock, .period_ns = options_.sweep_ns, .page_size = options_.page_size},
      *channels_,
      changes_,
      objects);
  builder_ = std::make_unique<fragment_builder>(
      fragment_builder::options{.clock = clock}, *channels_, objects, changes_.budget());
  striped_ = objects.striped();
  striped_->set_wake([this] { sweeper_waker_.wake(); });
}

// Anything that waits looks again.
void cluster_node::wake() {
  if (!is_threaded_.load())
    return;
  store_.wake();
  lock_guard lock{mutex_};
  for (auto &[server, entry] : links_)
    entry->waker.wake();
}

// ---- the cluster's thread

// A change of the map takes effect between two changes of the catalog.
void cluster_node::apply_changes() {
  TND_ASSERT(objects_ != nullptr);
  if (!std::exchange(is_changed_, false))
    return membership_.confirm_applied();
  auto const map = membership_.map();
  changes_.set_known(membership_.known());
  changes_.set_fragments(membership_.schemes(), membership_.fragment_counts());
  changes_.set_outdated(membership_.describe_outdated());
  objects_->exclude_changes([&] { changes_.apply_map(map, membership_.present()); });
  {
    lock_guard lock{mutex_};
    log_servers(membership_.present());
    present_ = membership_.present();
  }
  update_links();
  may_purge_ = map != nullptr;
}

// Remove objects of partitions that this server does not hold any more, a bounded number at a time.
void cluster_node::purge_some() {
  if (!may_purge_ || membership_.lease_end_ns() <= options_.member.clock->now_ns())
    return;
  std::map<std::string, std::vector<change>> removals;  // by namespace
  may_purge_ = objects_->visit_objects(
      [this](const std::string &name) { return !changes_.holds(partition_of(name)); },
      {},
      purge_count_max,
      [&](const catalog::object_place &place, const object_ref &object) {
        removals[place.namespace_name].push_back(
            make_change(change::kind::remove, *object, place.namespace_name, place.name));
        return true;
      });
  for (auto &[name, changes] : removals) {
    uint64_t const namespace_id = objects_->hold_namespace(name);
    auto const check = [this, partition = partition_of(name)] {
      return changes_.holds(partition) ? status::again : status::ok;
    };
    (void)objects_->apply(namespace_id, check, std::move(changes), {});
    objects_->close_namespace(namespace_id, true, 0);
  }
}

// Write again what the log has failed to write, less often as long as it fails.
void cluster_node::rewrite_some() {
  journal *const local = changes_.local();
  uint64_t const now_ns = options_.member.clock->now_ns();
  if (local == nullptr || local->condition().is_whole) {
    rewrite_pause_ns_ = rewrite_pause_ns_min;
    return;
  }
  if (now_ns < rewrite_ns_ || is_rewriting_->exchange(true))
    return;
  rewrite_ns_ = now_ns + rewrite_pause_ns_;
  rewrite_pause_ns_ = std::min(2 * rewrite_pause_ns_, rewrite_pause_ns_max);
  auto const places = local->unwritten_places(rewrite_count_max);
  objects_->rewrite(places, {[is_busy = is_rewriting_](status) { is_busy->store(false); }, false});
}

void cluster_node::update_links() {
  auto const wanted = changes_.wanted_links();
  std::vector<std::unique_ptr<link_entry>> ended;
  {
    lock_guard lock{mutex_};
    for (auto it = links_.begin(); it != links_.end();) {
      auto const position = std::find(wanted.begin(), wanted.end(), it->second->link->peer());
      bool const stays = position != wanted.end();
      if (!stays)
        ended.push_back(std::move(it->second));
      it = stays ? std::next(it) : links_.erase(it);
    }
  }
  for (auto &entry : ended)
    end_link(*entry);
  for (const replica &peer : wanted)
    for (const server_presence &server : membership_.present())
      if (server.self == peer)
        begin_link(server);
}

void cluster_node::begin_link(const server_presence &server) {
  lock_guard lock{mutex_};
  if (links_.contains(server.self.server))
    return;
  auto entry = std::make_unique<link_entry>();
  auto const dial = [this, address = server.address](uint64_t deadline_ns) {
    return options_.dial(address, deadline_ns);
  };
  entry->link =
      std::make_unique<replica_link>(replica_link::options{.peer = server.self,
                                                           .key = options_.key,
                                                           .dial = dial,
                                                           .clock = options_.member.clock,
                                                           .page_size = options_.page_size,
                                                           .fabric = options_.fabric,
                                                           .version =
                                                               [this] {
                                                                 return membership_.protocol();
                                                               }},
                                     changes_,
                                     *objects_);
  if (is_threaded_.load())
    entry->thread = std::thread{[this, target = entry.get()] {
      run_link(*target);
    }};
  links_[server.self.server] = std::move(entry);
}

void cluster_node::end_link(link_entry &entry) {
  entry.is_ending.store(true);
  entry.waker.wake();
  if (entry.thread.joinable())
    entry.thread.join();
  entry.link.reset();
}

void cluster_node::post(std::function<void()> task) {
  {
    lock_guard lock{mutex_};
    tasks_.push_back(std::move(task));
  }
  wake();
}

void cluster_node::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    lock_guard lock{mutex_};
    tasks.swap(tasks_);
  }
  for (auto const &task : tasks)
    task();
}

void cluster_node::log_servers(const std::vector<server_presence> &present) {
  auto const has_run = [](const std::vector<server_presence> &list, const replica &run) {
    return std::any_of(
        list.begin(), list.end(), [&](auto const &entry) { return entry.self == run; });
  };
  for (const server_presence &server : present)
    if (!has_run(present_, server.self))
      log(log_level::info, "pool: server {} is in the cluster", server.self.server);
  for (const server_presence &server : present_)
    if (!has_run(present, server.self))
      log(log_level::warning,
          "pool: server {} is not in the cluster any more: it has left, or its lease has ended",
          server.self.server);
}

void cluster_node::progress() {
  if (std::exchange(is_progressing_, true))
    return;
  run_tasks();
  membership_.set_fragment_count({reporter_->held_count(), repairer_->missing_count()});
  membership_.progress();
  apply_changes();
  purge_some();
  rewrite_some();
  if (changes_.progress())
    membership_.propose();
  if (is_leaving_.load() && changes_.close())
    membership_.begin_leaving();
  if (!is_threaded_.load()) {
    std::vector<link_entry *> entries;
    {
      lock_guard lock{mutex_};
      for (auto &[server, entry] : links_)
        entries.push_back(entry.get());
    }
    for (link_entry *const entry : entries)
      (void)entry->link->progress();
    (void)sweep();
  }
  is_progressing_ = false;
}

// True: answers are outstanding.
bool cluster_node::sweep() {
  channels_->progress();
  bool is_waiting = sweeper_->progress();
  is_waiting |= reporter_->progress();
  is_waiting |= repairer_->progress();
  is_waiting |= builder_->progress();
  return is_waiting;
}

void cluster_node::run() {
  while (!is_stopping_.load()) {
    progress();
    uint64_t const now_ns = options_.member.clock->now_ns();
    uint64_t const due_ns = std::min(membership_.due_ns(), now_ns + wait_max_ns);
    if (due_ns > now_ns)
      (void)store_.wait(due_ns);
  }
}

// Waits for the connection, for changes to be sent, and now and then for the time of a retry.
void cluster_node::run_link(link_entry &entry) {
  seams::poller poller;
  if (poller.ready() != status::ok ||
      poller.add(entry.waker.descriptor(), link_wake_word, {.to_receive = true}) != status::ok) {
    log(log_level::error, "pool: no descriptor is left for a link to another server");
    return;
  }
  uint64_t watched_count = 0;
  uint64_t words[4];
  while (!entry.is_ending.load()) {
    entry.waker.clear();
    bool const is_busy = entry.link->progress();
    int const descriptor = entry.link->descriptor();
    seams::interest const interest{true, entry.link->has_output()};
    bool const is_new = std::exchange(watched_count, entry.link->connection_count()) !=
                        entry.link->connection_count();
    if (descriptor >= 0 && is_new)
      (void)poller.add(descriptor, link_connection_word, interest);
    else if (descriptor >= 0)
      poller.change(descriptor, link_connection_word, interest);
    bool const is_serving = !is_busy && entry.link->needs_service();
    if (is_serving)
      entry.link->serve_peer(seams::monotonic_clock().now_ns() + link_serve_ns);
    if (!is_busy)
      (void)poller.wait(words, is_serving ? 0 : link_wait_max_ms);
  }
}

void cluster_node::run_sweeper() {
  seams::poller poller;
  if (poller.ready() != status::ok ||
      poller.add(sweeper_waker_.descriptor(), link_wake_word, {.to_receive = true}) != status::ok) {
    log(log_level::error, "pool: no descriptor is left for the removal of stripes");
    return;
  }
  uint64_t words[4];
  while (!is_stopping_.load()) {
    sweeper_waker_.clear();
    bool const is_waiting = sweep();
    (void)poller.wait(words, is_waiting ? answer_wait_ms : sweep_wait_ms);
  }
}

void cluster_node::start() {
  TND_ASSERT(objects_ != nullptr && !is_threaded_.load());
  is_threaded_.store(true);
  sweeper_thread_ = std::thread{[this] {
    run_sweeper();
  }};
  thread_ = std::thread{[this] {
    run();
  }};
}

// An earlier run of this server may be present for a lease. That is no reason to fail.
status cluster_node::await_map(uint64_t timeout_ns) {
  TND_ASSERT(is_threaded_.load());
  seams::clock &clock = *options_.member.clock;
  uint64_t const deadline_ns = seams::deadline_after(clock.now_ns(), timeout_ns);
  while (clock.now_ns() < deadline_ns) {
    if (auto const refusal = membership_.refusal(); refusal != nullptr)
      return fail(status::invalid, "{}", *refusal);
    if (membership_.map() != nullptr)
      return status::ok;
    clock.sleep_ns(leave_poll_ns);
  }
  if (membership_.has_answer())
    return status::ok;
  return fail(status::timed_out,
              "etcd did not answer within {:.3g} s: see whether it runs at the addresses that "
              "--cluster gives",
              double(timeout_ns) / 1e9);
}

bool cluster_node::leave(uint64_t timeout_ns) {
  TND_ASSERT(is_threaded_.load());
  seams::clock &clock = *options_.member.clock;
  uint64_t const begin_ns = clock.now_ns();
  uint64_t const deadline_ns = seams::deadline_after(begin_ns, timeout_ns);
  begin_leaving();
  store_.wake();
  // Without a lease, nothing is served that others could wait for.
  while (!has_left() && clock.now_ns() < std::min(deadline_ns, membership_.lease_end_ns()))
    clock.sleep_ns(leave_poll_ns);
  double const waited_s = double(clock.now_ns() - begin_ns) / 1e9;
  if (has_left())
    log(log_level::info, "pool: left the cluster after {:.3f} s", waited_s);
  else
    log(log_level::warning,
        "pool: could not leave the cluster within {:.3f} s: what this server served stands still "
        "until its lease in etcd has ended",
        waited_s);
  return has_left();
}

void cluster_node::stop() {
  if (is_stopping_.exchange(true))
    return;
  store_.wake();
  sweeper_waker_.wake();
  if (sweeper_thread_.joinable())
    sweeper_thread_.join();
  if (thread_.joinable())
    thread_.join();
  if (channels_ != nullptr) {
    channels_->close();
    builder_->close();
  }
  std::map<std::string, std::unique_ptr<link_entry>> links;
  {
    lock_guard lock{mutex_};
    links.swap(links_);
  }
  for (auto &[server, entry] : links)
    end_link(*entry);
  bool const had_left = has_left();
  membership_.leave();
  // Others would wait for the end of the lease.
  uint64_t const deadline_ns = options_.member.clock->now_ns() + revocation_ns_max;
  while (!had_left && is_threaded_.load() && !has_left() &&
         options_.member.clock->now_ns() < deadline_ns) {
    (void)store_.wait(deadline_ns);
    (void)store_.progress();
  }
}

cluster_node::view cluster_node::describe() const {
  uint64_t const now_ns = options_.member.clock->now_ns(), end_ns = membership_.lease_end_ns();
  lock_guard lock{mutex_};
  return {membership_.map(), present_, end_ns > now_ns ? end_ns - now_ns : 0};
}

}  // namespace tanada::poold
