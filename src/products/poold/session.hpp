// products/poold/session.hpp: one client's connection.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/wire/pool.hpp"
#include "products/pool/checksum.hpp"
#include "products/poold/output.hpp"
#include "products/poold/service.hpp"
#include "seams/os/poller.hpp"
#include "seams/stream/stream.hpp"

namespace tanada::poold {

// An answer that had to wait for the journal or the fabric.
struct late_answer {
  uint64_t session, tag;
  uint16_t what;  // wire::pool::kind
  status code;
  info about;
  object_ref hold{};  // of a transfer
};

// How other threads reach the thread that serves a session. Outlives both, where it must.
class mailbox {
 public:
  port::waker &waker() noexcept {
    return waker_;
  }

  void put(late_answer answer);
  std::vector<late_answer> take();

 private:
  port::waker waker_;
  std::mutex mutex_;
  std::vector<late_answer> answers_;
};

// A state machine over a stream that never waits. Nothing that comes in is trusted: a frame that is
// none ends the session, a request that cannot be met is answered by a status, and its data is
// passed over. Used by one thread at a time.
class session {
 public:
  session(service &with, std::unique_ptr<port::stream> connection, uint64_t id,
          std::shared_ptr<mailbox> answers, uint64_t now_ns);
  ~session();

  // waiting: for bytes, or room to send, or the journal. busy: there is more to do at once. ended:
  // destroy it.
  enum class outcome { waiting, busy, ended };
  outcome progress(uint64_t now_ns);

  bool wants_to_receive() const noexcept {
    return !ending_ && !job_ && takes_requests();
  }
  // Nothing is owed to the client.
  bool is_settled() const noexcept {
    return out_.empty() && late_count_ == 0 && !job_;
  }
  bool wants_to_send() const noexcept {
    return !out_.empty();
  }

  // An answer that waited for the journal.
  void finish(const late_answer &answer);

  // Something is half done and has not moved for too long.
  bool is_overdue(uint64_t now_ns) const;

  // Nobody looked at the client's user, because the daemon had keys when it came: it needs one,
  // even if there are none by now.
  void demand_key() noexcept {
    demands_key_ = true;
  }

  // Called once a client has proven itself, before it gets its welcome. False: its place was given
  // to another connection, and the client is refused.
  void on_proven(std::function<bool()> admit) {
    admit_ = std::move(admit);
  }

  // The handshake is not done yet.
  bool is_early() const noexcept {
    return stage_ != stage::ready;
  }

  // Frees what a client that sends nothing for a while does not need.
  void rest(uint64_t now_ns);

  // A line about this client; a limited number of lines about those in their handshake.
  void log_end(uint64_t now_ns, const std::string &reason);

  struct view {
    std::string peer, space_name, key_id;
    tnd_pool_path path;
    uint64_t written_size, read_size, connected_ns;  // the last is a time of monotonic_clock
  };
  view describe() const;
  const port::stream &connection() const noexcept {
    return *connection_;
  }
  uint64_t id() const noexcept {
    return id_;
  }

 private:
  struct handle {
    object_ref object;
    bool is_writer = false;
    std::string name, set;
    uint32_t flags = 0;
    written_ranges written;
    bool has_too_many_ranges = false;
  };
  // Where the data behind a request goes.
  struct data_sink {
    std::vector<iovec> parts;  // what is left of them
    size_t part = 0;
    uint64_t rest = 0;  // bytes still to come, also where there are no parts to take them
    void (session::*then)() = nullptr;
  };
  // Work on an object's bytes, in turns between those of others. The next request of the session
  // comes after it.
  struct byte_job {
    handle *target = nullptr;  // one of handles_, or `whole`
    handle whole;              // of a put and of a create, which have none yet
    // What is to be done, in this order.
    object_ref source;  // copy its first `copy_size` bytes
    uint64_t copy_size = 0, copied_size = 0;
    bool clears = false;  // what was not written
    pool::checksum sum{pool::checksum_kind::none};
    uint64_t summed_size = 0;
    status (session::*then)(byte_job &) = nullptr;
    wire::pool::commit_terms terms;         // of a commit
    std::vector<wire::pool::range> ranges;  // of a read
  };

  outcome flush(uint64_t now_ns);
  outcome end_unproven(uint64_t now_ns);
  // `drained`: less had come than there was room for.
  status receive(uint64_t &moved, bool &drained);
  status parse(bool &more);
  void take_data(uint64_t size);
  void refuse_data();
  status enter_space();
  bool may_see(const std::string &space_name) const;
  status dispatch(const wire::pool::frame &head, std::span<const std::byte> body);
  status handshake(const wire::pool::frame &head, std::span<const std::byte> body);
  status identify(std::span<const std::byte> body);
  status hello(std::span<const std::byte> body);
  status proof(std::span<const std::byte> body);
  void welcome();
  void refuse(status code, const std::string &why);

