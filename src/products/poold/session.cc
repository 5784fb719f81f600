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

constexpr size_t small_buffer_size =
    4096;  // before the handshake, and while the client sends nothing
constexpr size_t buffer_size = 128 << 10;
static_assert(buffer_size > sizeof(frame) + body_size_max);
constexpr size_t early_body_size_max = small_buffer_size - sizeof(frame);
constexpr uint64_t rest_after_ns = 5'000'000'000;
constexpr size_t receive_part_count_max = 32;       // of one receive
constexpr uint64_t mapped_reads_per_ns_max = 1000;  // bytes that a client may say it copied: 1 TB/s
constexpr uint64_t mapped_reads_ns_max = 3'600'000'000'000;  // for an hour at most

}  // namespace

session::session(service &with, std::unique_ptr<port::stream> connection, uint64_t id,
                 std::shared_ptr<mailbox> answers, uint64_t now_ns)
    : with_{with},
      connection_{std::move(connection)},
      id_{id},
      answers_{std::move(answers)},
      moved_ns_{now_ns},
      started_ns_{now_ns},
      host_reads_until_ns_{now_ns},
      device_reads_until_ns_{now_ns} {
  in_.resize(small_buffer_size);
}

session::~session() {
  if (!fabric_peer_.empty())
    with_.fabric->forget_peer(fabric_peer_);
  if (stage_ != stage::ready)
    return;
  with_.counters.client_count.fetch_sub(1);
  // Its objects go before its namespace does.
  put_.reset();
  job_.reset();
  out_.clear();
  handles_.clear();
  if (has_space_)
    with_.objects.leave(space_id_, can_write_, id_);
}

session::view session::describe() const {
  tnd_pool_path const path = shares_memory_                   ? TND_POOL_PATH_SHARED_MEMORY
                             : fabric_claim_ == claim::proven ? fabric_path()
                                                              : stream_path();
  return {connection_->peer(), space_name_, key_id_, path, written_size_, read_size_, started_ns_};
}

tnd_pool_path session::stream_path() const {
  return connection_->is_local() ? TND_POOL_PATH_UNIX : TND_POOL_PATH_TCP;
}
tnd_pool_path session::fabric_path() const {
  return with_.fabric->is_rdma() ? TND_POOL_PATH_RDMA : TND_POOL_PATH_FABRIC;
}

void session::count_written(tnd_pool_path path, uint64_t size) {
  written_size_ += size;
  with_.counters.written.add(path, size);
}

void session::count_read(tnd_pool_path path, uint64_t size) {
  read_size_ += size;
  with_.counters.read.add(path, size);
}

// It has no answer. A client may tell what it likes, but no more than memory could have given it
// since it came.
status session::on_mapped_reads(std::span<const std::byte> body) {
  mapped_reads_note in;
  TND_TRY(decode(body, in));
  if (!shares_memory_)
    return status::protocol;
  count_read(TND_POOL_PATH_SHARED_MEMORY, credible(in.host_size, host_reads_until_ns_));
  count_read(TND_POOL_PATH_GPU_DIRECT, credible(in.device_size, device_reads_until_ns_));
  return status::ok;
}

// What of `size` can have been copied between `until_ns`, to which all that was told before
// reaches, and now; `until_ns` moves on by the time that this takes at the least.
uint64_t session::credible(uint64_t size, uint64_t &until_ns) {
  uint64_t const now_ns = std::max(port::monotonic_clock().now_ns(), until_ns);
  until_ns = std::max(until_ns, now_ns - std::min(now_ns, mapped_reads_ns_max));
  size = std::min(size, (now_ns - until_ns) * mapped_reads_per_ns_max);
  until_ns += (size + mapped_reads_per_ns_max - 1) / mapped_reads_per_ns_max;
  return size;
}

bool session::is_overdue(uint64_t now_ns) const {
  if (stage_ != stage::ready)
    return now_ns > started_ns_ + with_.limits.handshake_ns;
  bool const half_done = in_end_ > in_begin_ || sink_.rest > 0 || !out_.empty();
  return half_done && !job_ && now_ns > moved_ns_ + with_.limits.stall_ns;
}

