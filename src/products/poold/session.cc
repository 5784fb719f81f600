// A client's session: its handshake, the parsing of requests, and the flow of their data.
#include "products/poold/session.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr size_t small_buffer_size = 4096;  // during the handshake, and while the client is silent
constexpr size_t buffer_size = 128 << 10;
static_assert(buffer_size > sizeof(frame) + body_size_max);
constexpr size_t early_body_size_max = small_buffer_size - sizeof(frame);
constexpr uint64_t rest_after_ns = 5'000'000'000;
constexpr size_t receive_part_count_max = 32;       // in one receive
constexpr uint64_t mapped_reads_per_ns_max = 1000;  // bytes that a client may report: 1 TB/s
constexpr uint64_t mapped_reads_ns_max = 3'600'000'000'000;  // reports cover at most one hour

}  // namespace

session::session(service &shared, std::unique_ptr<seams::stream> connection, uint64_t id,
                 std::shared_ptr<mailbox> reply_mailbox, uint64_t now_ns)
    : service_{shared},
      connection_{std::move(connection)},
      id_{id},
      mailbox_{std::move(reply_mailbox)},
      last_progress_ns_{now_ns},
      connected_ns_{now_ns},
      host_reads_until_ns_{now_ns},
      device_reads_until_ns_{now_ns} {
  input_.resize(small_buffer_size);
}

session::~session() {
  if (!fabric_peer_.empty())
    service_.fabric->release_peer(fabric_peer_);
  if (stage_ != stage::ready)
    return;
  service_.counters.client_count.fetch_sub(1);
  // Release its objects before its namespace.
  put_.reset();
  job_.reset();
  output_.clear();
  handles_.clear();
  if (has_namespace_)
    service_.objects.close_namespace(namespace_id_, can_write_, id_);
}

session::view session::describe() const {
  tnd_pool_path const path = shares_memory_                   ? TND_POOL_PATH_SHARED_MEMORY
                             : fabric_claim_ == claim::proven ? fabric_path()
                                                              : stream_path();
  return {connection_->peer(), namespace_name_, key_id_,      path,
          written_size_,       read_size_,      connected_ns_};
}

tnd_pool_path session::stream_path() const {
  return connection_->is_local() ? TND_POOL_PATH_UNIX : TND_POOL_PATH_TCP;
}
tnd_pool_path session::fabric_path() const {
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
  bool const half_done = input_end_ > input_begin_ || sink_.remaining_size > 0 || !output_.empty();
  return half_done && !job_ && now_ns > last_progress_ns_ + service_.limits.stall_ns;
}

void session::shrink_idle_buffer(uint64_t now_ns) {
  bool const is_unused = input_begin_ == input_end_ && sink_.remaining_size == 0 && !job_;
  if (!is_unused || input_.size() == small_buffer_size ||
      now_ns < last_progress_ns_ + rest_after_ns)
    return;
  input_ = std::vector<std::byte>(small_buffer_size);
  input_begin_ = 0;
  input_end_ = 0;
}

void session::log_close(uint64_t now_ns, const std::string &reason) {
  std::string const line = connection_->peer() + " " + reason + ": the connection is closed";
  if (is_in_handshake())
    service_.refusals.add(now_ns, line);
  else
    log(log_level::warning, "pool: %s", line.c_str());
}

// A client with another secret than the daemon's detects that by the daemon's proof, and
// disconnects without sending its own.
session::outcome session::close_unproven(uint64_t now_ns) {
  if (stage_ != stage::proof || keys_->empty())
    return outcome::ended;
  service_.counters.refused_count.fetch_add(1);
  service_.counters.errors.add(status::access);
  service_.refusals.add(now_ns, connection_->peer() +
                                    " left the handshake without a proof, key \"" + key_id_ +
                                    "\", namespace \"" + namespace_name_ +
                                    "\": check that its key file has the daemon's secret");
  return outcome::ended;
}

session::outcome session::flush(uint64_t now_ns) {
  uint64_t moved = 0;
  status const code = output_.flush(*connection_, service_.limits.turn_size, moved);
  if (moved > 0)
    last_progress_ns_ = now_ns;
  if (code == status::fault) {
    log(log_level::warning,
        "pool: %s was being sent an object that lost bytes: the connection is closed",
        connection_->peer().c_str());
    service_.objects.check_memory();
  }
  if (code == status::ok)
    return output_.empty() ? outcome::waiting : outcome::busy;
  return code == status::again ? outcome::waiting : outcome::ended;
}

