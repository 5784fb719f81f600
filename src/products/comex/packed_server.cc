// packed_server.cc: carries out packed requests on the heap, at once or page by page.
#include "products/comex/packed_server.hpp"

#include "core/base/assert.hpp"
#include "products/comex/block_copy.hpp"
#include "seams/fabric/update_word.hpp"

namespace tanada::comex {

using packed::action;
using packed::block_layout;

namespace {

// Calls f(extent) for the bytes of the heap that a request covers, in the order of its data.
template <class Function>
void for_each_extent(const packed::request &request, Function &&f) {
  auto const &header = request.header;
  if (header.layout == block_layout::list) {
    for (size_t i = 0; i < header.count; i++)
      f(onesided::swap::extent{request.offset_at(i), header.block_size});
    return;
  }
  request.shape.for_each_run(header.begin, header.size, [&](const block_run &run) {
    for (size_t i = 0; i < run.count; i++)
      f(onesided::swap::extent{header.offset + run.target + i * run.target_stride, run.size});
  });
}

}  // namespace

void packed_server::open(const onesided::job &job,
                         heap_locks::lock_word *locks,
                         const swap_view &view) {
  TND_ASSERT(!is_open_.load(std::memory_order_relaxed) && locks != nullptr);
  job_ = &job;
  heap_ = {.begin = job.heap().data(), .locks = locks, .has_atomics = !job.is_one_node()};
  swap_ = view;
  if (view.table == nullptr)
    return is_open_.store(true, std::memory_order_release);
  TND_ASSERT(view.memory != nullptr && view.rank < view.stored.size());
  heap_.begin = view.memory;
  page_requests_.emplace(
      *view.table, view.table->remote_origin_for(view.rank), view.stored, view.left_out);
  is_open_.store(true, std::memory_order_release);
}

// False: some of its pages were left out when this process was swapped in.
bool packed_server::are_in_memory(const packed::request &request) const {
  auto const &left_out = swap_.left_out[swap_.rank];
  bool are_in = true;
  for_each_extent(request, [&](const onesided::swap::extent &extent) {
    auto const pages = onesided::swap::pages_of(extent.offset, extent.size);
    are_in = are_in && left_out.find(true, pages.first, pages.end()) == pages.end();
  });
  return are_in;
}

status packed_server::serve(onesided::pe_index,
                            std::span<const std::byte> bytes,
                            std::span<std::byte> reply) noexcept {
  if (!is_open_.load(std::memory_order_acquire))
    return status::bad_state;
  auto parsed = packed::parse(bytes, reply.size(), job_->heap().size());
  if (!parsed.ok())
    return parsed.error();
  auto const &request = parsed.value();
  if (swap_.table == nullptr)
    return execute(request, reply);
  if (!swap_.table->pin(swap_.rank))
    return status::again;
  if (swap_.table->has_left_out(swap_.rank) && !are_in_memory(request)) {
    swap_.table->unpin(swap_.rank);
    return status::again;
  }
  status const code = execute(request, reply);
  if (request.header.op != action::get) {
    for_each_extent(request, [&](const onesided::swap::extent &extent) {
      swap_.stored[swap_.rank].clear(onesided::swap::pages_of(extent.offset, extent.size));
    });
  }
  swap_.table->unpin(swap_.rank);
  return code;
}

// A request on swapped-out memory. serve() has checked it.
class packed_server::swapped_out_message final : public onesided::deferred_message {
 public:
  swapped_out_message(packed_server &owner,
                      const packed::request &request,
                      std::span<std::byte> reply)
      : owner_{owner}, request_{request}, reply_{reply} {
    auto const &header = request_.header;
    TND_ASSERT(owner_.page_requests_.has_value());
    onesided::swap::page_access access{.target = owner_.swap_.rank,
                                       .is_writing = header.op != action::get,
                                       .extents = {},
                                       .on_piece = {}};
    if (header.op == action::add)
      access.unit = uint32_t(element_size(element(header.kind)));
    if (header.op == action::update)
      access.unit = uint32_t(header.block_size);
    uint64_t data_offset = 0;  // position in the data
    for_each_extent(request_, [&](const onesided::swap::extent &extent) {
      access.extents.push_back(extent);
      offsets_.push_back(extent.offset);
      data_offsets_.push_back(data_offset);
      data_offset += extent.size;
    });
    access.on_piece = [this](size_t index, uint64_t skip, uint64_t size, const std::byte *copy) {
      TND_ASSERT(index < offsets_.size());
      part(offsets_[index] + skip, data_offsets_[index] + skip, size, copy);
    };
    access.on_complete = [this] {
      is_done_ = true;
    };
    if (owner_.page_requests_->begin(std::move(access)))
      is_done_ = true;
  }

  // When swapping has failed, the processes of this node end the job and report the cause. Give
  // them time to do so before other nodes get an error.
  status step() noexcept override {
    constexpr uint64_t end_ns = 3'000'000'000;
    if (is_done_)
      return code_;
    auto &table = *owner_.swap_.table;
    if (table.failure() == nullptr)
      return status::again;
    uint64_t const now_ns = table.time().now_ns();
    if (failed_ns_ == 0)
      failed_ns_ = now_ns;
    return now_ns - failed_ns_ < end_ns ? status::again : status::peer_lost;
  }