void session::rest(uint64_t now_ns) {
  bool const is_unused = in_begin_ == in_end_ && sink_.rest == 0 && !job_;
  if (!is_unused || in_.size() == small_buffer_size || now_ns < moved_ns_ + rest_after_ns)
    return;
  in_ = std::vector<std::byte>(small_buffer_size);
  in_begin_ = 0;
  in_end_ = 0;
}

void session::log_end(uint64_t now_ns, const std::string &reason) {
  std::string const line = connection_->peer() + " " + reason + ": the connection is closed";
  if (is_early())
    with_.refusals.add(now_ns, line);
  else
    log(log_level::warning, "pool: %s", line.c_str());
}

// A client whose secret is another than the daemon's sees that by the daemon's proof, and leaves
// without one of its own.
session::outcome session::end_unproven(uint64_t now_ns) {
  if (stage_ != stage::proof || keys_->empty())
    return outcome::ended;
  with_.counters.refused.fetch_add(1);
  with_.counters.errors.add(status::access);
  with_.refusals.add(now_ns, connection_->peer() + " left the handshake without a proof, key \"" +
                                 key_id_ + "\", namespace \"" + space_name_ +
                                 "\": does its key file have the secret of the daemon's?");
  return outcome::ended;
}

session::outcome session::flush(uint64_t now_ns) {
  uint64_t moved = 0;
  status const code = out_.flush(*connection_, with_.limits.turn_size, moved);
  if (moved > 0)
    moved_ns_ = now_ns;
  if (code == status::fault) {
    log(log_level::warning, "pool: %s was being sent bytes that are gone: the connection is closed",
        connection_->peer().c_str());
    with_.objects.look_at_memory();
  }
  if (code == status::ok)
    return out_.empty() ? outcome::waiting : outcome::busy;
  return code == status::again ? outcome::waiting : outcome::ended;
}

session::outcome session::progress(uint64_t now_ns) {
  uint64_t moved = 0;
  bool more = true, drained = false;  // drained: all that had come was received
  while (more && moved < with_.limits.turn_size) {
    if (job_ && !step_job())
      break;
    more = false;
    if (status const code = parse(more); code != status::ok) {
      with_.counters.errors.add(status::protocol);
      if (is_early())
        with_.counters.refused.fetch_add(1);
      log_end(now_ns, "sent what is no request");
      return outcome::ended;
    }
    // An answer goes before the next look at the socket. In the midst of an object's bytes more is
    // likely to have come.
    if (more || !wants_to_receive() || (drained && sink_.rest == 0))
      continue;
    uint64_t const before = moved;
    status const code = receive(moved, drained);
    if (code == status::peer_lost)
      return end_unproven(now_ns);
    more = moved > before;
  }
  outcome const sent = flush(now_ns);
  if (moved > 0)
    moved_ns_ = now_ns;
  if (sent == outcome::ended || (ending_ && out_.empty()))
    return outcome::ended;
  return (job_ && !job_waits()) || more || sent == outcome::busy ? outcome::busy : outcome::waiting;
}

// Into the data's place and, behind it, into the buffer.
status session::receive(uint64_t &moved, bool &drained) {
  if (in_begin_ == in_end_) {
    in_begin_ = 0;
    in_end_ = 0;
  }
  if (in_begin_ > 0 && (in_.size() - in_end_ < in_.size() / 2)) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  iovec parts[receive_part_count_max + 1];
  size_t count = 0;
  uint64_t wanted = 0, room = 0;  // of the data's place; of all parts
  for (size_t i = sink_.part; i < sink_.parts.size() && count < receive_part_count_max; i++) {
    parts[count++] = sink_.parts[i];
    wanted += sink_.parts[i].iov_len;
  }
  if (wanted == 0 || sink_.part + count == sink_.parts.size()) {
    parts[count++] = {in_.data() + in_end_, in_.size() - in_end_};
  }
  for (size_t i = 0; i < count; i++)
    room += parts[i].iov_len;
  auto size = connection_->receive({parts, count});
  if (!size.ok() && size.error() == status::fault) {
    refuse_data();
    return receive(moved, drained);
  }
  if (!size.ok())
    return size.error();
  moved += size.value();
  drained = size.value() < room;
  uint64_t const to_sink = std::min<uint64_t>(size.value(), wanted);
  in_end_ += size.value() - to_sink;
  if (to_sink > 0)
    take_data(to_sink);
  if (in_end_ == in_.size())
    grow_buffer();
  return status::ok;
}

