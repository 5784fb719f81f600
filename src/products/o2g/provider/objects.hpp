// products/o2g/provider/objects.hpp: libfabric's objects, each with the fid it is known by as its
// first member.
//
// The provider is loaded by whatever libfabric a program brings, 1.17 to 2.x: it is built against
// the older headers, imports no symbol of libfabric, and gives memory that libfabric frees by
// malloc.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.hpp"
#include "products/o2g/engine.hpp"
#include "products/o2g/provider/fence.hpp"
#include "products/o2g/provider/waiting.hpp"

namespace tanada::o2g::provider {

inline constexpr char name[] = "o2g";
inline constexpr uint32_t version = FI_VERSION(0, 1);
inline constexpr uint32_t protocol = 0x326F;     // of ours; libfabric has numbers for its own only
inline constexpr size_t peer_count_max = 65536;  // of an address vector

// Capabilities of libfabric 2.
inline constexpr uint64_t tagged_directed_recv = uint64_t{1} << 45,
                          tagged_multi_recv = uint64_t{1} << 46;

// A call's status as libfabric's negative error number, and a completion's as its positive one.
int error_of(status code) noexcept;
int completion_error_of(completion_kind kind, status code) noexcept;

// What objects that are waited for have in common: FI_WAIT_* that there are, a time-out (below 0:
// none) as an absolute time of the monotonic clock, FI_GETWAIT.
bool can_wait(fi_wait_obj how);
uint64_t deadline_of(int timeout_ms) noexcept;
int wait_control(const waiting_room &in, int command, void *argument);

// For entries of a table that nobody is to call.
int no_close(fid *);
int no_bind(fid *, fid *, uint64_t);
int no_control(fid *, int, void *);
int no_ops_open(fid *, const char *, uint64_t, void **, void *);

struct fabric {
  fid_fabric id{};
  std::atomic<int> users = 0;
};

struct event_queue {
  fid_eq id{};
  fabric *in = nullptr;
  std::atomic<int> users = 0;
  struct event {
    uint32_t what = 0;
    int error = 0;  // not 0: `body` is a fi_eq_err_entry
    std::vector<std::byte> body;
  };
  waiting_room waiting;  // of no engine: for its descriptor
  tanada::mutex mutex;
  std::deque<event> events;

  void push(uint32_t what, int error, const void *body, size_t size);
};

struct endpoint;

struct counter;

// Counters bound to regions, by key.
class region_counters {
 public:
  void bind(uint64_t key, counter &which, bool for_reads, bool for_writes);
  void forget(uint64_t key);
  void count(uint64_t key, bool is_read, engine &by);

 private:
  struct pair {
    counter *reads = nullptr, *writes = nullptr;
  };
  tanada::mutex mutex_;
  std::unordered_map<uint64_t, pair> by_key_;
  std::atomic<bool> is_used_ = false;
};

struct domain {
  fid_domain id{};
  fabric *in = nullptr;
  std::atomic<int> users = 0;
  regions memory;
  region_counters counted;
  int mr_mode = 0;
  uint32_t address_format = FI_FORMAT_UNSPEC;
};

struct memory_region {
  fid_mr id{};
  domain *in = nullptr;
  uint64_t base = 0;
  std::shared_ptr<region>
      left;  // from the first fi_close on: whoever still reaches the memory holds it too
};

struct address_vector {
  fid_av id{};
  domain *in = nullptr;
  std::atomic<int> users = 0;
  event_queue *events = nullptr;
  bool is_asynchronous = false;
  struct known {
    port::socket_address address;  // family none: removed
    uint32_t count = 0;            // of insertions that were not removed
  };
  tanada::mutex mutex;
  std::vector<known> entries;
  std::vector<fi_addr_t> free;
  std::unordered_map<port::socket_address, fi_addr_t, port::socket_address_hash> by_address;
  std::vector<endpoint *> endpoints;
};

// An entry of a completion queue in its longest form.
struct queue_entry {
  void *context = nullptr;
  uint64_t flags = 0;
  size_t size = 0;
  void *buffer = nullptr;
  uint64_t data = 0, tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;  // 0: none
  size_t lost = 0;
};

struct completion_queue {
  fid_cq id{};
  domain *in = nullptr;
  std::atomic<int> users = 0;
  fi_cq_format format = FI_CQ_FORMAT_CONTEXT;
  waiting_room waiting;
  tanada::mutex mutex;
  std::deque<queue_entry> entries;
  std::atomic<size_t> count = 0;
  std::atomic<bool> is_signaled = false;
  std::atomic<bool> is_short =
      false;  // there was no memory for an entry: whoever waits for it learns of that

  bool push(const queue_entry &entry, engine &by) noexcept;  // false: no memory
};

struct counter {
  fid_cntr id{};
  domain *in = nullptr;
  std::atomic<int> users = 0;
  std::atomic<uint64_t> value = 0, errors = 0;
  std::atomic<uint64_t> seen = 0;  // value and errors together when the program looked last
  waiting_room waiting;

