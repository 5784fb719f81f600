// Compaction: the choice of a file, the copying of what it is needed for, and its removal.
#include "products/poold/log/compactor.hpp"

#include <tanada/status.h>

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t batch_size = 8u
                                << 20;   // bytes of data moved at once, unless an object is larger
constexpr size_t batch_count_max = 512;  // changes
constexpr uint64_t urgent_retry_share = 64;  // divisor of the delay after a failure
constexpr uint64_t mark_overhead =
    3 * block_size;  // a file header, a mark record, and a block of copied changes
constexpr uint64_t copy_overhead =
    4 * block_size;  // record heads and a new file's header, in a full store

}  // namespace

// A file whose copy would be almost as large is not worth compacting.
bool compactor::is_worthwhile(const log_file &file, uint64_t free_size) const {
  if (file.has_invalid_tail)
    return true;  // later files cannot be removed before it
  uint64_t const live = state_.live.live_size(file.identity.file_sequence);
  uint64_t const needed = live + state_.live.rewrite_size(file.identity.file_sequence);
  // Copies of small objects share records, which have some padding.
  uint64_t const padded = needed + needed / 8;
  if (padded > free_size || free_size - padded < copy_overhead)
    return false;
  bool const gains = fruitless_count_ != state_.content_count;
  // The mark that allows the removal of a small file may need a file of its own, and that file
  // another mark, endlessly.
  bool const outweighs_mark = file.size - std::min(file.size, needed) > mark_overhead;
  if (live == 0 && needed <= file.size / 2 && (gains || outweighs_mark))
    return true;
  return gains && gains_enough(file, needed, free_size);
}

// Whether the gain from a file with live objects is worth the work in the log's present state.
bool compactor::gains_enough(const log_file &file, uint64_t needed, uint64_t free_size) const {
  // In a full store, accept a small gain for much work until the reserve fits again.
  bool const fits_reserve = !state_.is_full || free_size / 2 >= state_.options.reserve->size();
  if (!fits_reserve && needed <= file.size / 8 * 7)
    return true;
  // Without space for the next record, too.
  if (writer_.lacks_space() && needed <= file.size / 8 * 7)
    return true;
  return must_compact() && needed <= file.size / 4 * 3;
}

bool compactor::must_compact() const {
  // If most of the log is live, moving it costs more than the freed space is worth.
  bool const is_loose = state_.stored_size > state_.live.live_size() / 2 * 3;
  return (is_loose && state_.stored_size > state_.options.compact_above) || writer_.lacks_space();
}

std::shared_ptr<log_file> compactor::find_victim() const {
  std::shared_ptr<log_file> best;
  double best_share = 2;  // above 1, so that a fully live file with an invalid tail qualifies
  bool after_void = false;
  uint64_t const free_size = state_.is_full ? state_.options.reserve->free_size() : ~uint64_t{0};
  for (const auto &[file_sequence, file] : state_.files) {
    // A later file's header marks the tail as invalid, so keep that file.
    bool const held = std::exchange(after_void, after_void || file->has_invalid_tail);
    uint64_t const live = state_.live.live_size(file_sequence);
    if (held || (file->is_unreadable && live != 0) || writer_.writes_to(*file) ||
        !is_worthwhile(*file, free_size))
      continue;
    double const needed = double(live + state_.live.rewrite_size(file_sequence));
    if (needed / double(file->size) >= best_share)
      continue;
    best_share = needed / double(file->size);
    best = file;
  }
  return best;
}

uint64_t compactor::retry_ns() const noexcept {
  return state_.is_full ? urgent_retry_ns_ : retry_ns_;
}

bool compactor::can_gain() const {
  return phase_ != phase::idle || (clock_.now_ns() >= retry_ns() && find_victim() != nullptr);
}

// Choose a file to compact, but not again while nothing has changed.
void compactor::choose_victim() {
  bool const same =
      checked_sequence_ == state_.durable_sequence && checked_size_ == state_.stored_size;
  if (clock_.now_ns() < retry_ns() || (same && !writer_.lacks_space()))
    return;
  victim_ = find_victim();
  if (victim_)
    phase_ = phase::ready;
  checked_sequence_ = state_.durable_sequence;
  checked_size_ = state_.stored_size;
}

