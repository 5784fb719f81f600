// products/comex/engine.hpp: one-sided operations between the processes of a job on memory that
// each gives for itself: what comex.h is made of, but for groups and messages, which are the MPI's.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "onesided/job/context.hpp"
#include "products/comex/accumulate.hpp"
#include "products/comex/device_memory.hpp"
#include "products/comex/heap/pieces.hpp"
#include "products/comex/packed_server.hpp"
#include "products/comex/settings.hpp"
#include "products/comex/shape.hpp"

namespace tanada::comex {

using pgas::pe_index;
class swapping;

// The two sides of a transfer. The remote address is one of its owner's; the local one is any of
// ours.
struct transfer {
  const void *source;
  void *target;
  pe_index pe;
};

// Pieces of `size` bytes each: targets[i] from sources[i].
struct piece_list {
  void *const *sources, *const *targets;
  size_t count, size;
};

enum class until : uint8_t {
  source_is_free,  // or, of gets, the data are there
  later,           // what belongs to the operation is the caller's again after finish()
};

enum class word_kind : uint8_t { i32, i64 };

// Memory: each process gives pieces of its own heap; others name them by the addresses that their
// owner has. Memory of a node's processes is loaded from and stored to; that of others goes by the
// fabric (far.cc), and what is in small blocks, and all sums, by requests to a packed_server. On
// this process's own memory, whatever it is, all operations work.
//
// Memory of devices: either side of put, get and accumulate may be it, in one piece, and swap and
// fetch_and_add work on words of it. What is given of it is named by its owner's addresses, too.
// Kernels that use it have ended, and begin after finish().
//
// Ordering: operations of this process on one other are performed in their order as far as one can
// see: a get gives what was put before it. fence: they are performed. Accumulates add each element
// at once, with others at the same time.
//
// Errors, of all: range for memory outside of the other's heap, with a message; what pgas::context
// says. Nothing has happened then, but for shapes of several blocks, of which some may have moved
// when a process is lost.
//
// Thread safety: one thread at a time.
class engine {
 public:
  // Collective. `launcher` outlives it. With a message.
  // `idle`: called about each millisecond of a wait for another process, which may be waiting for
  // something else of ours. May be empty.
  static result<std::unique_ptr<engine>> start(port::bootstrap &launcher, const settings &chosen,
                                               std::function<void()> idle = {});
  ~engine();

  status stop();  // collective: nobody uses another's memory any more
  // Instead, where memory leaves, after a barrier of all: nobody reaches another's memory any more,
  // and this process's still leaves while it waits, until it ends. stop() may follow.
  status retire();

  pe_index me() const noexcept {
    return job_->me();
  }
  pe_index count() const noexcept {
    return job_->count();
  }
  const pgas::job &job() const noexcept {
    return *job_;
  }
  bool is_one_node() const noexcept {
    return job_->is_one_node();
  }

  // Null: all memory stays where it is.
  swapping *away() const noexcept {
    return swapping_.get();
  }
  heap::pieces &pieces() noexcept {
    return *pieces_;
  }

  // A piece begins at a multiple of 64 bytes. Null: there is no such piece, or no bytes were asked
  // for.
  void *allocate(size_t size);
  bool release(void *piece);  // of either kind. false: it is none
  size_t free_size() const {
    return pieces_->free_size();
  }
  size_t heap_size() const noexcept {
    return job_->heap().size();
  }
  // Memory of this process's device. Null: there is none (settings::device_heap_size).
  device_memory *device() noexcept {
    return device_ ? &*device_ : nullptr;
  }

  // transfer.cc
  status put(const transfer &what, const strided_shape &shape, until end);
  status get(const transfer &what, const strided_shape &shape, until end);
  status accumulate(element of, const void *scale, const transfer &what,
                    const strided_shape &shape);
  // far.cc; all pieces are of one process. Those of puts and sums may be used again when it
  // returns, but for until::later.
  status put(const piece_list &pieces, pe_index pe, until end);
  status get(const piece_list &pieces, pe_index pe, until end);
  status accumulate(element of, const void *scale, const piece_list &pieces, pe_index pe);

  status swap(word_kind of, void *mine, void *theirs, pe_index pe);
  status fetch_and_add(word_kind of, void *before, void *theirs, int64_t operand, pe_index pe);

  // All operations are performed, and what was to come is there.
  status finish();
  bool is_finished() const noexcept {
    return !has_pending_;
  }
  // finish() would not wait: looks after what is under way, and never blocks.
  bool poll() noexcept;

  // mutexes.cc. Each process has mutex_count_max of them, which nobody holds at first.
  static constexpr uint32_t mutex_count_max = 1 << 15;
  struct mutex {
    uint32_t index;
    pe_index pe;

    bool operator==(const mutex &) const = default;
  };
  status lock(const mutex &which);
  status unlock(const mutex &which);  // bad_state: we do not hold it
  bool holds_mutexes() const noexcept;

