// products/poold/session.hpp: one client's connection.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/sockets/ring_stream.hpp"
#include "core/base/mutex.hpp"
#include "core/wire/pool_fragments.hpp"
#include "core/wire/pool_replica.hpp"
#include "products/pool/checksum.hpp"
#include "products/pool/frame_receiver.hpp"
#include "products/poold/output.hpp"
#include "products/poold/service.hpp"
#include "seams/os/poller.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::poold {

// As the kind of a request: replies in the session's queue may be settled.
inline constexpr uint16_t settled_notice = 0;
// Bytes of cold objects were read; the tag is that of cold_reads_, if they wait for it.
inline constexpr uint16_t read_notice_kind = UINT16_MAX;

// The reply to a question about striped objects.
struct stripe_answer {
  stripe_answer(uint32_t asked_partition, uint64_t asked_term)
      : partition{asked_partition}, term{asked_term} {}
  uint32_t partition;  // of the objects
  uint64_t term;       // when the question was asked
  wire::pool::stripe_check_reply reply;
};

// A reply that had to wait for the journal, the fabric or the other servers of a cluster.
struct deferred_reply {
  uint64_t session, tag;
  uint16_t request_kind;  // wire::pool::kind
  status code;
  info metadata;
  object_ref hold{};                              // the object of a transfer
  std::shared_ptr<const stripe_answer> answer{};  // of stripe_check and fragment_report
  uint64_t began_ns = 0;                          // of the request; 0: its duration is not counted
};

// The queue through which other threads send deferred replies to the thread that serves a session.
// Callbacks share its ownership, so it may outlive both.
class mailbox {
 public:
  seams::waker &waker() noexcept {
    return waker_;
  }

  void put(deferred_reply answer);
  std::vector<deferred_reply> take();

 private:
  seams::waker waker_;
  mutex mutex_;
  std::vector<deferred_reply> replies_ TND_GUARDED_BY(mutex_);
};

// A state machine over a non-blocking stream. Input is untrusted: a malformed frame ends the
// session. A request that fails is answered with a status, and its data is skipped. Used by one
// thread at a time.
class session {
 public:
  session(service &shared,
          std::unique_ptr<seams::stream> connection,
          uint64_t id,
          std::shared_ptr<mailbox> reply_mailbox,
          uint64_t now_ns);
  ~session();

  // waiting: for input, for space in the socket, or for a deferred reply. paused: a request waits
  // for memory; call again after about a millisecond. busy: there is more to do without waiting.
  // ended: destroy the session.
  enum class outcome { waiting, paused, busy, ended };
  outcome progress(uint64_t now_ns);

  bool expects_input() const noexcept {
    return !is_closing_ && !job_ && !parked_ && !fetch_ && accepts_requests();
  }
  // No reply to the client is outstanding.
  bool is_drained() const noexcept {
    return output_.empty() && deferred_count_ == 0 && !job_ && !parked_;
  }
  bool has_output() const noexcept {
    return !output_.empty() && !awaits_settling_ && !output_.is_reading();
  }

  // Send a reply that waited for the journal, the fabric or the other servers of a cluster.
  void finish_deferred(const deferred_reply &deferred);

  // The handshake, a frame or a reply has made no progress within its timeout.
  bool is_overdue(uint64_t now_ns) const;

  // Require a key even if the daemon no longer has keys. The server did not check the client's user
  // because the daemon had keys when the client connected.
  void require_key() noexcept {
    requires_key_ = true;
  }

  // Set the function that is called once the client has authenticated, before its welcome. If it
  // returns false, the connection was evicted in favor of another, and the client is refused.
  void set_admission(std::function<bool()> admission) {
    admission_ = std::move(admission);
  }

  // The handshake is not complete.
  bool is_in_handshake() const noexcept {
    return stage_ != stage::ready;
  }

  // Shrink the input buffer of a client that has been silent for a while.
  void shrink_idle_buffer(uint64_t now_ns);

  // Log why the connection closes. Lines about clients in their handshake are rate-limited.
  void log_close(uint64_t now_ns, const std::string &reason);

