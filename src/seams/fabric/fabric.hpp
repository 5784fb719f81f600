// seams/fabric/fabric.hpp: the seam to networks that move memory. Implementations: libfabric
// (libfabric_endpoint.hpp, in the library tanada_fabric) and sim::fabric. One contract suite
// (tests/contract/fabric_contract.hpp) runs on all of them.
#pragma once

#include <tanada/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.hpp"

namespace tanada::port {

// Which way bytes went. tcp is staged: a processor copies them through a socket; rdma is moved by
// the network card.
enum class fabric_path : uint8_t { shared_memory, rdma, tcp, simulated };
inline constexpr size_t fabric_path_count = 4;
const char *fabric_path_name(
    fabric_path path) noexcept;  // "shared_memory", "rdma", "tcp", "simulated"

// Where an endpoint is reached: bytes that only fabrics of the same kind understand. Safe to send
// and to compare.
inline constexpr size_t fabric_address_size_max = 256;
struct fabric_address {
  std::array<std::byte, fabric_address_size_max> bytes{};
  size_t size = 0;

  std::span<const std::byte> span() const noexcept {
    return {bytes.data(), size};
  }
};

// A peer as an endpoint numbers it. Numbers are never used twice by one endpoint.
using fabric_peer = uint32_t;
inline constexpr fabric_peer no_fabric_peer = ~uint32_t{0};

enum class fabric_memory_kind : uint8_t { host, cuda };

struct fabric_memory {
  std::byte *addr = nullptr;
  size_t size = 0;  // bytes
  fabric_memory_kind kind = fabric_memory_kind::host;
  int device = 0;  // CUDA's ordinal; cuda only
};

// What others may do with a region. Atomics work where both are given; what a fabric does of them
// with one is its own, but without remote_write nothing changes. None of them: the region speeds up
// local operations.
struct fabric_access {
  bool remote_read = false, remote_write = false;
};

// What a peer must know to reach a region; sent to it by other means. The key is a number nobody
// guesses by chance, not a proof of identity: a fabric authenticates nobody.
struct fabric_remote {
  uint64_t base =
      0;  // where the region begins in the numbering of its owner: 0, or a virtual address
  uint64_t key = 0;
  uint64_t size = 0;  // bytes
};

using fabric_region_id = uint64_t;
inline constexpr fabric_region_id no_fabric_region = 0;

struct fabric_region {
  fabric_region_id id = no_fabric_region;
  fabric_remote remote{};  // zero without remote access
};

enum class fabric_op_kind : uint8_t { send, receive, read, write, atomic };
inline constexpr size_t fabric_op_kind_count = 5;

// What an atomic does to each element at the target. fetch and compare_swap always tell what was
// there before.
enum class fabric_atomic : uint8_t { add, bit_and, bit_or, bit_xor, swap, compare_swap, fetch };
inline constexpr size_t fabric_atomic_count = 7;

// c64: two floats, c128: two doubles, real part first; each of the two is added by itself. Signed
// integers are the unsigned of their width.
enum class fabric_element : uint8_t { u32, u64, f32, f64, c64, c128 };
inline constexpr size_t fabric_element_count = 6;

// One operation. Which fields count depends on `kind`; the rest is ignored.
//
// An atomic without `addr` is of one element, u32 or u64, with its operands in the op. With `addr`
// it adds a vector, of any element, to what is there, and tells nothing: each element is atomic,
// the vector is not.
struct fabric_op {
  fabric_op_kind kind = fabric_op_kind::send;
  fabric_atomic atomic = fabric_atomic::add;     // atomics
  fabric_element element = fabric_element::u64;  // atomics
  bool wants_value = false;                      // atomics of one element: what was there is told
  bool copied = false;  // write, vectors: `addr` is the caller's again when post returns ok; `size`
                        // is at most properties().copied_size_max
  bool more = false;  // write: another op to this peer is posted next, which this one may wait for
  bool is_told_by_next =
      false;  // write: it completes when `addr` is the caller's again; where is_ordered, the
              // op posted next to this peer, which there must be, tells what became of both
  bool can_wait = false;  // atomics: nobody waits for the completion; a millisecond later will do
  uint64_t op_id = 0;     // handed back in the completion; need not be unique
  uint64_t deadline_ns = TND_NO_DEADLINE;  // absolute, on the endpoint's clock
  fabric_peer peer = no_fabric_peer;  // all but receive, which takes what comes first from anybody
  std::byte *addr = nullptr;          // send, receive, read, write, vectors: the local memory
  size_t size = 0;                    // bytes of it. Zero for messages only
  fabric_region_id region =
      no_fabric_region;    // one of ours that holds the local memory; needed for memory of a GPU
  fabric_remote remote{};  // read, write, atomics
  uint64_t offset = 0;     // bytes into `remote`; atomics: a multiple of the element's size, or of
                           // the size of what a complex one is made of
  uint64_t operand = 0;    // atomics of one element: what is added, combined, stored
  uint64_t compare = 0;    // compare_swap: what must be there
};

struct fabric_completion {
  uint64_t op_id = 0;
  status code = status::ok;
  uint64_t size = 0;  // bytes moved: of the message, of the transfer, of the elements; 0 on error
  fabric_peer peer =
      no_fabric_peer;  // receive: the sender, no_fabric_peer when it was never added here
  fabric_path path = fabric_path::tcp;
  bool settled = true;  // false: the memory is still in use and another completion will follow
  uint64_t value = 0;   // atomics that fetch: what was there before (u32: zero-extended)
};

// Counted since the endpoint was made. Each operation counts once, when it settles.
struct fabric_counters {
  std::array<uint64_t, fabric_path_count> ops{};    // that succeeded, by path
  std::array<uint64_t, fabric_path_count> bytes{};  // moved by them
  uint64_t errors_timed_out = 0;                    // deadlines that came first
  uint64_t errors_peer_lost = 0;
  uint64_t errors_access = 0;  // refused: key, range or right
  uint64_t errors_canceled = 0;
  uint64_t errors_other = 0;
  uint64_t again = 0;  // posts refused because the queue was full
  uint64_t registration_hits = 0, registration_misses = 0,
           registration_evictions = 0;  // of the cache
};

struct fabric_properties {
  std::string provider;  // "o2g", "tcp;ofi_rxm", "shm", "verbs;ofi_rxm", "sim"
  fabric_path path = fabric_path::tcp;
  uint32_t depth = 0;           // operations posted and not reaped at most
  size_t message_size_max = 0;  // bytes of one message; transfers have no such limit
  size_t copied_size_max = 0;   // bytes of an op with `copied`
  bool has_atomics = false;     // all of them, on all elements; else atomics are not_supported
  bool atomics_by_processor =
      false;  // a processor of the target's node does them, by its own atomic instructions: they
              // are atomic with what programs of that node do so to the same words, too
  bool is_ordered = false;        // see Ordering
  bool progresses_alone = false;  // see Progress
  bool has_cuda = false;          // else regions of GPU memory are not_supported
  bool waits_on_descriptor =
      false;  // what comes ends a `wait` at once; else it looks at growing intervals of up to 1 ms
};

// One address in a fabric: reliable messages, and memory that moves without a call of its owner's
// in between. Used by one thread at a time, but for wake().
//
// Completion: a post that returns ok yields exactly one completion with `settled`, from a later
// poll; any other status yields none. When the deadline comes first and the fabric does not let go
// of the memory at once, one completion (timed_out, not settled) comes before it, and what became
// of the operation is told by the one that settles: ok, if it happened after all. Until then the
// memory belongs to the fabric; it lets go at the latest when the endpoint is destroyed, which
// yields no completions. post never completes inside the call. Memory of a `copied` op is not the
// fabric's.
//
// Ordering: messages between two endpoints arrive whole, once and in the order of their posts. A
// write or an atomic that has completed with ok is visible at the target to whatever a message sent
// afterwards causes. With is_ordered the writes and atomics posted to one peer are also performed
// there in the order of their posts, and reads and fetching atomics posted later see them; that
// ends for an operation which ends with an error. Nothing else is ordered, completions neither.
//
// Atomics are atomic with one another, element by element, whoever posts them; with other
// processors: atomics_by_processor.
//
// Progress: an endpoint answers its peers (accepts messages, serves their reads, writes and atomics
// where no card does) inside poll and wait only, and an owner that wants to be reached keeps a
// thread in wait; but with progresses_alone it serves reads, writes and atomics whatever its owner
// does.
//
// Peers: one that died shows as peer_lost where the fabric can tell and as timed_out where it
// cannot. A message lost with a peer is not sent again. A process that comes back under the address
// it had is reached under the same number; under another address it is another peer. Keys of its
// former life are refused.
//
// A message longer than its receive ends that with overflow; the connection may be lost by it, with
// messages under way.
//
// Safety: a key that is wrong, released, of another endpoint, or too short for the range is
// refused: the operation ends with access where the fabric says so, else with peer_lost or
// timed_out; no byte moves; operations of other endpoints go on. Between these two a connection may
// be lost by it: what is under way ends with peer_lost, what comes after works.
class fabric_endpoint {
 public:
  virtual ~fabric_endpoint() = default;