  // Of all processes, where they are of one node. Others have been where we were when it returns,
  // and their operations performed.
  status node_barrier();

  // What a process gives all others in collective calls, where they are of one node and their
  // memory stays; else there is none. Zeros at first; who reads it after a node_barrier() sees what
  // its process wrote before.
  static constexpr size_t collective_size = size_t{264}
                                            << 10;  // bytes: two times 128 KiB, and a page
  std::span<std::byte> collective_memory(pe_index pe) const noexcept;

  // broadcast.cc. Bytes of `root` for all processes, where they have collective memory. The root
  // goes on before others have them, unless they are far behind, and nobody waits for who reads;
  // who has them sees what the root has put before. invalid: the root does not call the same, as
  // far as is seen. peer_lost.
  status broadcast(std::span<std::byte> bytes, pe_index root);

 private:
  struct control;

  struct peer {
    uintptr_t begin = 0;  // of its heap, there
    std::byte *mapped = nullptr;
    control *shared = nullptr;          // null: it is not mapped
    heap_locks::word *locks = nullptr;  // of its heap, where it is mapped
    // What is not known to be performed, of a peer that is not mapped: puts by the fabric, and puts
    // and sums by requests.
    bool has_puts = false, has_packed = false, has_sums = false;
  };

  // Where the other side of a transfer is reached: by loads and stores, or by the address of ours
  // that corresponds to it. Neither: it is not to be reached, see refusal().
  struct reach {
    std::byte *mapped = nullptr, *ours = nullptr;

    bool is_there() const noexcept {
      return mapped != nullptr || ours != nullptr;
    }
  };

  engine() = default;
  void release_given();

  static constexpr uint64_t look_ns = 30'000, slice_ns = 1'000'000;

  // Until ready(), or a process is lost.
  template <class Ready>
  status wait(Ready &&ready, std::span<const std::byte> on) {
    if (swapping_) [[unlikely]]
      return wait_away(std::ref(ready), on);
    for (;;) {
      status const code =
          job_->wait(ready, on, idle_ ? job_->time().now_ns() + slice_ns : TND_NO_DEADLINE);
      if (code != status::timed_out)
        return code;
      idle_();
    }
  }
  status wait_away(const std::function<bool()> &ready, std::span<const std::byte> on);
  status open_device(port::bootstrap &launcher, settings &with);
  status start_swapping(swap_settings chosen);
  status wait_served(const std::function<bool(uint64_t)> &wait);
  // Our address that corresponds to one in the heap of its owner.
  std::byte *ours(const void *addr, pe_index pe) const noexcept {
    return job_->heap().data() + (reinterpret_cast<uintptr_t>(addr) - peers_[size_t(pe)].begin);
  }
  status tell_heaps(port::bootstrap &launcher);
  reach find(const void *addr, size_t size, pe_index pe) const noexcept {
    if (uint32_t(pe) >= peers_.size()) [[unlikely]]
      return {};
    // Our own memory need not have been given.
    if (pe == me())
      return {.mapped = static_cast<std::byte *>(const_cast<void *>(addr))};
    auto const &there = peers_[size_t(pe)];
    size_t const offset = reinterpret_cast<uintptr_t>(addr) - there.begin;
    if (offset > heap_size() || size > heap_size() - offset) [[unlikely]]
      return {};
    if (there.mapped != nullptr)
      return {.mapped = there.mapped + offset};
    return {.ours = ours(addr, pe)};
  }
  [[gnu::cold]] status refusal(const void *addr, size_t size,
                               pe_index pe) const;  // why find() found nothing
  status refuse_device_word(const void *mine) const;
  static status check_elements(element of, size_t block_size);

  // transfer_away.cc: a neighbour's memory, which may have left DRAM.
  enum class away_kind : uint8_t { put, get, add };
  struct away_move {
    away_kind what;
    pe_index pe;
    std::byte *theirs;  // where it is mapped
    const void *mine;   // written by get alone
    addend sum = {};
  };
  bool is_away(pe_index pe) const noexcept {
    return swapping_ != nullptr && pe != me();
  }
  status move_away(const away_move &what, const strided_shape &shape, until end);
  status act_away(pe_index pe, const std::byte *theirs, uint32_t size,
                  const std::function<status()> &act);  // on a word
  status finish_away();
  bool poll_away() noexcept;

