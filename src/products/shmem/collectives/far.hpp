// products/shmem/collectives/far.hpp: collective operations through contexts: right for any mix of
// members that are mapped and such that the fabric reaches; meant for those that are not all
// mapped.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "products/shmem/collectives/control.hpp"
#include "products/shmem/collectives/group.hpp"
#include "products/shmem/collectives/reduction.hpp"

namespace tanada::shmem {

// A word of ours that others add to, and what we have taken from it. Without `taken` what is taken
// is subtracted: the word is zero between operations.
struct counter {
  uint64_t *word;
  uint64_t *taken;
};

// Where a group's signals go: addresses of this PE, symmetric in all.
struct far_words {
  std::array<counter, 2 * round_count_max> sync, gather;
  std::array<counter, 2> bulk;
  std::array<counter, round_count_max> tree;
  std::array<counter, 2> relay{};      // with areas
  counter slices{};                    // with areas
  std::byte *slices_area = nullptr;    // of control_layout::slices_size bytes
  std::array<std::byte *, 2> areas{};  // for gather
  size_t area_size = 0;                // bytes of each; 0: there are none
  uint64_t *scratch = nullptr;         // where there is no gather: a word for collect
};

// Numbers of operations so far, for those that alternate between two sets of words.
struct far_counts {
  uint64_t sync = 0, gather = 0, bulk = 0, relay = 0;
};

// Operations of one group, one at a time. Each is called by all members with equal sizes (but
// collect) and symmetric addresses. Targets and sources are distinct or, in reduce and scan, equal.
//
// Returns, all: ok; range for an address that is not symmetric; peer_lost, timed_out, access as
// contexts do, after which the group's state is lost.
class far_group {
 public:
  far_group(wires by, const group &members, const far_words &words)
      : by_{by}, members_{members}, words_{words} {}

  // Nobody leaves before all have come.
  status sync();

  // `target` of all becomes the root's `source`; the root's own too, if it says so.
  status broadcast(void *target, const void *source, size_t size, int32_t root, bool to_itself);

  // size: bytes of each member's block.
  status alltoall(void *target, const void *source, size_t size);

  // Elements of `size` bytes; member i's block in the source begins at element i * count *
  // source_stride.
  struct strides {
    size_t size, count;
    ptrdiff_t target_stride, source_stride;  // elements
  };
  status alltoall_strided(void *target, const void *source, const strides &shape);

  // Blocks in the order of the members. fcollect: of equal sizes. collect: this one's is `size`
  // bytes.
  status fcollect(void *target, const void *source, size_t size);
  status collect(void *target, const void *source, size_t size);

  // Equal bits in all members: elements are combined in their order.
  status reduce(const reduction &what, void *target, const void *source, size_t count);
  status scan(const reduction &what, scan_kind kind, void *target, const void *source,
              size_t count);

  // This member's `size` bytes and everybody's, in order, into `all` (ours, private). size *
  // count() <= what can_gather says.
  status gather(void *all, const void *mine, size_t size);
  bool can_gather(size_t size) const noexcept {
    return words_.area_size != 0 && size <= words_.area_size / size_t(members_.count());
  }

 private:
  // Up to here a source is copied, so that nobody waits for it to be read. Where signals flow,
  // nobody waits for more than that the network has taken it, which it does at once up to
  // flowing_size_max, or soon.
  static constexpr size_t copied_size_max = 8192, flowing_size_max = size_t{64} << 10;

  status await(const counter &which, uint64_t count);
  status signal(const counter &which, int32_t member, uint64_t count = 1);
  status put_signal(void *target, const void *source, size_t size, const counter &then,
                    int32_t member);
  status hand_on(void *target, const void *source, size_t size, const counter &then,
                 int32_t member);
  status leave(size_t size);
  status broadcast_tree(std::byte *to, const std::byte *from, size_t size, int32_t place);
  size_t relayed_piece(size_t size) const noexcept;
  status broadcast_relayed(std::byte *to, const std::byte *from, size_t size, int32_t root);
  const counter &next_bulk() {
    return words_.bulk[counts_.bulk++ & 1];
  }
  status spread_block(void *target, const void *source, size_t size);
  status gather_sizes(std::vector<uint64_t> &sizes, uint64_t mine);
  status pull_sizes(std::vector<uint64_t> &sizes, uint64_t mine);

  // What becomes of elements that one member has of all: `everybodys[i]` are member i's.
  struct slice_work {
    const reduction &what;
    std::optional<scan_kind> scan;  // none: reduce
    std::byte *target;
    const std::byte *source;
  };
  bool fits_slices(size_t size) const noexcept;
  status reduce_slices(const slice_work &work, size_t count);
  status slices_of_block(const slice_work &work, size_t count);
  status fetch_slices(const slice_work &work, part mine);
  status spread_reduced(const slice_work &work, part mine);
  status spread_prefixes(const slice_work &work, part mine);

  wires by_;
  const group &members_;
  far_words words_;
  far_counts counts_;
  std::unique_ptr<std::byte[]> slices_;  // everybody's, one after another
  size_t slices_size_ = 0;
};

}  // namespace tanada::shmem