void session::grow_buffer() {
  if (!is_early() && in_.size() < buffer_size)
    in_.resize(buffer_size);
}

// Its place is gone from the backing file: the rest is passed over, and the answer says so.
void session::refuse_data() {
  with_.objects.look_at_memory();
  sink_.parts.clear();
  sink_.part = 0;
  sink_.then = &session::answer_lost;
}

void session::answer_lost() {
  put_.reset();
  answer_error(fail(status::io, "its place in the pool's file is gone"));
}

// `size` bytes of the data have come to their place.
void session::take_data(uint64_t size) {
  sink_.rest -= size;
  count_written(stream_path(), size);
  while (size > 0 && sink_.part < sink_.parts.size()) {
    iovec &part = sink_.parts[sink_.part];
    uint64_t const taken = std::min<uint64_t>(size, part.iov_len);
    part.iov_base = static_cast<std::byte *>(part.iov_base) + taken;
    part.iov_len -= taken;
    size -= taken;
    if (part.iov_len == 0)
      sink_.part++;
  }
}

// One step with what is in the buffer. `more`: there may be another one.
status session::parse(bool &more) {
  if (ending_ || job_)
    return status::ok;
  size_t const have = in_end_ - in_begin_;
  if (sink_.rest > 0 && have > 0) {
    size_t const taken = size_t(std::min<uint64_t>(have, sink_.rest));
    size_t copied = 0;
    for (size_t i = sink_.part; i < sink_.parts.size() && copied < taken; i++) {
      size_t const part = std::min(taken - copied, sink_.parts[i].iov_len);
      std::memcpy(sink_.parts[i].iov_base, in_.data() + in_begin_ + copied, part);
      copied += part;
    }
    in_begin_ += taken;
    if (sink_.part < sink_.parts.size())
      take_data(taken);
    else
      sink_.rest -= taken;
    more = true;
    return status::ok;
  }
  if (sink_.rest > 0)
    return status::ok;
  if (sink_.then != nullptr) {
    auto const then = sink_.then;
    sink_ = {};
    more = true;
    (this->*then)();
    return status::ok;
  }
  if (have < sizeof(frame) || !takes_requests())
    return status::ok;
  frame head;
  std::memcpy(&head, in_.data() + in_begin_, sizeof head);
  TND_TRY(frame_check(head));
  if (stage_ != stage::ready && (head.body_size > early_body_size_max || head.data_size > 0))
    return status::protocol;
  if (have - sizeof head < head.body_size)
    return status::ok;
  std::span const body{in_.data() + in_begin_ + sizeof head, head.body_size};
  in_begin_ += sizeof head + head.body_size;
  head_ = head;
  sink_ = {};
  sink_.rest = head.data_size;
  more = true;
  if (stage_ != stage::ready)
    return handshake(head, body);
  late_ = false;
  status const code = dispatch(head, body);
  if (code == status::protocol)
    return code;
  if (code != status::ok) {
    sink_.parts.clear();
    sink_.then = nullptr;
    answer_error(code);
  }
  return status::ok;
}

namespace {

// Requests that have no answer are answered by the end of the connection.
status refuse_without_space(kind what) {
  if (what < kind::create || what > kind::spaces || what == kind::close || what == kind::note ||
      what == kind::mapped_reads)
    return status::protocol;
  set_last_message("the connection has no namespace: it only lists those of the pool");
  return status::invalid;
}

}  // namespace

