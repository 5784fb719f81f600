// products/o2g/provider/objects.hpp: the provider's libfabric objects. The fid that libfabric holds
// is the first member of each.
//
// Any libfabric from 1.17 to 2.x may load the provider. It is therefore built against the older
// headers and imports no symbol of libfabric. Memory that libfabric frees comes from malloc.
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

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "products/o2g/engine.hpp"
#include "products/o2g/provider/exception_barrier.hpp"
#include "products/o2g/provider/wait_set.hpp"

namespace tanada::o2g::provider {

inline constexpr char name[] = "o2g";
inline constexpr uint32_t version = FI_VERSION(0, 1);
// private: libfabric assigns numbers only to its own protocols
inline constexpr uint32_t protocol = 0x326F;
inline constexpr size_t peer_count_max = 65536;  // addresses in one address vector

// Capabilities of libfabric 2.
inline constexpr uint64_t tagged_directed_recv = uint64_t{1} << 45,
                          tagged_multi_recv = uint64_t{1} << 46;

// `error_of` converts a status to libfabric's negative error number, which a call returns.
// `completion_error_of` converts it to the positive number that a completion carries.
int error_of(status code) noexcept;
int completion_error_of(completion_kind kind, status code) noexcept;

// Common to queues and counters that a program waits for. `can_wait`: the provider supports this
// kind of FI_WAIT_*. `deadline_of`: a relative timeout (negative: none) as an absolute time of the
// monotonic clock. `wait_control`: FI_GETWAIT.
bool can_wait(fi_wait_obj wait_object);
uint64_t deadline_of(int timeout_ms) noexcept;
int wait_control(const wait_set &waiting, int command, void *argument);

// Table entries for operations that the provider does not implement: they return -FI_ENOSYS.
int no_close(fid *);
int no_bind(fid *, fid *, uint64_t);
int no_control(fid *, int, void *);
int no_ops_open(fid *, const char *, uint64_t, void **, void *);

// Objects that other objects use count their users, and cannot be closed while they have any.
template <class Object>
void remove_user(Object &object) noexcept {
  [[maybe_unused]] int const count_before = object.users.fetch_sub(1);
  TND_ASSERT(count_before > 0);
}

struct fabric {
  fid_fabric id{};
  std::atomic<int> users = 0;
};

struct event_queue {
  fid_eq id{};
  fabric *parent = nullptr;
  std::atomic<int> users = 0;
  struct event {
    uint32_t type = 0;
    int error = 0;  // if not 0, `body` is a fi_eq_err_entry
    std::vector<std::byte> body;
  };
  wait_set waiting;  // has no engine; provides the descriptor
  tanada::mutex mutex;
  std::deque<event> events TND_GUARDED_BY(mutex);

  void push(uint32_t type, int error, const void *body, size_t size);
};

struct endpoint;

struct counter;

// Counters bound to memory regions, by key.
class region_counters {
 public:
  void bind(uint64_t key, counter &target, bool for_reads, bool for_writes);
  void unbind(uint64_t key);
  void count(uint64_t key, bool is_read, engine &reporter);

 private:
  struct pair {
    counter *reads = nullptr, *writes = nullptr;
  };
  tanada::mutex mutex_;
  std::unordered_map<uint64_t, pair> by_key_ TND_GUARDED_BY(mutex_);
  std::atomic<bool> is_used_ = false;
};

struct domain {
  fid_domain id{};
  fabric *parent = nullptr;
  std::atomic<int> users = 0;
  regions memory;
  region_counters region_counts;
  int mr_mode = 0;
  uint32_t address_format = FI_FORMAT_UNSPEC;
};

struct memory_region {
  fid_mr id{};
  domain *parent = nullptr;
  uint64_t base = 0;
  // Set by the first fi_close. It shares ownership with transfers that still access the memory.
  std::shared_ptr<region> closing_region;
};

struct address_vector {
  fid_av id{};
  domain *parent = nullptr;
  std::atomic<int> users = 0;
  event_queue *events = nullptr;
  bool is_asynchronous = false;
  struct entry {
    seams::socket_address address;  // family none: removed
    uint32_t count = 0;             // insertions that have not been removed
  };
  tanada::mutex mutex;
  std::vector<entry> entries TND_GUARDED_BY(mutex);
  std::vector<fi_addr_t> free_numbers TND_GUARDED_BY(mutex);
  std::unordered_map<seams::socket_address, fi_addr_t, seams::socket_address_hash> by_address
      TND_GUARDED_BY(mutex);
  std::vector<endpoint *> endpoints TND_GUARDED_BY(mutex);
};

// A completion queue entry in the longest format.
struct queue_entry {
  void *context = nullptr;
  uint64_t flags = 0;
  size_t size = 0;
  void *buffer = nullptr;
  uint64_t data = 0, tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;  // 0: no error
  size_t overflow_size = 0;
};

struct completion_queue {
  fid_cq id{};
  domain *parent = nullptr;
  std::atomic<int> users = 0;
  fi_cq_format format = FI_CQ_FORMAT_CONTEXT;
  wait_set waiting;
  tanada::mutex mutex;
  std::deque<queue_entry> entries TND_GUARDED_BY(mutex);
  std::atomic<size_t> count = 0;
  std::atomic<bool> is_signaled = false;
  // An entry was dropped because of insufficient memory. Waiters are woken and get -FI_ENOMEM.
  std::atomic<bool> is_out_of_memory = false;

  // false: insufficient memory; the entry is dropped
  bool push(const queue_entry &entry, engine &reporter) noexcept;
};

struct counter {
  fid_cntr id{};
  domain *parent = nullptr;
  std::atomic<int> users = 0;
  std::atomic<uint64_t> value = 0, errors = 0;
  std::atomic<uint64_t> last_read = 0;  // value + errors at the last read by the program
  wait_set waiting;

