// A client's session: its handshake, the parsing of requests, and the flow of their data.
#include "products/poold/session.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/cluster/map.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr pool::frame_limits handshake_limits{.body_size_max = pool::small_body_size_max,
                                              .data_size_max = 0};
constexpr uint64_t rest_after_ns = 5'000'000'000;
constexpr uint64_t mapped_reads_per_ns_max = 1000;  // bytes that a client may report: 1 TB/s
constexpr uint64_t mapped_reads_ns_max = 3'600'000'000'000;  // reports cover at most one hour

}  // namespace

session::session(service &shared,
                 std::unique_ptr<seams::stream> connection,
                 uint64_t id,
                 std::shared_ptr<mailbox> reply_mailbox,
                 uint64_t now_ns)
    : service_{shared},
      connection_{std::move(connection)},
      id_{id},
      mailbox_{std::move(reply_mailbox)},
      input_{handshake_limits},
      last_progress_ns_{now_ns},
      connected_ns_{now_ns},
      host_reads_until_ns_{now_ns},
      device_reads_until_ns_{now_ns} {
  TND_ASSERT(connection_ != nullptr && mailbox_ != nullptr);
}

session::~session() {
  TND_ASSERT(fabric_peer_.empty() || service_.fabric != nullptr);
  if (!fabric_peer_.empty())
    service_.fabric->release_peer(fabric_peer_);
  if (stage_ != stage::ready)
    return;
  service_.counters.client_count.fetch_sub(1);
  // Release its objects before its namespace.
  put_.reset();
  job_.reset();
  parked_.reset();
  cold_reads_.clear();
  replicas_.reset();
  output_.clear();
  handles_.clear();
  if (has_namespace_)
    service_.objects.close_namespace(namespace_id_, can_write_, id_);
}

session::view session::describe() const {
  tnd_pool_path const path = shares_memory_                   ? TND_POOL_PATH_SHARED_MEMORY
                             : fabric_claim_ == claim::proven ? fabric_path()
                                                              : stream_path();
  return {connection_->peer(),
          namespace_name_,
          key_id_,
          path,
          written_size_,
          read_size_,
          connected_ns_};
}

tnd_pool_path session::stream_path() const {
  return connection_->is_local() ? TND_POOL_PATH_UNIX : TND_POOL_PATH_TCP;
}
tnd_pool_path session::fabric_path() const {
  TND_ASSERT(service_.fabric != nullptr);
  return service_.fabric->is_rdma() ? TND_POOL_PATH_RDMA : TND_POOL_PATH_FABRIC;
}

void session::count_written(tnd_pool_path path, uint64_t size) {
  written_size_ += size;
  service_.counters.written.add(path, size);
}

void session::count_read(tnd_pool_path path, uint64_t size) {
  read_size_ += size;
  service_.counters.read.add(path, size);
}

void session::send_error(status code) {
  // Commands of the command line ask any pool for its cluster.
  bool const is_expected =
      kind(head_.kind) == kind::cluster_status && code == status::not_supported;
  if (!is_expected)
    service_.counters.errors.add(code);
  raise_barrier();
  text_message reply{last_message().substr(0, 1024)};
  output_.add(encode_frame({.kind = head_.kind, .code = int32_t(code), .tag = head_.tag}, reply));
  count_request(0);
}

void session::count_request(uint64_t size) {
  if (began_ns_ == 0)
    return;
  uint64_t const now_ns = std::max(seams::monotonic_clock().now_ns(), began_ns_);
  service_.counters.requests.add(head_.kind, now_ns - began_ns_, std::max(size, head_.data_size));
}

// This request has no reply. A client may report any number, so it is limited to the bytes that
// memory could have delivered since the client connected.
status session::on_mapped_reads(std::span<const std::byte> body) {
  mapped_reads_note request;
  TND_TRY(decode(body, request));
  if (!shares_memory_)
    return status::protocol;
  count_read(TND_POOL_PATH_SHARED_MEMORY, plausible_size(request.host_size, host_reads_until_ns_));
  count_read(TND_POOL_PATH_GPU_DIRECT, plausible_size(request.device_size, device_reads_until_ns_));
  return status::ok;
}

