// A link to another server of the cluster: its connection, the changes it carries, and the
// comparison that brings the other server up to date.
#include "products/poold/cluster/link.hpp"

#include <tanada/status.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::poold {

using namespace wire::pool;

namespace {

constexpr uint64_t compare_retry_ns = 20'000'000;
constexpr uint64_t report_period_ns = 20'000'000;

}  // namespace

replica_link::replica_link(options settings, replication &changes, catalog &objects)
    : options_{std::move(settings)}, changes_{changes}, objects_{objects} {
  TND_ASSERT(options_.dial && options_.page_size > 0);
}

replica_link::~replica_link() {
  if (channel_ != nullptr)
    drop(nullptr, status::canceled);
}

int replica_link::descriptor() const {
  return channel_ == nullptr || channel_->is_broken() ? -1 : channel_->connection().descriptor();
}

bool replica_link::progress() {
  if (channel_ == nullptr)
    return connect();
  status const code = channel_->progress(0);
  if (channel_->is_broken() || failure_ != status::ok) {
    drop(channel_->is_broken() ? "the connection has ended" : "a request was refused",
         channel_->is_broken() ? code : failure_);
    return true;
  }
  bool const has_sent = send_batches();
  bool const has_advanced = advance_sync();
  if (!has_sent && !has_advanced)
    report_settled();
  return has_sent || has_advanced;
}

bool replica_link::connect() {
  uint64_t const now_ns = options_.clock->now_ns();
  if (now_ns < retry_ns_)
    return false;
  retry_ns_ = now_ns + reconnect_ns_;
  reconnect_ns_ = std::min(2 * reconnect_ns_, reconnect_ns_max);
  uint64_t const deadline_ns =
      seams::deadline_after(seams::monotonic_clock().now_ns(), options_.connect_timeout_ns);
  auto connection = options_.dial(deadline_ns);
  if (!connection.ok()) {
    changes_.report_problem(options_.peer, "it cannot be reached");
    return false;
  }
  auto opened = pool::channel::open(std::move(connection).value(),
                                    {},
                                    options_.key ? &*options_.key : nullptr,
                                    deadline_ns,
                                    false,
                                    options_.version());
  if (!opened.ok()) {
    bool const is_key = opened.error() == status::access;
    changes_.report_problem(options_.peer,
                            is_key ? "its key is not that of this server: all servers need the "
                                     "same key for all namespaces"
                                   : last_message());
    return false;
  }
  changes_.report_problem(options_.peer, {});
  channel_ = std::move(opened).value();
  connection_count_++;
  reconnect_ns_ = reconnect_ns_min;
  join_fabric();
  return true;
}

// Without a fabric, the connection carries all bytes.
void replica_link::join_fabric() {
  bool const may_join = !options_.fabric.provider.empty() &&
                        fabric_failure_count_ < fabric_failure_count_max &&
                        channel_->version() >= replica_fetch_version;
  if (!may_join)
    return;
  uint64_t const deadline_ns =
      seams::deadline_after(seams::monotonic_clock().now_ns(), options_.connect_timeout_ns);
  auto joined = link_fabric::join(*channel_, options_.fabric, deadline_ns);
  if (joined.ok()) {
    fabric_ = std::move(joined).value();
    log(log_level::info,
        "pool: copies to {} go over {}",
        options_.peer.server,
        options_.fabric.provider);
    return;
  }
  fabric_failure_count_++;
  log(log_level::warning,
      "pool: copies to {} go over TCP, not over {}: {}",
      options_.peer.server,
      options_.fabric.provider,
      last_message());
}

// The peer is brought up to date again after the next connect.
void replica_link::drop(const char *reason, status code) {
  if (reason != nullptr)
    log(log_level::warning,
        "pool: link to {}: {} ({}); it connects again",
        options_.peer.server,
        reason,
        tnd_status_name(tnd_status(code)));
  step_ = step::idle;
  awaits_reply_ = false;
  failure_ = status::ok;
  waiting_mark_.reset();
  loading_.reset();
  loads_.clear();
  remote_.clear();
  changes_.detach_all(options_.peer);
  auto const ended = std::exchange(channel_, nullptr);
  if (ended != nullptr)
    ended->end(status::canceled);  // its handlers are called, and only release what they hold
  fabric_.reset();
  outstanding_count_ = 0;
  outstanding_size_ = 0;
  retry_ns_ = options_.clock->now_ns() + reconnect_ns_;
}

// ---- changes

bool replica_link::has_room() const {
  return outstanding_count_ < options_.outstanding_count_max &&
         outstanding_size_ < options_.outstanding_size_max;
}

