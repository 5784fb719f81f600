// products/poold/mover.hpp: objects' bytes over a fabric, between the pool and its clients' memory.
//
// The daemon reads and writes the memory that clients register; the pool's own is never open to
// anybody. A fabric proves nobody's identity: whoever gives transfers over has made sure that the
// address is the client's own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "products/poold/object.hpp"
#include "seams/fabric/fabric_plugin.hpp"

namespace tanada::poold {

struct transfer {
  std::string peer;  // the client's address, as bytes; one that is kept
  // read: the client's memory goes into the pool; write: the other way; send: the one part is a
  // message to the client.
  port::fabric_op_kind kind = port::fabric_op_kind::read;
  std::vector<iovec> parts;  // of the object
  port::fabric_remote remote{};
  uint64_t offset = 0;      // in remote
  uint64_t timeout_ns = 0;  // of each operation; of a message, with the wait for its turn
  // Called once, by the mover's thread, which must not be the one to let the object go: whoever
  // drops memory waits for it.
  std::function<void(status)> done;
};

// One thread and one endpoint. The public calls are for any thread.
class mover {
 public:
  static result<std::unique_ptr<mover>> start(std::unique_ptr<port::fabric_endpoint> endpoint);
  ~mover();

  std::string address() const {
    return address_;
  }
  const std::string &provider() const {
    return provider_;
  }
  bool is_rdma() const {
    return is_rdma_;
  }

  // False, and nothing will come of it: the mover has ended, or too much waits already.
  bool submit(transfer what);

  // A session has such a client, and has it no longer.
  void keep_peer(const std::string &peer);
  void forget_peer(const std::string &peer);

  // Memory goes back to the system. True: the fabric knows it no more. False, after `timeout_ns`: a
  // provider hangs, and may still touch it: keep it as it is, and ask again with the same address
  // until it is true.
  bool forget_memory(const std::byte *addr, size_t size, uint64_t timeout_ns);

 private:
  struct running {
    transfer what;
    port::fabric_peer peer = port::no_fabric_peer;
    size_t part = 0;
    uint64_t part_done = 0, posted = 0;  // bytes; of the part, of all
    uint32_t out = 0;                    // operations under way
    uint64_t deadline_ns = 0;            // of a message
    status code = status::ok;
    bool is_posted() const {
      return part == what.parts.size() || code != status::ok;
    }
    bool is_message() const {
      return what.kind == port::fabric_op_kind::send;
    }
  };

  explicit mover(std::unique_ptr<port::fabric_endpoint> endpoint);
  void run();
  void wake_locked() noexcept;
  void take_work();
  bool post_some(uint64_t number, running &one);
  bool reap();
  void finish(std::map<uint64_t, running>::iterator which);

  // The mover's thread uses it without the mutex. Other threads only wake it, and only under the
  // mutex, as the thread takes it away under the mutex when it ends.
  std::unique_ptr<port::fabric_endpoint> endpoint_;
  std::string address_, provider_;
  bool is_rdma_ = false;
  std::map<std::string, port::fabric_peer> peers_;
  std::map<uint64_t, running> running_;
  uint32_t message_count_ = 0;  // under way
  uint64_t next_id_ = 1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<transfer> arrived_;
  std::map<std::string, uint32_t> sessions_;  // by the client's address
  std::deque<std::string> gone_;
  std::deque<std::pair<const std::byte *, size_t>> forgotten_;
  std::map<const std::byte *, bool> forgetting_;  // what was asked for: whether it is done
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace tanada::poold