session::outcome session::progress(uint64_t now_ns) {
  uint64_t moved = 0;
  bool more = true, drained = false;  // drained: all available input was received
  while (more && moved < service_.limits.turn_size) {
    if (job_ && !step_job())
      break;
    more = false;
    if (status const code = parse(more); code != status::ok) {
      service_.counters.errors.add(status::protocol);
      if (is_in_handshake())
        service_.counters.refused_count.fetch_add(1);
      log_close(now_ns, "sent an invalid request");
      return outcome::ended;
    }
    // Send replies before polling a drained socket again. In the middle of an object's data, more
    // has probably arrived.
    if (more || !expects_input() || (drained && sink_.remaining_size == 0))
      continue;
    uint64_t const before = moved;
    status const code = receive(moved, drained);
    if (code == status::peer_lost)
      return close_unproven(now_ns);
    more = moved > before;
  }
  outcome const sent = flush(now_ns);
  if (moved > 0)
    last_progress_ns_ = now_ns;
  if (sent == outcome::ended || (is_closing_ && output_.empty()))
    return outcome::ended;
  return (job_ && !is_job_blocked()) || more || sent == outcome::busy ? outcome::busy
                                                                      : outcome::waiting;
}

// Receive into the data's destination and, after it, into the buffer.
status session::receive(uint64_t &moved, bool &drained) {
  if (input_begin_ == input_end_) {
    input_begin_ = 0;
    input_end_ = 0;
  }
  if (input_begin_ > 0 && (input_.size() - input_end_ < input_.size() / 2)) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  iovec parts[receive_part_count_max + 1];
  size_t count = 0;
  uint64_t wanted = 0, room = 0;  // capacity of the data's destination, and of all parts
  for (size_t i = sink_.part; i < sink_.parts.size() && count < receive_part_count_max; i++) {
    parts[count++] = sink_.parts[i];
    wanted += sink_.parts[i].iov_len;
  }
  if (wanted == 0 || sink_.part + count == sink_.parts.size()) {
    parts[count++] = {input_.data() + input_end_, input_.size() - input_end_};
  }
  for (size_t i = 0; i < count; i++)
    room += parts[i].iov_len;
  auto size = connection_->receive({parts, count});
  if (!size.ok() && size.error() == status::fault) {
    discard_data();
    return receive(moved, drained);
  }
  if (!size.ok())
    return size.error();
  moved += size.value();
  drained = size.value() < room;
  uint64_t const to_sink = std::min<uint64_t>(size.value(), wanted);
  input_end_ += size.value() - to_sink;
  if (to_sink > 0)
    advance_sink(to_sink);
  if (input_end_ == input_.size())
    grow_buffer();
  return status::ok;
}

void session::grow_buffer() {
  if (!is_in_handshake() && input_.size() < buffer_size)
    input_.resize(buffer_size);
}

// The destination in the backing file is lost: skip the remaining data, and reply with an error.
void session::discard_data() {
  service_.objects.check_memory();
  sink_.parts.clear();
  sink_.part = 0;
  sink_.on_complete = &session::send_data_lost;
}

void session::send_data_lost() {
  put_.reset();
  send_error(fail(status::io, "the object's range of the pool's backing file is lost"));
}

// `size` bytes of the data have been received into their destination.
void session::advance_sink(uint64_t size) {
  sink_.remaining_size -= size;
  count_written(stream_path(), size);
  while (size > 0 && sink_.part < sink_.parts.size()) {
    iovec &part = sink_.parts[sink_.part];
    uint64_t const part_size = std::min<uint64_t>(size, part.iov_len);
    part.iov_base = static_cast<std::byte *>(part.iov_base) + part_size;
    part.iov_len -= part_size;
    size -= part_size;
    if (part.iov_len == 0)
      sink_.part++;
  }
}

// Process one step of the buffered input. `more`: another step may be possible.
status session::parse(bool &more) {
  if (is_closing_ || job_)
    return status::ok;
  size_t const have = input_end_ - input_begin_;
  if (sink_.remaining_size > 0 && have > 0) {
    size_t const data_size = size_t(std::min<uint64_t>(have, sink_.remaining_size));
    size_t copied = 0;
    for (size_t i = sink_.part; i < sink_.parts.size() && copied < data_size; i++) {
      size_t const part = std::min(data_size - copied, sink_.parts[i].iov_len);
      std::memcpy(sink_.parts[i].iov_base, input_.data() + input_begin_ + copied, part);
      copied += part;
    }
    input_begin_ += data_size;
    if (sink_.part < sink_.parts.size())
      advance_sink(data_size);
    else
      sink_.remaining_size -= data_size;
    more = true;
    return status::ok;
  }
  if (sink_.remaining_size > 0)
    return status::ok;
  if (sink_.on_complete != nullptr) {
    auto const on_complete = sink_.on_complete;
    sink_ = {};
    more = true;
    (this->*on_complete)();
    return status::ok;
  }
  if (have < sizeof(frame) || !accepts_requests())
    return status::ok;
  frame head;
  std::memcpy(&head, input_.data() + input_begin_, sizeof head);
  TND_TRY(frame_check(head));
  if (stage_ != stage::ready && (head.body_size > early_body_size_max || head.data_size > 0))
    return status::protocol;
  if (have - sizeof head < head.body_size)
    return status::ok;
  std::span const body{input_.data() + input_begin_ + sizeof head, head.body_size};
  input_begin_ += sizeof head + head.body_size;
  head_ = head;
  sink_ = {};
  sink_.remaining_size = head.data_size;
  more = true;
  if (stage_ != stage::ready)
    return handshake(head, body);
  is_deferred_ = false;
  status const code = dispatch(head, body);
  if (code == status::protocol)
    return code;
  if (code != status::ok) {
    sink_.parts.clear();
    sink_.on_complete = nullptr;
    send_error(code);
  }
  return status::ok;
}

