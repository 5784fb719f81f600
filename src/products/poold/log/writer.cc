// Writing of records: groups, space checks, syncs and acknowledgements.
#include "products/poold/log/writer.hpp"

#include <algorithm>
#include <array>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::pool {
namespace {

constexpr size_t group_count_max = 2;                     // one is synced while another is written
constexpr size_t buffer_count_max = 512;                  // in one write
constexpr uint64_t overlap_size_min = 256u << 10;         // bytes of a group that may overlap
constexpr uint64_t write_size_max = 4u << 20;             // bytes of one write
constexpr size_t record_count_max = 1024;                 // in a group
constexpr uint64_t compaction_size_min = 8 * block_size;  // kept free by removals in a full store

alignas(block_size) constexpr std::array<std::byte, block_size> zeros{};

seams::store_buffer make_buffer(std::span<const std::byte> bytes) {
  return {const_cast<std::byte *>(bytes.data()), bytes.size()};  // a write does not change it
}

std::vector<seams::store_buffer> make_buffers(const outgoing_record &record) {
  std::vector<seams::store_buffer> buffers{{record.head.data(), record.head_size}};
  auto it = record.data.begin();
  for (const auto &entry : record.entries) {
    if (entry.data_offset < record.head_size)
      continue;
    for (uint64_t remaining = entry.meta.size; remaining != 0; ++it) {
      TND_ASSERT(it != record.data.end() && it->size() <= remaining);
      remaining -= it->size();
      if (!it->empty())
        buffers.push_back(make_buffer(*it));
    }
    uint64_t const padding = whole_blocks(entry.meta.size) - entry.meta.size;
    if (padding != 0)
      buffers.push_back(make_buffer(std::span{zeros}.first(padding)));
  }
  return buffers;
}

// Copy the data that lies in the head there. Other data are written from where they are.
void fill_head(outgoing_record &record) {
  byte_spans rest;
  auto it = record.data.begin();
  for (const auto &entry : record.entries) {
    if (entry.data_offset == 0)
      continue;
    bool const is_in_head = entry.data_offset < record.head_size;
    std::byte *target = record.head.data() + entry.data_offset;
    for (uint64_t remaining = entry.meta.size; remaining != 0; ++it) {
      TND_ASSERT(it != record.data.end() && it->size() <= remaining);
      remaining -= it->size();
      if (is_in_head)
        target = std::copy(it->begin(), it->end(), target);
      else
        rest.push_back(*it);
    }
  }
  record.data = std::move(rest);
}

// Whether transactions can share the record: its data lie in its head.
bool is_packable(const outgoing_record &record) {
  return !record.is_internal && record.size == record.head_size &&
         record_header_size + record.metadata_size < block_size;
}

// Add the transactions of `source`, which follow those of `target`.
void merge_record(outgoing_record &target, outgoing_record source) {
  auto const append = [](auto &merged, auto &added) {
    merged.insert(
        merged.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  };
  append(target.entries, source.entries);
  append(target.data, source.data);
  append(target.callbacks, source.callbacks);
  target.retry_count = std::max(target.retry_count, source.retry_count);
}

status lay_out(outgoing_record &record, bool with_data) {
  auto const sizes = lay_out_record(with_data, record.entries);
  if (!sizes.ok())
    return sizes.error();
  record.head_size = sizes.value().head;
  record.size = sizes.value().record;
  record.metadata_size = 0;
  record.head_data_size = 0;
  for (const log_entry &entry : record.entries) {
    record.metadata_size += stored_size(entry);
    if (entry.data_offset < record.head_size)
      record.head_data_size += head_data_size(entry, with_data);
  }
  return status::ok;
}

}  // namespace

log_state::log_state(const log_options &options_, store_io &io_, recovered_log recovered)
    : options{options_},
      io{io_},
      files{std::move(recovered.files)},
      live{std::move(recovered.live)},
      identity{recovered.identity},
      next_sequence{recovered.next_sequence},
      next_file_sequence{recovered.next_file_sequence},
      durable_sequence{recovered.next_sequence - 1},
      marked_sequence{recovered.durable_sequence},
      content_sequence{recovered.content_sequence} {
  for (const auto &[file_sequence, file] : files)
    stored_size += file->size;
}

void log_state::queue_callback(std::function<void(status)> done, status code) {
  callbacks.push_back([done = std::move(done), code] { done(code); });
}

void log_state::queue_callbacks(std::vector<std::function<void(status)>> done, status code) {
  for (auto &callback : done)
    queue_callback(std::move(callback), code);
}

result<std::unique_ptr<outgoing_record>> make_record(std::vector<log_entry> entries,
                                                     bool with_data) {
  auto record = std::make_unique<outgoing_record>();
  record->entries = std::move(entries);
  TND_TRY(lay_out(*record, with_data));
  record->has_puts =
      std::any_of(record->entries.begin(), record->entries.end(), [](const log_entry &entry) {
        return entry.kind == entry_kind::put;
      });
  return record;
}

void writer::submit(std::unique_ptr<outgoing_record> record) {
  TND_ASSERT(record != nullptr && record->size >= record->head_size);
  queue_size_ += record->size;
  queue_.push_back(std::move(record));
}

void writer::submit_front(std::unique_ptr<outgoing_record> record) {
  TND_ASSERT(record != nullptr && record->size >= record->head_size);
  queue_size_ += record->size;
  queue_.push_front(std::move(record));
}

bool writer::writes_to(const log_file &file) const {
  return head_.get() == &file ||
         std::any_of(groups_.begin(), groups_.end(), [&](const auto &pending) {
           return pending->file.get() == &file;
         });
}

void writer::advance(const std::function<bool()> &can_free_space) {
  if (has_failed_) {
    if (in_flight_count_ == 0)
      clean_up();
    return;
  }
  while (!groups_.empty() && groups_.front()->is_synced)
    acknowledge();
  if (!groups_.empty() && groups_.front()->pending_write_count == 0 && !groups_.front()->is_syncing)
    sync(groups_.front());
  form_group(can_free_space);
}

// Whether the record fits into the current file.
bool writer::fits_head(const outgoing_record &record) const {
  if (head_state_ != head::ready)
    return false;
  return head_offset_ == block_size || head_offset_ + record.size <= state_.options.file_size;
}

// Whether there is space for the record besides what is kept for compaction. Records without puts
// may use half of the latter.
bool writer::has_space(const outgoing_record &record, const std::function<bool()> &can_free_space) {
  if (record.is_internal)
    return true;
  if (record.has_puts && !acquire_reserve(state_, clock_.now_ns()))
    return wait_or_reject(can_free_space);
  if (!record.has_puts && !leaves_space(record))
    return wait_or_reject(can_free_space);
  if (is_within_size_max(record, record.size))
    return true;
  return wait_or_reject(can_free_space);
}

// Whether a record of this kind and size leaves the space that is kept for compaction.
bool writer::is_within_size_max(const outgoing_record &record, uint64_t size) const {
  const auto &options = state_.options;
  if (options.size_max == ~uint64_t{0})
    return true;
  uint64_t reserved_size = std::min(options.size_max / 8, options.file_size);
  if (!record.has_puts)
    reserved_size /= 2;
  uint64_t planned =
      state_.stored_size + size + (fits_head(record) ? 0 : block_size);  // for a new file's header
  for (const auto &pending : groups_) {
    for (const auto &other_record : pending->records)
      planned += other_record->size;
  }
  return planned <= options.size_max - reserved_size;
}

// The size up to which the record may grow by the transactions that wait behind it; below its own
// size: none may share it.
uint64_t writer::pack_limit(const outgoing_record &record, uint64_t group_size) const {
  const auto &options = state_.options;
  TND_ASSERT(head_state_ == head::ready);
  uint64_t limit = record_packer::size_max;
  for (uint64_t const space :
       {options.group_size_max - std::min(options.group_size_max, group_size),
        options.file_size - std::min(options.file_size, head_offset_)})
    limit = std::min(limit, space);
  if (limit > record.size && !is_within_size_max(record, limit))
    return record.size;
  return limit;
}

// Add transactions that wait behind this record, as long as it has little padding. Records with and
// without puts stay apart, because only the latter may use the reserve of a full store.
void writer::pack_waiting(outgoing_record &record, uint64_t group_size) {
  uint64_t const limit = pack_limit(record, group_size);
  if (!is_packable(record) || limit < record.size)
    return;
  record_packer packer{limit};
  bool may_add = packer.add(record.metadata_size, record.head_data_size);
  for (auto it = queue_.begin(); may_add && it != queue_.end(); ++it) {
    const outgoing_record &next = **it;
    if (!is_packable(next) || next.has_puts != record.has_puts)
      break;
    may_add = packer.add(next.metadata_size, next.head_data_size);
  }
  if (packer.count() == 1)
    return;
  for (size_t i = 1; i < packer.count(); i++) {
    TND_ASSERT(queue_size_ >= queue_.front()->size);
    queue_size_ -= queue_.front()->size;
    merge_record(record, std::move(*queue_.front()));
    queue_.pop_front();
  }
  status const code = lay_out(record, state_.options.with_data);
  TND_ASSERT(code == status::ok && record.size == record.head_size);
}

// Whether a full store still has space for compaction after this record. Without compaction it
// would stay full.
bool writer::leaves_space(const outgoing_record &record) const {
  if (!state_.is_full)
    return true;
  uint64_t needed = record.size + compaction_size_min;
  for (const auto &pending : groups_) {
    for (const auto &other_record : pending->records)
      needed += other_record->size;
  }
  return needed <= state_.options.reserve->free_size();
}

// Leave the first record queued if compaction can free space, else refuse it. Always returns false.
bool writer::wait_or_reject(const std::function<bool()> &can_free_space) {
  const auto &options = state_.options;
  lacks_space_ = true;
  if (can_free_space())
    return false;
  auto refused = std::move(queue_.front());
  queue_.pop_front();
  TND_ASSERT(queue_size_ >= refused->size);
  queue_size_ -= refused->size;
  // A full store was logged when it happened.
  if (!state_.is_full) {
    log(log_level::warning,
        "{}: no space for {} bytes: {} of {} bytes are in use",
        options.url,
        refused->size,
        state_.stored_size,
        options.size_max);
  }
  state_.queue_callbacks(std::move(refused->callbacks), status::no_space);
  return false;
}

// Whether the transactions that wait should be written now.
bool writer::may_form_group() {
  if (groups_.size() >= group_count_max || queue_.empty() || head_state_ == head::opening)
    return false;
  if (!state_.options.gathers || queue_size_ >= overlap_size_min || queue_.front()->is_internal)
    return true;
  return groups_.empty() && gate_.may_begin(clock_.now_ns(), queue_.size());
}

void writer::form_group(const std::function<bool()> &can_free_space) {
  lacks_space_ = false;
  if (!may_form_group())
    return;
  uint64_t size = 0;
  auto new_group = std::make_shared<group>();
  // In a full store the free space is checked before each record.
  size_t const count_max = state_.is_full ? 1 : record_count_max;
  while (!queue_.empty() && new_group->records.size() < count_max) {
    auto &next = queue_.front();
    if (!has_space(*next, can_free_space))
      break;
    if (head_state_ == head::ready && !fits_head(*next)) {
      head_.reset();
      head_state_ = head::closed;
    }
    if (head_state_ == head::closed) {
      // The new file's header names the next sequence, so no record may be placed before.
      if (new_group->records.empty())
        open_head();
      break;
    }
    if (!new_group->records.empty() && size + next->size > state_.options.group_size_max)
      break;
    TND_ASSERT(queue_size_ >= next->size);
    queue_size_ -= next->size;
    auto record = std::exchange(next, nullptr);
    queue_.pop_front();
    pack_waiting(*record, size);
    size += record->size;
    place_record(*new_group, std::move(record));
  }
  if (new_group->records.empty())
    return;
  groups_.push_back(new_group);
  gate_.begin(clock_.now_ns());
  write(new_group);
}

void writer::place_record(group &target, std::unique_ptr<outgoing_record> record) {
  TND_ASSERT(head_state_ == head::ready && head_ != nullptr);
  TND_ASSERT(head_offset_ % block_size == 0 && record->size % block_size == 0);
  target.file = head_;
  auto &header = record->header;
  header.file = head_->identity;
  header.offset = head_offset_;
  header.sequence = state_.next_sequence++;
  header.durable_sequence = state_.durable_sequence;
  for (auto &entry : record->entries) {
    // Copies made by compaction change no names, except for objects that it drops.
    if (!record->is_internal || entry.kind == entry_kind::remove)
      state_.names.apply(entry, header.sequence);
  }
  record->head = block_buffer{record->head_size};
  fill_head(*record);
  encode_record(header, record->size, record->entries, record->head.span());
  head_offset_ += record->size;
  target.records.push_back(std::move(record));
}

// Write the group's contiguous bytes in parts of a bounded size.
void writer::write(const std::shared_ptr<group> &target) {
  uint64_t offset = target->records.front()->header.offset, size = 0;
  std::vector<seams::store_buffer> part;
  auto const flush = [&] {
    if (part.empty())
      return;
    write_part(target, offset, std::move(part));
    part.clear();
    offset += std::exchange(size, 0);
  };
  for (const auto &record : target->records) {
    for (auto buffer : make_buffers(*record)) {
      while (buffer.size != 0) {
        size_t const part_size = std::min<uint64_t>(buffer.size, write_size_max - size);
        part.push_back({buffer.addr, part_size});
        size += part_size;
        buffer = {buffer.addr + part_size, buffer.size - part_size};
        if (size == write_size_max || part.size() == buffer_count_max)
          flush();
      }
    }
  }
  flush();
}

void writer::write_part(const std::shared_ptr<group> &target,
                        uint64_t offset,
                        std::vector<seams::store_buffer> buffers) {
  target->pending_write_count++;
  in_flight_count_++;
  state_.io.post(make_transfer_op(
                     seams::store_op_kind::write, target->file->handle, offset, std::move(buffers)),
                 [this, target](const auto &done) {
                   TND_ASSERT(target->pending_write_count > 0 && in_flight_count_ > 0);
                   target->pending_write_count--;
                   in_flight_count_--;
                   if (done.code != status::ok)
                     fail_all(done.code, *target->file, "a write");
                 });
}

void writer::sync(const std::shared_ptr<group> &target) {
  TND_ASSERT(!target->is_syncing && target->pending_write_count == 0);
  target->is_syncing = true;
  in_flight_count_++;
  state_.io.post(make_file_op(seams::store_op_kind::sync, target->file->handle),
                 [this, target](const auto &done) {
                   in_flight_count_--;
                   if (done.code != status::ok)
                     return fail_all(done.code, *target->file, "a sync");
                   target->is_synced = true;
                 });
}

void writer::acknowledge() {
  TND_ASSERT(!groups_.empty() && groups_.front()->is_synced);
  auto const target = std::move(groups_.front());
  groups_.pop_front();
  size_t pending_count = queue_.size();
  for (const auto &record : target->records)
    pending_count += record->callbacks.size();
  apply_group(*target);
  sync_count_++;
  last_durable_ns_ = clock_.now_ns();
  gate_.end(last_durable_ns_, pending_count);
}

void writer::apply_group(const group &target) {
  auto &file = *target.file;
  for (const auto &record : target.records) {
    const auto &header = record->header;
    TND_ASSERT(header.sequence == state_.durable_sequence + 1);
    state_.durable_sequence = header.sequence;
    state_.marked_sequence = std::max(state_.marked_sequence, header.durable_sequence);
    if (!record->entries.empty())
      state_.content_sequence = header.sequence;
    if (!record->is_internal)
      state_.content_count++;
    for (size_t i = 0; i < record->entries.size(); i++) {
      auto &entry = record->entries[i];
      if (entry.order == 0)
        entry.order = make_order(header.sequence, i);
      state_.live.apply(entry, file.identity.file_sequence, header.offset);
    }
    state_.stored_size += record->size;
    file.size = header.offset + record->size;
    file.last_sequence = header.sequence;
    state_.queue_callbacks(std::move(record->callbacks), status::ok);
  }
  state_.names.forget_durable(state_.durable_sequence);
}

}  // namespace tanada::pool
