#include "comex/packed_server.hpp"

#include "comex/block_copy.hpp"

namespace tanada::comex {

using packed::action;
using packed::form;

void packed_server::open(const pgas::job &job, heap_locks::word *locks) noexcept {
  job_ = &job;
  heap_ = {.begin = job.heap().data(), .locks = locks, .has_updates = !job.is_one_node()};
  is_open_.store(true, std::memory_order_release);
}

status packed_server::serve(pgas::pe_index, std::span<const std::byte> bytes, std::span<std::byte> reply) noexcept {
  if (!is_open_.load(std::memory_order_acquire)) return status::bad_state;
  auto parsed = packed::parse(bytes, reply.size(), job_->heap().size());
  if (!parsed.ok()) return parsed.error();
  auto const &what = parsed.value();
  if (what.asks.what == action::add) return add(what);
  bool const is_get = what.asks.what == action::get;
  std::byte *to = reply.data();
  const std::byte *from = what.data.data();
  if (what.asks.of == form::strided) {
    std::byte *const heap = heap_.begin + what.asks.offset;
    what.shape.for_each_run(what.asks.begin, what.asks.size, [&](const block_run &run) {
      if (is_get) to = gather_run(to, heap + run.source, run.source_stride, run);
      else from = scatter_run(heap + run.target, run.target_stride, from, run);
    });
    return status::ok;
  }
  block_run const one{.size = what.asks.block_size};
  for (size_t i = 0; i < what.asks.count; i++) {
    std::byte *const block = heap_.begin + what.offset_at(i);
    if (is_get) to = gather_run(to, block, 0, one);
    else from = scatter_run(block, 0, from, one);
  }
  return status::ok;
}

status packed_server::add(const packed::request &what) const {
  heap_locks::hold hold{*job_};
  addend const sum{element(what.asks.kind), what.asks.scale};
  const std::byte *from = what.data.data();
  status code = status::ok;
  auto const add_block = [&](size_t offset, size_t size) {
    if (code == status::ok) code = add_under_locks(hold, heap_, offset, sum, from, size);
    from += size;
  };
  if (what.asks.of == form::list) {
    for (size_t i = 0; i < what.asks.count; i++) add_block(what.offset_at(i), what.asks.block_size);
    return code;
  }
  what.shape.for_each_run(what.asks.begin, what.asks.size, [&](const block_run &run) {
    for (size_t i = 0; i < run.count; i++) add_block(what.asks.offset + run.target + i * run.target_stride, run.size);
  });
  return code;
}

}  // namespace tanada::comex
