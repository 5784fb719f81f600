// Recovery of a log: scan, find the end, cut off the rest, sync, and replay.
#include "products/poold/log/recovery.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/log/scan.hpp"

namespace tanada::pool {
namespace {

class recovery {
 public:
  recovery(store_io &io, const log_options &options, recovered_log &target)
      : io_{io}, options_{options}, target_{target} {}

  status run() {
    TND_TRY(scan_all());
    TND_TRY(identify());
    drop_abandoned();
    find_durable();
    TND_TRY(find_end());
    report_damage();
    TND_TRY(truncate_tail());
    TND_TRY(sync());
    replay();
    if (options_.verify_all)
      TND_TRY(verify());
    resolve_names();
    return status::ok;
  }

  void close_all() {
    for (const auto &scanned : scanned_) {
      if (scanned.file->handle != seams::no_store_file)
        (void)io_.perform(make_file_op(seams::store_op_kind::close, scanned.file->handle)).code;
    }
  }

 private:
  status scan_all() {
    auto const listed = io_.perform(make_url_op(seams::store_op_kind::list, options_.url));
    if (listed.code != status::ok)
      return fail(listed.code, "{}: the log's folder cannot be listed", options_.url);
    for (const auto &url : listed.names) {
      uint64_t const file_sequence = file_sequence_of(options_.url, url);
      if (file_sequence == 0)
        continue;
      TND_TRY(scan_file(io_, url, options_.with_data, file_sequence, scanned_.emplace_back()));
      target_.next_file_sequence = file_sequence + 1;
    }
    return status::ok;
  }

  // Check that all files belong to one pool, except those without any valid header.
  status identify() {
    target_.identity = options_.identity;
    for (const auto &scanned : scanned_) {
      if (scanned.has_unknown_format) {
        return fail(status::invalid,
                    "{}: this file has a format that this version does not know: start the version "
                    "that wrote it, or a later one",
                    scanned.file->url);
      }
      if (!scanned.is_header_valid && scanned.records.empty())
        continue;
      const auto &pool = scanned.file->identity.pool;
      if (target_.identity == pool_identity{})
        target_.identity = pool;
      if (scanned.is_other_kind) {
        return fail(status::invalid,
                    "{}: this is a log {} data",
                    scanned.file->url,
                    options_.with_data ? "without" : "with");
      }
      if (pool != target_.identity)
        return fail(status::invalid, "{}: the file belongs to another pool", scanned.file->url);
    }
    if (scanned_.empty() && target_.identity == pool_identity{}) {
      std::random_device random;
      for (auto &byte : target_.identity)
        byte = uint8_t(random());
    }
    return status::ok;
  }

  // Drop the records of a file from the first record of any later file on. The next file's need not
  // be the lowest: it may have been created before a write failed, and abandoned with it.
  void drop_abandoned() {
    uint64_t lowest = ~uint64_t{0};
    for (size_t i = scanned_.size(); i-- > 0;) {
      drop_from(scanned_[i], lowest);
      if (scanned_[i].file->first_sequence != 0)
        lowest = std::min(lowest, scanned_[i].file->first_sequence);
    }
  }

  static void drop_from(scanned_file &scanned, uint64_t sequence) {
    std::erase_if(scanned.records,
                  [&](const auto &record) { return record.header.sequence >= sequence; });
  }

  void find_durable() {
    for (const auto &scanned : scanned_) {
      for (const auto &record : scanned.records)
        durable_ = std::max(durable_, record.header.durable_sequence);
    }
    target_.durable_sequence = durable_;
    end_ = durable_ + 1;
  }

  // Set end_ to the first record that is not part of the log.
  status find_end() {
    for (const auto &scanned : scanned_) {
      for (const auto &record : scanned.records) {
        if (record.header.sequence <= durable_)
          continue;
        if (record.header.sequence != end_)
          return set_end_reason("it is missing");
        if (!record.is_complete)
          return set_end_reason(record.reason);
        bool matches = true;
        TND_TRY(check_data(*scanned.file, record, matches));
        if (!matches)
          return set_end_reason("its data does not match the checksum");
        end_++;
      }
    }
    return status::ok;
  }

  status set_end_reason(const char *reason) {
    end_reason_ = reason;
    return status::ok;
  }

  status check_data(const log_file &file, const scanned_record &record, bool &matches) {
    for (const auto &entry : record.entries) {
      if (entry.kind != entry_kind::put || entry.data_offset == 0 ||
          entry.meta.kind == checksum_kind::none)
        continue;
      TND_TRY(
          verify_data(io_, file, record.header.offset + entry.data_offset, entry.meta, matches));
      if (!matches)
        return status::ok;
    }
    return status::ok;
  }

