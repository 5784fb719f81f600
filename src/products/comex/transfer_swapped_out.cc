// transfer_swapped_out.cc: put, get, accumulate and word updates on memory of local processes that
// may be swapped out. Resident memory is accessed by loads and stores. Otherwise only the needed
// pages are swapped in, and the owner sleeps on.
#include <algorithm>
#include <array>
#include <cstring>

#include "products/comex/engine.hpp"
#include "products/comex/process_swapper.hpp"

namespace tanada::comex {
namespace {

// The blocks of one side, in a heap where the side begins at `base`.
std::vector<onesided::swap::extent> extents_of(const strided_shape &shape, bool is_target,
                                               uint64_t base) {
  std::vector<onesided::swap::extent> extents;
  extents.reserve(shape.block_count());
  shape.for_each([&](size_t s, size_t t) {
    extents.push_back({base + (is_target ? t : s), shape.block_size()});
  });
  return extents;
}

// Like extents_of(), but blocks that share a page or follow one another are merged: enough to name
// the written pages.
std::vector<onesided::swap::extent> written_extents(const strided_shape &shape, uint64_t base) {
  std::vector<onesided::swap::extent> extents;
  shape.for_each([&](size_t, size_t t) {
    uint64_t const begin = base + t, mode = begin + shape.block_size();
    if (!extents.empty()) {
      auto &last = extents.back();
      uint64_t const last_end = (last.offset + last.size + onesided::swap::page_size - 1) /
                                onesided::swap::page_size * onesided::swap::page_size;
      if (begin >= last.offset && begin <= last_end) {
        last.size = std::max(last.offset + last.size, mode) - last.offset;
        return;
      }
    }
    extents.push_back({begin, shape.block_size()});
  });
  return extents;
}

}  // namespace

status engine::transfer_swapped_out(const swapped_out_access &access, const strided_shape &shape,
                                    completion_mode mode) {
  TND_TRY(swapper_->yield_if_requested());
  // a process must not wait for its own memory while it holds another's
  TND_TRY(swapper_->make_resident());
  auto &residency = swapper_->residency();
  bool const is_writing = access.kind != transfer_kind::get;
  auto const base = uint64_t(access.remote - peers_[size_t(access.pe)].mapped);
  auto *const local = static_cast<std::byte *>(const_cast<void *>(access.local));
  auto const transfer_directly = [&] {
    switch (access.kind) {
      case transfer_kind::put: return copy_blocks(access.remote, local, shape);
      case transfer_kind::get: return copy_blocks(local, access.remote, shape);
      case transfer_kind::add:
        swapped_out_status_ = accumulate_mapped(access.sum, base, local, shape, access.pe);
        return;
    }
  };
  auto const written_pages =
      is_writing ? written_extents(shape, base) : std::vector<onesided::swap::extent>{};
  if (residency.try_direct(swapper_->rank_of(access.pe), is_writing, written_pages,
                           transfer_directly))
    return std::exchange(swapped_out_status_, status::ok);

  onesided::swap::page_access request;
  request.target = swapper_->rank_of(access.pe);
  request.is_writing = is_writing;
  request.extents = extents_of(shape, is_writing, base);
  std::vector<size_t> local_offsets;  // local offset of each block
  local_offsets.reserve(request.extents.size());
  shape.for_each([&](size_t s, size_t t) { local_offsets.push_back(is_writing ? s : t); });
  std::vector<size_t> offsets;
  offsets.reserve(request.extents.size());
  for (auto const &block : request.extents)
    offsets.push_back(block.offset - base);
  std::array<std::byte, 16> scale{};  // the caller's copy may be gone later
  if (access.kind == transfer_kind::add) {
    request.unit = uint32_t(element_size(access.sum.type));
    std::memcpy(scale.data(), access.sum.scale, element_size(access.sum.type));
  }
  request.on_piece = [this, access, local, scale, places = std::move(local_offsets),
                      offsets = std::move(offsets)](size_t index, uint64_t skip, uint64_t size,
                                                    const std::byte *copy) {
    std::byte *const remote_bytes = access.remote + offsets[index] + skip, *const local_bytes =
                                                                               local +
                                                                               places[index] + skip;
    if (access.kind == transfer_kind::put)
      std::memcpy(remote_bytes, local_bytes, size);
    if (access.kind == transfer_kind::get)
      std::memcpy(local_bytes, copy != nullptr ? copy : remote_bytes, size);
    if (access.kind != transfer_kind::add)
      return;
    auto const offset = uint64_t(remote_bytes - peers_[size_t(access.pe)].mapped);
    status const code = accumulate_mapped({access.sum.type, scale.data()}, offset, local_bytes,
                                          strided_shape{size}, access.pe);
    if (code != status::ok)
      swapped_out_status_ = code;
  };
  if (residency.begin(std::move(request)))
    return std::exchange(swapped_out_status_, status::ok);
  has_pending_ = true;
  return mode == completion_mode::deferred ? status::ok : finish();
}

status engine::update_swapped_out(pe_index pe, const std::byte *remote, uint32_t size,
                                  const std::function<status()> &act) {
  TND_TRY(swapper_->yield_if_requested());
  // a process must not wait for its own memory while it holds another's
  TND_TRY(swapper_->make_resident());
  auto const run = [&] {
    status const code = act();
    if (code != status::ok)
      swapped_out_status_ = code;
  };
  onesided::swap::page_access access;
  access.target = swapper_->rank_of(pe);
  access.is_writing = true;
  access.unit = size;
  access.extents = {{uint64_t(remote - peers_[size_t(pe)].mapped), size}};
  access.on_piece = [&run](size_t, uint64_t, uint64_t, const std::byte *) {
    run();
  };
  if (swapper_->residency().begin(std::move(access)))
    return std::exchange(swapped_out_status_, status::ok);
  return finish_swapped_out();
}

status engine::finish_swapped_out() {
  TND_TRY(swapper_->residency().complete());
  return std::exchange(swapped_out_status_, status::ok);
}

bool engine::poll_swapped_out() noexcept {
  swapper_->residency().poll();
  return swapper_->residency().is_complete();
}

}  // namespace tanada::comex