  struct view {
    std::string peer, namespace_name, key_id;
    tnd_pool_path path;
    uint64_t written_size, read_size, connected_ns;  // the last is a time of monotonic_clock
  };
  view describe() const;
  const seams::stream &connection() const noexcept {
    return *connection_;
  }
  uint64_t id() const noexcept {
    return id_;
  }
  // The rings that the client's requests come through; null: they come over a socket.
  backends::ring_stream *ring() const noexcept {
    return rings_.stream;
  }

 private:
  struct handle {
    object_ref object;
    bool is_writer = false;
    std::string name, set;
    uint32_t flags = 0;
    written_ranges written;
    bool has_too_many_ranges = false;
    std::shared_ptr<cold_reader> reader = {};  // of a cold object
  };
  // Work on an object's bytes, in bounded steps that alternate with other sessions. The session's
  // next request is parsed after it.
  struct byte_job {
    handle *target = nullptr;  // one of handles_, or `own_handle`
    handle own_handle;         // of a put and of a create, which have no entry in handles_ yet
    // The steps, in this order.
    std::shared_ptr<cold_load> load;  // read the bytes of `cold` into the target; may be null
    object_ref cold;
    status (session::*on_loaded)(byte_job &) = nullptr;
    std::vector<std::byte> body;  // of the request that needs the bytes
    object_ref source;            // copy its first `copy_size` bytes; may be null
    uint64_t copy_size = 0, copied_size = 0;
    bool clears_unwritten = false;  // clear the unwritten ranges
    pool::checksum sum{pool::checksum_kind::none};
    uint64_t summed_size = 0;
    status (session::*on_complete)(byte_job &) = nullptr;
    wire::pool::commit_terms terms;         // of a commit
    std::vector<wire::pool::range> ranges;  // of a read
  };

  // A request that waits for memory.
  struct parked_request {
    wire::pool::frame head;
    std::vector<std::byte> body;
    uint64_t since_ns;
    status cause;
  };

  // A read of a cold object before its first byte can be sent.
  struct cold_read {
    wire::pool::frame head;
    object_ref object;
    std::string name;
    bool is_get = false;  // of all bytes, with the metadata
    bool is_hot = false;
    std::shared_ptr<cold_stream> stream = {};
    uint64_t began_ns = 0;  // of the request
  };

  // What one call of progress() has done.
  struct turn {
    uint64_t moved = 0;    // bytes received
    bool more = true;      // another step may be possible
    bool drained = false;  // all available input was received
  };

  outcome flush(uint64_t now_ns);
  outcome close_unproven(uint64_t now_ns);
  status receive(turn &current);
  outcome receive_and_parse(turn &current, uint64_t now_ns);
  outcome end_invalid(uint64_t now_ns);
  status parse(bool &more);
  void end_data();
  status parse_frame(bool &more);
  status answer_request(const wire::pool::frame &head, std::span<const std::byte> body);
  void skip_lost_data();
  status enter_namespace();
  bool can_see_namespace(const std::string &namespace_name) const;
  struct request_handler {
    wire::pool::kind request;
    status (session::*function)(std::span<const std::byte> body);
  };
  static const request_handler request_handlers[];
  status dispatch(const wire::pool::frame &head, std::span<const std::byte> body);
  bool is_for_server(wire::pool::kind request) const;
  status handle_request_of(const wire::pool::frame &head, std::span<const std::byte> body);
  status handshake(const wire::pool::frame &head, std::span<const std::byte> body);
  status identify(std::span<const std::byte> body);
  bool is_allowed_name(const std::string &namespace_name) const;
  bool does_key_allow(const std::string &namespace_name) const;
  status locate(std::span<const std::byte> body);
  status on_locate(std::span<const std::byte> body);
  status require_cluster();
  status on_cluster_status(std::span<const std::byte> body);
  status require_operator();
  status on_cluster_drain(std::span<const std::byte> body);
  status on_cluster_remove(std::span<const std::byte> body);
  status on_cluster_clear(std::span<const std::byte> body);
  status hello(std::span<const std::byte> body);
  status proof(std::span<const std::byte> body);
  void send_welcome();
  std::string memory_reason() const;
  void reject(status code, const std::string &why);