  void count(bool is_good, engine &by) {
    (is_good ? value : errors).fetch_add(1);
    waiting.tell(by);
  }
  uint64_t total() const noexcept {
    return value.load() + errors.load();
  }
};

// What a request's `owner` says to the sink.
inline constexpr uintptr_t owner_wants_entry = 1;  // in the completion queue
inline constexpr uintptr_t owner_takes_many = 2;   // a receive for many messages
inline constexpr uintptr_t owner_is_peek = 8;      // counts nowhere, whatever it finds
inline constexpr uintptr_t owner_is_part =
    4;  // of an atomic, and not the last: its errors are those of the last

// The endpoint itself has virtual functions, so its fid cannot be its beginning.
struct endpoint_handle {
  fid_ep id{};
  endpoint *of = nullptr;
};

struct endpoint final : completion_sink {
  endpoint_handle handle{{}, this};
  domain *in = nullptr;
  port::socket_address source{};
  uint64_t caps = 0, tx_flags = 0, rx_flags = 0;
  bool has_automatic_progress = true;  // the program asked for it, or for nothing
  address_vector *addresses = nullptr;
  completion_queue *tx_queue = nullptr, *rx_queue = nullptr;
  bool tx_selective = false, rx_selective = false;
  counter *sends = nullptr, *receives = nullptr, *reads = nullptr, *writes = nullptr;
  counter *remote_reads = nullptr, *remote_writes = nullptr;
  // Before `heard` a peer's completion waits, the engine hears peers before its creator has it;
  // after it there are none any more.
  enum class life : uint8_t { made, heard, closed };
  std::atomic<life> stage = life::made;
  size_t many_size_min = 64;
  std::unique_ptr<engine> speaker;

  // fi_addr_t to peer, in blocks that are never moved: readers take no lock.
  static constexpr size_t block_size = 1024;
  using block = std::array<std::atomic<peer_index>, block_size>;
  std::array<std::atomic<block *>, peer_count_max / block_size> blocks{};

  ~endpoint() override;
  void complete(const completion &what) override;
  status know(fi_addr_t address, const port::socket_address &at);  // no_space, no_memory
  void end_speaker();
  void forget(fi_addr_t address);
  peer_index peer_of(fi_addr_t address) const noexcept;  // any_peer: there is none

  std::array<counter *, 6> counters() const {
    return {sends, receives, reads, writes, remote_reads, remote_writes};
  }
  counter *counter_of(completion_kind kind) const;
  // Whether what is asked for with these flags has an entry in the queue.
  bool tx_wants_entry(uint64_t flags) const {
    return !tx_selective || (flags & FI_COMPLETION) != 0;
  }
  bool rx_wants_entry(uint64_t flags) const {
    return !rx_selective || (flags & FI_COMPLETION) != 0;
  }

  static endpoint &of(fid_ep *ep) {
    return *reinterpret_cast<endpoint_handle *>(ep)->of;
  }
};

// fi_close of what others can use.
template <class Object>
int close_unused(fid *id) {
  auto *const closed = reinterpret_cast<Object *>(id);
  if (closed->users != 0)
    return -FI_EBUSY;
  closed->in->users--;
  delete closed;
  return 0;
}

inline uint64_t tx_flags(fid_ep *id) {
  return endpoint::of(id).tx_flags;
}
inline uint64_t rx_flags(fid_ep *id) {
  return endpoint::of(id).rx_flags;
}
inline iovec part_of(const void *buffer, size_t size) {
  return {const_cast<void *>(buffer), size};
}

int getinfo(uint32_t api, const char *node, const char *service, uint64_t flags,
            const fi_info *hints, fi_info **info);
int fabric_open(fi_fabric_attr *attr, fid_fabric **made, void *context);
int domain_open(fid_fabric *in, fi_info *info, fid_domain **made, void *context);
int event_queue_open(fid_fabric *in, fi_eq_attr *attr, fid_eq **made, void *context);
int address_vector_open(fid_domain *in, fi_av_attr *attr, fid_av **made, void *context);
int completion_queue_open(fid_domain *in, fi_cq_attr *attr, fid_cq **made, void *context);
int poll_set_open(fid_domain *in, fi_poll_attr *attr, fid_poll **made);
int counter_open(fid_domain *in, fi_cntr_attr *attr, fid_cntr **made, void *context);
int endpoint_open(fid_domain *in, fi_info *info, fid_ep **made, void *context);
int memory_register(fid *in, const void *buffer, size_t size, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t flags, fid_mr **made, void *context);
int memory_register_parts(fid *in, const iovec *parts, size_t count, uint64_t access,
                          uint64_t offset, uint64_t key, uint64_t flags, fid_mr **made,
                          void *context);
int memory_register_attr(fid *in, const fi_mr_attr *attr, uint64_t flags, fid_mr **made);

extern fi_ops_msg message_ops;
extern fi_ops_tagged tagged_ops;
extern fi_ops_rma remote_ops;
extern fi_ops_atomic atomic_ops;

}  // namespace tanada::o2g::provider