bool replica_link::send_batches() {
  bool has_sent = false;
  while (channel_ != nullptr && has_room()) {
    if (waiting_mark_ != nullptr && outstanding_count_ > 0)
      break;
    if (waiting_mark_ != nullptr) {
      send_mark();
      has_sent = true;
    }
    if (loading_ == nullptr && !load_batch())
      break;
    if (!is_batch_loaded())
      break;
    send_batch(std::exchange(loading_, nullptr));
    loads_.clear();
    has_sent = true;
  }
  if (has_sent && channel_ != nullptr)
    (void)channel_->progress(0);
  return has_sent;
}

// Take the next batch, and start to read the cold objects in it. False: the queue is empty.
bool replica_link::load_batch() {
  auto batch = std::make_shared<replica_batch>();
  if (!changes_.take_batch(options_.peer, *batch))
    return false;
  loads_.clear();
  for (size_t i = 0; i < batch->changes.size(); i++) {
    const change &update = batch->changes[i];
    if (update.type != change::kind::put || !update.object->is_cold())
      continue;
    TND_ASSERT(update.reader != nullptr);
    uint64_t const size = update.object->metadata.size;
    loaded_bytes &added = loads_[i];
    added.bytes = std::make_shared_for_overwrite<std::byte[]>(size);
    added.load =
        std::make_shared<cold_load>(update.reader,
                                    cold_load::target{{{added.bytes.get(), size}}, added.bytes},
                                    [&changes = changes_] { changes.wake_links(); });
    added.load->start();
  }
  loading_ = std::move(batch);
  return true;
}

// Whether all bytes of the next batch are there. Fails the link if some cannot be read: the next
// comparison leaves out objects that are damaged.
bool replica_link::is_batch_loaded() {
  bool const is_done = std::all_of(
      loads_.begin(), loads_.end(), [](auto const &entry) { return entry.second.load->is_done(); });
  if (!is_done)
    return false;
  for (auto const &[index, loaded] : loads_) {
    object &source = *loading_->changes[index].object;
    status const code = check_loaded(*loaded.load, source, loaded.bytes.get());
    if (code == status::ok)
      continue;
    failure_ = status::io;
    if (code != status::io && !source.is_damaged.exchange(true))
      log(log_level::error,
          "pool: {}/{} is damaged in the log ({}) and not copied to {}",
          loading_->changes[index].namespace_name,
          loading_->changes[index].name,
          tnd_status_name(tnd_status(code)),
          options_.peer.server);
    return false;
  }
  return true;
}

status replica_link::check_loaded(const cold_load &load,
                                  const object &source,
                                  const std::byte *bytes) {
  TND_TRY(load.outcome());
  logged_checksum const expected = load.checksum();
  pool::checksum sum{expected.kind};
  sum.add(bytes, source.metadata.size);
  return expected.matches(sum) ? status::ok : status::corrupt;
}

void replica_link::send_batch(std::shared_ptr<replica_batch> batch) {
  for (size_t i = 0; i < batch->changes.size(); i++)
    send_change(batch, i);
  if (batch->changes.empty())
    waiting_mark_ = std::move(batch);
}

// The peer has acknowledged everything before the mark.
void replica_link::send_mark() {
  TND_ASSERT(waiting_mark_ != nullptr && outstanding_count_ == 0);
  auto const batch = std::exchange(waiting_mark_, nullptr);
  outstanding_count_++;
  channel_->post(
      kind::replica_mark,
      replica_position{{batch->partition, batch->term}, batch->position},
      {},
      {},
      [this, batch](const pool::reply &received) { finish_request(batch, true, received.code); });
}

void replica_link::send_change(const std::shared_ptr<replica_batch> &batch, size_t index) {
  const change &sent = batch->changes[index];
  replica_apply_request request = make_request(*batch, index);
  std::vector<iovec> parts;
  std::shared_ptr<std::byte[]> loaded;
  uint64_t const size = request.object_info.size;
  if (auto const it = loads_.find(index); it != loads_.end()) {
    loaded = it->second.bytes;
    parts.push_back({loaded.get(), size});
  } else if (sent.type == change::kind::put) {
    sent.object->append_parts(0, size, parts);
  }
  outstanding_count_++;
  outstanding_size_ += size;
  auto const finish = [this, batch, size, loaded, is_last = request.is_last != 0](status code) {
    if (channel_ != nullptr)
      outstanding_size_ -= size;
    finish_request(batch, is_last, code);
  };
  if (fetch_change(request, parts, finish))
    return;
  channel_->post(
      kind::replica_apply, request, std::move(parts), {}, [finish](const pool::reply &received) {
        finish(received.code);
      });
}

