// A client's connection: connecting, handles, metadata requests and counters.
#include "products/pool/client/client.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "backends/sockets/socket_stream.hpp"
#include "core/wire/pool_fragments.hpp"
#include "products/pool/checksum.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr uint64_t report_period_ns = 1'000'000'000;
constexpr int try_count_max = 3;                     // of a handshake
constexpr uint64_t retry_ns = 20'000'000;            // before the second one
constexpr uint64_t cluster_dial_ns = 1'000'000'000;  // timeout of one of them
constexpr size_t place_count_max = 1024;
// Number of reads, and bytes of one read.
constexpr uint64_t unreported_count_max = 64, unreported_size_max = 256 << 10;

}  // namespace

static_assert(try_count_max > 1);

client::client(address daemon, client_settings settings)
    : daemon_{std::move(daemon)},
      places_{{daemon_.host, daemon_.port}},
      settings_{std::move(settings)},
      segments_{[this](uint32_t number) {
        return fetch_segment(number);
      }} {
  places_.insert(places_.end(), daemon_.others.begin(), daemon_.others.end());
  timeout_ns_ = settings_.timeout_ns;
}

client::~client() {
  drop_connection();
  fabric_.reset();
  clear_segments();
}

result<std::unique_ptr<client>> client::connect(const address &daemon, client_settings settings) {
  std::unique_ptr<client> created{new client{daemon, std::move(settings)}};
  TND_TRY(created->connect_once(created->deadline(), true));
  return created;
}

uint64_t client::deadline() const {
  return seams::deadline_after(clock().now_ns(), timeout_ns_);
}

result<std::unique_ptr<seams::stream>> client::dial_remote(const server_place &server,
                                                           uint64_t deadline_ns) const {
  return settings_.dial ? settings_.dial(server, deadline_ns)
                        : backends::tcp_connect(server.host, server.port, deadline_ns);
}

// Uses the UNIX socket if the daemon is on this node.
result<std::unique_ptr<seams::stream>> client::dial(const server_place &server,
                                                    uint64_t deadline_ns,
                                                    bool &is_closed) {
  dial_reason_.clear();
  auto connection = dial_remote(server, deadline_ns);
  bool const may_be_local = connection.ok() && !settings_.dial && settings_.shared_memory;
  if (!may_be_local || !backends::is_to_this_node(*connection.value()))
    return connection;
  // The name of the UNIX socket contains the port's number, but the port may be forwarded to
  // another node's daemon. So compare the daemons' identities. Read the identity over TCP first,
  // because a daemon with one free connection would replace this one by the socket's.
  auto id = channel::identify(connection.value(), deadline_ns);
  is_closed = id.error() == status::peer_lost;
  if (!id.ok())
    return id.error();
  auto local = backends::unix_connect(unix_name(server.port), deadline_ns);
  if (!local.ok())
    return connection;
  auto local_id = channel::identify(local.value(), deadline_ns);
  if (local_id.ok() && id.value() == local_id.value())
    return local;
  dial_reason_ = "port " + std::to_string(server.port) +
                 " leads to another pool than this node's socket of that number";
  return connection;
}

result<std::unique_ptr<channel>> client::open_channel(std::unique_ptr<seams::stream> connection,
                                                      uint64_t deadline_ns,
                                                      bool reads_backup) {
  bool const uses_rings = settings_.rings && connection->is_local() && !daemon_.space.empty();
  const key *const client_key = settings_.client_key ? &*settings_.client_key : nullptr;
  auto opened = channel::open(std::move(connection),
                              daemon_.space,
                              client_key,
                              deadline_ns,
                              reads_backup,
                              settings_.version);
  if (opened.ok())
    opened.value()->set_clock(clock());
  if (!opened.ok() || !uses_rings)
    return opened;
  TND_TRY(opened.value()->enter_rings(deadline_ns));
  return opened;
}

