// Scanning of log files, and checks of their data.
#include "products/poold/log/scan.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t jump_read_size = 64u << 10,
                   sequential_read_size =
                       1u << 20;  // bytes of one read: after a jump, and sequentially
constexpr uint32_t attempt_count_max = 3;

// Fill `target`; `size` is smaller only at the end of the file.
status read_at(store_io &io,
               const log_file &file,
               uint64_t offset,
               std::span<std::byte> target,
               uint64_t &size) {
  for (uint32_t attempts_left = attempt_count_max;; attempts_left--) {
    auto const done = io.perform(make_transfer_op(
        seams::store_op_kind::read, file.handle, offset, {{target.data(), target.size()}}));
    size = done.size;
    if (done.code == status::ok)
      return status::ok;
    if (attempts_left == 1) {
      return fail(
          done.code, "{}: {} bytes at offset {} cannot be read", file.url, target.size(), offset);
    }
  }
}

// A read buffer for a forward scan with jumps.
class scan_buffer {
 public:
  scan_buffer(store_io &io, const log_file &file, uint64_t file_size)
      : io_{io},
        file_{file},
        buffer_{std::min(sequential_read_size, std::max(file_size, block_size))} {}

  // Up to sequential_read_size bytes at `offset`, fewer at the end of the file. Valid until the
  // next call.
  status read(uint64_t offset, uint64_t size, std::span<const std::byte> &bytes) {
    if (offset < begin_ || offset + size > begin_ + filled_) {
      bool const near = offset <= begin_ + filled_ && offset >= begin_;
      uint64_t const wanted =
          std::min(buffer_.size(), std::max(size, near ? sequential_read_size : jump_read_size));
      begin_ = offset;
      filled_ = 0;
      TND_TRY(read_at(io_, file_, offset, buffer_.span().first(wanted), filled_));
    }
    uint64_t const skipped = offset - begin_;
    bytes = std::span<const std::byte>{buffer_.span()}.subspan(skipped,
                                                               std::min(size, filled_ - skipped));
    return status::ok;
  }

 private:
  store_io &io_;
  const log_file &file_;
  block_buffer buffer_;
  uint64_t begin_ = 0, filled_ = 0;
};

class scanner {
 public:
  scanner(store_io &io, scanned_file &target, bool with_data)
      : io_{io},
        target_{target},
        with_data_{with_data},
        buffer_{io, *target.file, target.stored_size} {}

  status run() {
    auto &file = *target_.file;
    std::span<const std::byte> block;
    TND_TRY(buffer_.read(0, block_size, block));
    target_.has_unknown_format = has_unknown_format(block);
    if (target_.has_unknown_format)
      return status::ok;
    if (auto const header = decode_file_header(block);
        header && header->file.file_sequence == file.identity.file_sequence) {
      target_.is_header_valid = true;
      is_identified_ = true;
      target_.is_other_kind = header->with_data != with_data_;
      file.identity = header->file;
      file.first_sequence = header->first_sequence;
      last_sequence_ = header->first_sequence - 1;
    }
    uint64_t offset = block_size;
    while (offset < target_.stored_size)
      TND_TRY(step(offset));
    return status::ok;
  }

 private:
  status step(uint64_t &offset) {
    std::span<const std::byte> block;
    TND_TRY(buffer_.read(offset, block_size, block));
    auto const header = decode_record_header(block);
    if (!header || !is_of_file(*header, offset)) {
      note_damage(offset);
      offset += block_size;
      return status::ok;
    }
    if (!is_identified_) {
      is_identified_ = true;
      target_.file->identity = header->file;
      target_.file->first_sequence = header->sequence;
    }
    scanned_record record{.header = *header, .entries = {}, .is_complete = false, .reason = ""};
    TND_TRY(read_entries(record, offset));
    last_sequence_ = header->sequence;
    target_.records.push_back(std::move(record));
    // A torn last record may be longer than the file.
    offset += std::min(header->size, target_.stored_size - offset);
    return status::ok;
  }

  bool is_of_file(const record_header &header, uint64_t offset) const {
    bool const is_same_file =
        is_identified_ ? header.file == target_.file->identity
                       : header.file.file_sequence == target_.file->identity.file_sequence;
    return is_same_file && header.offset == offset && header.sequence > last_sequence_;
  }