// Let the peer read the bytes of a large object over the fabric. False: they have to be sent.
bool replica_link::fetch_change(const replica_apply_request &request,
                                std::span<const iovec> parts,
                                const std::function<void(status)> &finish) {
  if (fabric_ == nullptr || request.object_info.size < options_.fabric_size_min)
    return false;
  std::shared_ptr<link_fabric::exposure> const exposed = fabric_->expose(parts);
  if (exposed == nullptr)
    return false;
  channel_->post(kind::replica_fetch,
                 replica_fetch_request{request, exposed->parts()},
                 {},
                 {},
                 [this, exposed, finish](const pool::reply &received) {
                   exposed->end();
                   bool const is_fabric =
                       received.code == status::peer_lost || received.code == status::access;
                   if (channel_ != nullptr && received.code == status::ok)
                     fabric_failure_count_ = 0;
                   else if (channel_ != nullptr && is_fabric)
                     fabric_failure_count_++;
                   finish(received.code);
                 });
  return true;
}

replica_apply_request replica_link::make_request(const replica_batch &batch, size_t index) const {
  const change &sent = batch.changes[index];
  replica_apply_request request;
  request.place = {batch.partition, batch.term};
  request.type = uint8_t(sent.type);
  request.is_last = index + 1 == batch.changes.size() ? 1 : 0;
  request.wants_disk = batch.wants_disk ? 1 : 0;
  request.namespace_name = sent.namespace_name;
  request.name = sent.name;
  request.old_name = sent.old_name;
  request.flags = sent.flags;
  request.position = batch.position;
  request.settled = changes_.settled_position(batch.partition);
  TND_ASSERT(sent.type != change::kind::put || sent.object != nullptr);
  if (sent.type == change::kind::put)
    request.object_info = sent.object->metadata;
  return request;
}

void replica_link::finish_request(const std::shared_ptr<replica_batch> &batch,
                                  bool is_last,
                                  status code) {
  if (channel_ == nullptr)
    return;  // the link is being dropped
  TND_ASSERT(outstanding_count_ > 0);
  outstanding_count_--;
  bool const is_mark = batch->changes.empty();
  if (code == status::no_space || code == status::io) {
    changes_.report_refused(options_.peer, *batch, code);
    if (batch->partition == target_.partition && step_ != step::idle && step_ != step::beginning)
      step_ = awaits_reply_ ? step_ : step::idle;
    return;
  }
  if (code != status::ok) {
    failure_ = code;
    return;
  }
  if (is_last)
    changes_.acknowledge(options_.peer, *batch, is_mark);
  bool const ends_sync = is_mark && step_ == step::marking &&
                         batch->partition == target_.partition && batch->term == target_.term;
  if (ends_sync)
    step_ = step::idle;
}

// Backups show only what is settled. A change carries the position as well, so this is for those
// that no change follows.
void replica_link::report_settled() {
  uint64_t const now_ns = options_.clock->now_ns();
  if (channel_ == nullptr || channel_->is_broken() || now_ns < report_ns_)
    return;
  report_ns_ = now_ns + report_period_ns;
  for (const replica_position &settled : changes_.take_settled(options_.peer))
    channel_->post(kind::replica_settled, settled, {}, {}, {});
  (void)channel_->progress(0);
}

// Lets copies that the map is to give up begin anew, so that nobody reads them any more.
bool replica_link::release_some() {
  auto const targets = changes_.to_release(options_.peer);
  if (targets.empty())
    return false;
  target_ = targets.front();
  step_ = step::beginning;
  awaits_reply_ = true;
  channel_->post(kind::replica_begin, place(), {}, {}, [this](const pool::reply &received) {
    if (channel_ == nullptr)
      return;
    awaits_reply_ = false;
    step_ = step::idle;
    // The peer may know of a new term.
    if (received.code == status::ok)
      changes_.finish_release(options_.peer, target_);
    else
      sync_retry_ns_ = options_.clock->now_ns() + compare_retry_ns;
  });
  (void)channel_->progress(0);
  return true;
}

// ---- bringing the peer up to date

bool replica_link::advance_sync() {
  bool const is_usable =
      channel_ != nullptr && !channel_->is_broken() && failure_ == status::ok && !awaits_reply_;
  if (!is_usable)
    return false;
  bool const compares = step_ == step::comparing || step_ == step::removing;
  bool const has_to_wait = compares && !changes_.may_repair(options_.peer, target_.partition);
  switch (step_) {
    case step::idle:
      begin_sync();
      return step_ != step::idle;
    case step::beginning:
    case step::marking:
      return false;
    case step::listing:
      request_list();
      return true;
    case step::comparing:
      if (!has_to_wait)
        compare_page();
      return !has_to_wait;
    case step::removing:
      if (!has_to_wait)
        remove_page();
      return !has_to_wait;
  }
  return false;
}