  // Log records that are missing or damaged.
  void report_damage() {
    for (size_t i = 0; i < scanned_.size(); i++) {
      auto &scanned = scanned_[i];
      drop_from(scanned, end_);
      if (!scanned.is_header_valid) {
        log(log_level::warning, "{}: offset 0: the file's header is damaged", scanned.file->url);
      }
      uint64_t expected = scanned.file->first_sequence;
      uint64_t offset = block_size;
      for (const auto &record : scanned.records) {
        report_gap(*scanned.file, offset, expected, record.header.sequence);
        if (!record.is_complete) {
          target_.has_losses = true;
          log(log_level::warning,
              "{}: offset {}: record {} is lost: {}",
              scanned.file->url,
              record.header.offset,
              record.header.sequence,
              record.reason);
        }
        expected = record.header.sequence + 1;
        offset = record.header.offset + record.header.size;
      }
      if (scanned.file->first_sequence != 0)
        report_gap(*scanned.file, offset, expected, first_record_after(i));
      std::erase_if(scanned.records, [](const auto &record) { return !record.is_complete; });
    }
  }

  // The first record that belongs to the next file; 0: that file is missing.
  uint64_t first_record_after(size_t index) const {
    if (index + 1 == scanned_.size())
      return std::min(end_, durable_ + 1);
    const auto &next = *scanned_[index + 1].file;
    bool const adjacent =
        next.identity.file_sequence == scanned_[index].file->identity.file_sequence + 1;
    return adjacent ? std::min(next.first_sequence, end_) : 0;
  }

  void report_gap(const log_file &file, uint64_t offset, uint64_t expected, uint64_t actual) {
    if (expected >= actual || expected == 0)
      return;
    target_.has_losses = true;
    log(log_level::warning,
        "{}: offset {}: records {} to {} are lost: damaged or never written",
        file.url,
        offset,
        expected,
        actual - 1);
  }

  status truncate_tail() {
    bool later_counts = false;
    for (size_t i = scanned_.size(); i-- > 0;) {
      auto &scanned = scanned_[i];
      auto &file = *scanned.file;
      bool const counts =
          !scanned.records.empty() || (file.first_sequence != 0 && file.first_sequence < end_);
      file.last_sequence = scanned.records.empty() ? std::max<uint64_t>(file.first_sequence, 1) - 1
                                                   : scanned.records.back().header.sequence;
      file.size = scanned.records.empty()
                      ? block_size
                      : scanned.records.back().header.offset + scanned.records.back().header.size;
      if (later_counts) {
        file.has_invalid_tail = scanned.stored_size > file.size;
        file.size = std::max(file.size, scanned.stored_size);
      } else if (!counts) {
        TND_TRY(remove(scanned));
        continue;
      } else if (scanned.stored_size != file.size) {
        TND_TRY(truncate(scanned));
      }
      later_counts = true;
      target_.files[file.identity.file_sequence] = scanned.file;
    }
    return status::ok;
  }

  void log_truncation(const scanned_file &scanned, uint64_t offset) const {
    log(log_level::warning,
        "{}: offset {}: the log ends before record {}, {} bytes are cut off: {}",
        scanned.file->url,
        offset,
        end_,
        scanned.stored_size - std::min(offset, scanned.stored_size),
        end_reason_);
  }

  status remove(scanned_file &scanned) {
    if (scanned.stored_size > block_size)
      log_truncation(scanned, 0);  // otherwise it has only a header
    auto const handle = std::exchange(scanned.file->handle, seams::no_store_file);
    (void)io_.perform(make_file_op(seams::store_op_kind::close, handle)).code;
    auto const done = io_.perform(make_url_op(seams::store_op_kind::unlink, scanned.file->url));
    return done.code == status::ok ? status::ok
                                   : fail(done.code, "{}: cannot be unlinked", scanned.file->url);
  }

  status truncate(scanned_file &scanned) {
    log_truncation(scanned, scanned.file->size);
    has_truncated_ = true;
    auto const done = io_.perform(
        make_file_op(seams::store_op_kind::truncate, scanned.file->handle, scanned.file->size));
    return done.code == status::ok ? status::ok
                                   : fail(done.code, "{}: cannot be cut", scanned.file->url);
  }

  // Rewrite records that are not known to be synced, because a killed process may have left them
  // only in the kernel's page cache. A sync is not enough: after an earlier failed sync the kernel
  // takes the pages for written, and would report ok without a write.
  status rewrite(const scanned_file &scanned) {
    auto const first =
        std::find_if(scanned.records.begin(), scanned.records.end(), [&](const auto &record) {
          return record.header.sequence > durable_;
        });
    if (first == scanned.records.end())
      return status::ok;
    uint64_t const begin = first == scanned.records.begin() ? 0 : first->header.offset;
    const auto &last = scanned.records.back().header;
    auto const code = rewrite_range(io_, *scanned.file, begin, last.offset + last.size);
    return code == status::ok ? code : fail(code, "{}: cannot be written again", scanned.file->url);
  }