// A daemon that gets very many connections at a time closes some before their handshake is done. In
// that case, try again.
result<std::unique_ptr<channel>> client::connect_channel(const server_place &server,
                                                         uint64_t deadline_ns,
                                                         bool reads_backup) {
  for (int tries = 1;; tries++) {
    bool is_closed = false;
    auto connection = dial(server, deadline_ns, is_closed);
    if (!connection.ok() && !is_closed)
      return connection.error();
    if (connection.ok()) {
      auto opened = open_channel(std::move(connection).value(), deadline_ns, reads_backup);
      if (opened.ok())
        connected_ = server;
      if (opened.error() != status::peer_lost)
        return opened;
    }
    if (settings_.dial || tries == try_count_max)
      return status::peer_lost;
    clock().sleep_ns(retry_ns * uint64_t(tries));
  }
}

// Whether a cluster's servers may soon answer otherwise. busy: the server is shutting down.
bool client::may_end_soon(status code) {
  return code == status::stale || code == status::again || code == status::peer_lost ||
         code == status::timed_out || code == status::busy;
}

// The servers of a cluster are tried in turn until one serves the namespace: one of them may have
// failed, and its successor not be ready yet.
result<std::unique_ptr<channel>> client::find_server(uint64_t deadline_ns, bool reads_only) {
  is_to_backup_ = false;
  std::optional<message_silence> silence;  // the first round was logged
  for (bool was_redirected = false;;) {
    search_round round;
    auto opened = try_servers(deadline_ns, round);
    bool const may_change = may_end_soon(opened.error());
    if (opened.ok() || !is_cluster() || !may_change)
      return opened;
    if (!silence)
      silence.emplace();
    if (round.is_redirected && !std::exchange(was_redirected, true))
      continue;
    std::string const reason = last_message();
    if (reads_only && !daemon_.space.empty())
      if (auto backup = try_backups(deadline_ns, round); backup.ok())
        return backup;
    set_last_message(reason);
    if (clock().now_ns() + cluster_retry_ns >= deadline_ns)
      return opened;
    clock().sleep_ns(cluster_retry_ns);
  }
}

result<std::unique_ptr<channel>> client::try_servers(uint64_t deadline_ns, search_round &round) {
  status last = status::peer_lost;
  std::string reason;  // of the server that should serve, but does not yet
  std::vector<server_place> tried;
  for (const server_place &server : std::vector<server_place>{places_}) {
    uint64_t const now_ns = clock().now_ns();
    uint64_t const limit_ns =
        is_cluster() ? std::min(deadline_ns, now_ns + cluster_dial_ns) : deadline_ns;
    auto opened = connect_channel(server, limit_ns, false);
    if (opened.ok())
      return opened;
    last = opened.error();
    bool const is_elsewhere = last == status::stale || last == status::again;
    bool const is_down =
        last == status::peer_lost || last == status::timed_out || last == status::busy;
    if (last == status::again)
      reason = last_message();
    if (is_elsewhere) {
      round.answered.push_back(server);
      locate(server, limit_ns);
    }
    tried.push_back(server);
    round.is_redirected = last == status::stale &&
                          std::find(tried.begin(), tried.end(), places_.front()) == tried.end();
    if (round.is_redirected || !(is_elsewhere || is_down))
      return last;
  }
  if (reason.empty())
    return last;
  set_last_message(reason);
  return status::again;
}

// A server that has a copy of the namespace answers reads before another one has taken over.
result<std::unique_ptr<channel>> client::try_backups(uint64_t deadline_ns,
                                                     const search_round &round) {
  for (const server_place &server : round.answered) {
    uint64_t const limit_ns = std::min(deadline_ns, clock().now_ns() + cluster_dial_ns);
    auto opened = connect_channel(server, limit_ns, true);
    is_to_backup_ = opened.ok();
    if (opened.ok())
      return opened;
  }
  return status::peer_lost;
}

bool client::suits_backup(kind message_kind) {
  if (message_kind == kind::create_striped || message_kind == kind::stripe_evict ||
      message_kind == kind::fragment_places)
    return false;
  return message_kind == kind::open || message_kind == kind::get || message_kind == kind::stat ||
         message_kind == kind::list || message_kind == kind::read ||
         message_kind >= kind::namespaces;
}

