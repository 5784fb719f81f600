// products/comex/engine.hpp: one-sided operations between the processes of a job. They implement
// comex.h, except for groups and messages, which MPI provides.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "core/base/assert.hpp"
#include "onesided/job/context.hpp"
#include "products/comex/accumulate.hpp"
#include "products/comex/device_memory.hpp"
#include "products/comex/heap/allocator.hpp"
#include "products/comex/packed_server.hpp"
#include "products/comex/settings.hpp"
#include "products/comex/shape.hpp"

namespace tanada::comex {

using onesided::pe_index;
class process_swapper;

// The two sides of a transfer. The remote address is its owner's; the local address is any of this
// process.
struct transfer {
  const void *source;
  void *target;
  pe_index pe;
};

// Pieces of `size` bytes each, moved from sources[i] to targets[i].
struct piece_list {
  void *const *sources, *const *targets;
  size_t count, size;
};

enum class completion_mode : uint8_t {
  local,     // the source may be reused; for gets, the data have arrived
  deferred,  // buffers belong to the caller again after finish()
};

enum class word_kind : uint8_t { i32, i64 };

// Memory: each process allocates from its own heap, and peers name that memory by the owner's
// addresses. Memory of the same node is accessed by loads and stores. Memory of other nodes is
// accessed through the fabric (transfer_unmapped.cc). Small blocks and all accumulates go there as
// requests to a packed_server. On this process's own memory all operations work, whether it was
// allocated here or not.
//
// Device memory: either side of put, get and accumulate may be device memory, in one piece.
// exchange_word and fetch_and_add work on words of it. Allocated device memory is named by its
// owner's addresses, too. Kernels that use the memory must have ended, and may start again after
// finish().
//
// Ordering: operations of this process on one peer appear to be performed in order: a get returns
// what was put before it. finish() waits until all operations are performed. Accumulates update
// each element atomically with respect to other accumulates.
//
// Errors of all calls: range, with a message, for memory outside of the peer's heap; otherwise the
// status of onesided::context. Nothing has happened then. Exception: of a shape with several
// blocks, some may have moved when a process is lost.
//
// Thread safety: one thread at a time.
class engine {
 public:
  // Collective. `launcher` outlives the engine. Failures come with a message. `idle` may be empty.
  // It is called about each millisecond of a wait for another process, since that process may be
  // waiting for something else of ours.
  static result<std::unique_ptr<engine>> start(seams::bootstrap &launcher,
                                               const settings &config,
                                               std::function<void()> idle = {});
  ~engine();

  status stop();  // collective: no process accesses another's memory after it
  // Replaces stop() where memory is swappable; call it after a barrier of all processes. Peers no
  // longer access each other's memory. This process's memory can still be swapped out in waits
  // until the process ends. stop() may follow.
  status retire();

  pe_index me() const noexcept {
    return job_->me();
  }
  pe_index count() const noexcept {
    return job_->count();
  }
  const onesided::job &job() const noexcept {
    return *job_;
  }
  bool is_one_node() const noexcept {
    return job_->is_one_node();
  }

  // Null: memory is never swapped out.
  process_swapper *swapper() const noexcept {
    return swapper_.get();
  }
  heap::allocator &allocator() noexcept {
    return *allocator_;
  }

  // Allocations are aligned to 64 bytes. Null: no free range is large enough, or `size` is 0.
  void *allocate(size_t size);
  bool release(void *piece);  // host or device memory; false: it is no allocation
  size_t free_size() const {
    return allocator_->free_size();
  }
  size_t heap_size() const noexcept {
    return job_->heap().size();
  }
  // Memory of this process's device. Null: there is no device heap (settings::device_heap_size).
  device_memory *device() noexcept {
    return device_ ? &*device_ : nullptr;
  }

  // transfer.cc
  status put(const transfer &sides, const strided_shape &shape, completion_mode mode);
  status get(const transfer &sides, const strided_shape &shape, completion_mode mode);
  status accumulate(element type,
                    const void *scale,
                    const transfer &sides,
                    const strided_shape &shape);
  // transfer_unmapped.cc. All pieces belong to one process. Sources of puts and accumulates may be
  // reused on return, unless the mode is `deferred`.
  status put(const piece_list &pieces, pe_index pe, completion_mode mode);
  status get(const piece_list &pieces, pe_index pe, completion_mode mode);
  status accumulate(element type, const void *scale, const piece_list &pieces, pe_index pe);

