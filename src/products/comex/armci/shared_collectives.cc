// products/comex/armci/shared_collectives.cc: collective calls through the node's shared memory.
#include "products/comex/armci/shared_collectives.hpp"

#include <algorithm>
#include <cstring>

#include <compat/comex/comex.h>

#include "products/comex/armci/fatal.hpp"
#include "products/comex/mpi/wait.hpp"

namespace tanada::comex::armci {

std::optional<shared_collectives> shared_collectives::open(int me, int count) {
  std::vector<std::byte *> areas;
  size_t size = 0;
  for (int rank = 0; rank < count; rank++) {
    auto *const area = static_cast<std::byte *>(tnd_comex_collective_memory(rank, &size));
    if (area == nullptr)
      return std::nullopt;
    areas.push_back(area);
  }
  return shared_collectives{me, std::move(areas), size / 2};
}

void shared_collectives::begin_turn(kind call_kind, size_t size, int id) noexcept {
  turn_++;
  call_header const header{.turn = turn_, .size = size, .call_kind = call_kind, .id = id};
  std::memcpy(area_of(me_) - header_size, &header, sizeof header);
}

void shared_collectives::wait_for_all(const char *call) noexcept {
  require_ok(call, "comex_barrier", comex_barrier(COMEX_GROUP_WORLD));
}

void shared_collectives::check(
    const char *call, int rank, kind call_kind, size_t size, int id) const noexcept {
  call_header header;
  std::memcpy(&header, area_of(rank) - header_size, sizeof header);
  bool const is_same = header.turn == turn_ && header.call_kind == call_kind && header.id == id;
  if (!is_same)
    fatal(call, "rank {} makes a different call", rank);
  if (header.size != size)
    fatal(call, "size mismatch: {} bytes, rank {} has {}", size, rank, header.size);
}

void shared_collectives::broadcast(const char *call,
                                   std::span<std::byte> bytes,
                                   int root) noexcept {
  if (const char *const error = tnd_comex_broadcast(bytes.data(), bytes.size(), root)) [[unlikely]]
    fatal(call, "{}", error);
}

void shared_collectives::gather(const char *call,
                                const void *contribution,
                                size_t size,
                                std::byte *result) noexcept {
  begin_turn(kind::gather, size);
  std::memcpy(area_of(me_), contribution, size);
  wait_for_all(call);
  for (int rank = 0; rank < count(); rank++) {
    check(call, rank, kind::gather, size);
    std::memcpy(result + size_t(rank) * size, area_of(rank), size);
  }
}

void shared_collectives::reduce(const char *call,
                                const reduction &op,
                                std::byte *data,
                                size_t size) noexcept {
  size_t const chunk_max = capacity() / op.element_size * op.element_size;
  size_t done = 0;
  do {
    size_t const chunk = std::min(size - done, chunk_max);
    reduce_chunk(call, op, data + done, chunk, size);
    done += chunk;
  } while (done < size);
}

void shared_collectives::reduce_chunk(
    const char *call, const reduction &op, std::byte *data, size_t size, size_t total) noexcept {
  constexpr size_t sliced_min = 2048;  // bytes
  begin_turn(kind::reduce, total, int(op.id));
  tnd_comex_collective_copy(area_of(me_), data, size);
  wait_for_all(call);
  for (int rank = 0; rank < count(); rank++) {
    check(call, rank, kind::reduce, total, int(op.id));
  }
  if (size == 0)
    return;
  if (count() == 2)
    return (me_ == 0 ? op.run : op.run_reversed)(data, area_of(1 - me_), size / op.element_size);
  if (count() == 1 || size < sliced_min)
    return combine(op, data, 0, size);
  reduce_slices(call, op, data, size);
}

// Combines `size` bytes of all contributions, from `offset` on.
void shared_collectives::combine(const reduction &op,
                                 std::byte *target,
                                 size_t offset,
                                 size_t size) const noexcept {
  if (target != area_of(0) + offset)
    std::memmove(target, area_of(0) + offset, size);
  for (int rank = 1; rank < count(); rank++) {
    op.run(target, area_of(rank) + offset, size / op.element_size);
  }
}

// With many ranks and elements, each rank combines one slice of all contributions, and copies the
// other slices from the ranks that combined them.
void shared_collectives::reduce_slices(const char *call,
                                       const reduction &op,
                                       std::byte *data,
                                       size_t size) noexcept {
  size_t const elements = size / op.element_size,
               slice = (elements + size_t(count()) - 1) / size_t(count()) * op.element_size;
  auto const slice_begin = [&](int rank) {
    return std::min(size, size_t(rank) * slice);
  };
  size_t const own_begin = slice_begin(me_), own_size = slice_begin(me_ + 1) - own_begin;
  combine(op, data + own_begin, own_begin, own_size);
  tnd_comex_collective_copy(area_of(me_) + own_begin, data + own_begin, own_size);
  wait_for_all(call);
  for (int rank = 0; rank < count(); rank++) {
    if (rank != me_)
      std::memcpy(data + slice_begin(rank),
                  area_of(rank) + slice_begin(rank),
                  slice_begin(rank + 1) - slice_begin(rank));
  }
}

}  // namespace tanada::comex::armci