void compactor::advance() {
  if (phase_ == phase::idle)
    choose_victim();
  if (phase_ != phase::ready)
    return;
  auto entries =
      state_.live.collect_rewrites(victim_->identity.file_sequence, batch_size, batch_count_max);
  if (!entries.empty())
    return copy(std::move(entries));
  if (victim_->last_sequence > state_.marked_sequence)
    mark();
  else
    remove();
}

void compactor::fail(status code, const char *action) {
  TND_ASSERT(victim_ != nullptr && code != status::ok);
  log(log_level::warning,
      "{}: compaction cannot {} ({}) and will retry",
      victim_->url,
      action,
      tnd_status_name(tnd_status(code)));
  uint64_t const now_ns = clock_.now_ns(), delay_ns = state_.options.retry_delay_ns;
  retry_ns_ = seams::deadline_after(now_ns, delay_ns);
  urgent_retry_ns_ = code == status::no_space
                         ? seams::deadline_after(now_ns, delay_ns / urgent_retry_share)
                         : retry_ns_;
  checked_sequence_ = ~uint64_t{0};
  victim_.reset();
  phase_ = phase::idle;
}

void compactor::copy(std::vector<log_entry> entries) {
  TND_ASSERT(phase_ == phase::ready && !entries.empty());
  phase_ = phase::copying;
  auto const work = std::make_shared<batch>();
  work->entries = std::move(entries);
  uint64_t size = 0;
  for (const auto &entry : work->entries) {
    work->offsets.push_back(size);
    auto const object =
        entry.kind == entry_kind::put ? state_.live.find(entry.meta.version) : std::nullopt;
    if (!object || object->offset == 0)
      continue;
    size += whole_blocks(entry.meta.size);
  }
  if (size > state_.options.copy_size_max && size > batch_size) {
    victim_->is_unreadable = true;
    return fail(status::too_big, "move an object larger than its memory");
  }
  work->buffer = block_buffer{size};
  work->offsets.push_back(size);
  read(work);
}

void compactor::read(const std::shared_ptr<batch> &work) {
  auto const done = [this, work](const auto &read) {
    on_read_done(work, read.code);
  };
  TND_ASSERT(work->offsets.size() == work->entries.size() + 1);
  for (size_t i = 0; i < work->entries.size(); i++)
    work->pending_read_count += work->offsets[i + 1] != work->offsets[i];
  if (work->pending_read_count == 0)
    return write(work);
  victim_->user_count++;
  for (size_t i = 0; i < work->entries.size(); i++) {
    if (work->offsets[i + 1] == work->offsets[i])
      continue;
    auto const object = state_.live.find(work->entries[i].meta.version);
    TND_ASSERT(object.has_value());
    state_.io.post(make_transfer_op(seams::store_op_kind::read,
                                    victim_->handle,
                                    object->offset,
                                    {{work->buffer.data() + work->offsets[i],
                                      size_t(work->entries[i].meta.size)}}),
                   done);
  }
}

void compactor::on_read_done(const std::shared_ptr<batch> &work, status code) {
  if (code != status::ok)
    work->code = code;
  TND_ASSERT(work->pending_read_count > 0);
  if (--work->pending_read_count != 0)
    return;
  TND_ASSERT(victim_->user_count > 0);
  victim_->user_count--;
  if (work->code == status::ok)
    return write(work);
  victim_->is_unreadable = true;
  fail(work->code, "read it");
}

// Drop damaged objects: in a new record, their bytes would look intact.
void compactor::drop_damaged(batch &work) {
  for (size_t i = 0; i < work.entries.size(); i++) {
    auto &entry = work.entries[i];
    uint64_t const size = entry.meta.size;
    if (work.offsets[i + 1] == work.offsets[i] || entry.meta.kind == checksum_kind::none)
      continue;
    if (checksum_of(entry.meta.kind, work.buffer.span().subspan(work.offsets[i], size)) ==
        entry.meta.checksum)
      continue;
    log(log_level::error,
        "{}: the data of {} in {} ({} bytes) does not match its checksum: it is lost",
        victim_->url,
        entry.meta.name,
        entry.meta.namespace_name,
        size);
    if (state_.options.on_lost) {
      state_.callbacks.push_back(
          [lost = state_.options.on_lost, meta = entry.meta] { lost(meta); });
    }
    log_entry removal;
    removal.kind = entry_kind::remove;
    removal.meta.version = entry.meta.version;
    entry = std::move(removal);
  }
}