 private:
  void part(uint64_t offset, uint64_t data_offset, uint64_t size, const std::byte *copy) {
    TND_ASSERT(!is_done_);
    std::byte *const remote_bytes = owner_.heap_.begin + offset;
    switch (request_.header.op) {
      case action::put:
        std::memcpy(remote_bytes, request_.data.data() + data_offset, size);
        return;
      case action::get:
        std::memcpy(reply_.data() + data_offset, copy != nullptr ? copy : remote_bytes, size);
        return;
      case action::update:
        owner_.update(request_, reply_.data());
        return;
      case action::add:
        break;
    }
    heap_locks::guard guard{*owner_.job_};
    addend const sum{element(request_.header.kind), request_.header.scale};
    status const code =
        add_under_locks(guard, owner_.heap_, offset, sum, request_.data.data() + data_offset, size);
    if (code != status::ok)
      code_ = code;
  }

  packed_server &owner_;
  packed::request const request_;
  std::span<std::byte> const reply_;
  std::vector<uint64_t> offsets_, data_offsets_;  // of the extents
  bool is_done_ = false;
  status code_ = status::ok;
  uint64_t failed_ns_ = 0;
};

std::unique_ptr<onesided::deferred_message> packed_server::begin(
    onesided::pe_index, std::span<const std::byte> bytes, std::span<std::byte> reply) noexcept {
  auto parsed = packed::parse(bytes, reply.size(), job_->heap().size());
  if (!parsed.ok())
    return nullptr;
  return std::make_unique<swapped_out_message>(*this, parsed.value(), reply);
}

void packed_server::begin_round() noexcept {
  if (page_requests_ && swap_.table->failure() == nullptr)
    page_requests_->poll();
}

namespace {

// Carries out a put or a get of strided blocks.
void copy_strided(std::byte *heap, const packed::request &request, std::span<std::byte> reply) {
  bool const is_get = request.header.op == action::get;
  std::byte *output = reply.data();
  const std::byte *input = request.data.data();
  std::byte *const blocks = heap + request.header.offset;
  request.shape.for_each_run(request.header.begin, request.header.size, [&](const block_run &run) {
    if (is_get)
      output = gather_run(output, blocks + run.source, run.source_stride, run);
    else
      input = scatter_run(blocks + run.target, run.target_stride, input, run);
  });
}

// Carries out a put or a get of a list of blocks.
void copy_list(std::byte *heap, const packed::request &request, std::span<std::byte> reply) {
  bool const is_get = request.header.op == action::get;
  std::byte *output = reply.data();
  const std::byte *input = request.data.data();
  block_run const block_shape{.size = request.header.block_size};
  for (size_t i = 0; i < request.header.count; i++) {
    std::byte *const block = heap + request.offset_at(i);
    if (is_get)
      output = gather_run(output, block, 0, block_shape);
    else
      input = scatter_run(block, 0, input, block_shape);
  }
}

}  // namespace

status packed_server::execute(const packed::request &request, std::span<std::byte> reply) const {
  TND_ASSERT(reply.size() == (request.has_reply() ? request.header.size : 0));
  if (request.header.op == action::add)
    return add(request);
  if (request.header.op == action::update) {
    update(request, reply.data());
    return status::ok;
  }
  if (request.header.layout == block_layout::strided)
    copy_strided(heap_.begin, request, reply);
  else
    copy_list(heap_.begin, request, reply);
  return status::ok;
}

// Like an update by a local process, which takes no locks in a job of several nodes.
void packed_server::update(const packed::request &request, std::byte *before) const {
  auto const &header = request.header;
  TND_ASSERT(header.offset % header.block_size == 0);
  auto const kind = header.kind == uint8_t(packed::word_update::exchange)
                        ? seams::fabric_atomic::swap
                        : seams::fabric_atomic::add;
  auto const run = [&]<class T>(T operand) {
    std::memcpy(&operand, header.scale, sizeof operand);
    T const previous =
        seams::update_word(kind, reinterpret_cast<T *>(heap_.begin + header.offset), operand, T{0});
    std::memcpy(before, &previous, sizeof previous);
  };
  if (header.block_size == sizeof(uint32_t))
    run(uint32_t{});
  else
    run(uint64_t{});
}

status packed_server::add(const packed::request &request) const {
  heap_locks::guard guard{*job_};
  addend const sum{element(request.header.kind), request.header.scale};
  const std::byte *input = request.data.data();
  status code = status::ok;
  auto const add_block = [&](size_t offset, size_t size) {
    if (code == status::ok)
      code = add_under_locks(guard, heap_, offset, sum, input, size);
    input += size;
  };
  if (request.header.layout == block_layout::list) {
    for (size_t i = 0; i < request.header.count; i++) {
      add_block(request.offset_at(i), request.header.block_size);
    }
    return code;
  }
  request.shape.for_each_run(request.header.begin, request.header.size, [&](const block_run &run) {
    for (size_t i = 0; i < run.count; i++) {
      add_block(request.header.offset + run.target + i * run.target_stride, run.size);
    }
  });
  return code;
}

}  // namespace tanada::comex
