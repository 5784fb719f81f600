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
#include <type_traits>

#include "core/base/result.hpp"

namespace tanada::seams {

// How bytes travelled. tcp is staged: a processor copies them through a socket. rdma: the network
// card moves them.
enum class fabric_path : uint8_t { shared_memory, rdma, tcp, simulated };
inline constexpr size_t fabric_path_count = 4;
static_assert(fabric_path_count == size_t(fabric_path::simulated) + 1);
const char *fabric_path_name(
    fabric_path path) noexcept;  // "shared_memory", "rdma", "tcp", "simulated"

// The address of an endpoint: bytes that only fabrics of the same kind understand. Safe to send and
// to compare.
inline constexpr size_t fabric_address_size_max = 256;
struct fabric_address {
  std::array<std::byte, fabric_address_size_max> bytes{};
  size_t size = 0;

  std::span<const std::byte> span() const noexcept {
    return {bytes.data(), size};
  }
};
static_assert(std::is_trivially_copyable_v<fabric_address>);

// A peer's number at an endpoint, which never uses a number twice.
using fabric_peer = uint32_t;
inline constexpr fabric_peer no_fabric_peer = ~uint32_t{0};

enum class fabric_memory_kind : uint8_t { host, cuda };

struct fabric_memory {
  std::byte *addr = nullptr;
  size_t size = 0;  // bytes
  fabric_memory_kind kind = fabric_memory_kind::host;
  int device = 0;  // CUDA's ordinal; cuda only
};

// What peers may do with a region. Atomics work if both rights are given. With one of them the
// effect depends on the fabric, but nothing changes without remote_write. With neither, the region
// speeds up local operations.
struct fabric_access {
  bool remote_read = false, remote_write = false;
};

// What a peer needs to reach a region; sent to it by other means. The key is hard to guess by
// chance, but no proof of identity: a fabric authenticates nobody.
struct fabric_remote {
  // Where the region begins in its owner's numbering: 0, or a virtual address.
  uint64_t base = 0;
  uint64_t key = 0;
  uint64_t size = 0;  // bytes
};
static_assert(sizeof(fabric_remote) == 24 && std::is_trivially_copyable_v<fabric_remote>);

using fabric_region_id = uint64_t;
inline constexpr fabric_region_id no_fabric_region = 0;

struct fabric_region {
  fabric_region_id id = no_fabric_region;
  fabric_remote remote{};  // zero without remote access
};

enum class fabric_op_kind : uint8_t { send, receive, read, write, atomic };
inline constexpr size_t fabric_op_kind_count = 5;
static_assert(fabric_op_kind_count == size_t(fabric_op_kind::atomic) + 1);

// What an atomic does to each element at the target. fetch and compare_swap always return the
// previous value.
enum class fabric_atomic : uint8_t { add, bit_and, bit_or, bit_xor, swap, compare_swap, fetch };
inline constexpr size_t fabric_atomic_count = 7;
static_assert(fabric_atomic_count == size_t(fabric_atomic::fetch) + 1);

// c64: two floats, c128: two doubles, real part first; each part is added separately. Signed
// integers use the unsigned type of their width.
enum class fabric_element : uint8_t { u32, u64, f32, f64, c64, c128 };
inline constexpr size_t fabric_element_count = 6;
static_assert(fabric_element_count == size_t(fabric_element::c128) + 1);

// One operation. `kind` determines which fields count; the others are ignored.
//
// An atomic without `addr` has one element, u32 or u64, with its operands in the op. With `addr` it
// adds a vector, of any element, to the target and returns nothing. Each element is atomic, the
// vector is not.
struct fabric_op {
  fabric_op_kind kind = fabric_op_kind::send;
  fabric_atomic atomic = fabric_atomic::add;     // atomics
  fabric_element element = fabric_element::u64;  // atomics
  bool returns_value = false;  // atomics of one element: the previous value is returned
  // write, vectors: the caller may reuse `addr` when post returns ok. `size` is at most
  // properties().copied_size_max.
  bool is_copied = false;
  bool more = false;  // write: another op to this peer is posted next; this one may wait for it
  // write: it completes when the caller may reuse `addr`. Where is_ordered, an op to this peer must
  // be posted next, and its completion reports the outcome of both.
  bool is_reported_by_next = false;
  bool may_delay = false;                  // atomics: the completion may come a millisecond later
  uint64_t op_id = 0;                      // returned in the completion; need not be unique
  uint64_t deadline_ns = TND_NO_DEADLINE;  // absolute, on the endpoint's clock
  fabric_peer peer = no_fabric_peer;       // all but receive, which accepts messages of any peer
  std::byte *addr = nullptr;               // send, receive, read, write, vectors: the local memory
  size_t size = 0;                         // bytes of it; zero only for messages
  // An own region that holds the local memory; required for GPU memory.
  fabric_region_id region = no_fabric_region;
  fabric_remote remote{};  // read, write, atomics
  // Bytes into `remote`. Atomics: a multiple of the element's size, or for a complex one of its
  // component's size.
  uint64_t offset = 0;
  uint64_t operand = 0;  // atomics of one element: added, combined or stored
  uint64_t compare = 0;  // compare_swap: the expected value
};

struct fabric_completion {
  uint64_t op_id = 0;
  status code = status::ok;
  uint64_t size = 0;  // bytes moved; 0 on error
  // receive: the sender; no_fabric_peer when it was never added here.
  fabric_peer peer = no_fabric_peer;
  fabric_path path = fabric_path::tcp;
  bool settled = true;  // false: the memory is still in use, and another completion will follow
  uint64_t value = 0;   // fetching atomics: the previous value (u32: zero-extended)
};

// Counted since the endpoint was created. Each operation counts once, when it settles.
struct fabric_counters {
  std::array<uint64_t, fabric_path_count> ops{};    // succeeded, by path
  std::array<uint64_t, fabric_path_count> bytes{};  // moved by them
  uint64_t errors_timed_out = 0;                    // deadlines that passed first
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
  uint32_t depth = 0;           // most operations that are posted and not reaped
  size_t message_size_max = 0;  // bytes of one message; transfers have no such limit
  size_t copied_size_max = 0;   // bytes of an op with `copied`
  bool has_atomics = false;     // all of them, on all elements; else they are not_supported
  // A processor of the target's node performs atomics by its own atomic instructions. They are then
  // also atomic with updates of the same words by programs of that node.
  bool atomics_by_processor = false;
  bool is_ordered = false;         // see Ordering
  bool has_auto_progress = false;  // see Progress
  bool has_cuda = false;           // else regions of GPU memory are not_supported
  // An arrival ends a `wait` at once. Otherwise it polls at growing intervals of up to 1 ms.
  bool waits_on_descriptor = false;
};

// One address in a fabric: reliable messages, and memory that moves without calls of its owner.
// Used by one thread at a time, except wake().
//
// Completion: a post that returns ok yields exactly one completion with `settled`, from a later
// poll; any other status yields none. If the deadline passes and the fabric does not release the
// memory at once, a completion that does not settle (timed_out) comes first. The settling one then
// reports the outcome: ok, if the operation happened after all. Until then the memory belongs to
// the fabric. It is released at the latest when the endpoint is destroyed, which yields no
// completions. post never completes inside the call. The memory of an op with `is_copied` does not
// belong to the fabric.
//
// Ordering: messages between two endpoints arrive whole, once and in the order of their posts. A
// write or an atomic that has completed with ok is visible at the target to everything that a later
// message causes. With is_ordered, the writes and atomics posted to one peer are also performed
// there in the order of their posts, and reads and fetching atomics posted later see them. That
// does not hold for an operation that ends with an error. Nothing else is ordered, not even
// completions.
//
// Atomics are atomic with one another, element by element, whichever endpoint posts them. For other
// processors see atomics_by_processor.
//
// Progress: an endpoint accepts messages only inside poll and wait. There it also serves its peers'
// reads, writes and atomics, where no card does. An owner that must be reachable keeps a thread in
// wait. With has_auto_progress it serves reads, writes and atomics whatever its owner does.
//
// Peers: one that died shows as peer_lost where the fabric can detect it, and as timed_out
// otherwise. A message lost with a peer is not sent again. A process that returns under its former
// address is reached under the same number; under another address it is another peer. Keys of its
// former life are refused.
//
// A message longer than its receive ends the receive with overflow. The connection may be lost with
// it, and messages in flight too.
//
// Safety: a key that is wrong, released, of another endpoint, or too short for the range is
// refused. The operation ends with access where the fabric reports it, else with peer_lost or
// timed_out. No byte moves, and operations of other endpoints continue. The connection between the
// two may be lost: operations in flight then end with peer_lost, and later ones work.
class fabric_endpoint {
 public:
  virtual ~fabric_endpoint() = default;