  template <class Message>
  void send_reply(const Message &message,
                  std::vector<iovec> parts = {},
                  object_ref hold = {},
                  int descriptor = -1);
  void send_error(status code);
  // Counts the request whose reply was made. `size`: bytes of objects in the reply.
  void count_request(uint64_t size);
  // A reply may show the effect of every change up to now.
  void raise_barrier() {
    if (service_.cluster != nullptr && has_namespace_ && !is_settled_reply_ && !reads_backup_)
      output_.set_barrier(service_.cluster->last_position(partition_));
  }
  void send_object(uint64_t id, const handle &target);
  status require_writer();
  status require_intact(const object &target);
  status require_free_handle();
  result<handle *> find_handle(uint64_t id);
  result<uint64_t> add_handle(handle new_handle);

  // Cold objects, and waits for memory (session_cold.cc).
  allocation allocation_mode() const;
  status note_lack(status code);
  void park(const wire::pool::frame &head, std::span<const std::byte> body, status cause);
  status retry_parked(bool &more);
  read_notice make_notice(uint64_t read);
  bool is_hot(object &cold) const;
  status begin_cold_read(cold_read pending, cold_stream::selection ranges);
  void finish_cold_read(uint64_t number);
  void keep_in_memory(const cold_read &done);
  status report_damage(object &damaged, const std::string &name, status cause);
  status begin_load(catalog::opened_object opened, std::unique_ptr<byte_job> job);
  bool advance_load(byte_job &job, status &code);
  status finish_load(byte_job &job);
  status open_loaded(byte_job &job);
  status get_loaded(byte_job &job);
  status create_loaded(byte_job &job);
  status rma_loaded(byte_job &job);
  status get_cold(const wire::pool::get_request &request, catalog::opened_object opened);
  template <class Message>
  void send_stream(const Message &message, const std::shared_ptr<cold_stream> &stream);

  status on_create(std::span<const std::byte> body);
  status check_create(const wire::pool::create_request &request);
  status create(const wire::pool::create_request &request, object_ref previous);
  status on_open(std::span<const std::byte> body);
  status on_resize(std::span<const std::byte> body);
  status on_write(std::span<const std::byte> body);
  status on_read(std::span<const std::byte> body);
  status on_note(std::span<const std::byte> body);
  status on_mapped_reads(std::span<const std::byte> body);
  static uint64_t plausible_size(uint64_t size, uint64_t &until_ns);
  status on_commit(std::span<const std::byte> body);
  status on_close(std::span<const std::byte> body);
  status on_put(std::span<const std::byte> body);
  status on_get(std::span<const std::byte> body);
  status on_stat(std::span<const std::byte> body);
  status on_list(std::span<const std::byte> body);
  status on_namespaces(std::span<const std::byte> body);
  status on_rename(std::span<const std::byte> body);
  status on_remove(std::span<const std::byte> body);
  status on_set_flags(std::span<const std::byte> body);
  status on_set_commit(std::span<const std::byte> body);
  status on_segment(std::span<const std::byte> body);
  status on_reserve(std::span<const std::byte> body);
  status on_statistics(std::span<const std::byte> body);
  status on_ring(std::span<const std::byte> body);
  void enter_rings();
  status on_fabric(std::span<const std::byte> body);
  status on_fabric_proof(std::span<const std::byte> body);
  bool send_challenge(const wire::pool::bytes32 &tag);
  status on_rma_write(std::span<const std::byte> body);
  status on_rma_read(std::span<const std::byte> body);
  status on_rma(std::span<const std::byte> body, bool to_pool);
  status check_rma(const wire::pool::rma_request &request,
                   const handle &target,
                   bool to_pool) const;
  status submit_rma(const wire::pool::rma_request &request, const handle &target, bool to_pool);
  status require_peer(const wire::pool::replica_request &request);
  status on_replica_begin(std::span<const std::byte> body);
  status on_replica_list(std::span<const std::byte> body);
  status on_replica_apply(std::span<const std::byte> body);
  status on_replica_mark(std::span<const std::byte> body);
  status on_replica_settled(std::span<const std::byte> body);
  status on_read_backup(std::span<const std::byte> body);
  static result<std::string> name_to_read(const wire::pool::frame &head,
                                          std::span<const std::byte> body);
  status dispatch_as_backup(const wire::pool::frame &head, std::span<const std::byte> body);
  void finish_fabric_write(uint64_t tag, status code);
  status require_striping();
  result<object_ref> create_head(const wire::pool::create_striped_request &request);
  status require_server();
  status on_create_striped(std::span<const std::byte> body);
  status on_stripe_places(std::span<const std::byte> body);
  status on_stripe_limits(std::span<const std::byte> body);
  result<wire::pool::striped_id> next_striped_id();
  status on_stripe_evict(std::span<const std::byte> body);
  status on_stripe_check(std::span<const std::byte> body);
  void finish_stripe_check(const stripe_answer &answer);
  status on_stripe_hint(std::span<const std::byte> body);
  void answer_once_settled(std::shared_ptr<stripe_answer> answer);
  status on_cluster_erasure(std::span<const std::byte> body);
  status on_fragment_places(std::span<const std::byte> body);
  status on_fragment_report(std::span<const std::byte> body);
  status on_fragment_build(std::span<const std::byte> body);
  status on_fragment_read(std::span<const std::byte> body);
  status on_replica_fetch(std::span<const std::byte> body);
  status begin_replica(const wire::pool::replica_apply_request &request);
  status end_replica(const wire::pool::replica_apply_request &request, status code);
  status receive_replica(const wire::pool::replica_apply_request &request);
  status fetch_replica(const wire::pool::replica_fetch_request &request);
  result<change> create_replica(const wire::pool::replica_apply_request &request);
  void finish_fetch(const deferred_reply &fetched);
  void finish_replica();
  void finish_write();
  void finish_put();
  void send_data_lost();