  // transfer_device.cc: either side is memory of a device.
  struct device_place {
    std::byte *addr;    // of ours
    bool is_symmetric;  // false: this process alone reaches it
    pe_index pe;
  };
  struct packed_part {
    size_t begin, size;  // bytes of packed data
  };
  bool concerns_device(const void *theirs, const void *mine, pe_index pe) const noexcept;
  result<device_place> find_beside_device(const void *addr, size_t size, pe_index pe) const;
  status put_run(const device_place &to, const std::byte *from, const block_run &run);
  status get_run(std::byte *to, const device_place &from, const block_run &run);
  template <class Run>
  status move_runs(const strided_shape &shape, pe_index pe, until end, Run &&move);
  status put_beside_device(const transfer &what, const strided_shape &shape, until end);
  status get_beside_device(const transfer &what, const strided_shape &shape, until end);
  status gather_part(std::byte *to, const std::byte *source, const strided_shape &shape,
                     const packed_part &part);
  status add_part(const addend &what, const device_place &to, const std::byte *added,
                  const strided_shape &shape, const packed_part &part);
  status add_part_to_host(const addend &what, const transfer &sides, const std::byte *added,
                          const strided_shape &shape, const packed_part &part);
  status accumulate_beside_device(const addend &what, const transfer &sides,
                                  const strided_shape &shape);
  template <class Act>
  status alone_on_device(pe_index pe, Act &&act);
  template <class T>
  result<T> update_device(port::fabric_atomic kind, void *theirs, T operand, pe_index pe);

  // far.cc
  bool is_packed(const strided_shape &shape, pe_index pe) const noexcept;
  result<bool> is_packed(const piece_list &pieces, void *const *theirs, pe_index pe) const;
  status follow(pe_index pe, bool is_sum);
  status send_packed(packed::head asks, const std::byte *source, const strided_shape &shape,
                     pe_index pe);
  status fetch_packed(uint64_t offset, std::byte *target, const strided_shape &shape, pe_index pe);
  status send_list(packed::head asks, const piece_list &pieces, pe_index pe);
  status fetch_list(const piece_list &pieces, pe_index pe);
  std::byte *write_list(std::byte *into, const packed::head &asks, void *const *addrs,
                        pe_index pe) const noexcept;
  status keep(std::unique_ptr<pgas::call_landing> landing);
  status await_room(pe_index pe, size_t size);
  status add_far(const addend &what, std::byte *ours, const std::byte *source,
                 const strided_shape &shape, pe_index pe);
  template <class T>
  result<T> update_far(port::fabric_atomic kind, uint64_t offset, T operand, pe_index pe);
  uint64_t offset_of(const std::byte *ours) const noexcept {
    return uint64_t(ours - job_->heap().data());
  }
  status put_far(std::byte *ours, const std::byte *source, const strided_shape &shape, pe_index pe,
                 until end);
  status get_far(std::byte *target, std::byte *ours, const strided_shape &shape, pe_index pe,
                 until end);
  status add_near(const addend &what, size_t offset, const std::byte *source,
                  const strided_shape &shape, pe_index pe);
  status before_get(pe_index pe);
  status finish_direct();
  status finish_packed();
  template <class T>
  result<T> update(port::fabric_atomic kind, void *theirs, T operand, pe_index pe);

  packed_server server_;            // the job goes before these
  std::unique_ptr<port::gpu> gpu_;  // null: no memory of a device is given
  std::unique_ptr<pgas::job> job_;
  std::function<void()> idle_;
  pgas::lane *lane_ = nullptr;
  std::optional<pgas::context> context_;
  std::vector<std::unique_ptr<pgas::call_landing>>
      landings_;                                // of what staged_ fetches, which goes before them
  std::optional<pgas::staged_context> staged_;  // none: all processes are mapped
  control *control_ = nullptr;
  std::unique_ptr<heap::pieces> pieces_;
  std::optional<device_memory> device_;
  std::unique_ptr<swapping> swapping_;
  std::unique_ptr<swapping> stopped_;  // other threads may be in it
  std::unordered_set<void *> given_;   // pieces that allocate() has made, where memory leaves
  status away_code_ = status::ok;      // of what has been begun and is not finished
  std::vector<peer> peers_;
  bool has_pending_ = false;
  uint64_t barriers_ = 0;

  // Of broadcasts: what a call gives goes part by part, a chunk each.
  static constexpr size_t chunk_count = 8, chunk_size = size_t{32} << 10;  // bytes
  static constexpr size_t head_count = 64;  // parts that are under way at most
  status give_part(std::span<const std::byte> part, size_t whole);
  status take_part(std::span<std::byte> part, size_t whole, pe_index root);
  status await_readers(uint64_t part);
  uint64_t parts_ = 0;       // of all processes
  uint64_t parts_read_ = 0;  // by all, as far as is known
  uint64_t part_taken_ = 0;  // the last of another's
  uint64_t chunks_given_ = 0;
  std::array<uint64_t, head_count> head_parts_{};    // what is in ours
  std::array<uint64_t, chunk_count> chunk_parts_{};  // what is in ours

  struct held_mutex {
    mutex which{};
    bool is_used = false;
  };
  std::vector<held_mutex>
      held_;  // by place in the control memory; the last is for a device's, which no program names
  status take(const mutex &which, std::span<held_mutex> among);
};

}  // namespace tanada::comex
