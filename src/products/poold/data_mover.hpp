// products/poold/data_mover.hpp: the thread that copies objects' bytes over a fabric, between the
// pool and its clients' memory.
//
// The daemon reads and writes memory that clients register. The pool's own memory is never
// accessible to peers. A fabric authenticates no peer, so the caller that submits a transfer must
// have verified that the address belongs to the client.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/poold/object.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::poold {

struct transfer {
  std::string peer;  // the client's address, as bytes; a session must hold a reference to it
  // read: copy the client's memory into the pool. write: copy from the pool. send: the only part is
  // a message to the client.
  seams::fabric_op_kind kind = seams::fabric_op_kind::read;
  std::vector<iovec> parts;  // of the object
  seams::fabric_remote remote{};
  uint64_t offset = 0;      // in remote
  uint64_t timeout_ns = 0;  // of each operation; of a message, including its time in the queue
  // Called exactly once if submit() succeeded, by the mover's thread. It must not drop the last
  // reference to an object: dropping memory waits for this thread.
  std::function<void(status)> callback;
};

// One thread and one endpoint. The public functions are thread-safe.
class data_mover {
 public:
  static result<std::unique_ptr<data_mover>> start(
      std::unique_ptr<seams::fabric_endpoint> endpoint);
  ~data_mover();

  std::string address() const {
    return address_;
  }
  const std::string &provider() const {
    return provider_;
  }
  bool is_rdma() const {
    return is_rdma_;
  }

  // False: the mover is stopping or its queue is full, and the callback will not be called.
  bool submit(transfer request);

  // Add and drop a session's reference to a client's address. The last one removes the peer.
  void acquire_peer(const std::string &peer);
  void release_peer(const std::string &peer);

  // Unregister memory that is to be returned to the system. True: the fabric no longer accesses it.
  // False, after `timeout_ns`: the provider hangs and may still access the memory. Keep it
  // unchanged then, and call again with the same address until the result is true.
  bool unregister_memory(const std::byte *addr, size_t size, uint64_t timeout_ns);

 private:
  struct active_transfer {
    transfer request;
    seams::fabric_peer peer = seams::no_fabric_peer;
    size_t part = 0;
    uint64_t part_posted = 0, posted_size = 0;  // bytes posted: of the current part, of all parts
    uint32_t in_flight_count = 0;               // operations in flight
    uint64_t deadline_ns = 0;                   // only of a message
    status code = status::ok;
    bool is_posted() const {
      return part == request.parts.size() || code != status::ok;
    }
    bool is_message() const {
      return request.kind == seams::fabric_op_kind::send;
    }
  };

  explicit data_mover(std::unique_ptr<seams::fabric_endpoint> endpoint);
  // What other threads have queued for this one.
  struct queued_work {
    std::deque<transfer> submitted;
    std::deque<std::string> released_peers;
    std::deque<std::pair<const std::byte *, size_t>> unregistrations;
  };
  void run();
  void close();
  void wake_locked() noexcept TND_REQUIRES(mutex_);
  void accept_work();
  queued_work take_work();
  void unregister(const queued_work &work);
  void remove_peers(const queued_work &work);
  void begin_transfer(transfer request);
  status find_peer(const std::string &address, seams::fabric_peer &peer);
  seams::fabric_op make_op(uint64_t number, const active_transfer &active) const;
  void record_posted(active_transfer &active, uint64_t size);
  bool post_operations(uint64_t number, active_transfer &active);
  bool reap();
  void complete(std::map<uint64_t, active_transfer>::iterator it);

  // The mover's thread uses it without the mutex. Other threads only call wake(), and only while
  // they hold the mutex, because the thread resets the pointer under the mutex when it ends.
  std::unique_ptr<seams::fabric_endpoint> endpoint_;
  std::string address_, provider_;
  bool is_rdma_ = false;
  std::map<std::string, seams::fabric_peer> peers_;
  std::map<uint64_t, active_transfer> active_;
  uint32_t message_count_ = 0;  // in flight
  uint64_t next_id_ = 1;

  mutex mutex_;
  condition_variable unregistered_;
  std::deque<transfer> submitted_ TND_GUARDED_BY(mutex_);
  // The number of sessions, by the client's address.
  std::map<std::string, uint32_t> peer_users_ TND_GUARDED_BY(mutex_);
  std::deque<std::string> released_peers_ TND_GUARDED_BY(mutex_);
  std::deque<std::pair<const std::byte *, size_t>> unregister_queue_ TND_GUARDED_BY(mutex_);
  // Requested address -> is it unregistered.
  std::map<const std::byte *, bool> unregister_states_ TND_GUARDED_BY(mutex_);
  bool is_stopping_ TND_GUARDED_BY(mutex_) = false;
  bool is_stopped_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tanada::poold