  status begin_commit(std::unique_ptr<byte_job> job);
  bool step_job();
  bool is_job_blocked() const;
  void copy_part(byte_job &job, uint64_t &budget);
  void sum_part(byte_job &job, uint64_t &budget);
  status finish_create(byte_job &job);
  status finish_read(byte_job &job);
  status finish_sum(byte_job &job);
  status finish_commit(byte_job &job);
  void limit_ranges(handle &target);
  journal_callback defer_reply(bool wait, const info &metadata);
  journal_callback defer_replica(const wire::pool::replica_request &place);
  journal_callback defer_until(bool is_deferred, bool waits_for_disk, const info &metadata);
  bool is_served();
  uint64_t settled_position() const;
  void await_settling();
  status cancel_deferral_on_error(status code);
  bool accepts_requests() const noexcept {
    return output_.size() < service_.limits.output_size_max &&
           deferred_count_ < service_.limits.deferred_count_max;
  }
  tnd_pool_path stream_path() const;
  tnd_pool_path fabric_path() const;
  void count_written(tnd_pool_path path, uint64_t size);
  void count_read(tnd_pool_path path, uint64_t size);

  service &service_;
  std::unique_ptr<seams::stream> connection_;
  // `memory` without `stream`: the reply that ends the use of the socket is not sent yet.
  struct {
    std::unique_ptr<ring_budget::share> share;
    std::shared_ptr<backends::ring_memory> memory;
    backends::ring_stream *stream = nullptr;  // is connection_
  } rings_;
  uint64_t const id_;
  std::shared_ptr<mailbox> mailbox_;
  std::function<bool()> admission_;  // empty: every authenticated client is admitted