// The part of `size` that can have been copied between `until_ns`, where earlier reports end, and
// now. Advances `until_ns` by the minimum time that the copy takes.
uint64_t session::plausible_size(uint64_t size, uint64_t &until_ns) {
  uint64_t const now_ns = std::max(seams::monotonic_clock().now_ns(), until_ns);
  until_ns = std::max(until_ns, now_ns - std::min(now_ns, mapped_reads_ns_max));
  size = std::min(size, (now_ns - until_ns) * mapped_reads_per_ns_max);
  until_ns += (size + mapped_reads_per_ns_max - 1) / mapped_reads_per_ns_max;
  return size;
}

bool session::is_overdue(uint64_t now_ns) const {
  if (stage_ != stage::ready)
    return now_ns > connected_ns_ + service_.limits.handshake_ns;
  bool const half_done = !input_.is_idle() || !output_.empty();
  return half_done && !job_ && !fetch_ && now_ns > last_progress_ns_ + service_.limits.stall_ns;
}

void session::shrink_idle_buffer(uint64_t now_ns) {
  bool const is_unused = input_.is_idle() && !job_ && !parked_;
  if (is_unused && now_ns >= last_progress_ns_ + rest_after_ns)
    input_.shrink_buffer();
}

void session::log_close(uint64_t now_ns, const std::string &reason) {
  std::string const line = connection_->peer() + " " + reason + ": the connection is closed";
  if (is_in_handshake())
    service_.refusals.add(now_ns, line);
  else
    log(log_level::warning, "pool: {}", line);
}

// A client with another secret than the daemon's detects that by the daemon's proof, and
// disconnects without sending its own.
session::outcome session::close_unproven(uint64_t now_ns) {
  if (stage_ != stage::proof || keys_->empty())
    return outcome::ended;
  service_.counters.refused_count.fetch_add(1);
  service_.counters.errors.add(status::access);
  service_.refusals.add(now_ns,
                        connection_->peer() + " left the handshake without a proof, key \"" +
                            key_id_ + "\", namespace \"" + namespace_name_ +
                            "\": check that its key file has the daemon's secret");
  return outcome::ended;
}

session::outcome session::flush(uint64_t now_ns) {
  uint64_t moved = 0;
  status const code =
      output_.flush(*connection_, service_.limits.turn_size, moved, settled_position());
  if (moved > 0)
    last_progress_ns_ = now_ns;
  if (code == status::fault) {
    log(log_level::warning,
        "pool: {} was being sent an object that lost bytes: the connection is closed",
        connection_->peer());
    service_.objects.check_memory();
  }
  if (code == status::ok && output_.first_barrier() > settled_position()) {
    await_settling();
    return outcome::waiting;
  }
  if (code == status::ok && output_.empty() && rings_.memory != nullptr && rings_.stream == nullptr)
    enter_rings();
  if (code == status::ok)
    return output_.empty() || output_.is_reading() ? outcome::waiting : outcome::busy;
  return code == status::again ? outcome::waiting : outcome::ended;
}

session::outcome session::progress(uint64_t now_ns) {
  turn current;
  turn_ns_ = now_ns;
  if (!is_served())
    return outcome::ended;
  if (receive_and_parse(current, now_ns) == outcome::ended)
    return outcome::ended;
  // The process may have been paused while a reply was made.
  if (!is_served())
    return outcome::ended;
  outcome const sent = flush(now_ns);
  if (current.moved > 0)
    last_progress_ns_ = now_ns;
  if (sent == outcome::ended || (is_closing_ && output_.empty()))
    return outcome::ended;
  bool const job_can_continue = job_ && !is_job_blocked();
  bool const is_busy = job_can_continue || current.more || sent == outcome::busy;
  if (is_busy)
    return outcome::busy;
  return parked_ ? outcome::paused : outcome::waiting;
}