  virtual const fabric_properties &properties() const noexcept = 0;
  virtual const fabric_address &address() const noexcept = 0;

  // Make a peer known. Nothing is sent: that nobody answers there shows with the first operation.
  // The same address twice is one peer. invalid for what is no address of this fabric, no_space
  // when it holds no more of them, busy while operations of a peer removed from this address have
  // not settled.
  virtual result<fabric_peer> peer_add(std::span<const std::byte> address) = 0;

  // Forget a peer. Its operations complete with canceled, or as they would have; shared memory lets
  // go of theirs when the peer answers or dies. no_entry if there is none.
  virtual status peer_remove(fabric_peer peer) = 0;

  // Let the fabric use memory, which stays allocated until the region is released. Without remote
  // access the registration comes from a cache (bounded; by address range) and goes back to it;
  // with remote access it is new each time, under a new key, so that a release takes the right away
  // at once. invalid for no memory; not_supported for memory of a GPU that this provider cannot
  // reach, with a message; no_memory.
  virtual result<fabric_region> region_register(const fabric_memory &memory,
                                                fabric_access access) = 0;

  // busy while an operation of ours in it has not settled; no_entry if there is none.
  virtual status region_release(fabric_region_id region) = 0;

  // Drop cached registrations that touch this memory. To be called before it goes back to the
  // system: a cache cannot see that other memory has come to lie at an address.
  virtual void memory_forget(const std::byte *addr, size_t size) = 0;

  // ok; again when `depth` operations are out (poll, then repeat); invalid for a malformed op;
  // too_big for a longer message than message_size_max, for more than copied_size_max to be copied;
  // range for a transfer past the end of `remote` or of `region`; no_entry for an unknown peer or
  // region; not_supported for what properties() denies.
  virtual status post(const fabric_op &op) = 0;

  // Reap up to completions.size() completions without blocking. Returns how many.
  virtual size_t poll(std::span<fabric_completion> completions) = 0;

  // Block until poll has something: ok; timed_out at the deadline; interrupted by wake(). Does not
  // spin.
  virtual status wait(uint64_t deadline_ns) = 0;

  // As wait, but it returns ok, too, when peers may have read or changed memory in our regions
  // since it returned last. Where the fabric cannot tell it returns when something has come, or now
  // and then.
  virtual status wait_for_change(uint64_t deadline_ns) {
    return wait(deadline_ns);
  }

  // Let the wait under way, or else the next one, return. Any thread.
  virtual void wake() noexcept = 0;

  // Operations posted whose last completion is not reaped yet.
  virtual size_t pending_count() const noexcept = 0;

  virtual fabric_counters counters() const noexcept = 0;
};

}  // namespace tanada::port