  status exchange_word(word_kind type, void *local, void *remote, pe_index pe);
  status fetch_and_add(word_kind type, void *before, void *remote, int64_t operand, pe_index pe);

  // Waits until all operations are performed and all gets have their data.
  status finish();
  bool is_finished() const noexcept {
    return !has_pending_;
  }
  // Makes progress without blocking. True: finish() would not wait.
  bool poll() noexcept;

  // mutexes.cc. Each process has mutex_count_max mutexes, all free at first.
  static constexpr uint32_t mutex_count_max = 1 << 15;
  struct mutex {
    uint32_t index;
    pe_index pe;

    bool operator==(const mutex &) const = default;
  };
  status lock(const mutex &id);
  status unlock(const mutex &id);  // bad_state: this process does not hold it
  bool holds_mutexes() const noexcept;

  // Collective over all processes of a one-node job. On return all processes have entered the
  // barrier, and their earlier operations are performed.
  status node_barrier();

  // Memory that a process shares with all others in collective calls. Only jobs of one node without
  // swapping have it; else it is empty. All zeros at first. A process that reads it after a
  // node_barrier() sees all that its owner wrote before.
  static constexpr size_t collective_size = size_t{264}
                                            << 10;  // bytes: two times 128 KiB, and a page
  std::span<std::byte> collective_memory(pe_index pe) const noexcept;

  // broadcast.cc. Copies bytes of `root` to all processes; needs collective memory. The root
  // returns before the others have read, unless they are many parts late, and readers do not wait
  // for each other. A reader sees what the root has put before. invalid: the root makes another
  // call, as far as this can be detected. peer_lost: a process died.
  status broadcast(std::span<std::byte> bytes, pe_index root);

 private:
  struct control;

  struct peer {
    uintptr_t begin = 0;  // start of its heap, in its own addresses
    std::byte *mapped = nullptr;
    control *shared = nullptr;               // null: it is not mapped
    heap_locks::lock_word *locks = nullptr;  // locks of its heap; null: it is not mapped
    // Operations on an unmapped peer that may not be performed yet: puts through the fabric, puts
    // by requests, and accumulates by requests.
    bool has_puts = false, has_packed = false, has_accumulates = false;
  };

  // How the remote side of a transfer is reached: by loads and stores at `mapped`, or through the
  // fabric by our corresponding address `symmetric`. Both null: it is unreachable, see
  // `address_error`.
  struct remote_address {
    std::byte *mapped = nullptr, *symmetric = nullptr;

    bool is_valid() const noexcept {
      return mapped != nullptr || symmetric != nullptr;
    }
  };

  engine() = default;
  void release_allocations();

  static constexpr uint64_t spin_ns = 30'000, poll_interval_ns = 1'000'000;

  // Waits until ready(), or until a process is lost.
  template <class Ready>
  status wait(Ready &&ready, std::span<const std::byte> on) {
    if (swapper_) [[unlikely]]
      return wait_swappable(std::ref(ready), on);
    for (;;) {
      status const code =
          job_->wait(ready, on, idle_ ? job_->time().now_ns() + poll_interval_ns : TND_NO_DEADLINE);
      if (code != status::timed_out)
        return code;
      idle_();
    }
  }
  status wait_swappable(const std::function<bool()> &ready, std::span<const std::byte> on);
  status open_device(seams::bootstrap &launcher, settings &options);
  status start_job(seams::bootstrap &launcher, const onesided::job_options &options);
  void open_memory(bool is_served);
  status start_swapping(swap_settings config);
  status serve_swappable_memory();
  status wait_served(const std::function<bool(uint64_t)> &wait);
  // The address in our heap that corresponds to an owner's address.
  std::byte *symmetric_address(const void *addr, pe_index pe) const noexcept {
    return job_->heap().data() + (reinterpret_cast<uintptr_t>(addr) - peers_[size_t(pe)].begin);
  }
  status exchange_heap_bases(seams::bootstrap &launcher);
  remote_address resolve(const void *addr, size_t size, pe_index pe) const noexcept {
    if (uint32_t(pe) >= peers_.size()) [[unlikely]]
      return {};
    // Our own memory need not be part of the heap.
    if (pe == me())
      return {.mapped = static_cast<std::byte *>(const_cast<void *>(addr))};
    auto const &remote = peers_[size_t(pe)];
    size_t const offset = reinterpret_cast<uintptr_t>(addr) - remote.begin;
    if (offset > heap_size() || size > heap_size() - offset) [[unlikely]]
      return {};
    if (remote.mapped != nullptr)
      return {.mapped = remote.mapped + offset};
    return {.symmetric = symmetric_address(addr, pe)};
  }
  [[gnu::cold]] status address_error(const void *addr,
                                     size_t size,
                                     pe_index pe) const;  // the reason why `resolve` failed
  status check_local_word(const void *local) const;
  static status check_elements(element type, size_t block_size);