// Receive and process requests, until that needs more input or the turn is over.
session::outcome session::receive_and_parse(turn &current, uint64_t now_ns) {
  while (current.more && current.moved < service_.limits.turn_size) {
    if (job_ && !step_job())
      break;
    current.more = false;
    if (parse(current.more) != status::ok)
      return end_invalid(now_ns);
    // Send replies before polling a drained socket again. In the middle of an object's data, more
    // has probably arrived.
    if (current.more || !expects_input() || (current.drained && input_.remaining_data_size() == 0))
      continue;
    uint64_t const before = current.moved;
    status const code = receive(current);
    if (code == status::peer_lost)
      return close_unproven(now_ns);
    current.more = current.moved > before;
  }
  return outcome::waiting;
}

session::outcome session::end_invalid(uint64_t now_ns) {
  service_.counters.errors.add(status::protocol);
  if (is_in_handshake())
    service_.counters.refused_count.fetch_add(1);
  log_close(now_ns, "sent an invalid request");
  return outcome::ended;
}

// Receive once, and count the bytes of objects.
status session::receive(turn &current) {
  auto arrival = input_.receive(*connection_);
  if (!arrival.ok() && arrival.error() == status::fault) {
    skip_lost_data();
    arrival = input_.receive(*connection_);
  }
  if (!arrival.ok())
    return arrival.error();
  current.moved += arrival.value().size;
  current.drained = arrival.value().is_drained;
  if (uint64_t const size = arrival.value().data_size; size > 0)
    count_written(stream_path(), size);
  return status::ok;
}

// The destination in the backing file is lost: skip the remaining data, and reply with an error.
void session::skip_lost_data() {
  service_.objects.check_memory();
  replicas_.reset();
  input_.skip_data();
  on_data_end_ = &session::send_data_lost;
}

void session::send_data_lost() {
  put_.reset();
  send_error(fail(status::io, "the object's range of the pool's backing file is lost"));
}

// Process one step of the buffered input. `more`: another step may be possible.
status session::parse(bool &more) {
  if (is_closing_ || job_ || fetch_)
    return status::ok;
  if (parked_)
    return retry_parked(more);
  if (uint64_t const size = input_.remaining_data_size(); size > 0) {
    if (uint64_t const stored_size = input_.store_data(); stored_size > 0)
      count_written(stream_path(), stored_size);
    more = input_.remaining_data_size() < size;
    return status::ok;
  }
  if (on_data_end_ != nullptr) {
    more = true;
    end_data();
    return status::ok;
  }
  return accepts_requests() ? parse_frame(more) : status::ok;
}

void session::end_data() {
  TND_ASSERT(input_.remaining_data_size() == 0);
  auto const on_data_end = std::exchange(on_data_end_, nullptr);
  (this->*on_data_end)();
}

// Process the next request, if all of its body has arrived.
status session::parse_frame(bool &more) {
  TND_ASSERT(on_data_end_ == nullptr);
  auto next = input_.next();
  if (!next.ok())
    return next.error() == status::again ? status::ok : next.error();
  auto const &[head, body] = next.value();
  head_ = head;
  more = true;
  return stage_ == stage::ready ? answer_request(head, body) : handshake(head, body);
}

// Carry out a request. Any error but `protocol` is reported to the client, and its data are
// skipped.
status session::answer_request(const frame &head, std::span<const std::byte> body) {
  is_deferred_ = false;
  lacks_memory_ = false;
  began_ns_ = lacks_since_ns_ != 0 ? lacks_since_ns_ : turn_ns_;
  status const code = dispatch(head, body);
  if (code == status::protocol)
    return code;
  if (lacks_memory_) {
    park(head, body, code);
    return status::ok;
  }
  lacks_since_ns_ = 0;
  if (code != status::ok) {
    input_.skip_data();
    on_data_end_ = nullptr;
    send_error(code);
  }
  return status::ok;
}

namespace {

// Requests without a reply end the connection.
status refuse_without_namespace(kind request) {
  if (request < kind::create || request > last_kind || request == kind::close ||
      request == kind::note || request == kind::mapped_reads)
    return status::protocol;
  set_last_message("the connection has no namespace: it only lists namespaces and counts");
  return status::invalid;
}

}  // namespace

