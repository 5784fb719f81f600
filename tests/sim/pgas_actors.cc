// tests/sim/pgas_actors.cc: the programs of one context, and the results that its operations may
// have.
#include "sim/pgas_harness.hpp"

namespace tanada::test {

void pgas_run::live(actor &self) {
  uint64_t const count = world_.random.between(20, 60);
  for (uint64_t i = 0; i < count && !self.home->is_dead && problem_.empty(); i++) {
    act(self);
    if (world_.random.chance(30))
      fibers_.yield();
  }
  quiet(self);
}

void pgas_run::act(actor &self) {
  uint64_t const what = world_.random.below(100);
  uint32_t const target = other_than(self.home->number);
  if (what < 26)
    put(self, target);
  else if (what < 32)
    store_word(self, target);
  else if (what < 44)
    get(self, target);
  else if (what < 50)
    swap_cell(self, target);
  else if (what < 64)
    put_signal(self, target);
  else if (what < 84)
    update_shared(self, target);
  else if (what < 93)
    fence(self);
  else
    quiet(self);
}

// A call on a target: how long it takes, and whether it may fail.
status pgas_run::call(actor &self, uint32_t target, const std::function<status()> &what) {
  self.touched.insert(target);
  self.is_owed_failure |= pes_[target]->is_dead;
  uint64_t const began_ns = world_.now_ns();
  status const code = what();
  uint64_t const took_ns = world_.now_ns() - began_ns;
  world_.note(uint64_t(int64_t(code)) ^ took_ns);
  bool const may_fail = is_in_trouble(self);
  if (took_ns > (self.home->is_dead ? dead_ns : late_ns))
    fail("a call takes " + std::to_string(took_ns) + " ns");
  if (!may_fail && took_ns > healthy_ns)
    fail("a call waits for a PE that it has nothing to do with");
  if (code == status::ok)
    return code;
  if (!may_fail)
    fail("a call fails without a reason: " + std::to_string(int(code)));
  if (code != status::peer_lost && code != status::timed_out)
    fail("a call fails strangely: " + std::to_string(int(code)));
  told_failure(self);
  return code;
}

// "After a failure the memory that the operation was to write holds anything". Which operation
// failed is not reported.
void pgas_run::told_failure(actor &self) {
  for (auto &each : actors_) {
    if (each->context != self.context)
      continue;
    each->was_told = true;
    for (uint32_t target = 0; target < pes_.size(); target++)
      if (is_troubled(self.home->number, target))
        each->slices[target].give_up();
  }
}

onesided::symmetric_address pgas_run::word_of(actor &self, uint32_t target, const void *ours) {
  auto const found = self.home->map->locate(ours, 1, onesided::pe_index(target));
  TND_ASSERT(found.segment_ptr != nullptr);
  return found;
}

onesided::symmetric_address pgas_run::cell_of(actor &self,
                                              uint32_t target,
                                              uint32_t writer,
                                              size_t cell) {
  return word_of(self, target, slice_at(self.home->number, writer) + cell_offsets[cell]);
}

std::span<std::byte> pgas_run::buffer(actor &self, size_t size) {
  if (way_ == pgas_way::taken && size <= share_size - self.kept_size && world_.random.chance(50)) {
    auto *const made = slice_at(self.home->number, uint32_t(actors_.size())) +
                       self.number * share_size + self.kept_size;
    self.kept_size += size;
    if (size != 0)
      device_ranges_[self.kept.emplace_back(made)] = size;
    return {made, size};
  }
  auto &made = self.buffers.emplace_back(size);
  if (way_ != pgas_way::direct && size != 0 && world_.random.chance(50))
    device_ranges_[made.data()] = size;
  return made;
}

void pgas_run::scribble(std::span<std::byte> over) {
  std::fill(over.begin(), over.end(), std::byte{0xEE});
}

void pgas_run::put(actor &self, uint32_t target) {
  size_t const cell = world_.random.below(data_cells);
  bool const waits = world_.random.chance(50);
  uint64_t const stamp = ++stamp_;
  if (self.slices[target].is_pieced(cell))
    fence(self);
  auto const bytes = buffer(self, cell_sizes[cell]);
  cell_fill(bytes, stamp);
  self.slices[target].start(cell, stamp, self.group);
  auto const to = cell_of(self, target, self.number, cell);
  status const code = call(self, target, [&] {
    return waits
               ? self.context->put(onesided::pe_index(target), to, bytes.data(), bytes.size())
               : self.context->put_nbi(onesided::pe_index(target), to, bytes.data(), bytes.size());
  });
  if (code == status::ok)
    self.slices[target].confirm(cell, stamp);
  if (waits && code == status::ok)
    scribble(bytes);  // "put returns when its source may be used again"
}

// A word stored by an atomic that does not fetch, ordered as puts are.
void pgas_run::store_word(actor &self, uint32_t target) {
  size_t const cell = world_.random.below(word_cells);
  uint64_t const stamp = ++stamp_;
  self.slices[target].start(cell, stamp, self.group);
  auto const to = cell_of(self, target, self.number, cell);
  status const code = call(self, target, [&] {
    return self.context->update(onesided::pe_index(target),
                                to,
                                {.kind = seams::fabric_atomic::swap,
                                 .element = seams::fabric_element::u64,
                                 .operand = stamp},
                                nullptr);
  });
  if (code == status::ok)
    self.slices[target].confirm(cell, stamp);
}

// Words that every context writes.
void pgas_run::get(actor &self, uint32_t target) {
  uint32_t const writer = uint32_t(world_.random.below(actors_.size()));
  size_t const cell = world_.random.below(cell_count);
  bool const waits = world_.random.chance(60);
  auto &model = actors_[writer]->slices[target];
  auto const bytes = buffer(self, cell_sizes[cell]);
  uint64_t const floor = model.floor(cell);
  auto const from = cell_of(self, target, writer, cell);
  status const code = call(self, target, [&] {
    return waits ? self.context->get(onesided::pe_index(target), bytes.data(), from, bytes.size())
                 : self.context->get_nbi(
                       onesided::pe_index(target), bytes.data(), from, bytes.size());
  });
  if (code != status::ok)
    return;
  if (!waits)
    return self.gets.push_back({writer, target, cell, floor, bytes});
  if (auto const why = model.check_got(cell, bytes, floor); !why.empty())
    fail("got from " + std::to_string(writer) + ": " + why);
}

void pgas_run::swap_cell(actor &self, uint32_t target) {
  size_t const cell = world_.random.below(word_cells);
  uint64_t const stamp = ++stamp_, floor = self.slices[target].floor(cell);
  self.slices[target].start(cell, stamp, self.group);
  uint64_t before = 0;
  auto const to = cell_of(self, target, self.number, cell);
  status const code = call(self, target, [&] {
    return self.context->update(onesided::pe_index(target),
                                to,
                                {.kind = seams::fabric_atomic::swap,
                                 .element = seams::fabric_element::u64,
                                 .operand = stamp},
                                &before);
  });
  if (code != status::ok)
    return;
  self.slices[target].confirm(cell, stamp);
  self.slices[target].complete(cell, self.group);
  std::span const bytes{reinterpret_cast<const std::byte *>(&before), sizeof before};
  if (auto const why = self.slices[target].check_got(cell, bytes, floor); !why.empty())
    fail("swapped: " + why);
}

void pgas_run::put_signal(actor &self, uint32_t target) {
  size_t const cell = world_.random.chance(10) ? cell_count : world_.random.below(data_cells);
  bool const waits = world_.random.chance(50),
             adds = world_.random.chance(40) && self.bits[target] != 0;
  uint64_t const stamp = ++stamp_, signal_stamp = adds ? self.bits[target] : ++stamp_;
  size_t const signal_cell = adds ? add_cell : set_cell;
  if (adds)
    self.bits[target] <<= 1;
  auto &model = self.slices[target];
  if (cell != cell_count && model.is_pieced(cell))
    fence(self);
  auto const bytes = buffer(self, cell == cell_count ? 0 : cell_sizes[cell]);
  if (cell != cell_count) {
    cell_fill(bytes, stamp);
    model.start(cell, stamp, self.group);
  }
  model.start(signal_cell,
              signal_stamp,
              self.group,
              has_guards_ ? signal_guard{cell, stamp} : signal_guard{});
  auto const to = cell_of(self, target, self.number, cell == cell_count ? 0 : cell);
  onesided::remote_context::signal const then{
      .location = cell_of(self, target, self.number, signal_cell),
      .kind = adds ? onesided::signal_kind::add : onesided::signal_kind::set,
      .value = signal_stamp};
  status const code = call(self, target, [&] {
    return waits ? self.context->put_signal(
                       onesided::pe_index(target), to, bytes.data(), bytes.size(), then)
                 : self.context->put_signal_nbi(
                       onesided::pe_index(target), to, bytes.data(), bytes.size(), then);
  });
  if (code != status::ok)
    return;
  if (cell != cell_count)
    model.confirm(cell, stamp);
  model.confirm(signal_cell, signal_stamp);
  if (waits)
    scribble(bytes);
}

void pgas_run::fence(actor &self) {
  self.context->fence();
  if (!gives_up())
    self.group++;  // a failure that is not reported yet follows no other operation
}

void pgas_run::quiet(actor &self) {
  status const code = call(self, self.home->number, [&] { return self.context->quiet(); });
  bool const is_sure = code == status::ok && !self.was_told;
  if (!self.is_sharing && self.context->quiet() != status::ok && !self.home->is_dead)
    fail("a failure is reported twice");
  if (!self.is_sharing && self.is_owed_failure && !self.was_told && !self.home->is_dead)
    fail("a failure is told to nobody");
  for (uint32_t target = 0; target < pes_.size(); target++) {
    if (is_sure || !is_troubled(self.home->number, target))
      self.slices[target].complete_all();
  }
  quiet_results(self, is_sure);
  check_now(false);
  self.group++;
  self.is_owed_failure = false;
  self.was_told = false;
  self.touched.clear();
}

// "quiet: results of _nbi are there".
void pgas_run::quiet_results(actor &self, bool is_sure) {
  for (auto const &each : self.gets) {
    if (!is_sure && is_troubled(self.home->number, each.target))
      continue;
    auto const why =
        actors_[each.writer]->slices[each.target].check_got(each.cell, each.bytes, each.floor);
    if (!why.empty())
      fail("got later from " + std::to_string(each.writer) + ": " + why);
  }
  for (auto const &each : self.tickets) {
    if (is_sure || !is_troubled(self.home->number, each.target))
      ticket_seen(each.target, each.value, each.top_before);
  }
  self.gets.clear();
  self.tickets.clear();
  for (auto const &each : self.buffers)
    device_ranges_.erase(each.data());
  for (auto const *const each : self.kept)
    device_ranges_.erase(each);
  self.buffers.clear();
  self.kept.clear();
  self.kept_size = 0;
}

}  // namespace tanada::test