  status sync() {
    for (const auto &scanned : scanned_)
      TND_TRY(rewrite(scanned));
    for (const auto &[file_sequence, file] : target_.files) {
      bool const last = file == target_.files.rbegin()->second;
      if (file->last_sequence <= durable_ && !(last && has_truncated_))
        continue;
      auto const done = io_.perform(make_file_op(seams::store_op_kind::sync, file->handle));
      if (done.code != status::ok)
        return fail(done.code, "{}: cannot be synced", file->url);
    }
    if (scanned_.empty())
      return status::ok;
    auto const done = io_.perform(make_url_op(seams::store_op_kind::sync_names, options_.url));
    return done.code == status::ok ? status::ok
                                   : fail(done.code, "{}: cannot be synced", options_.url);
  }

  void replay() {
    struct replayed_entry {
      const log_entry *entry;
      const record_header *record;
    };
    std::vector<replayed_entry> replayed;
    for (const auto &scanned : scanned_) {
      for (const auto &record : scanned.records) {
        if (!record.entries.empty())
          target_.content_sequence = record.header.sequence;
        for (const auto &entry : record.entries)
          replayed.push_back({&entry, &record.header});
      }
    }
    std::stable_sort(
        replayed.begin(), replayed.end(), [](const replayed_entry &lhs, const replayed_entry &rhs) {
          return std::tie(lhs.entry->order, lhs.record->sequence) <
                 std::tie(rhs.entry->order, rhs.record->sequence);
        });
    for (const auto &[entry, record] : replayed)
      target_.live.apply(*entry, record->file.file_sequence, record->offset);
    TND_ASSERT(end_ > durable_);
    target_.next_sequence = end_;
  }

  // If the record that superseded an object is damaged, the object reappears, possibly under a name
  // that another object has now.
  void resolve_names() {
    std::vector<std::pair<log_entry, uint64_t>> lost;
    target_.live.visit_conflicts([&](const live_object &loser, const live_object &winner) {
      log(log_level::warning,
          "version {} of {} in {} is superseded by version {}, although the record of that is lost",
          loser.meta.version,
          loser.meta.name,
          loser.meta.namespace_name,
          winner.meta.version);
      lost.emplace_back().first.kind = entry_kind::remove;
      lost.back().first.meta.version = loser.meta.version;
      lost.back().second = winner.name_file != 0 ? winner.name_file : winner.file_sequence;
    });
    for (const auto &[removal, file_sequence] : lost)
      target_.live.apply(removal, file_sequence, 0);
  }

  // Objects with data and a checksum, in the order of their data.
  std::vector<live_object> verifiable_objects() const {
    std::vector<live_object> objects;
    target_.live.visit([&](const live_object &object) {
      if (object.offset != 0 && object.meta.kind != checksum_kind::none)
        objects.push_back(object);
    });
    std::sort(objects.begin(), objects.end(), [](const auto &lhs, const auto &rhs) {
      return std::tie(lhs.file_sequence, lhs.offset) < std::tie(rhs.file_sequence, rhs.offset);
    });
    return objects;
  }

  status verify() {
    std::vector<log_entry> damaged;
    std::vector<uint64_t> places;
    for (const live_object &object : verifiable_objects()) {
      const auto &file = *target_.files.at(object.file_sequence);
      bool matches = true;
      TND_TRY(verify_data(io_, file, object.offset, object.meta, matches));
      if (matches)
        continue;
      log(log_level::warning,
          "{}: offset {}: the data of {} in {} does not match its checksum: it is lost",
          file.url,
          object.offset,
          object.meta.name,
          object.meta.namespace_name);
      damaged.emplace_back().kind = entry_kind::remove;
      damaged.back().meta.version = object.meta.version;
      places.push_back(object.file_sequence);
    }
    TND_ASSERT(damaged.size() == places.size());
    for (size_t i = 0; i < damaged.size(); i++)
      target_.live.apply(damaged[i], places[i], 0);
    return status::ok;
  }

  store_io &io_;
  const log_options &options_;
  recovered_log &target_;
  std::vector<scanned_file> scanned_;
  uint64_t durable_ = 0, end_ = 1;
  const char *end_reason_ = "no record begins there";
  bool has_truncated_ = false;
};

}  // namespace

status recover(store_io &io, const log_options &options, recovered_log &recovered) {
  recovery work{io, options, recovered};
  auto const code = work.run();
  if (code != status::ok)
    work.close_all();
  return code;
}

}  // namespace tanada::pool