const session::request_handler session::request_handlers[] = {
    {kind::create, &session::on_create},
    {kind::open, &session::on_open},
    {kind::resize, &session::on_resize},
    {kind::write, &session::on_write},
    {kind::read, &session::on_read},
    {kind::note, &session::on_note},
    {kind::mapped_reads, &session::on_mapped_reads},
    {kind::commit, &session::on_commit},
    {kind::close, &session::on_close},
    {kind::put, &session::on_put},
    {kind::get, &session::on_get},
    {kind::stat, &session::on_stat},
    {kind::list, &session::on_list},
    {kind::namespaces, &session::on_namespaces},
    {kind::locate, &session::on_locate},
    {kind::cluster_status, &session::on_cluster_status},
    {kind::cluster_drain, &session::on_cluster_drain},
    {kind::create_striped, &session::on_create_striped},
    {kind::stripe_places, &session::on_stripe_places},
    {kind::stripe_limits, &session::on_stripe_limits},
    {kind::stripe_evict, &session::on_stripe_evict},
    {kind::stripe_check, &session::on_stripe_check},
    {kind::stripe_hint, &session::on_stripe_hint},
    {kind::cluster_remove, &session::on_cluster_remove},
    {kind::cluster_clear, &session::on_cluster_clear},
    {kind::cluster_erasure, &session::on_cluster_erasure},
    {kind::fragment_places, &session::on_fragment_places},
    {kind::fragment_report, &session::on_fragment_report},
    {kind::fragment_build, &session::on_fragment_build},
    {kind::fragment_read, &session::on_fragment_read},
    {kind::replica_begin, &session::on_replica_begin},
    {kind::replica_list, &session::on_replica_list},
    {kind::replica_apply, &session::on_replica_apply},
    {kind::replica_fetch, &session::on_replica_fetch},
    {kind::replica_mark, &session::on_replica_mark},
    {kind::replica_settled, &session::on_replica_settled},
    {kind::rename, &session::on_rename},
    {kind::remove, &session::on_remove},
    {kind::set_flags, &session::on_set_flags},
    {kind::set_commit, &session::on_set_commit},
    {kind::segment, &session::on_segment},
    {kind::reserve, &session::on_reserve},
    {kind::statistics, &session::on_statistics},
    {kind::ring, &session::on_ring},
    {kind::fabric, &session::on_fabric},
    {kind::fabric_proof, &session::on_fabric_proof},
    {kind::rma_write, &session::on_rma_write},
    {kind::rma_read, &session::on_rma_read}};

// Requests that also connections without a namespace make. Another server of the cluster names its
// fabric endpoint.
bool session::is_for_server(kind request) const {
  bool const is_fabric = request == kind::fabric || request == kind::fabric_proof;
  return request == kind::statistics || (is_fabric && service_.cluster != nullptr);
}

status session::dispatch(const frame &head, std::span<const std::byte> body) {
  set_last_message({});
  bool const needs_namespace =
      kind(head.kind) < kind::namespaces || kind(head.kind) == kind::create_striped ||
      kind(head.kind) == kind::stripe_places || kind(head.kind) == kind::stripe_evict ||
      kind(head.kind) == kind::fragment_places || kind(head.kind) == kind::stripe_limits;
  if (!has_namespace_ && needs_namespace && !is_for_server(kind(head.kind)))
    return refuse_without_namespace(kind(head.kind));
  // Requests are refused before they have an effect, so that clients may repeat them elsewhere.
  if (service_.cluster != nullptr && has_namespace_ && needs_namespace) {
    status const code = service_.cluster->check_serving(partition_);
    if (code != status::ok)
      return reads_backup_ ? dispatch_as_backup(head, body) : code;
    reads_backup_ = false;  // its replies may have to wait until changes are settled
  }
  return handle_request_of(head, body);
}

status session::handle_request_of(const frame &head, std::span<const std::byte> body) {
  for (const request_handler &handler : request_handlers)
    if (handler.request == kind(head.kind))
      return (this->*handler.function)(body);
  return status::protocol;
}

