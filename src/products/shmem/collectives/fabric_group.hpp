// products/shmem/collectives/fabric_group.hpp: collective operations through contexts. They are
// correct for any mix of mapped and unmapped members, and are used where not all members are
// mapped.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "products/shmem/collectives/control.hpp"
#include "products/shmem/collectives/group.hpp"
#include "products/shmem/collectives/reduction.hpp"
#include "products/shmem/collectives/schedule.hpp"

namespace tanada::shmem {

// A word of this PE that others add to, and how much of it has been consumed. `consumed` null:
// consumed signals are subtracted, so that the word is zero between operations.
struct counter {
  uint64_t *word;
  uint64_t *consumed;
};

// The words and areas of a group's operations: addresses of this PE, symmetric in all members.
struct fabric_signals {
  std::array<counter, 2 * round_count_max> sync, gather;
  std::array<counter, 2> bulk;
  std::array<counter, round_count_max> tree;
  std::array<counter, 2> relay{};      // only with areas
  counter slices{};                    // only with areas
  std::byte *slices_area = nullptr;    // of slices_size bytes, for a reduction by slices
  size_t slices_size = 0;              // 0: only other members of the node use the area
  std::array<std::byte *, 2> areas{};  // for gather
  size_t area_size = 0;                // bytes of each area; 0: there are no areas
  uint64_t *scratch = nullptr;         // a word for a collect of more members than a gather takes
};

// Numbers of the kinds of operations that alternate between two sets of words.
struct operation_counts {
  uint64_t sync = 0, gather = 0, bulk = 0, relay = 0;
};

// The operations of one group, one at a time. All members call each operation with equal sizes
// (except in collect) and symmetric addresses. Targets and sources do not overlap, but may be equal
// in reduce and scan.
//
// Returns, all: ok; range: an address is not symmetric; peer_lost, timed_out, access as contexts
// do, after which the group is unusable.
class fabric_group {
 public:
  fabric_group(channel_ref channel, const group &members, const fabric_signals &words)
      : channel_{channel}, members_{members}, words_{words} {
    TND_ASSERT(uint32_t(members.me) < uint32_t(members.count()));
    TND_ASSERT(members.pe(members.me) == channel.job->me());
  }

  // No member returns before all have entered.
  status sync();

  // Copies the root's `source` to `target` of all others, and to the root's own if `to_itself`.
  status broadcast(void *target, const void *source, size_t size, int32_t root, bool to_itself);

  // `size`: bytes of the block for each member.
  status alltoall(void *target, const void *source, size_t size);

  // Elements of `size` bytes. Member i's block in the source begins at element i * count *
  // source_stride.
  struct strides {
    size_t size, count;
    ptrdiff_t target_stride, source_stride;  // elements
  };
  status alltoall_strided(void *target, const void *source, const strides &shape);

  // Concatenates blocks in the order of the members. fcollect: of equal sizes. collect: `size` is
  // that of this member's block.
  status fcollect(void *target, const void *source, size_t size);
  status collect(void *target, const void *source, size_t size);

  // All members get equal bits, because elements are combined in the order of the members.
  status reduce(const reduction &op, void *target, const void *source, size_t count);
  status scan(const reduction &op, scan_kind kind, void *target, const void *source, size_t count);

  // Gathers `size` bytes of each member, in order, into `all`, which is private memory of this PE.
  // Requires can_gather(size).
  status gather(void *gathered, const void *own_block, size_t size);
  bool can_gather(size_t size) const noexcept {
    return schedule::can_gather(size, members_.count(), words_.area_size);
  }
  // reduce() at addresses that need not be symmetric. Requires areas.
  status reduce_by_areas(const reduction &op, void *target, const void *source, size_t count);
  status reduce_by_tree(const reduction &op, void *target, const void *source, size_t count);
  status reduce_by_doubling(const reduction &op, void *target, const void *source, size_t count);

 private:
  // A source up to copied_size_max is copied, so that nothing waits until it has been read. If the
  // channel has a signals context of its own, a source up to flowing_size_max waits only until the
  // network has taken it, which is immediate or soon.
  static constexpr size_t copied_size_max = 8192, flowing_size_max = size_t{64} << 10;
  static_assert(copied_size_max <= flowing_size_max);