  // transfer_swapped_out.cc: memory of a local process, which may be swapped out.
  enum class transfer_kind : uint8_t { put, get, add };
  struct swapped_out_access {
    transfer_kind kind;
    pe_index pe;
    std::byte *remote;  // the remote side, as this process maps it
    const void *local;  // the local side; only get writes it
    addend sum = {};
  };
  class swapped_out_pieces;
  bool may_be_swapped_out(pe_index pe) const noexcept {
    return swapper_ != nullptr && pe != me();
  }
  status transfer_swapped_out(const swapped_out_access &access,
                              const strided_shape &shape,
                              completion_mode mode);
  void transfer_resident(const swapped_out_access &access, const strided_shape &shape);
  status update_swapped_out(pe_index pe,
                            const std::byte *remote,
                            uint32_t size,
                            const std::function<status()> &act);  // of a word
  status finish_swapped_out();
  bool poll_swapped_out() noexcept;

  // transfer_device.cc: transfers in which either side is device memory.
  struct device_location {
    std::byte *addr;    // our corresponding address
    bool is_symmetric;  // false: only this process can access it
    pe_index pe;
  };
  struct packed_range {
    size_t begin, size;  // a byte range of the packed data
  };
  bool involves_device(const void *remote, const void *local, pe_index pe) const noexcept;
  result<device_location> resolve_with_device(const void *addr, size_t size, pe_index pe) const;
  status put_run(const device_location &location, const std::byte *source, const block_run &run);
  status get_run(std::byte *target, const device_location &location, const block_run &run);
  template <class Run>
  status move_runs(const strided_shape &shape, pe_index pe, completion_mode mode, Run &&move);
  status put_with_device(const transfer &sides, const strided_shape &shape, completion_mode mode);
  status get_with_device(const transfer &sides, const strided_shape &shape, completion_mode mode);
  status gather_part(std::byte *packed,
                     const std::byte *source,
                     const strided_shape &shape,
                     const packed_range &part);
  status add_part(const addend &operands,
                  const device_location &location,
                  const std::byte *added,
                  const strided_shape &shape,
                  const packed_range &part);
  status add_part_to_host(const addend &operands,
                          const transfer &sides,
                          const std::byte *added,
                          const strided_shape &shape,
                          const packed_range &part);
  status accumulate_with_device(const addend &operands,
                                const transfer &sides,
                                const strided_shape &shape);
  template <class Act>
  status with_device_mutex(pe_index pe, Act &&act);
  template <class T>
  result<T> update_device(seams::fabric_atomic kind, void *remote, T operand, pe_index pe);