  void count(bool is_good, engine &reporter) {
    (is_good ? value : errors).fetch_add(1);
    waiting.notify(reporter);
  }
  uint64_t total() const noexcept {
    return value.load() + errors.load();
  }
};

// Bits of a request's `owner`, which the completion sink reads.
inline constexpr uintptr_t owner_wants_entry = 1;       // write a completion queue entry
inline constexpr uintptr_t owner_is_multi_receive = 2;  // a multi-message receive (FI_MULTI_RECV)
inline constexpr uintptr_t owner_is_peek = 8;  // a peek: its completion increments no counter
// A part of a split atomic, but not the last one. The last part also reports the errors of the
// earlier parts.
inline constexpr uintptr_t owner_is_part = 4;

// The fid cannot be the first member of `endpoint`, which has virtual functions.
struct endpoint_handle {
  fid_ep id{};
  endpoint *owner = nullptr;
};

struct endpoint final : completion_sink {
  endpoint_handle handle{{}, this};
  domain *parent = nullptr;
  seams::socket_address source{};
  uint64_t caps = 0, tx_flags = 0, rx_flags = 0;
  bool has_automatic_progress = true;  // FI_PROGRESS_AUTO, or unspecified
  address_vector *addresses = nullptr;
  completion_queue *tx_queue = nullptr, *rx_queue = nullptr;
  bool tx_selective = false, rx_selective = false;
  counter *sends = nullptr, *receives = nullptr, *reads = nullptr, *writes = nullptr;
  counter *remote_reads = nullptr, *remote_writes = nullptr;
  // While the endpoint is `created`, complete() blocks: the engine may already receive from peers
  // before the endpoint's `o2g_engine` is set. After `closed`, completions are discarded.
  enum class lifecycle : uint8_t { created, open, closed };
  std::atomic<lifecycle> stage = lifecycle::created;
  size_t multi_receive_size_min = 64;
  std::unique_ptr<engine> o2g_engine;

  // Maps fi_addr_t to peer. Blocks never move, so readers take no lock.
  static constexpr size_t block_size = 1024;
  static_assert(peer_count_max % block_size == 0);
  using block = std::array<std::atomic<peer_index>, block_size>;
  std::array<std::atomic<block *>, peer_count_max / block_size> blocks{};

  ~endpoint() override;
  void complete(const completion &event) override;
  status add_peer(fi_addr_t address,
                  const seams::socket_address &peer_address);  // no_space, no_memory
  void destroy_engine();
  void remove_peer(fi_addr_t address);
  peer_index peer_of(fi_addr_t address) const noexcept;  // any_peer: unknown address

  std::array<counter *, 6> counters() const {
    return {sends, receives, reads, writes, remote_reads, remote_writes};
  }
  counter *counter_of(completion_kind kind) const;
  // Whether an operation with these flags writes an entry to the completion queue.
  bool tx_wants_entry(uint64_t flags) const {
    return !tx_selective || (flags & FI_COMPLETION) != 0;
  }
  bool rx_wants_entry(uint64_t flags) const {
    return !rx_selective || (flags & FI_COMPLETION) != 0;
  }

  static endpoint &from_fid(fid_ep *ep) {
    return *reinterpret_cast<endpoint_handle *>(ep)->owner;
  }
};

// fi_close of an object that other objects may use: -FI_EBUSY while one does.
template <class Object>
int close_unused(fid *id) {
  auto *const closed = reinterpret_cast<Object *>(id);
  if (closed->users != 0)
    return -FI_EBUSY;
  remove_user(*closed->parent);
  delete closed;
  return 0;
}

inline uint64_t tx_flags(fid_ep *id) {
  return endpoint::from_fid(id).tx_flags;
}
inline uint64_t rx_flags(fid_ep *id) {
  return endpoint::from_fid(id).rx_flags;
}
inline iovec make_iovec(const void *buffer, size_t size) {
  return {const_cast<void *>(buffer), size};
}

int getinfo(uint32_t api,
            const char *node,
            const char *service,
            uint64_t flags,
            const fi_info *hints,
            fi_info **info);
int fabric_open(fi_fabric_attr *attr, fid_fabric **handle, void *context);
int domain_open(fid_fabric *parent, fi_info *info, fid_domain **handle, void *context);
int event_queue_open(fid_fabric *parent, fi_eq_attr *attr, fid_eq **handle, void *context);
int address_vector_open(fid_domain *parent, fi_av_attr *attr, fid_av **handle, void *context);
int completion_queue_open(fid_domain *parent, fi_cq_attr *attr, fid_cq **handle, void *context);
int poll_set_open(fid_domain *parent, fi_poll_attr *attr, fid_poll **handle);
int counter_open(fid_domain *parent, fi_cntr_attr *attr, fid_cntr **handle, void *context);
int endpoint_open(fid_domain *parent, fi_info *info, fid_ep **handle, void *context);
int memory_register(fid *parent,
                    const void *buffer,
                    size_t size,
                    uint64_t access,
                    uint64_t offset,
                    uint64_t key,
                    uint64_t flags,
                    fid_mr **handle,
                    void *context);
int memory_register_parts(fid *parent,
                          const iovec *parts,
                          size_t count,
                          uint64_t access,
                          uint64_t offset,
                          uint64_t key,
                          uint64_t flags,
                          fid_mr **handle,
                          void *context);
int memory_register_attr(fid *parent, const fi_mr_attr *attr, uint64_t flags, fid_mr **handle);

extern fi_ops_msg message_ops;
extern fi_ops_tagged tagged_ops;
extern fi_ops_rma remote_ops;
extern fi_ops_atomic atomic_ops;

}  // namespace tanada::o2g::provider
