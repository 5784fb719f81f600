// Memory that the PEs of a node share: each creates its own, and maps that of the others.
#include <algorithm>
#include <bit>

#include "core/base/log.hpp"
#include "onesided/job/job_impl.hpp"
#include "seams/os/program_data.hpp"

namespace tanada::onesided {
namespace {

// The memory of one PE, behind one descriptor: [control memory][gap][heap][program's data]. The gap
// belongs to no segment, so an address outside the heap is never mistaken for control memory. The
// heap begins where a large page may.
struct node_layout {
  size_t control_size, heap_size, data_size;

  size_t heap_offset() const {
    return (control_size + 1 + large_page - 1) / large_page * large_page;
  }
  size_t data_offset() const {
    return heap_offset() + heap_size;
  }
  size_t size() const {
    return data_offset() + data_size;
  }
};

seams::shared_alarm *alarm_at(std::byte *control) {
  return reinterpret_cast<seams::shared_alarm *>(control);
}

segment make_segment(const char *name, std::span<std::byte> memory, pe_index pe_count) {
  segment added{.name = name, .base = memory.data(), .size = memory.size(), .remote = {}};
  added.mapped.resize(size_t(pe_count));
  return added;
}

}  // namespace

// Filled by map_node() and its steps.
struct job::node_segments {
  node_layout layout;
  segment heap{}, variables{}, control{};
  std::vector<seams::shared_alarm *> alarms{};
  std::vector<int> files{};  // by PE; -1: none

  // `memory` is that of this PE, and `data` are its program's, also if no other PE maps them.
  void describe(std::span<std::byte> memory, std::span<std::byte> data, pe_index pe_count) {
    heap = make_segment(
        "symmetric heap", memory.subspan(layout.heap_offset(), layout.heap_size), pe_count);
    variables = make_segment("program's data", data, pe_count);
    control = make_segment("control memory", memory.first(layout.control_size), pe_count);
    control.is_internal = true;
    alarms.resize(size_t(pe_count));
    files.assign(size_t(pe_count), -1);
  }

  // `memory` is that of the PE, in this process. Its variables are elsewhere in their own process.
  void set_mapped(pe_index pe, std::byte *memory, std::byte *pe_variables) {
    TND_ASSERT(memory != nullptr && alarms[size_t(pe)] == nullptr);
    heap.mapped[size_t(pe)] = memory + layout.heap_offset();
    control.mapped[size_t(pe)] = memory;
    variables.mapped[size_t(pe)] = pe_variables;
    alarms[size_t(pe)] = alarm_at(memory);
  }
};

status job::map_node() {
  auto const &card = impl_->cards[size_t(me())];
  bool const has_local_peers = node_pes_.size() > 1;
  // If this PE is the only one of its node, no PE maps the program's data, which stay in place.
  node_segments segments{
      .layout = {card.control_size, card.heap_size, has_local_peers ? card.data_size : 0}};
  auto const &layout = segments.layout;
  auto memory = seams::shared_memory::create("tanada-pe", layout.size());
  if (!memory.ok())
    return memory.error();
  if (options_.heap_base != nullptr && layout.size() > options_.heap_stride) {
    return fail(status::invalid,
                "the memory of a PE has {} bytes, more than the stride of {} bytes",
                layout.size(),
                options_.heap_stride);
  }
  TND_TRY(map_own_memory(memory.value(), segments));
  if (has_local_peers)
    TND_TRY(map_peers(memory.value().descriptor(), segments));
  if (options_.keeps_descriptors) {
    segments.files[size_t(me())] = memory.value().release();
    for (int const file : segments.files)
      impl_->files.push_back(file);
  }
  map_.alarms_set(std::move(segments.alarms));
  map_.add(std::move(segments.heap));
  if (card.data_size != 0)
    map_.add(std::move(segments.variables));
  map_.add(std::move(segments.control));
  return status::ok;
}

status job::map_own_memory(const seams::shared_memory &memory, node_segments &segments) {
  auto const &layout = segments.layout;
  auto mapping = seams::shared_mapping::map_shared(
      memory.descriptor(),
      layout.data_offset(),
      node_address(me()),
      {.alignment = heap_alignment(), .offset = layout.heap_offset()});
  if (!mapping.ok())
    return mapping.error();
  impl_->own_mapping = std::move(mapping).value();
  impl_->heap_offset = layout.heap_offset();
  auto const own_memory = impl_->own_mapping.memory();
  control_ = own_memory.first(layout.control_size).subspan(sizeof(seams::shared_alarm));
  alarm_ = alarm_at(own_memory.data());
  auto *const variables = seams::program_data().data();
  segments.describe(own_memory, {variables, impl_->cards[size_t(me())].data_size}, count());
  segments.set_mapped(me(), own_memory.data(), variables);
  return status::ok;
}

status job::map_peers(int descriptor, node_segments &segments) {
  auto const &layout = segments.layout;
  if (layout.data_size != 0)
    TND_TRY(seams::program_data_share(descriptor, layout.data_offset()));
  int const own_descriptors[] = {descriptor};
  auto descriptors = seams::descriptor_exchange(
      launcher_, node_pes_, "pgas", own_descriptors, options_.timeout_ns);
  if (!descriptors.ok())
    return descriptors.error();
  TND_ASSERT(descriptors.value().size() == node_pes_.size());
  for (size_t i = 0; i < node_pes_.size(); i++) {
    pe_index const pe = node_pes_[i];
    if (pe == me())
      continue;
    auto mapped = seams::shared_mapping::map_shared(
        descriptors.value()[i][0], layout.size(), node_address(pe));
    if (!mapped.ok())
      return mapped.error();
    std::byte *const memory = mapped.value().memory().data();
    segments.set_mapped(pe, memory, memory + layout.data_offset());
    impl_->peer_mappings.push_back(std::move(mapped).value());
    if (options_.keeps_descriptors)
      segments.files[size_t(pe)] = descriptors.value()[i].take(0);
  }
  return status::ok;
}

// Where the memory of a PE is mapped; null: where the system chooses.
std::byte *job::node_address(pe_index pe) const noexcept {
  return options_.heap_base == nullptr ? nullptr
                                       : options_.heap_base + size_t(pe) * options_.heap_stride;
}

size_t job::heap_alignment() const noexcept {
  constexpr size_t alignment_max = size_t{1} << 30;  // up to as many addresses may stay unused
  if (options_.heap_base != nullptr)
    return large_page;
  return std::min(std::bit_ceil(options_.heap_size), alignment_max);
}

job::file_part job::heap_file(pe_index pe) const noexcept {
  if (size_t(pe) >= impl_->files.size())
    return {};
  return {impl_->files[size_t(pe)], impl_->heap_offset};
}

}  // namespace tanada::onesided