  virtual const fabric_properties &properties() const noexcept = 0;
  virtual const fabric_address &address() const noexcept = 0;

  // Makes a peer known. Nothing is sent: only the first operation shows whether the peer answers.
  // The same address twice is one peer. invalid: not an address of this fabric. no_space: it holds
  // no more of them. busy: operations of a peer removed from this address have not settled.
  virtual result<fabric_peer> peer_add(std::span<const std::byte> address) = 0;

  // Forgets a peer. Its operations complete with canceled, or as they would have. Shared memory
  // releases their memory when the peer answers or dies. no_entry: there is no such peer.
  virtual status peer_remove(fabric_peer peer) = 0;

  // Lets the fabric use memory, which stays allocated until the region is released. Without remote
  // access the registration comes from a bounded cache by address range, and returns to it. With
  // remote access it is new each time, under a new key, so that a release revokes the right at
  // once. invalid: no memory. not_supported: GPU memory that this provider cannot reach, with a
  // message. no_memory.
  virtual result<fabric_region> region_register(const fabric_memory &memory,
                                                fabric_access access) = 0;

  // busy: an own operation in it has not settled. no_entry: there is no such region.
  virtual status region_release(fabric_region_id region) = 0;

  // Drops cached registrations that overlap this memory. To be called before it returns to the
  // system: a cache cannot detect that other memory has taken an address.
  virtual void memory_forget(const std::byte *addr, size_t size) = 0;

  // ok. again: `depth` operations are outstanding (poll, then repeat). invalid: a malformed op.
  // too_big: a message longer than message_size_max, or more than copied_size_max to be copied.
  // range: a transfer past the end of `remote` or of `region`. no_entry: an unknown peer or region.
  // not_supported: properties() excludes it.
  virtual status post(const fabric_op &op) = 0;

  // Reaps up to completions.size() completions without blocking. Returns how many.
  virtual size_t poll(std::span<fabric_completion> completions) = 0;

  // Blocks until poll has a completion: ok; timed_out at the deadline; interrupted by wake(). Does
  // not spin.
  virtual status wait(uint64_t deadline_ns) = 0;

  // As wait, but also returns ok when peers may have read or changed memory in this endpoint's
  // regions since it last returned. Where the fabric cannot detect that, it returns after any
  // arrival, or from time to time.
  virtual status wait_for_change(uint64_t deadline_ns) {
    return wait(deadline_ns);
  }

  // Ends the current wait, or else the next one. Any thread.
  virtual void wake() noexcept = 0;

  // Operations posted whose last completion has not been reaped.
  virtual size_t pending_count() const noexcept = 0;

  virtual fabric_counters counters() const noexcept = 0;
};

}  // namespace tanada::seams
