#include "products/poold/log/scan.hpp"

#include <algorithm>

#include "core/base/log.hpp"

namespace tanada::pool {
namespace {

constexpr uint64_t near_size = 64u << 10,
                   far_size = 1u << 20;  // bytes read at once after a jump, and in a row
constexpr uint32_t try_count = 3;

// Read all of `target`; short only at the end of the file.
status read_at(store_io &io, const log_file &file, uint64_t offset, std::span<std::byte> target,
               uint64_t &size) {
  for (uint32_t left = try_count;; left--) {
    auto const done = io.perform(
        transfer(port::store_op_kind::read, file.handle, offset, {{target.data(), target.size()}}));
    size = done.size;
    if (done.code == status::ok)
      return status::ok;
    if (left == 1) {
      return fail(done.code, "%s: %zu bytes at offset %llu cannot be read", file.url.c_str(),
                  target.size(), static_cast<unsigned long long>(offset));
    }
  }
}

// A file from front to back, with jumps.
class window {
 public:
  window(store_io &io, const log_file &file, uint64_t file_size)
      : io_{io}, file_{file}, buffer_{std::min(far_size, std::max(file_size, block_size))} {}

  // `size` <= far_size bytes at `offset`, fewer where the file ends. Good until the next call.
  status at(uint64_t offset, uint64_t size, std::span<const std::byte> &bytes) {
    if (offset < begin_ || offset + size > begin_ + filled_) {
      bool const near = offset <= begin_ + filled_ && offset >= begin_;
      uint64_t const wanted = std::min(buffer_.size(), std::max(size, near ? far_size : near_size));
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
        window_{io, *target.file, target.stored_size} {}

  status run() {
    auto &file = *target_.file;
    std::span<const std::byte> block;
    TND_TRY(window_.at(0, block_size, block));
    if (auto const header = decode_file_header(block);
        header && header->file.file_sequence == file.identity.file_sequence) {
      target_.header_ok = true;
      known_ = true;
      target_.other_kind = header->with_data != with_data_;
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
    TND_TRY(window_.at(offset, block_size, block));
    auto const header = decode_record_header(block);
    if (!header || !belongs(*header, offset)) {
      note_damage(offset);
      offset += block_size;
      return status::ok;
    }
    if (!known_) {
      known_ = true;
      target_.file->identity = header->file;
      target_.file->first_sequence = header->sequence;
    }
    scanned_record record{.header = *header, .facts = {}, .whole = false, .reason = ""};
    TND_TRY(read_facts(record, offset));
    last_sequence_ = header->sequence;
    target_.records.push_back(std::move(record));
    // At most to the end of the file; it holds no more of this record.
    offset += std::min(header->size, target_.stored_size - offset);
    return status::ok;
  }

  bool belongs(const record_header &header, uint64_t offset) const {
    bool const mine = known_ ? header.file == target_.file->identity
                             : header.file.file_sequence == target_.file->identity.file_sequence;
    return mine && header.offset == offset && header.sequence > last_sequence_;
  }

  status read_facts(scanned_record &record, uint64_t offset) {
    const auto &header = record.header;
    std::span<const std::byte> metadata;
    block_buffer large;
    uint64_t const begin = offset + record_header_size;
    if (header.metadata_size <= far_size) {
      TND_TRY(window_.at(begin, header.metadata_size, metadata));
    } else {
      if (header.metadata_size > target_.stored_size)
        return cut(record, "the file ends in its metadata");
      large = block_buffer{header.metadata_size};
      uint64_t size = 0;
      TND_TRY(read_at(io_, *target_.file, begin, large.span().first(header.metadata_size), size));
      metadata = std::span<const std::byte>{large.span()}.first(size);
    }
    if (metadata.size() != header.metadata_size)
      return cut(record, "the file ends in its metadata");
    auto facts = decode_facts(header, metadata);
    if (!facts.ok())
      return cut(record, "its metadata is damaged");
    for (const auto &each : facts.value()) {
      bool const has_data = each.data_offset != 0;
      if (each.kind == fact_kind::put && has_data != with_data_)
        return cut(record, "its objects lie elsewhere");
    }
    record.facts = std::move(facts).value();
    record.whole = header.size <= target_.stored_size - offset;
    record.reason = record.whole ? "" : "the file ends in its data";
    return status::ok;
  }

  static status cut(scanned_record &record, const char *reason) {
    record.reason = reason;
    return status::ok;
  }

  void note_damage(uint64_t offset) {
    if (target_.damaged.empty() || target_.damaged.back().end != offset)
      target_.damaged.push_back({offset, offset});
    target_.damaged.back().end = offset + block_size;
  }

  store_io &io_;
  scanned_file &target_;
  bool with_data_;
  window window_;
  bool known_ = false;
  uint64_t last_sequence_ = 0;
};

}  // namespace

status scan_file(store_io &io, const std::string &url, bool with_data, uint64_t file_sequence,
                 scanned_file &scanned) {
  scanned.file = std::make_shared<log_file>();
  scanned.file->identity.file_sequence = file_sequence;
  scanned.file->url = url;
  auto const opened =
      io.perform(on_url(port::store_op_kind::open, url, {.read = true, .write = true}));
  if (opened.code != status::ok)
    return fail(opened.code, "%s: cannot be opened", url.c_str());
  scanned.file->handle = opened.file;
  scanned.stored_size = opened.stat.size;
  return scanner{io, scanned, with_data}.run();
}

status write_again(store_io &io, const log_file &file, uint64_t begin, uint64_t end) {
  block_buffer buffer{std::min(end - begin, far_size)};
  for (uint64_t at = begin; at < end;) {
    auto const part = buffer.span().first(std::min(far_size, end - at));
    uint64_t size = 0;
    TND_TRY(read_at(io, file, at, part, size));
    if (size != part.size())
      return status::corrupt;
    auto const done = io.perform(
        transfer(port::store_op_kind::write, file.handle, at, {{part.data(), part.size()}}));
    if (done.code != status::ok)
      return done.code;
    at += part.size();
  }
  return status::ok;
}

status verify_data(store_io &io, const log_file &file, uint64_t offset, const object_meta &meta,
                   bool &matches) {
  checksum sum{meta.kind};
  block_buffer buffer{std::min(meta.size, far_size)};
  for (uint64_t at = 0; at < meta.size;) {
    uint64_t const part = std::min(far_size, meta.size - at);
    uint64_t size = 0;
    TND_TRY(read_at(io, file, offset + at, buffer.span().first(part), size));
    if (size != part) {
      matches = false;
      return status::ok;
    }
    sum.add(buffer.span().first(part));
    at += part;
  }
  matches = sum.value() == meta.checksum;
  return status::ok;
}

}  // namespace tanada::pool