status session::handshake(const frame &head, std::span<const std::byte> body) {
  if (stage_ == stage::hello && kind(head.kind) == kind::hello)
    return hello(body);
  if (stage_ == stage::hello && kind(head.kind) == kind::identify && !is_identified_)
    return identify(body);
  if (stage_ == stage::hello && kind(head.kind) == kind::locate && service_.cluster != nullptr)
    return locate(body);
  if (stage_ == stage::hello && kind(head.kind) == kind::read_backup &&
      service_.cluster != nullptr && !reads_backup_)
    return on_read_backup(body);
  if (stage_ == stage::proof && kind(head.kind) == kind::proof)
    return proof(body);
  return status::protocol;
}

status session::identify(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  is_identified_ = true;
  send_reply(identity_reply{service_.id});
  return status::ok;
}

status session::hello(std::span<const std::byte> body) {
  hello_message request;
  TND_TRY(decode(body, request));
  if (request.version < protocol_version_min || request.version > service_.version_max) {
    reject(status::not_supported,
           "this daemon supports only versions " + std::to_string(protocol_version_min) + " to " +
               std::to_string(service_.version_max) + " of the protocol");
    return status::ok;
  }
  if (!request.namespace_name.empty() && !is_allowed_name(request.namespace_name))
    return status::protocol;
  client_version_ = request.version;
  namespace_name_ = request.namespace_name;
  key_id_ = request.key_id;
  client_nonce_ = request.nonce;
  server_nonce_ = pool::random_bytes();
  challenge_message reply;
  reply.nonce = server_nonce_;
  keys_ = service_.keys.keys();
  if (keys_->empty() && requires_key_) {
    reject(status::access, "this pool has just removed its keys: connect again");
    return status::ok;
  }
  for (const pool::key &key : *keys_)
    if (key.id == request.key_id)
      key_ = &key;
  // An unknown key id gets a reply that looks like that to a known one.
  if (key_ != nullptr)
    reply.proof =
        pool::proof_of(*key_, pool::prover::server, client_nonce_, server_nonce_, namespace_name_);
  else if (!keys_->empty())
    reply.proof = pool::random_bytes();
  stage_ = stage::proof;
  head_.kind = uint16_t(kind::challenge);
  send_reply(reply);
  return status::ok;
}

// Stripes and fragments lie in hidden namespaces. Fragments are of clusters only.
bool session::is_allowed_name(const std::string &namespace_name) const {
  if (!is_valid_name(namespace_name))
    return false;
  if (!is_hidden_namespace(namespace_name))
    return true;
  return service_.cluster != nullptr
             ? hidden_space_owner(namespace_name).has_value()
             : service_.stripes != nullptr && stripe_space_parse(namespace_name).has_value();
}

// A key is valid for the stripes and fragments of its namespaces.
bool session::does_key_allow(const std::string &namespace_name) const {
  TND_ASSERT(key_ != nullptr);
  return key_->allows(hidden_space_owner(namespace_name).value_or(namespace_name));
}

status session::proof(std::span<const std::byte> body) {
  proof_message request;
  TND_TRY(decode(body, request));
  head_.kind = uint16_t(kind::welcome);
  if (!keys_->empty()) {
    bool const proved =
        key_ != nullptr &&
        pool::is_equal(
            request.proof,
            pool::proof_of(
                *key_, pool::prover::client, client_nonce_, server_nonce_, namespace_name_));
    if (!proved) {
      // Do not reveal to unauthenticated peers whether a key of this id exists.
      reject(status::access,
             key_id_.empty() ? "this pool requires a key"
                             : "authentication failed with key \"" + key_id_ + "\"");
      return status::ok;
    }
    if (!namespace_name_.empty() && !does_key_allow(namespace_name_)) {
      reject(status::access, "the key is not valid for namespace " + namespace_name_);
      return status::ok;
    }
    can_write_ = key_->can_write;
  }
  if (admission_ != nullptr && !admission_()) {
    reject(status::busy,
           "the pool has all connections that its --clients allows: this one was evicted "
           "before its handshake was complete");
    return status::ok;
  }
  if (status const code = enter_namespace(); code != status::ok)
    reject(code, last_message());
  else
    send_welcome();
  return status::ok;
}

