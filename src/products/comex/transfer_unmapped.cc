// transfer_unmapped.cc: transfers with processes of other nodes. Contiguous data and large blocks
// are moved by the fabric. Small blocks are packed into requests; the target's processor unpacks
// them, and performs all accumulates.
#include "core/base/assert.hpp"
#include "products/comex/block_copy.hpp"
#include "products/comex/engine.hpp"
#include "products/comex/packed_wire.hpp"
#include "products/comex/deferred_error.hpp"
#include "products/comex/process_swapper.hpp"

namespace tanada::comex {

using packed::action;
using packed::side;

namespace {

// Blocks of this size are not packed: a message each costs less than copying them.
constexpr size_t direct_size_min = size_t{16} << 10;  // bytes
// Up to so many messages carry the packed data themselves; larger transfers are read by the target.
constexpr size_t messages_max = 4;
constexpr size_t step = 16;  // bytes: a multiple of every element size
constexpr size_t sink_max = 1024;
static_assert(step % sizeof(packed::head::scale) == 0);

class strided_sink final : public onesided::fetch_sink {
 public:
  strided_sink(std::byte *target, const strided_shape &shape) : target_{target}, shape_{shape} {}
  void write(uint64_t offset, std::span<const std::byte> bytes) noexcept override {
    const std::byte *input = bytes.data();
    shape_.for_each_run(offset, bytes.size(), [&](const block_run &run) {
      input = scatter_run(target_ + run.target, run.target_stride, input, run);
    });
  }

 private:
  std::byte *const target_;
  strided_shape const shape_;
};

class list_sink final : public onesided::fetch_sink {
 public:
  list_sink(std::span<void *const> targets, size_t size)
      : targets_{targets.begin(), targets.end()}, size_{size} {}
  void write(uint64_t offset, std::span<const std::byte> bytes) noexcept override {
    for (size_t done = 0; done < bytes.size();) {
      size_t const inside = (offset + done) % size_,
                   part = std::min(size_ - inside, bytes.size() - done);
      std::memcpy(static_cast<std::byte *>(targets_[(offset + done) / size_]) + inside,
                  bytes.data() + done,
                  part);
      done += part;
    }
  }

