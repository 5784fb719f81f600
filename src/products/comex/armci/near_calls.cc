#include "products/comex/armci/near_calls.hpp"

#include <algorithm>
#include <cstring>

#include <compat/comex/comex.h>

#include "products/comex/armci/fatal.hpp"
#include "products/comex/mpi/wait.hpp"

namespace tanada::comex::armci {

std::optional<near_calls> near_calls::open(int me, int count) {
  std::vector<std::byte *> parts;
  size_t size = 0;
  for (int rank = 0; rank < count; rank++) {
    auto *const part = static_cast<std::byte *>(tnd_comex_collective_memory(rank, &size));
    if (part == nullptr)
      return std::nullopt;
    parts.push_back(part);
  }
  return near_calls{me, std::move(parts), size / 2};
}

void near_calls::begin(kind what, size_t size, int id) noexcept {
  turn_++;
  head const mine{.turn = turn_, .size = size, .what = what, .id = id};
  std::memcpy(of(me_) - head_size, &mine, sizeof mine);
}

void near_calls::meet(const char *call) noexcept {
  need(call, "comex_barrier", comex_barrier(COMEX_GROUP_WORLD));
}

void near_calls::check(const char *call, int rank, kind what, size_t size, int id) const noexcept {
  head theirs;
  std::memcpy(&theirs, of(rank) - head_size, sizeof theirs);
  bool const is_same = theirs.turn == turn_ && theirs.what == what && theirs.id == id;
  if (!is_same)
    fatal(call, "rank %d does not call the same", rank);
  if (theirs.size != size)
    fatal(call, "%zu bytes, and rank %d has %zu", size, rank, size_t(theirs.size));
}

void near_calls::broadcast(const char *call, std::span<std::byte> bytes, int root) noexcept {
  if (const char *const why = tnd_comex_broadcast(bytes.data(), bytes.size(), root)) [[unlikely]]
    fatal(call, "%s", why);
}

void near_calls::gather(const char *call, const void *mine, size_t size,
                        std::byte *everybodys) noexcept {
  begin(kind::gather, size);
  std::memcpy(of(me_), mine, size);
  meet(call);
  for (int rank = 0; rank < count(); rank++) {
    check(call, rank, kind::gather, size);
    std::memcpy(everybodys + size_t(rank) * size, of(rank), size);
  }
}

void near_calls::reduce(const char *call, const combination &what, std::byte *place,
                        size_t size) noexcept {
  size_t const largest = room() / what.element_size * what.element_size;
  size_t done = 0;
  do {
    size_t const piece = std::min(size - done, largest);
    reduce_piece(call, what, place + done, piece, size);
    done += piece;
  } while (done < size);
}

// Of many ranks' many elements each adds up a slice of all, and has the other slices from who did.
void near_calls::reduce_piece(const char *call, const combination &what, std::byte *place,
                              size_t size, size_t total) noexcept {
  constexpr size_t sliced_min = 2048;  // bytes
  begin(kind::reduce, total, int(what.id));
  tnd_comex_collective_copy(of(me_), place, size);
  meet(call);
  for (int rank = 0; rank < count(); rank++)
    check(call, rank, kind::reduce, total, int(what.id));
  auto const combine = [&](std::byte *into, size_t at, size_t bytes) {
    if (into != of(0) + at)
      std::memmove(into, of(0) + at, bytes);
    for (int rank = 1; rank < count(); rank++)
      what.run(into, of(rank) + at, bytes / what.element_size);
  };
  if (size == 0)
    return;
  if (count() == 2)
    return (me_ == 0 ? what.run : what.run_behind)(place, of(1 - me_), size / what.element_size);
  if (count() == 1 || size < sliced_min)
    return combine(place, 0, size);
  size_t const elements = size / what.element_size,
               slice = (elements + size_t(count()) - 1) / size_t(count()) * what.element_size;
  auto const begin_of = [&](int rank) {
    return std::min(size, size_t(rank) * slice);
  };
  combine(place + begin_of(me_), begin_of(me_), begin_of(me_ + 1) - begin_of(me_));
  tnd_comex_collective_copy(of(me_) + begin_of(me_), place + begin_of(me_),
                            begin_of(me_ + 1) - begin_of(me_));
  meet(call);
  for (int rank = 0; rank < count(); rank++) {
    if (rank != me_)
      std::memcpy(place + begin_of(rank), of(rank) + begin_of(rank),
                  begin_of(rank + 1) - begin_of(rank));
  }
}

}  // namespace tanada::comex::armci