status session::enter_namespace() {
  if (namespace_name_.empty())
    return status::ok;
  if (service_.cluster != nullptr) {
    partition_ = partition_of(namespace_name_);
    term_ = service_.cluster->term(partition_);
    status code = service_.cluster->check_serving(partition_);
    if (code != status::ok && reads_backup_)
      code = service_.cluster->check_backup(partition_);
    TND_TRY(code);
  }
  may_write_ = can_write_;
  can_write_ = can_write_ && !reads_backup_;
  auto entered = service_.objects.open_namespace(namespace_name_, can_write_);
  if (!entered.ok())
    return entered.error();
  TND_ASSERT(!has_namespace_);
  namespace_id_ = entered.value();
  has_namespace_ = true;
  return status::ok;
}

bool session::can_see_namespace(const std::string &namespace_name) const {
  TND_ASSERT(keys_ != nullptr && (keys_->empty() || key_ != nullptr));
  if (is_hidden_namespace(namespace_name))
    return false;
  return keys_->empty() || key_->allows(namespace_name);
}

// Why the client may not map the pool's memory; empty: it may.
std::string session::memory_reason() const {
  pool_memory const &memory = service_.memory;
  if (memory.binds_segments())
    return {};
  if (memory.is_held())
    return "clients of a previous daemon have the pool's memory mapped";
  if (!memory.is_exportable())
    return memory.is_persistent() ? "the pool's memory is a file in persistent memory of the daemon"
                                  : "the pool's memory is a file of the daemon";
  // A descriptor of the device opens all of it, which these users may do anyway.
  auto const user = connection_->peer_user();
  bool const may_open = user && (*user == 0 || *user == service_.user);
  bool const has_all = keys_->empty() || key_->allows_all();
  return may_open && has_all
             ? ""
             : "the pool's memory is a device: only the daemon's user and root map it, with rights "
               "for all namespaces";
}

void session::send_welcome() {
  TND_ASSERT(stage_ == stage::proof);
  stage_ = stage::ready;
  service_.counters.client_count.fetch_add(1);
  input_.set_limits({});
  welcome_message reply;
  reply.can_write = has_namespace_ ? may_write_ : can_write_;
  reply.is_cluster = service_.cluster != nullptr;
  reply.is_durable = service_.objects.is_durable();
  if (service_.stripes != nullptr && client_version_ >= striping_version)
    reply.is_durable = durable_and_striped;
  int counters = -1;
  if (!has_namespace_)
    reply.reason = "the connection has no namespace";
  else if (!connection_->is_local())
    reply.reason = "the client is not on the daemon's node";
  else if (service_.cluster != nullptr)
    reply.reason = "the pool is a cluster";
  else if (std::string reason = memory_reason(); !reason.empty())
    reply.reason = std::move(reason);
  else {
    counters = service_.objects.counters_descriptor(namespace_id_);
    if (counters < 0)
      reply.reason = "the daemon has no more descriptors";
  }
  shares_memory_ = counters >= 0;
  reply.shares_memory = shares_memory_;
  send_reply(reply, {}, {}, counters < 0 ? -1 : fcntl(counters, F_DUPFD_CLOEXEC, 0));
}

void session::reject(status code, const std::string &why) {
  // A client that looks for the right server of a cluster is no reason for a line of the log.
  bool const is_elsewhere = code == status::stale || code == status::again;
  if (!is_elsewhere)
    service_.counters.refused_count.fetch_add(1);
  if (!is_elsewhere)
    service_.refusals.add(seams::monotonic_clock().now_ns(),
                          connection_->peer() + " is refused, key \"" + key_id_ +
                              "\", namespace \"" + namespace_name_ + "\": " + why);
  head_.kind = uint16_t(kind::welcome);
  set_last_message(why);
  send_error(code);
  is_closing_ = true;
}

}  // namespace tanada::poold