  // transfer_unmapped.cc
  bool is_packed(const strided_shape &shape, pe_index pe) const noexcept;
  result<bool> is_packed(const piece_list &pieces, void *const *remote, pe_index pe) const;
  status order_packed(pe_index pe, bool is_sum);
  status send_packed(packed::head header,
                     const std::byte *source,
                     const strided_shape &shape,
                     pe_index pe);
  status fetch_packed(uint64_t offset, std::byte *target, const strided_shape &shape, pe_index pe);
  status send_list(packed::head header, const piece_list &pieces, pe_index pe);
  status fetch_list(const piece_list &pieces, pe_index pe);
  std::byte *write_list(std::byte *buffer,
                        const packed::head &header,
                        void *const *addrs,
                        pe_index pe) const noexcept;
  status keep_sink(std::unique_ptr<onesided::fetch_sink> sink);
  status wait_for_space(pe_index pe, size_t size);
  status accumulate_unmapped(const addend &operands,
                             std::byte *symmetric,
                             const std::byte *source,
                             const strided_shape &shape,
                             pe_index pe);
  template <class T>
  result<T> update_packed(seams::fabric_atomic kind, uint64_t offset, T operand, pe_index pe);
  uint64_t offset_of(const std::byte *symmetric) const noexcept {
    TND_ASSERT(symmetric >= job_->heap().data());
    return uint64_t(symmetric - job_->heap().data());
  }
  status put_unmapped(std::byte *symmetric,
                      const std::byte *source,
                      const strided_shape &shape,
                      pe_index pe,
                      completion_mode mode);
  status get_unmapped(std::byte *target,
                      std::byte *symmetric,
                      const strided_shape &shape,
                      pe_index pe,
                      completion_mode mode);
  status accumulate_mapped(const addend &operands,
                           size_t offset,
                           const std::byte *source,
                           const strided_shape &shape,
                           pe_index pe);
  status finish_before_get(pe_index pe);
  status finish_direct();
  status finish_packed();
  template <class T>
  result<T> update(seams::fabric_atomic kind, void *remote, T operand, pe_index pe);
  template <class T>
  result<T> update_mapped(
      seams::fabric_atomic kind, void *remote, std::byte *mapped, T operand, pe_index pe);
  status accumulate_on_node(const addend &operands,
                            const transfer &sides,
                            std::byte *mapped,
                            const strided_shape &shape);

  packed_server server_;             // destroyed after the job, which calls it
  std::unique_ptr<seams::gpu> gpu_;  // null: there is no device heap
  std::unique_ptr<onesided::job> job_;
  std::function<void()> idle_;
  onesided::lane *lane_ = nullptr;
  std::optional<onesided::context> context_;
  std::vector<std::unique_ptr<onesided::fetch_sink>>
      sinks_;  // where replies to fetches of `staged_` go; destroyed after `staged_`
  std::optional<onesided::staged_context> staged_;  // empty: all processes are mapped
  control *control_ = nullptr;
  std::unique_ptr<heap::allocator> allocator_;
  std::optional<device_memory> device_;
  std::unique_ptr<process_swapper> swapper_;
  std::unique_ptr<process_swapper>
      stopped_swapper_;  // kept because other threads may still be inside
  std::unordered_set<void *>
      allocations_;  // live allocations of allocate(), where memory is swappable
  status swapped_out_status_ = status::ok;  // first error of operations that are not finished yet
  std::vector<peer> peers_;
  bool has_pending_ = false;
  uint64_t barriers_ = 0;

  // Broadcasts: a call is split into parts of at most one chunk.
  static constexpr size_t chunk_count = 8, chunk_size = size_t{32} << 10;  // bytes
  static constexpr size_t head_count = 64;  // parts in flight at most
  status publish_part(std::span<const std::byte> part, size_t whole);
  status read_part(std::span<std::byte> part, size_t whole, pe_index root);
  status wait_for_part(uint64_t number, pe_index root);
  status wait_for_readers(uint64_t part);
  uint64_t parts_ = 0;  // of all roots so far
  uint64_t parts_read_by_all_ =
      0;                         // parts that all processes have read, as far as this process knows
  uint64_t last_part_read_ = 0;  // the last part of another root that this process has read
  uint64_t chunks_published_ = 0;
  std::array<uint64_t, head_count> head_parts_{};    // the part in each header of ours
  std::array<uint64_t, chunk_count> chunk_parts_{};  // the part in each chunk of ours

  struct mutex_slot {
    mutex id{};
    bool is_used = false;
  };
  std::vector<mutex_slot>
      // Indexed as the slots in control memory. The last entry is for the device mutex, which
      // programs cannot name.
      mutex_slots_;
  status acquire_mutex(const mutex &id, std::span<mutex_slot> slots);
  uint32_t mutex_tag(uint32_t slot_index) const noexcept;
  status await_mutex(uint32_t predecessor_tag, uint32_t slot_index);
  result<uint32_t> leave_mutex_queue(const mutex &id, uint32_t slot_index);
};

}  // namespace tanada::comex