namespace {

// Requests without a reply end the connection.
status refuse_without_space(kind request) {
  if (request < kind::create || request > kind::namespaces || request == kind::close ||
      request == kind::note || request == kind::mapped_reads)
    return status::protocol;
  set_last_message("the connection has no namespace: it can only list the pool's namespaces");
  return status::invalid;
}

}  // namespace

status session::dispatch(const frame &head, std::span<const std::byte> body) {
  set_last_message({});
  if (!has_namespace_ && kind(head.kind) != kind::namespaces)
    return refuse_without_space(kind(head.kind));
  switch (kind(head.kind)) {
    case kind::create: return on_create(body);
    case kind::open: return on_open(body);
    case kind::resize: return on_resize(body);
    case kind::write: return on_write(body);
    case kind::read: return on_read(body);
    case kind::note: return on_note(body);
    case kind::mapped_reads: return on_mapped_reads(body);
    case kind::commit: return on_commit(body);
    case kind::close: return on_close(body);
    case kind::put: return on_put(body);
    case kind::get: return on_get(body);
    case kind::stat: return on_stat(body);
    case kind::list: return on_list(body);
    case kind::namespaces: return on_spaces(body);
    case kind::rename: return on_rename(body);
    case kind::remove: return on_remove(body);
    case kind::set_flags: return on_set_flags(body);
    case kind::set_commit: return on_set_commit(body);
    case kind::segment: return on_segment(body);
    case kind::reserve: return on_reserve(body);
    case kind::statistics: return on_statistics(body);
    case kind::fabric: return on_fabric(body);
    case kind::fabric_proof: return on_fabric_proof(body);
    case kind::rma_write: return on_rma(body, true);
    case kind::rma_read: return on_rma(body, false);
    default: return status::protocol;
  }
}

status session::handshake(const frame &head, std::span<const std::byte> body) {
  if (stage_ == stage::hello && kind(head.kind) == kind::hello)
    return hello(body);
  if (stage_ == stage::hello && kind(head.kind) == kind::identify && !is_identified_)
    return identify(body);
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
  if (request.version != protocol_version) {
    reject(status::not_supported, "this daemon supports only version " +
                                      std::to_string(protocol_version) + " of the protocol");
    return status::ok;
  }
  bool const is_named = !request.namespace_name.empty();
  if (is_named && (!is_valid_name(request.namespace_name) ||
                   request.namespace_name.find('/') != std::string::npos))
    return status::protocol;
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

status session::proof(std::span<const std::byte> body) {
  proof_message request;
  TND_TRY(decode(body, request));
  head_.kind = uint16_t(kind::welcome);
  if (!keys_->empty()) {
    bool const proved =
        key_ != nullptr &&
        pool::is_equal(request.proof, pool::proof_of(*key_, pool::prover::client, client_nonce_,
                                                     server_nonce_, namespace_name_));
    if (!proved) {
      // Do not reveal to unauthenticated peers whether a key of this id exists.
      reject(status::access, key_id_.empty()
                                 ? "this pool requires a key"
                                 : "authentication failed with key \"" + key_id_ + "\"");
      return status::ok;
    }
    if (!namespace_name_.empty() && !key_->allows(namespace_name_)) {
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
  auto entered = service_.objects.open_namespace(namespace_name_, can_write_);
  if (!entered.ok())
    return entered.error();
  namespace_id_ = entered.value();
  has_namespace_ = true;
  return status::ok;
}

bool session::can_see_namespace(const std::string &namespace_name) const {
  return keys_->empty() || key_->allows(namespace_name);
}

void session::send_welcome() {
  stage_ = stage::ready;
  service_.counters.client_count.fetch_add(1);
  if (input_end_ == input_.size())
    grow_buffer();
  welcome_message reply;
  reply.can_write = can_write_;
  reply.is_durable = service_.objects.is_durable();
  int counters = -1;
  if (!has_namespace_)
    reply.reason = "the connection has no namespace";
  else if (!connection_->is_local())
    reply.reason = "the client is not on the daemon's node";
  else if (!service_.memory.is_exportable())
    reply.reason = "the pool's memory is a file of the daemon";
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
  service_.counters.refused_count.fetch_add(1);
  service_.refusals.add(seams::monotonic_clock().now_ns(),
                        connection_->peer() + " is refused, key \"" + key_id_ + "\", namespace \"" +
                            namespace_name_ + "\": " + why);
  head_.kind = uint16_t(kind::welcome);
  set_last_message(why);
  send_error(code);
  is_closing_ = true;
}

}  // namespace tanada::poold