  enum class stage { hello, proof, ready } stage_ = stage::hello;
  std::string namespace_name_, key_id_;
  std::shared_ptr<const key_ring::list> keys_;  // the keys at the time of the hello
  const pool::key *key_ = nullptr;              // the client's, in keys_
  wire::pool::bytes32 client_nonce_{}, server_nonce_{};
  uint64_t namespace_id_ = 0;
  uint32_t partition_ = 0;  // the namespace's, in a cluster
  uint64_t term_ = 0;       // of the partition when the session began
  uint32_t client_version_ = wire::pool::protocol_version;
  bool awaits_settling_ = false, is_settled_reply_ = false;
  // A server that has a copy of the namespace may answer, until it has answered as the primary.
  bool reads_backup_ = false;
  bool has_namespace_ = false;  // the client named one
  bool may_write_ = true;       // what the client's key allows
  bool can_write_ = true, shares_memory_ = false, is_closing_ = false, is_deferred_ = false;

  bool is_identified_ = false, requires_key_ = false;
  pool::frame_receiver input_;
  wire::pool::frame head_;                    // of the current request
  void (session::*on_data_end_)() = nullptr;  // called when all of the request's data has arrived
  uint64_t write_handle_ = 0;                 // of a write whose data is being received
  std::vector<wire::pool::range> write_ranges_;
  std::unique_ptr<byte_job> job_, put_;
  std::unique_ptr<parked_request> parked_;
  bool lacks_memory_ = false;    // why the request at work has failed
  bool may_wait_ = true;         // the request at work may wait for memory
  uint64_t lacks_since_ns_ = 0;  // of the request at work; 0: it has not waited
  uint64_t turn_ns_ = 0;         // when the current turn began
  uint64_t began_ns_ = 0;        // of the request at work; 0: its duration is not counted
  std::unordered_map<uint64_t, cold_read> cold_reads_;
  uint64_t next_read_ = 1;
  // Changes of another server that take effect together. They hold their namespace.
  struct replica_group {
    ~replica_group();
    catalog &objects;
    uint64_t namespace_id;
    wire::pool::replica_request place;
    std::string namespace_name;
    std::vector<change> changes;
    bool is_complete = false, wants_disk = false;
    uint64_t position = 0, settled = 0;  // see replica_apply_request
  };
  std::unique_ptr<replica_group> replicas_;
  // The object whose bytes are read from another server over the fabric. The next request is parsed
  // after it.
  struct replica_fetch {
    uint64_t tag, size;
    wire::pool::replica_request place;
  };
  std::optional<replica_fetch> fetch_;
  // Ranges that fabric transfers in flight write, by tag.
  struct fabric_write {
    uint64_t handle, offset, size;
  };
  std::unordered_map<uint64_t, fabric_write> fabric_writes_;
  // The fabric endpoint that the client claims to own. The daemon accesses its memory only after
  // the proof. A connection may make one claim.
  enum class claim { unclaimed, pending, proven, failed } fabric_claim_ = claim::unclaimed;
  std::string fabric_peer_;  // the claimed address; empty: no claim
  wire::pool::bytes32 fabric_secret_{};
  uint64_t fabric_deadline_ns_ = 0;
  output output_;
  std::unordered_map<uint64_t, handle> handles_;
  uint64_t next_handle_ = 1;
  uint32_t deferred_count_ = 0;  // replies that wait for the journal or the fabric
  uint64_t last_progress_ns_, connected_ns_, host_reads_until_ns_, device_reads_until_ns_,
      written_size_ = 0, read_size_ = 0;
};

template <class Message>
void session::send_reply(const Message &message,
                         std::vector<iovec> parts,
                         object_ref hold,
                         int descriptor) {
  raise_barrier();
  uint64_t data_size = 0;
  for (const iovec &part : parts)
    data_size += part.iov_len;
  if (data_size > 0)
    count_read(stream_path(), data_size);
  output_.add(
      wire::pool::encode_frame(
          {.kind = head_.kind, .code = 0, .tag = head_.tag, .data_size = data_size}, message),
      std::move(parts),
      std::move(hold),
      descriptor);
  count_request(data_size);
}

template <class Message>
void session::send_stream(const Message &message, const std::shared_ptr<cold_stream> &stream) {
  raise_barrier();
  count_read(stream_path(), stream->size());
  output_.add_stream(
      wire::pool::encode_frame(
          {.kind = head_.kind, .code = 0, .tag = head_.tag, .data_size = stream->size()}, message),
      stream);
  count_request(stream->size());
}

}  // namespace tanada::poold