  status read_entries(scanned_record &record, uint64_t offset) {
    const auto &header = record.header;
    std::span<const std::byte> metadata;
    block_buffer large;
    uint64_t const begin = offset + record_header_size;
    if (header.metadata_size <= sequential_read_size) {
      TND_TRY(buffer_.read(begin, header.metadata_size, metadata));
    } else {
      if (header.metadata_size > target_.stored_size)
        return set_reason(record, "the file ends in its metadata");
      large = block_buffer{header.metadata_size};
      uint64_t size = 0;
      TND_TRY(read_at(io_, *target_.file, begin, large.span().first(header.metadata_size), size));
      metadata = std::span<const std::byte>{large.span()}.first(size);
    }
    if (metadata.size() != header.metadata_size)
      return set_reason(record, "the file ends in its metadata");
    auto entries = decode_entries(header, metadata);
    if (!entries.ok())
      return set_reason(record, "its metadata is damaged");
    for (const auto &entry : entries.value()) {
      bool const has_data = entry.data_offset != 0;
      if (entry.kind == entry_kind::put && has_data != with_data_)
        return set_reason(record, "its puts are of the other kind, with data or without");
    }
    record.entries = std::move(entries).value();
    record.is_complete = header.size <= target_.stored_size - offset;
    record.reason = record.is_complete ? "" : "the file ends in its data";
    return status::ok;
  }

  static status set_reason(scanned_record &record, const char *reason) {
    record.reason = reason;
    return status::ok;
  }

  void note_damage(uint64_t offset) {
    if (target_.damaged_ranges.empty() || target_.damaged_ranges.back().end != offset)
      target_.damaged_ranges.push_back({offset, offset});
    target_.damaged_ranges.back().end = offset + block_size;
  }

  store_io &io_;
  scanned_file &target_;
  bool with_data_;
  scan_buffer buffer_;
  bool is_identified_ = false;
  uint64_t last_sequence_ = 0;
};

}  // namespace

status scan_file(store_io &io,
                 const std::string &url,
                 bool with_data,
                 uint64_t file_sequence,
                 scanned_file &scanned) {
  scanned.file = std::make_shared<log_file>();
  scanned.file->identity.file_sequence = file_sequence;
  scanned.file->url = url;
  auto const opened = io.perform(make_url_op(
      seams::store_op_kind::open, url, {.read = true, .write = true, .direct = with_data}));
  if (opened.code != status::ok)
    return fail(opened.code, "{}: cannot be opened", url);
  scanned.file->handle = opened.file;
  scanned.stored_size = opened.stat.size;
  return scanner{io, scanned, with_data}.run();
}

status rewrite_range(store_io &io, const log_file &file, uint64_t begin, uint64_t end) {
  block_buffer buffer{std::min(end - begin, sequential_read_size)};
  for (uint64_t offset = begin; offset < end;) {
    auto const part = buffer.span().first(std::min(sequential_read_size, end - offset));
    uint64_t size = 0;
    TND_TRY(read_at(io, file, offset, part, size));
    if (size != part.size())
      return status::corrupt;
    auto const done = io.perform(make_transfer_op(
        seams::store_op_kind::write, file.handle, offset, {{part.data(), part.size()}}));
    if (done.code != status::ok)
      return done.code;
    offset += part.size();
  }
  return status::ok;
}

status verify_data(
    store_io &io, const log_file &file, uint64_t offset, const object_meta &meta, bool &matches) {
  checksum sum{meta.kind};
  block_buffer buffer{std::min(meta.size, sequential_read_size)};
  for (uint64_t position = 0; position < meta.size;) {
    uint64_t const part = std::min(sequential_read_size, meta.size - position);
    uint64_t size = 0;
    TND_TRY(read_at(io, file, offset + position, buffer.span().first(part), size));
    if (size != part) {
      matches = false;
      return status::ok;
    }
    sum.add(buffer.span().first(part));
    position += part;
  }
  matches = sum.value() == meta.checksum;
  return status::ok;
}

}  // namespace tanada::pool