// Write records with one block of metadata each, so that a damaged block affects few objects.
void compactor::write(const std::shared_ptr<batch> &work) {
  drop_damaged(*work);
  work->pending_record_count = 1;
  bool const with_data = state_.options.with_data;
  for (size_t begin = 0; begin < work->entries.size();) {
    record_packer packer;
    bool may_add = true;
    for (size_t i = begin; may_add && i < work->entries.size(); i++) {
      const log_entry &entry = work->entries[i];
      may_add = packer.add(stored_size(entry), head_data_size(entry, with_data));
    }
    submit(work, begin, begin + packer.count());
    begin += packer.count();
  }
  work->pending_record_count--;
}

void compactor::submit(const std::shared_ptr<batch> &work, size_t begin, size_t end) {
  TND_ASSERT(begin < end && end <= work->entries.size());
  std::vector<log_entry> entries(work->entries.begin() + std::ptrdiff_t(begin),
                                 work->entries.begin() + std::ptrdiff_t(end));
  byte_spans data;
  for (size_t i = begin; i < end; i++) {
    bool const moved =
        entries[i - begin].kind == entry_kind::put && work->offsets[i + 1] != work->offsets[i];
    if (moved)
      data.push_back(work->buffer.span().subspan(work->offsets[i], entries[i - begin].meta.size));
  }
  auto new_record = make_record(std::move(entries), state_.options.with_data);
  TND_ASSERT(new_record.ok());
  auto record = std::move(new_record).value();
  record->data = std::move(data);
  record->is_internal = true;
  state_.moved_size += record->size;
  record->callbacks.emplace_back([this, work](status code) { on_record_done(*work, code); });
  work->pending_record_count++;
  writer_.submit_front(std::move(record));
}

void compactor::on_record_done(batch &work, status code) {
  TND_ASSERT(phase_ == phase::copying && work.pending_record_count > 0);
  if (code != status::ok)
    work.code = code;
  if (--work.pending_record_count != 0)
    return;
  if (work.code == status::ok)
    phase_ = phase::ready;
  else
    fail(work.code, "write its live objects");
}

void compactor::mark() {
  TND_ASSERT(phase_ == phase::ready);
  phase_ = phase::copying;
  auto new_record = make_record({}, state_.options.with_data);
  TND_ASSERT(new_record.ok());
  auto record = std::move(new_record).value();
  record->is_internal = true;
  record->callbacks.emplace_back([this](status code) {
    if (code == status::ok)
      phase_ = phase::ready;
    else
      fail(code, "write a mark");
  });
  writer_.submit_front(std::move(record));
}

void compactor::remove() {
  TND_ASSERT(phase_ == phase::ready && victim_->last_sequence <= state_.marked_sequence);
  phase_ = phase::removing;
  remove_file(state_, victim_, [this](status code) {
    if (code != status::ok)
      return fail(code, "unlink it");
    auto const file = std::exchange(victim_, nullptr);
    phase_ = phase::idle;
    state_.live.forget_file(file->identity.file_sequence);
    state_.files.erase(file->identity.file_sequence);
    TND_ASSERT(state_.stored_size >= file->size);
    state_.stored_size -= file->size;
    record_gain();
    state_.reserve_retry_ns = 0;
    file->is_unlinked = true;
    close_unused(state_, *file);
  });
}

// Detect compaction without a gain. Records take whole blocks, so a copy may need as much space as
// the file had, and copying would never end.
void compactor::record_gain() {
  if (std::exchange(compared_count_, state_.content_count) != state_.content_count) {
    lowest_size_ = ~uint64_t{0};
  }
  if (state_.stored_size >= lowest_size_)
    fruitless_count_ = state_.content_count;
  lowest_size_ = std::min(lowest_size_, state_.stored_size);
}

}  // namespace tanada::pool