 private:
  std::vector<void *> const targets_;
  size_t const size_;
};

// Bytes of packed data in each request of a transfer of `total` bytes. `head_size` bytes precede
// them.
size_t part_size(const onesided::staged_context &context, size_t total, size_t head_size) {
  TND_ASSERT(head_size + step <= context.eager_size_max());
  size_t const message = (context.eager_size_max() - head_size) / step * step,
               slot = (context.active_message_size_max() - head_size) / step * step;
  return total <= messages_max * message ? message : slot;
}

}  // namespace

// A small block follows packed operations as a request, too, so that nothing has to wait for those.
bool engine::is_packed(const strided_shape &shape, pe_index pe) const noexcept {
  if (!staged_)
    return false;
  if (swapper_)
    return true;  // only its owner accesses memory that may be swapped out
  if (!shape.is_block())
    return shape.block_size() < direct_size_min;
  auto const &target_peer = peers_[size_t(pe)];
  return (target_peer.has_packed || target_peer.has_accumulates) &&
         shape.block_size() <= staged_->eager_size_max() - sizeof(packed::head);
}

// Prepares the next request to a process: waits for or orders the operations that it must follow.
//
// With swapping, this process's memory is made resident first. The thread that has the stager must
// not wait for its own pages, and replies are stored to memory that stays resident.
status engine::order_packed(pe_index pe, bool is_sum) {
  TND_ASSERT(staged_.has_value() && size_t(pe) < peers_.size());
  if (swapper_) {
    TND_TRY(swapper_->yield_if_requested());
    TND_TRY(swapper_->make_resident());
  }
  auto &target_peer = peers_[size_t(pe)];
  if (target_peer.has_puts)
    TND_TRY(finish_direct());
  if (target_peer.has_packed || (target_peer.has_accumulates && !is_sum))
    staged_->fence();
  return status::ok;
}

status engine::put_unmapped(std::byte *symmetric,
                            const std::byte *source,
                            const strided_shape &shape,
                            pe_index pe,
                            completion_mode mode) {
  TND_ASSERT(pe != me());
  auto &target_peer = peers_[size_t(pe)];
  if (is_packed(shape, pe)) {
    TND_TRY(order_packed(pe, false));
    target_peer.has_packed = true;
    has_pending_ = true;
    return send_packed({.op = action::put, .offset = offset_of(symmetric)}, source, shape, pe);
  }
  if (target_peer.has_packed || target_peer.has_accumulates)
    TND_TRY(finish_packed());
  if (target_peer.has_puts)
    context_->fence();
  target_peer.has_puts = true;
  has_pending_ = true;
  if (shape.is_block() && mode == completion_mode::local)
    return context_->put(symmetric, source, shape.block_size(), pe);
  status code = status::ok;
  shape.for_each([&](size_t s, size_t t) {
    if (code == status::ok)
      code = context_->put_nbi(symmetric + t, source + s, shape.block_size(), pe);
  });
  if (code != status::ok || mode == completion_mode::deferred)
    return code;
  return finish();
}

status engine::get_unmapped(std::byte *target,
                            std::byte *symmetric,
                            const strided_shape &shape,
                            pe_index pe,
                            completion_mode mode) {
  TND_ASSERT(pe != me());
  if (is_packed(shape, pe)) {
    TND_TRY(order_packed(pe, false));
    has_pending_ = true;
    TND_TRY(fetch_packed(offset_of(symmetric), target, shape, pe));
    return mode == completion_mode::deferred ? status::ok : finish_packed();
  }
  TND_TRY(finish_before_get(pe));
  if (shape.is_block() && mode == completion_mode::local)
    return context_->get(target, symmetric, shape.block_size(), pe);
  has_pending_ = true;
  status code = status::ok;
  shape.for_each([&](size_t s, size_t t) {
    if (code == status::ok)
      code = context_->get_nbi(target + t, symmetric + s, shape.block_size(), pe);
  });
  if (code != status::ok || mode == completion_mode::deferred)
    return code;
  return finish();
}

status engine::accumulate_unmapped(const addend &operands,
                                   std::byte *symmetric,
                                   const std::byte *source,
                                   const strided_shape &shape,
                                   pe_index pe) {
  TND_TRY(order_packed(pe, true));
  peers_[size_t(pe)].has_accumulates = true;
  has_pending_ = true;
  packed::head header{
      .op = action::add, .kind = uint8_t(operands.type), .offset = offset_of(symmetric)};
  std::memcpy(header.scale, operands.scale, element_size(operands.type));
  return send_packed(header, source, shape, pe);
}

// Waits for space for a request or reply of that size. With swapping, others may run meanwhile.
status engine::wait_for_space(pe_index pe, size_t size) {
  if (!swapper_)
    return status::ok;
  return wait_served(
      [&](uint64_t deadline_ns) { return staged_->wait_for_capacity(pe, size, deadline_ns); });
}

// Sends a put or an accumulate.
status engine::send_packed(packed::head header,
                           const std::byte *source,
                           const strided_shape &shape,
                           pe_index pe) {
  size_t const head_size = packed::head_size(shape), total = shape.size(),
               part = part_size(*staged_, total, head_size);
  for (size_t done = 0; done < total; done += header.size) {
    header.begin = done;
    header.size = std::min(part, total - done);
    TND_TRY(wait_for_space(pe, head_size + header.size));
    TND_TRY(staged_->active_message(pe, head_size + header.size, [&](std::span<std::byte> into) {
      TND_ASSERT(into.size() >= head_size + header.size);
      std::byte *data = packed::write_head(into.data(), header, shape, side::target);
      shape.for_each_run(header.begin, header.size, [&](const block_run &run) {
        data = gather_run(data, source + run.source, run.source_stride, run);
      });
    }));
  }
  return status::ok;
}

status engine::fetch_packed(uint64_t offset,
                            std::byte *target,
                            const strided_shape &shape,
                            pe_index pe) {
  TND_TRY(keep_sink(std::make_unique<strided_sink>(target, shape)));
  auto &sink = *sinks_.back();
  std::array<std::byte, sizeof(packed::head) + stride_level_max * sizeof(packed::level)> bytes;
  std::span const request{bytes.data(), packed::head_size(shape)};
  size_t const total = shape.size(), part = staged_->active_message_size_max();
  packed::head header{.op = action::get, .offset = offset};
  for (size_t done = 0; done < total; done += header.size) {
    header.begin = done;
    header.size = std::min(part, total - done);
    (void)packed::write_head(bytes.data(), header, shape, side::source);
    TND_TRY(wait_for_space(pe, header.size));
    TND_TRY(staged_->fetch(pe, request, header.size, sink, done));
  }
  return status::ok;
}

// Keeps the sink until its replies have arrived. Waits if there are too many.
status engine::keep_sink(std::unique_ptr<onesided::fetch_sink> sink) {
  TND_ASSERT(sink != nullptr && sinks_.size() <= sink_max);
  if (sinks_.size() >= sink_max)
    TND_TRY(finish_packed());
  sinks_.push_back(std::move(sink));
  return status::ok;
}

// Sends the blocks of a list, as many as fit into each request.
status engine::send_list(packed::head header, const piece_list &pieces, pe_index pe) {
  size_t const entry_size = sizeof(uint64_t) + pieces.size, total = pieces.count * entry_size;
  size_t const count_max =
      std::max<size_t>(part_size(*staged_, total, sizeof header) / entry_size, 1);
  header.layout = packed::block_layout::list;
  header.block_size = pieces.size;
  for (size_t done = 0; done < pieces.count; done += header.count) {
    header.count = std::min(count_max, pieces.count - done);
    header.size = header.count * pieces.size;
    TND_TRY(wait_for_space(pe, sizeof header + header.count * entry_size));
    TND_TRY(staged_->active_message(
        pe, sizeof header + header.count * entry_size, [&](std::span<std::byte> into) {
          TND_ASSERT(into.size() >= sizeof header + header.count * entry_size);
          std::byte *data = write_list(into.data(), header, pieces.targets + done, pe);
          for (size_t i = done; i < done + header.count; i++) {
            std::memcpy(data, pieces.sources[i], pieces.size);
            data += pieces.size;
          }
        }));
  }
  return status::ok;
}

status engine::fetch_list(const piece_list &pieces, pe_index pe) {
  TND_TRY(
      keep_sink(std::make_unique<list_sink>(std::span{pieces.targets, pieces.count}, pieces.size)));
  auto &sink = *sinks_.back();
  packed::head header{
      .op = action::get, .layout = packed::block_layout::list, .block_size = pieces.size};
  std::vector<std::byte> request(staged_->eager_size_max());
  size_t const count_max = std::min((request.size() - sizeof header) / sizeof(uint64_t),
                                    staged_->active_message_size_max() / pieces.size);
  TND_ASSERT(count_max > 0);
  for (size_t done = 0; done < pieces.count; done += header.count) {
    header.count = std::min(count_max, pieces.count - done);
    header.size = header.count * pieces.size;
    std::byte *const end = write_list(request.data(), header, pieces.sources + done, pe);
    TND_ASSERT(size_t(end - request.data()) <= request.size());
    TND_TRY(wait_for_space(pe, header.size));
    TND_TRY(staged_->fetch(pe, {request.data(), end}, header.size, sink, done * pieces.size));
  }
  return status::ok;
}

std::byte *engine::write_list(std::byte *buffer,
                              const packed::head &header,
                              void *const *addrs,
                              pe_index pe) const noexcept {
  std::memcpy(buffer, &header, sizeof header);
  buffer += sizeof header;
  for (size_t i = 0; i < header.count; i++, buffer += sizeof(uint64_t)) {
    uint64_t const offset = reinterpret_cast<uintptr_t>(addrs[i]) - peers_[size_t(pe)].begin;
    std::memcpy(buffer, &offset, sizeof offset);
  }
  return buffer;
}

// Whether all pieces are small and belong to a process that is reached by requests.
result<bool> engine::is_packed(const piece_list &pieces, void *const *remote, pe_index pe) const {
  if (!staged_ || pieces.count < 2 || pieces.size >= direct_size_min ||
      uint32_t(pe) >= peers_.size())
    return false;
  if (pe == me() || peers_[size_t(pe)].mapped != nullptr)
    return false;
  if (device_) {
    for (size_t i = 0; i < pieces.count; i++) {
      if (involves_device(pieces.targets[i], pieces.sources[i], pe) ||
          involves_device(pieces.sources[i], pieces.targets[i], pe))
        return false;
    }
  }
  for (size_t i = 0; i < pieces.count; i++) {
    if (!resolve(remote[i], pieces.size, pe).is_valid())
      return address_error(remote[i], pieces.size, pe);
  }
  return true;
}

status engine::put(const piece_list &pieces, pe_index pe, completion_mode mode) {
  if (pieces.size == 0)
    return status::ok;
  auto is_packable = is_packed(pieces, pieces.targets, pe);
  if (!is_packable.ok())
    return is_packable.error();
  if (is_packable.value()) {
    TND_TRY(order_packed(pe, false));
    peers_[size_t(pe)].has_packed = true;
    has_pending_ = true;
    return send_list({.op = action::put}, pieces, pe);
  }
  strided_shape const shape{pieces.size};
  for (size_t i = 0; i < pieces.count; i++)
    TND_TRY(put({pieces.sources[i], pieces.targets[i], pe}, shape, completion_mode::deferred));
  return mode == completion_mode::deferred ? status::ok : finish();
}

status engine::get(const piece_list &pieces, pe_index pe, completion_mode mode) {
  if (pieces.size == 0)
    return status::ok;
  auto is_packable = is_packed(pieces, pieces.sources, pe);
  if (!is_packable.ok())
    return is_packable.error();
  if (is_packable.value()) {
    TND_TRY(order_packed(pe, false));
    has_pending_ = true;
    TND_TRY(fetch_list(pieces, pe));
    return mode == completion_mode::deferred ? status::ok : finish_packed();
  }
  strided_shape const shape{pieces.size};
  for (size_t i = 0; i < pieces.count; i++)
    TND_TRY(get({pieces.sources[i], pieces.targets[i], pe}, shape, completion_mode::deferred));
  return mode == completion_mode::deferred ? status::ok : finish();
}

status engine::accumulate(element type, const void *scale, const piece_list &pieces, pe_index pe) {
  if (pieces.size == 0)
    return status::ok;
  auto is_packable = is_packed(pieces, pieces.targets, pe);
  if (!is_packable.ok())
    return is_packable.error();
  if (is_packable.value()) {
    TND_TRY(check_elements(type, pieces.size));
    TND_TRY(order_packed(pe, true));
    peers_[size_t(pe)].has_accumulates = true;
    has_pending_ = true;
    packed::head header{.op = action::add, .kind = uint8_t(type)};
    std::memcpy(header.scale, scale, element_size(type));
    return send_list(header, pieces, pe);
  }
  strided_shape const shape{pieces.size};
  for (size_t i = 0; i < pieces.count; i++)
    TND_TRY(accumulate(type, scale, {pieces.sources[i], pieces.targets[i], pe}, shape));
  return status::ok;
}

// Updates a word whose memory may be swapped out.
template <class T>
result<T> engine::update_packed(seams::fabric_atomic kind,
                                uint64_t offset,
                                T operand,
                                pe_index pe) {
  TND_TRY(order_packed(pe, false));
  has_pending_ = true;
  TND_ASSERT(offset % sizeof(T) == 0);
  T before{};
  strided_shape const word{sizeof(T)};
  TND_TRY(keep_sink(std::make_unique<strided_sink>(reinterpret_cast<std::byte *>(&before), word)));
  auto const word_op =
      kind == seams::fabric_atomic::swap ? packed::word_update::exchange : packed::word_update::add;
  packed::head header{
      .op = action::update, .kind = uint8_t(word_op), .offset = offset, .size = sizeof(T)};
  static_assert(sizeof operand <= sizeof header.scale);
  std::memcpy(header.scale, &operand, sizeof operand);
  std::array<std::byte, sizeof header> request;
  (void)packed::write_head(request.data(), header, word, side::target);
  TND_TRY(wait_for_space(pe, sizeof(T)));
  TND_TRY(staged_->fetch(pe, request, sizeof(T), *sinks_.back(), 0));
  TND_TRY(finish_packed());
  return before;
}
template result<uint32_t> engine::update_packed(seams::fabric_atomic, uint64_t, uint32_t, pe_index);
template result<uint64_t> engine::update_packed(seams::fabric_atomic, uint64_t, uint64_t, pe_index);

}  // namespace tanada::comex