  status sync_by_tree();
  status await(const counter &signal_counter, uint64_t count);
  status signal(const counter &signal_counter, int32_t member, uint64_t count = 1);
  status put_signal(
      void *target, const void *source, size_t size, const counter &completion, int32_t member);
  status forward(
      void *target, const void *source, size_t size, const counter &completion, int32_t member);
  status release_source(size_t size);
  status broadcast_tree(std::byte *dst, const std::byte *src, size_t size, int32_t root_distance);
  size_t relayed_piece(size_t size) const noexcept;

  // A broadcast in pieces of `piece_max` bytes, the last one smaller. The members are identified by
  // their distance from the root.
  struct relayed_broadcast {
    std::byte *target;
    const std::byte *source;
    size_t size, piece_max;
    int32_t root, relay_count;

    size_t piece_count() const noexcept {
      return (size + piece_max - 1) / piece_max;
    }
    size_t piece_size(size_t piece) const noexcept {
      return std::min(piece_max, size - piece * piece_max);
    }
    int32_t member(int32_t root_distance) const noexcept {
      return (root + root_distance) % (relay_count + 1);
    }
  };
  status broadcast_relayed(const relayed_broadcast &broadcast);
  status send_pieces(const relayed_broadcast &broadcast, const counter &arrival);
  status relay_piece(const relayed_broadcast &broadcast, size_t piece, const counter &completion);

  const counter &next_bulk() {
    return words_.bulk[counts_.bulk++ & 1];
  }
  status spread_block(void *target, const void *source, size_t size);
  status pull_sizes(std::vector<uint64_t> &sizes, uint64_t own_size);

  // The elements that alltoall_strided moves at a time: `count` of each member's block, beginning
  // with element `first`, fetched into `spans` as ranges that begin `span_max` bytes apart.
  struct strided_step {
    const strides &shape;
    size_t first, count, span_max;
    std::byte *spans;

    ptrdiff_t target_step() const noexcept {
      return shape.target_stride * ptrdiff_t(shape.size);
    }
    ptrdiff_t source_step() const noexcept {
      return shape.source_stride * ptrdiff_t(shape.size);
    }
    size_t span_size() const noexcept {
      return (count - 1) * size_t(source_step()) + shape.size;
    }
  };
  status fetch_spans(const strided_step &step, const std::byte *own_source);
  status place_spans(const strided_step &step, std::byte *target);

  // A reduction or scan of elements that one member combines for all members.
  struct slice_work {
    const reduction &op;
    std::optional<scan_kind> scan;  // nullopt: reduce
    std::byte *target;
    const std::byte *source;
  };
  status reduce_gathered(const reduction &op, void *target, const void *source, size_t count);
  // The elements of one piece, which is at most `size_max` bytes.
  struct piece_work {
    const reduction &op;
    std::byte *elements;
    size_t count, size_max;

    size_t size() const noexcept {
      return count * op.size;
    }
  };
  using piece_call = status (fabric_group::*)(const piece_work &);
  struct piece_arrays {
    void *target;
    const void *source;
    size_t count;
  };
  status reduce_pieces(const reduction &op, const piece_arrays &arrays, piece_call call);
  status reduce_piece_by_tree(const piece_work &work);
  status reduce_piece_by_doubling(const piece_work &work);
  status fold_piece(const piece_work &work, size_t parity);
  status exchange_piece(const piece_work &work, int32_t position, int32_t round, size_t parity);
  schedule::crowding load() const noexcept {
    return channel_.job->has_oversubscribed_machine() ? schedule::crowding::oversubscribed
                                                      : schedule::crowding::dedicated;
  }
  // Sends what a member has in `elements` to `result` of its children in the tree.
  status forward_result(std::byte *elements, std::byte *result, size_t size);
  status reduce_slices(const slice_work &work, size_t count);
  status send_slices(const slice_work &work, size_t count);
  status slices_of_block(const slice_work &work, size_t count);
  status fetch_slices(const slice_work &work, part own_part);
  status spread_reduced(const slice_work &work, part own_part);
  status spread_prefixes(const slice_work &work, part own_part);
  void combine_prefixes(const reduction &op, size_t count);

  channel_ref channel_;
  const group &members_;
  fabric_signals words_;
  operation_counts counts_;
  std::unique_ptr<std::byte[]> slices_;  // of all members, one after another
  size_t slices_size_ = 0;
};

}  // namespace tanada::shmem