void replica_link::begin_sync() {
  if (options_.clock->now_ns() < sync_retry_ns_)
    return;
  auto const targets = changes_.detached(options_.peer);
  if (targets.empty()) {
    (void)release_some();
    return;
  }
  target_ = targets.front();
  step_ = step::beginning;
  awaits_reply_ = true;
  channel_->post(kind::replica_begin, place(), {}, {}, [this](const pool::reply &received) {
    if (channel_ != nullptr)
      finish_begin(received.code);
  });
  (void)channel_->progress(0);
}

// From the moment that the link is attached, it carries the partition's changes, before the
// comparison reads the names. So each name's last state is sent last.
void replica_link::finish_begin(status code) {
  awaits_reply_ = false;
  step_ = step::idle;
  if (code != status::ok || !changes_.attach(options_.peer, target_)) {
    sync_retry_ns_ = options_.clock->now_ns() + compare_retry_ns;
    return;
  }
  remote_.clear();
  position_ = {};
  step_ = step::listing;
}

void replica_link::request_list() {
  awaits_reply_ = true;
  channel_->post(kind::replica_list,
                 replica_list_request{place(), position_.namespace_name, position_.name},
                 {},
                 {},
                 [this](const pool::reply &received) {
                   if (channel_ != nullptr)
                     finish_list(received);
                 });
  (void)channel_->progress(0);
}

void replica_link::finish_list(const pool::reply &received) {
  awaits_reply_ = false;
  replica_list_reply listing;
  bool const is_good =
      received.code == status::ok && wire::decode(received.body, listing) == status::ok;
  if (!is_good) {
    failure_ = received.code == status::ok ? status::protocol : received.code;
    return;
  }
  for (replica_entry &entry : listing.entries) {
    position_ = {std::move(entry.namespace_name), std::move(entry.name)};
    remote_[position_] = {entry.version, entry.flags};
  }
  if (listing.more != 0 && !listing.entries.empty())
    return;
  position_ = {};
  step_ = step::comparing;
}

void replica_link::compare_page() {
  bool const more = objects_.visit_objects(
      [this](const std::string &name) { return partition_of(name) == target_.partition; },
      position_,
      options_.page_size,
      [this](const object_place &place, const object_ref &object) {
        return compare_object(place, object);
      });
  if (!more)
    step_ = step::removing;
}

// Called under the catalog's mutex, so that the queue has later changes after this one.
bool replica_link::compare_object(const object_place &place, const object_ref &object) {
  position_ = place;
  auto const known = remote_.find(place);
  bool const is_there = known != remote_.end() && known->second.version == object->metadata.version;
  uint32_t const flags = object->flags.load() & flags_of_objects;
  bool const is_equal = is_there && known->second.flags == flags;
  if (known != remote_.end())
    remote_.erase(known);
  if (object->is_damaged)
    changes_.report_damaged(options_.peer, target_, is_there);
  if (is_equal || object->is_damaged)
    return true;
  change added = make_change(is_there ? change::kind::set_flags : change::kind::put,
                             *object,
                             place.namespace_name,
                             place.name);
  added.object = object;
  added.reader = is_there ? nullptr : objects_.reader_of(*object);
  added.flags = flags;
  enqueue_change(std::move(added));
  return changes_.may_repair(options_.peer, target_.partition);
}

// What only the peer has.
void replica_link::remove_page() {
  std::vector<object_place> places;
  while (places.size() < options_.page_size && !remote_.empty()) {
    places.push_back(remote_.begin()->first);
    remote_.erase(remote_.begin());
  }
  objects_.visit_places(places, [this](const object_place &place, const object_ref &object) {
    if (object != nullptr)
      return;
    change removed;
    removed.type = change::kind::remove;
    removed.namespace_name = place.namespace_name;
    removed.name = place.name;
    enqueue_change(std::move(removed));
  });
  if (!remote_.empty())
    return;
  step_ = step::marking;
  changes_.enqueue(options_.peer, {target_.partition, target_.term, 0, {}, false});
}

void replica_link::enqueue_change(change added) {
  replica_batch batch{target_.partition, target_.term, 0, {}, true};
  batch.changes.push_back(std::move(added));
  changes_.enqueue(options_.peer, std::move(batch));
}

}  // namespace tanada::poold