// Asks a server of the cluster which one serves the namespace. It may not know, or not answer.
void client::locate(const server_place &server, uint64_t deadline_ns) {
  auto connection = dial_remote(server, deadline_ns);
  if (!connection.ok())
    return;
  auto location = channel::locate(std::move(connection).value(), daemon_.space, deadline_ns);
  if (location.ok())
    adopt_location(location.value());
}

// Try the namespace's servers first, then the others, then those that the user named.
void client::adopt_location(const wire::pool::locate_reply &location) {
  is_cluster_ = true;
  std::vector<server_place> places;
  auto const add = [&](const server_place &place) {
    if (std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(place);
  };
  for (const auto *list : {&location.servers, &location.members})
    for (const server_address &text : *list)
      if (auto const place = place_parse(text.text); place.ok() && places.size() < place_count_max)
        add(place.value());
  add({daemon_.host, daemon_.port});
  for (const server_place &place : daemon_.others)
    add(place);
  places_ = std::move(places);
}

status client::connect_once(uint64_t deadline_ns, bool reads_only) {
  TND_ASSERT(channel_ == nullptr && counters_ == nullptr);
  for (;;) {
    auto opened = find_server(deadline_ns, reads_only);
    if (!opened.ok())
      return opened.error();
    TND_TRY(adopt_channel(std::move(opened).value()));
    if (channel_->terms().is_cluster == 0 || is_fragment_link_)
      return status::ok;
    is_cluster_ = true;
    locate_reply location;
    status const code =
        channel_->is_broken()
            ? status::peer_lost
            : call_once(kind::locate, locate_request{daemon_.space}, location, {}, {}, nullptr);
    if (code == status::ok) {
      adopt_location(location);
      primary_ = location.servers.empty() ? "" : location.servers.front().text;
      map_epoch_ = location.epoch;
      return status::ok;
    }
    // A server ends the connections to a namespace that it serves no more.
    drop_connection();
    if (!may_end_soon(code) || clock().now_ns() + cluster_retry_ns >= deadline_ns)
      return code;
    clock().sleep_ns(cluster_retry_ns);
  }
}

status client::adopt_channel(std::unique_ptr<channel> opened) {
  channel_ = std::move(opened);
  epoch_++;
  stripe_size_max_.reset();  // it changes while servers are upgraded
  shared_ = channel_->terms().shares_memory != 0;
  reason_ = settings_.shared_memory ? channel_->terms().reason : "shared memory is turned off";
  if (!dial_reason_.empty())
    reason_ = dial_reason_;
  if (!shared_) {
    if (!is_to_backup_)
      join_fabric();
    return status::ok;
  }
  descriptor const counters{channel_->take_descriptor()};
  void *const addr = mmap(nullptr, sizeof(name_counters), PROT_READ, MAP_SHARED, counters.get(), 0);
  shared_ = addr != MAP_FAILED;
  if (shared_)
    counters_ = static_cast<const name_counters *>(addr);
  else
    reason_ = "the daemon's counters cannot be mapped";
  prepare_device();
  return status::ok;
}

void client::drop_connection() {
  // The memory of requests that were never reaped may be freed: then send nothing more.
  if (channel_ != nullptr && !channel_->is_broken() && channel_->is_idle()) {
    report_reads(true);
    (void)channel_->progress(0);
  }
  cache_.clear();
  cached_.clear();
  cached_size_ = 0;
  if (counters_ != nullptr)
    munmap(const_cast<name_counters *>(counters_), sizeof(name_counters));
  counters_ = nullptr;
  if (channel_ != nullptr)
    channel_->end(status::peer_lost);
  channel_.reset();
}

void client::disconnect() {
  drop_connection();
  for (auto const &[partition, link] : stripe_links_)
    link->drop_connection();
  for (auto const &[address, link] : fragment_links_)
    link->drop_connection();
  stripe_links_.clear();
  fragment_links_.clear();
}

void client::clear_segments() {
  if (device_ != nullptr)
    device_->release(segments_.take_device_mappings());
  segments_.clear();
  reserved_segments_.clear();
  reserved_used_count_ = 0;
}

status client::ensure_connected(bool reads_only) {
  notice_end();
  bool const is_connected = channel_ != nullptr && !channel_->is_broken();
  if (is_connected && (reads_only || !is_to_backup_))
    return status::ok;
  drop_connection();
  // Mappings of a daemon that ended are useless. Views that the caller still holds keep their
  // memory.
  clear_segments();
  return connect_once(deadline(), reads_only);
}

status client::check_usable(const open_object &object) const {
  bool const same = object.epoch == epoch_ && channel_ != nullptr && !channel_->is_broken();
  return same ? status::ok : refuse_handle();
}

status client::refuse_handle() {
  return fail(status::stale, "the connection that this handle was opened on has ended");
}

tnd_pool_path client::path() const {
  if (shared_)
    return TND_POOL_PATH_SHARED_MEMORY;
  return fabric_ != nullptr ? fabric_path() : stream_path();
}

tnd_pool_path client::device_path() const {
  bool const is_registered = fabric_ != nullptr && fabric_->reaches_devices();
  if (shared_ || (is_registered && fabric_path() == TND_POOL_PATH_RDMA))
    return TND_POOL_PATH_GPU_DIRECT;
  return is_registered ? TND_POOL_PATH_FABRIC : stream_path();
}

tnd_pool_path client::stream_path() const {
  return channel_ != nullptr && channel_->connection().is_local() ? TND_POOL_PATH_UNIX
                                                                  : TND_POOL_PATH_TCP;
}

tnd_pool_path client::fabric_path() const {
  TND_ASSERT(fabric_ != nullptr);
  return fabric_->path() == seams::fabric_path::rdma ? TND_POOL_PATH_RDMA : TND_POOL_PATH_FABRIC;
}

transfer_path client::mapping_path(bool on_device, bool is_staged) {
  bool const is_direct = on_device && !is_staged;
  return {is_direct ? TND_POOL_PATH_GPU_DIRECT : TND_POOL_PATH_SHARED_MEMORY, is_staged};
}

void client::count_mapped(transfer_path via, uint64_t size, bool to_pool) {
  traffic_.add(via, size, to_pool);
  if (to_pool)
    return;
  (via.path == TND_POOL_PATH_GPU_DIRECT ? unreported_reads_.device_size
                                        : unreported_reads_.host_size) += size;
  // Reading the clock takes as long as a small copy.
  if (++unreported_count_ % unreported_count_max == 0 || size >= unreported_size_max)
    report_reads(false);
}

void client::report_reads(bool at_once) {
  if (unreported_reads_.host_size + unreported_reads_.device_size == 0)
    return;
  uint64_t const now_ns = clock().now_ns();
  if (!at_once && now_ns < reported_ns_ + report_period_ns)
    return;
  channel_->post(kind::mapped_reads, std::exchange(unreported_reads_, {}), {}, {}, {});
  (void)channel_->progress(0);
  reported_ns_ = now_ns;
}

// Without a fabric, bytes are sent over the stream; `reason_` has the cause.
void client::join_fabric() {
  if (settings_.fabric.empty())
    return;
  status code = status::ok;
  if (fabric_ == nullptr) {
    auto opened = fabric_link::open({.provider = settings_.fabric, .cuda = true});
    if (opened.ok())
      fabric_ = std::move(opened).value();
    else
      code = opened.error();
  }
  fabric_request request;
  fabric_reply answer;
  if (code == status::ok) {
    request.provider = settings_.fabric;
    request.address = fabric_->address();
    code = call(kind::fabric, request, answer);
  }
  // A call that had to reconnect has joined on its own, and closed the endpoint if that failed.
  if (code == status::ok && fabric_ == nullptr)
    return;
  if (code == status::ok)
    code = prove_endpoint(answer.tag);
  if (code == status::ok && fabric_ == nullptr)
    return;
  if (code == status::ok) {
    bool const is_rdma = fabric_path() == TND_POOL_PATH_RDMA;
    reason_ = is_rdma ? "" : settings_.fabric + " copies in software";
    return;
  }
  fabric_.reset();
  reason_ = last_message();
}

status client::prove_endpoint(const bytes32 &tag) {
  TND_ASSERT(fabric_ != nullptr);
  uint64_t const deadline_ns =
      seams::deadline_after(clock().now_ns(), std::min(settings_.timeout_ns, fabric_proof_ns));
  auto secret = fabric_->await_secret(tag, deadline_ns);
  if (!secret.ok())
    return secret.error();
  empty_message answer;
  return call(kind::fabric_proof, fabric_proof{secret.value()}, answer);
}

status client::register_memory(void *addr, uint64_t size, bool on_device) {
  TND_TRY(ensure_connected(true));
  if (fabric_ == nullptr || (on_device && !fabric_->reaches_devices()))
    return status::ok;
  status const code = fabric_->register_memory(static_cast<std::byte *>(addr), size, on_device);
  // The transfers are staged.
  return on_device && code == status::not_supported ? status::ok : code;
}

status client::unregister_memory(void *addr) {
  if (fabric_ == nullptr)
    return status::ok;
  status const code = fabric_->unregister_memory(static_cast<std::byte *>(addr));
  return code == status::no_entry ? status::ok : code;
}

status client::await_reply(kind message_kind,
                           uint64_t tag,
                           const bool &done,
                           uint64_t deadline_ns) {
  begin_watch();
  while (!done) {
    status const progressed = progress_watched(deadline_ns);
    if (done)
      continue;
    // Progress is no reply to this request.
    bool const is_late = progressed == status::ok && clock().now_ns() >= deadline_ns;
    if (progressed == status::ok && !is_late)
      continue;
    status const reason = is_late ? status::timed_out : progressed;
    channel_->abandon(tag);
    // A late reply would bring a handle or descriptor that nobody owns, so end the connection.
    bool const brings_resource =
        message_kind == kind::create || message_kind == kind::open || message_kind == kind::segment;
    if (brings_resource)
      channel_->end(reason);
    return fail(reason,
                "pool at {}: no answer in {:.3f} s",
                channel_->connection().peer(),
                double(timeout_ns_) / 1e9);
  }
  return status::ok;
}

result<received_segment> client::fetch_segment(uint32_t segment) {
  received_segment received;
  uint64_t const epoch = epoch_;
  TND_TRY(call(kind::segment, segment_request{segment}, received.about));
  received.file = descriptor{channel_->take_descriptor()};
  // The connection was lost meanwhile: it is a segment of another daemon.
  if (epoch_ != epoch)
    return status::stale;
  if (received.file.get() < 0)
    return status::protocol;
  return received;
}

status client::with_url(status code, const std::string &name) const {
  // A malformed reply has no message.
  if (code == status::ok || code == status::protocol)
    return code;
  std::string const reason = last_message();
  set_last_message(space_url(daemon_) + (name.empty() ? "" : "/" + name) + ": " + reason);
  return code;
}

status client::ensure_device() {
  if (device_ != nullptr)
    return status::ok;
  auto opened = settings_.open_device(settings_.device_index);
  if (!opened.ok())
    return opened.error();
  device_ = std::move(opened).value();
  return status::ok;
}

// A large object is striped, in a cluster and where it could not be in memory as a whole.
status client::create(const std::string &name,
                      uint64_t size,
                      uint32_t flags,
                      const std::string &set,
                      open_object &opened) {
  bool const keeps = (flags & TND_POOL_KEEP) != 0;
  if (info about; keeps && may_stripe() && stat(name, 0, about) == status::ok) {
    if ((about.flags & flag_striped) != 0 || is_striped_size(std::max(size, about.size)))
      return create_with_bytes(name, size, flags & ~uint32_t(TND_POOL_KEEP), set, opened);
  }
  if (is_striped_size(size))
    return create_striped(name, size, flags & ~uint32_t(TND_POOL_KEEP), set, opened);
  status const code = create_whole(name, size, flags, set, opened);
  // The stat failed, because the connection was lost, and the object to keep is striped.
  if (keeps && code == status::not_supported && may_stripe())
    return create_with_bytes(name, size, flags & ~uint32_t(TND_POOL_KEEP), set, opened);
  return code;
}

status client::create_whole(const std::string &name,
                            uint64_t size,
                            uint32_t flags,
                            const std::string &set,
                            open_object &opened) {
  object_reply answer;
  create_request request;
  request.name = name;
  request.set = set;
  request.size = size;
  request.flags = flags;
  TND_TRY(call_for_handle(kind::create, request, answer));
  opened = {.epoch = epoch_,
            .handle = answer.handle,
            .name = name,
            .is_writer = true,
            .in_set = !set.empty(),
            .about = answer.object_info,
            .pieces = std::move(answer.extents),
            .written = {}};
  opened.flags = flags;
  opened.set = set;
  return status::ok;
}

// The list of a striped object's stripes is read with its handle, so the connection must stay.
status client::open(const std::string &name, uint64_t version, open_object &opened) {
  uint64_t const deadline_ns = deadline();
  for (;;) {
    status const code = open_once(name, version, opened);
    bool const is_lost = code == status::peer_lost || code == status::stale;
    if (!is_lost || !is_cluster() || clock().now_ns() >= deadline_ns)
      return code;
  }
}

status client::open_once(const std::string &name, uint64_t version, open_object &opened) {
  object_reply answer;
  open_request request;
  request.name = name;
  request.version = version;
  TND_TRY(call_for_handle(kind::open, request, answer));
  opened = {.epoch = epoch_,
            .handle = answer.handle,
            .name = name,
            .about = answer.object_info,
            .pieces = std::move(answer.extents),
            .written = {}};
  if ((answer.object_info.flags & flag_striped) == 0)
    return status::ok;
  status const code = open_striped(opened);
  if (code != status::ok)
    close(opened);
  return code;
}

// The same version again, over a new connection. The names of stripes are never used again.
status client::reopen(open_object &object) {
  TND_ASSERT(!object.is_writer && object.about.version != 0);
  object_reply answer;
  open_request request;
  request.name = object.name;
  request.version = is_hidden_namespace(daemon_.space) ? 0 : object.about.version;
  status const code = call_for_handle(kind::open, request, answer);
  if (code == status::no_entry)
    return fail(status::stale,
                "{}: the object was removed or replaced, and the connection that kept it has ended",
                object.name);
  TND_TRY(code);
  object.epoch = epoch_;
  object.handle = answer.handle;
  object.pieces = std::move(answer.extents);
  return status::ok;
}

void client::close(open_object &object) {
  TND_ASSERT(object.view_size == 0 || object.view != nullptr);
  if (object.view_size > 0)
    munmap(object.view, object.view_size);
  object.view = nullptr;
  object.view_size = 0;
  object.view_owner.reset();
  if (object.striped != nullptr)
    close_stripes(object);
  if (object.handle == 0 || object.epoch != epoch_ || channel_ == nullptr || channel_->is_broken())
    return;
  channel_->post(kind::close, handle_request{object.handle}, {}, {}, {});
  channel_->flush();
  object.handle = 0;
}

status client::resize(open_object &object, uint64_t size) {
  TND_TRY(check_usable(object));
  if (!object.is_writer)
    return status::bad_file;
  if (object.striped == nullptr && size > object.about.size && is_striped_size(size))
    return convert_to_striped(object, size);
  if (object.striped != nullptr)
    return resize_striped(object, size);
  TND_TRY(report_written(object));
  object_reply answer;
  TND_TRY(with_url(call(kind::resize, resize_request{object.handle, size}, answer), object.name));
  object.pieces = std::move(answer.extents);
  object.about.size = answer.object_info.size;
  object.covered_size = std::min(object.covered_size, size);
  return status::ok;
}

status client::report_written(open_object &object) {
  if (object.written.empty())
    return status::ok;
  channel_->post(
      kind::note, ranges_request{object.handle, std::exchange(object.written, {})}, {}, {}, {});
  return status::ok;
}

status client::commit(open_object &object, commit_terms terms, uint64_t &version) {
  TND_TRY(check_usable(object));
  if (!object.is_writer)
    return status::bad_file;
  if (object.striped != nullptr)
    return commit_striped(object, terms, version);
  TND_TRY(sum_written(object, terms));
  TND_TRY(report_written(object));
  info_reply answer;
  status const code = call(kind::commit, commit_request{object.handle, terms}, answer);
  if (ends_writing(code))
    object.is_writer = false;
  TND_TRY(with_url(code, object.name));
  object.about = answer.object_info;
  version = answer.object_info.version;
  return status::ok;
}

status client::map(open_object &object, const void *&addr, uint64_t &size) {
  TND_TRY(check_usable(object));
  if (object.striped != nullptr)
    return fail(status::not_supported,
                "the object is striped: it is not in one piece in the pool's memory");
  if (!shared_)
    return fail(status::not_supported, "no shared memory with the pool: {}", reason_);
  if (object.is_writer)
    return status::bad_file;
  if (object.view == nullptr && object.about.size > 0) {
    bool caller_unmaps = false;
    auto view =
        segments_.contiguous(object.pieces, object.about.size, caller_unmaps, object.view_owner);
    segments_.unmap_lasting();  // the view keeps what it needs
    if (!view.ok())
      return view.error();
    object.view = view.value();
    if (caller_unmaps) {
      for (const pool_extent &piece : object.pieces)
        object.view_size += piece.size;
      object.view_size = (object.view_size + 4095) & ~uint64_t{4095};
    }
  }
  addr = object.view;
  size = object.about.size;
  traffic_.add_map(size);
  return status::ok;
}

status client::set_commit(const std::string &set, uint64_t count, uint32_t flags) {
  empty_message answer;
  set_commit_request request;
  request.set = set;
  request.count = count;
  request.flags = flags;
  return call(kind::set_commit, request, answer);
}

status client::stat(const std::string &name, uint64_t version, info &about) {
  info_reply answer;
  open_request request;
  request.name = name;
  request.version = version;
  TND_TRY(call(kind::stat, request, answer));
  about = answer.object_info;
  return status::ok;
}

status client::list_some(const list_request &request, list_reply &listing) {
  return call(kind::list, request, listing);
}

status client::rename(const std::string &name, const std::string &new_name, uint32_t flags) {
  empty_message answer;
  rename_request request;
  request.name = name;
  request.new_name = new_name;
  request.flags = flags;
  return call(kind::rename, request, answer);
}

status client::remove(const std::string &name, uint32_t flags) {
  empty_message answer;
  flags_request request;
  request.name = name;
  request.flags = flags;
  return call(kind::remove, request, answer);
}

status client::set_flags(const std::string &name, uint32_t flags) {
  empty_message answer;
  flags_request request;
  request.name = name;
  request.flags = flags;
  return call(kind::set_flags, request, answer);
}

status client::statistics(statistics_reply &counters) {
  return call(kind::statistics, empty_message{}, counters);
}

status client::list_namespaces_some(const std::string &only,
                                    const std::string &after,
                                    namespaces_reply &listing) {
  namespaces_request request;
  request.name_filter = only;
  request.after = after;
  return call(kind::namespaces, request, listing);
}

status client::cluster_status(cluster_status_reply &reply) {
  return call(kind::cluster_status, empty_message{}, reply);
}

status client::set_draining(const std::string &server, bool is_draining) {
  empty_message answer;
  return call(
      kind::cluster_drain, cluster_drain_request{server, uint8_t(is_draining ? 1 : 0)}, answer);
}

status client::remove_server(const std::string &server, bool is_forced) {
  empty_message answer;
  return call(
      kind::cluster_remove, cluster_remove_request{server, uint8_t(is_forced ? 1 : 0)}, answer);
}

status client::set_erasure(const erasure_setting &setting) {
  empty_message answer;
  return call(kind::cluster_erasure, setting, answer);
}

status client::clear_losses() {
  empty_message answer;
  return call(kind::cluster_clear, empty_message{}, answer);
}

}  // namespace tanada::pool