status session::dispatch(const frame &head, std::span<const std::byte> body) {
  set_last_message({});
  if (!has_space_ && kind(head.what) != kind::spaces)
    return refuse_without_space(kind(head.what));
  switch (kind(head.what)) {
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
    case kind::spaces: return on_spaces(body);
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
  if (stage_ == stage::hello && kind(head.what) == kind::hello)
    return hello(body);
  if (stage_ == stage::hello && kind(head.what) == kind::identify && !is_identified_)
    return identify(body);
  if (stage_ == stage::proof && kind(head.what) == kind::proof)
    return proof(body);
  return status::protocol;
}

status session::identify(std::span<const std::byte> body) {
  empty_message in;
  TND_TRY(decode(body, in));
  is_identified_ = true;
  answer(identity_reply{with_.id});
  return status::ok;
}

status session::hello(std::span<const std::byte> body) {
  hello_message in;
  TND_TRY(decode(body, in));
  if (in.version != protocol_version) {
    refuse(status::not_supported,
           "this daemon speaks version " + std::to_string(protocol_version) + " of the protocol");
    return status::ok;
  }
  bool const is_named = !in.space.empty();
  if (is_named && (!name_is_good(in.space) || in.space.find('/') != std::string::npos))
    return status::protocol;
  space_name_ = in.space;
  key_id_ = in.key_id;
  client_nonce_ = in.nonce;
  server_nonce_ = pool::random_bytes();
  challenge_message out;
  out.nonce = server_nonce_;
  keys_ = with_.keys.keys();
  if (keys_->empty() && demands_key_) {
    refuse(status::access, "this pool has just given up its keys: connect again");
    return status::ok;
  }
  for (const pool::key &one : *keys_)
    if (one.id == in.key_id)
      key_ = &one;
  // The answer to an id without a key looks like the one to an id with a key.
  if (key_ != nullptr)
    out.proof =
        pool::proof_of(*key_, pool::prover::server, client_nonce_, server_nonce_, space_name_);
  else if (!keys_->empty())
    out.proof = pool::random_bytes();
  stage_ = stage::proof;
  head_.what = uint16_t(kind::challenge);
  answer(out);
  return status::ok;
}

status session::proof(std::span<const std::byte> body) {
  proof_message in;
  TND_TRY(decode(body, in));
  head_.what = uint16_t(kind::welcome);
  if (!keys_->empty()) {
    bool const proved =
        key_ != nullptr &&
        pool::is_equal(in.proof, pool::proof_of(*key_, pool::prover::client, client_nonce_,
                                                server_nonce_, space_name_));
    if (!proved) {
      // Whether there is a key of this id is nobody's business who has not proven it.
      refuse(status::access, key_id_.empty()
                                 ? "this pool demands a key"
                                 : "authentication failed with key \"" + key_id_ + "\"");
      return status::ok;
    }
    if (!space_name_.empty() && !key_->allows(space_name_)) {
      refuse(status::access, "the key is not good for namespace " + space_name_);
      return status::ok;
    }
    can_write_ = key_->can_write;
  }
  if (admit_ != nullptr && !admit_()) {
    refuse(status::busy,
           "the pool has all connections that its --clients allows: others took this "
           "one's place before its handshake was done");
    return status::ok;
  }
  if (status const code = enter_space(); code != status::ok)
    refuse(code, last_message());
  else
    welcome();
  return status::ok;
}

status session::enter_space() {
  if (space_name_.empty())
    return status::ok;
  auto entered = with_.objects.enter(space_name_, can_write_);
  if (!entered.ok())
    return entered.error();
  space_id_ = entered.value();
  has_space_ = true;
  return status::ok;
}

bool session::may_see(const std::string &space_name) const {
  return keys_->empty() || key_->allows(space_name);
}

void session::welcome() {
  stage_ = stage::ready;
  with_.counters.client_count.fetch_add(1);
  if (in_end_ == in_.size())
    grow_buffer();
  welcome_message out;
  out.can_write = can_write_;
  out.is_durable = with_.objects.is_durable();
  int counters = -1;
  if (!has_space_)
    out.reason = "the connection has no namespace";
  else if (!connection_->is_local())
    out.reason = "the client is not on the daemon's node";
  else if (!with_.memory.is_lendable())
    out.reason = "the pool's memory is a file of the daemon's";
  else {
    counters = with_.objects.counters_descriptor(space_id_);
    if (counters < 0)
      out.reason = "the daemon has no more descriptors";
  }
  shares_memory_ = counters >= 0;
  out.shares_memory = shares_memory_;
  answer(out, {}, {}, counters < 0 ? -1 : fcntl(counters, F_DUPFD_CLOEXEC, 0));
}

void session::refuse(status code, const std::string &why) {
  with_.counters.refused.fetch_add(1);
  with_.refusals.add(port::monotonic_clock().now_ns(), connection_->peer() + " is refused, key \"" +
                                                           key_id_ + "\", namespace \"" +
                                                           space_name_ + "\": " + why);
  head_.what = uint16_t(kind::welcome);
  set_last_message(why);
  answer_error(code);
  ending_ = true;
}

}  // namespace tanada::poold