  template <class Message>
  void answer(const Message &message, std::vector<iovec> parts = {}, object_ref hold = {},
              int descriptor = -1);
  void answer_error(status code);
  void answer_object(uint64_t id, const handle &which);
  status demand_writer();
  status demand_whole(const object &which);
  status demand_handle();
  result<handle *> find(uint64_t id);
  result<uint64_t> keep(handle made);

  status on_create(std::span<const std::byte> body);
  status on_open(std::span<const std::byte> body);
  status on_resize(std::span<const std::byte> body);
  status on_write(std::span<const std::byte> body);
  status on_read(std::span<const std::byte> body);
  status on_note(std::span<const std::byte> body);
  status on_mapped_reads(std::span<const std::byte> body);
  static uint64_t credible(uint64_t size, uint64_t &until_ns);
  status on_commit(std::span<const std::byte> body);
  status on_close(std::span<const std::byte> body);
  status on_put(std::span<const std::byte> body);
  status on_get(std::span<const std::byte> body);
  status on_stat(std::span<const std::byte> body);
  status on_list(std::span<const std::byte> body);
  status on_spaces(std::span<const std::byte> body);
  status on_rename(std::span<const std::byte> body);
  status on_remove(std::span<const std::byte> body);
  status on_set_flags(std::span<const std::byte> body);
  status on_set_commit(std::span<const std::byte> body);
  status on_segment(std::span<const std::byte> body);
  status on_reserve(std::span<const std::byte> body);
  status on_statistics(std::span<const std::byte> body);
  status on_fabric(std::span<const std::byte> body);
  status on_fabric_proof(std::span<const std::byte> body);
  status on_rma(std::span<const std::byte> body, bool to_pool);
  void write_done();
  void put_done();
  void answer_lost();

  status begin_commit(std::unique_ptr<byte_job> job);
  bool step_job();
  bool job_waits() const;
  void copy_some(byte_job &at, uint64_t &budget);
  void sum_some(byte_job &at, uint64_t &budget);
  status end_create(byte_job &job);
  status end_read(byte_job &job);
  status end_sum(byte_job &job);
  status end_commit(byte_job &job);
  void bound_ranges(handle &of);
  journal_done defer_answer(bool wait, const info &about);
  status cancel_deferral_on_error(status code);
  bool takes_requests() const noexcept {
    return out_.size() < with_.limits.output_size_max && late_count_ < with_.limits.late_count_max;
  }
  tnd_pool_path stream_path() const;
  tnd_pool_path fabric_path() const;
  void count_written(tnd_pool_path path, uint64_t size);
  void count_read(tnd_pool_path path, uint64_t size);

  service &with_;
  std::unique_ptr<port::stream> connection_;
  uint64_t const id_;
  std::shared_ptr<mailbox> answers_;
  std::function<bool()> admit_;  // none: every proven client is admitted

  enum class stage { hello, proof, ready } stage_ = stage::hello;
  std::string space_name_, key_id_;
  std::shared_ptr<const key_ring::list> keys_;  // as they were at the hello
  const pool::key *key_ = nullptr;              // one of them
  wire::pool::bytes32 client_nonce_{}, server_nonce_{};
  uint64_t space_id_ = 0;
  bool has_space_ = false;  // the client named one
  bool can_write_ = true, shares_memory_ = false, ending_ = false, late_ = false;

  void grow_buffer();

  bool is_identified_ = false, demands_key_ = false;
  std::vector<std::byte> in_;  // small until it was filled once, and again while nothing comes
  size_t in_begin_ = 0, in_end_ = 0;
  wire::pool::frame head_;  // of the request at work
  data_sink sink_;
  uint64_t sink_handle_ = 0;
  std::vector<wire::pool::range> sink_ranges_;
  std::unique_ptr<byte_job> job_, put_;
  // Transfers over the fabric: what is written once they are done, by tag.
  struct fabric_write {
    uint64_t handle, offset, size;
  };
  std::unordered_map<uint64_t, fabric_write> fabric_writes_;
  // The endpoint that the client says it has. Nothing is read or written there before the proof.
  // One claim a connection.
  enum class claim { none, waits, proven, failed } fabric_claim_ = claim::none;
  std::string fabric_peer_;  // its address; empty: no claim
  wire::pool::bytes32 fabric_secret_{};
  uint64_t fabric_deadline_ns_ = 0;
  output out_;
  std::unordered_map<uint64_t, handle> handles_;
  uint64_t next_handle_ = 1;
  uint32_t late_count_ = 0;  // answers that the journal or the fabric owes
  uint64_t moved_ns_, started_ns_, host_reads_until_ns_, device_reads_until_ns_, written_size_ = 0,
                                                                                 read_size_ = 0;
};

template <class Message>
void session::answer(const Message &message, std::vector<iovec> parts, object_ref hold,
                     int descriptor) {
  uint64_t data_size = 0;
  for (const iovec &one : parts)
    data_size += one.iov_len;
  if (data_size > 0)
    count_read(stream_path(), data_size);
  out_.add(wire::pool::frame_of(
               {.what = head_.what, .code = 0, .tag = head_.tag, .data_size = data_size}, message),
           std::move(parts), std::move(hold), descriptor);
}

}  // namespace tanada::poold
