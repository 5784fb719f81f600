#include "products/poold/log/recovery.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "core/base/log.hpp"
#include "products/poold/log/scan.hpp"

namespace tanada::pool {
namespace {

using ull = unsigned long long;

class recovery {
 public:
  recovery(store_io &io, const log_options &options, recovered_log &target)
      : io_{io}, options_{options}, target_{target} {}

  status run() {
    TND_TRY(scan_all());
    TND_TRY(identify());
    drop_given_up();
    find_durable();
    TND_TRY(find_end());
    report_damage();
    TND_TRY(cut());
    TND_TRY(sync());
    replay();
    if (options_.verify_all)
      TND_TRY(verify());
    settle_names();
    return status::ok;
  }

  void close_all() {
    for (const auto &each : scanned_) {
      if (each.file->handle != port::no_store_file)
        (void)io_.perform(on_file(port::store_op_kind::close, each.file->handle)).code;
    }
  }

 private:
  status scan_all() {
    auto const listed = io_.perform(on_url(port::store_op_kind::list, options_.url));
    if (listed.code != status::ok)
      return fail(listed.code, "%s: the log's folder cannot be listed", options_.url.c_str());
    for (const auto &url : listed.names) {
      uint64_t const file_sequence = file_sequence_of(options_.url, url);
      if (file_sequence == 0)
        continue;
      TND_TRY(scan_file(io_, url, options_.with_data, file_sequence, scanned_.emplace_back()));
      target_.next_file_sequence = file_sequence + 1;
    }
    return status::ok;
  }

  // All files must be of one pool; those without any sound header are nobody's.
  status identify() {
    target_.identity = options_.identity;
    for (const auto &each : scanned_) {
      if (!each.header_ok && each.records.empty())
        continue;
      const auto &found = each.file->identity.pool;
      if (target_.identity == pool_identity{})
        target_.identity = found;
      if (each.other_kind) {
        return fail(status::invalid, "%s: a log %s data", each.file->url.c_str(),
                    options_.with_data ? "without" : "with");
      }
      if (found != target_.identity)
        return fail(status::invalid, "%s: of another pool", each.file->url.c_str());
    }
    if (scanned_.empty() && target_.identity == pool_identity{}) {
      std::random_device random;
      for (auto &each : target_.identity)
        each = uint8_t(random());
    }
    return status::ok;
  }

  // What a file has from the first record of a later one on. The next one's need not be the lowest:
  // it may have been begun before a write failed, and given up with it.
  void drop_given_up() {
    uint64_t lowest = ~uint64_t{0};
    for (size_t i = scanned_.size(); i-- > 0;) {
      drop_from(scanned_[i], lowest);
      if (scanned_[i].file->first_sequence != 0)
        lowest = std::min(lowest, scanned_[i].file->first_sequence);
    }
  }

  static void drop_from(scanned_file &each, uint64_t sequence) {
    std::erase_if(each.records,
                  [&](const auto &record) { return record.header.sequence >= sequence; });
  }

  void find_durable() {
    for (const auto &each : scanned_) {
      for (const auto &record : each.records)
        durable_ = std::max(durable_, record.header.durable_sequence);
    }
    target_.durable_sequence = durable_;
    end_ = durable_ + 1;
  }

  // end_: the first record that does not count.
  status find_end() {
    for (const auto &each : scanned_) {
      for (const auto &record : each.records) {
        if (record.header.sequence <= durable_)
          continue;
        if (record.header.sequence != end_)
          return end_with("it is missing");
        if (!record.whole)
          return end_with(record.reason);
        bool matches = true;
        TND_TRY(check_data(*each.file, record, matches));
        if (!matches)
          return end_with("its data does not match the checksum");
        end_++;
      }
    }
    return status::ok;
  }

  status end_with(const char *reason) {
    end_reason_ = reason;
    return status::ok;
  }

  status check_data(const log_file &file, const scanned_record &record, bool &matches) {
    for (const auto &each : record.facts) {
      if (each.kind != fact_kind::put || each.data_offset == 0 ||
          each.meta.kind == checksum_kind::none)
        continue;
      TND_TRY(verify_data(io_, file, record.header.offset + each.data_offset, each.meta, matches));
      if (!matches)
        return status::ok;
    }
    return status::ok;
  }

  // Records that should be there and are not, or are not whole.
  void report_damage() {
    for (size_t i = 0; i < scanned_.size(); i++) {
      auto &each = scanned_[i];
      drop_from(each, end_);
      if (!each.header_ok) {
        log(log_level::warning, "%s: offset 0: the file's header is damaged",
            each.file->url.c_str());
      }
      uint64_t expected = each.file->first_sequence;
      uint64_t offset = block_size;
      for (const auto &record : each.records) {
        report_gap(*each.file, offset, expected, record.header.sequence);
        if (!record.whole) {
          log(log_level::warning, "%s: offset %llu: record %llu is lost: %s",
              each.file->url.c_str(), ull(record.header.offset), ull(record.header.sequence),
              record.reason);
        }
        expected = record.header.sequence + 1;
        offset = record.header.offset + record.header.size;
      }
      if (each.file->first_sequence != 0)
        report_gap(*each.file, offset, expected, first_after(i));
      std::erase_if(each.records, [](const auto &record) { return !record.whole; });
    }
  }

  // The first record that no later file than this one's next can hold back; 0 when that file is
  // gone.
  uint64_t first_after(size_t index) const {
    if (index + 1 == scanned_.size())
      return std::min(end_, durable_ + 1);
    const auto &next = *scanned_[index + 1].file;
    bool const adjacent =
        next.identity.file_sequence == scanned_[index].file->identity.file_sequence + 1;
    return adjacent ? std::min(next.first_sequence, end_) : 0;
  }

  static void report_gap(const log_file &file, uint64_t offset, uint64_t expected, uint64_t found) {
    if (expected >= found || expected == 0)
      return;
    log(log_level::warning,
        "%s: offset %llu: records %llu to %llu are lost: damaged or never written",
        file.url.c_str(), ull(offset), ull(expected), ull(found - 1));
  }

  status cut() {
    bool later_counts = false;
    for (size_t i = scanned_.size(); i-- > 0;) {
      auto &each = scanned_[i];
      auto &file = *each.file;
      bool const counts =
          !each.records.empty() || (file.first_sequence != 0 && file.first_sequence < end_);
      file.last_sequence = each.records.empty() ? std::max<uint64_t>(file.first_sequence, 1) - 1
                                                : each.records.back().header.sequence;
      file.size = each.records.empty()
                      ? block_size
                      : each.records.back().header.offset + each.records.back().header.size;
      if (later_counts) {
        file.void_tail = each.stored_size > file.size;
        file.size = std::max(file.size, each.stored_size);
      } else if (!counts) {
        TND_TRY(remove(each));
        continue;
      } else if (each.stored_size != file.size) {
        TND_TRY(truncate(each));
      }
      later_counts = true;
      target_.files[file.identity.file_sequence] = each.file;
    }
    return status::ok;
  }

  void say_cut(const scanned_file &each, uint64_t offset) const {
    log(log_level::warning,
        "%s: offset %llu: the log ends before record %llu, %llu bytes are cut off: %s",
        each.file->url.c_str(), ull(offset), ull(end_),
        ull(each.stored_size - std::min(offset, each.stored_size)), end_reason_);
  }

  status remove(scanned_file &each) {
    if (each.stored_size > block_size)
      say_cut(each, 0);  // else it was just begun
    auto const handle = std::exchange(each.file->handle, port::no_store_file);
    (void)io_.perform(on_file(port::store_op_kind::close, handle)).code;
    auto const done = io_.perform(on_url(port::store_op_kind::unlink, each.file->url));
    return done.code == status::ok
               ? status::ok
               : fail(done.code, "%s: cannot be unlinked", each.file->url.c_str());
  }

  status truncate(scanned_file &each) {
    say_cut(each, each.file->size);
    changed_ = true;
    auto const done =
        io_.perform(on_file(port::store_op_kind::truncate, each.file->handle, each.file->size));
    return done.code == status::ok ? status::ok
                                   : fail(done.code, "%s: cannot be cut", each.file->url.c_str());
  }

  // A process that was killed leaves what the kernel has not written yet: that must not be lost
  // later. Where a sync had failed before, the kernel takes its pages for written and would say ok
  // without a write: so there is one.
  status rewrite(const scanned_file &each) {
    auto const first =
        std::find_if(each.records.begin(), each.records.end(),
                     [&](const auto &record) { return record.header.sequence > durable_; });
    if (first == each.records.end())
      return status::ok;
    uint64_t const begin = first == each.records.begin() ? 0 : first->header.offset;
    const auto &last = each.records.back().header;
    auto const code = write_again(io_, *each.file, begin, last.offset + last.size);
    return code == status::ok ? code
                              : fail(code, "%s: cannot be written again", each.file->url.c_str());
  }

  status sync() {
    for (const auto &each : scanned_)
      TND_TRY(rewrite(each));
    for (const auto &[file_sequence, file] : target_.files) {
      bool const last = file == target_.files.rbegin()->second;
      if (file->last_sequence <= durable_ && !(last && changed_))
        continue;
      auto const done = io_.perform(on_file(port::store_op_kind::sync, file->handle));
      if (done.code != status::ok)
        return fail(done.code, "%s: cannot be synced", file->url.c_str());
    }
    if (scanned_.empty())
      return status::ok;
    auto const done = io_.perform(on_url(port::store_op_kind::sync_names, options_.url));
    return done.code == status::ok ? status::ok
                                   : fail(done.code, "%s: cannot be synced", options_.url.c_str());
  }

  void replay() {
    struct told {
      const fact *what;
      const record_header *record;
    };
    std::vector<told> line;
    for (const auto &each : scanned_) {
      for (const auto &record : each.records) {
        if (!record.facts.empty())
          target_.content_sequence = record.header.sequence;
        for (const auto &what : record.facts)
          line.push_back({&what, &record.header});
      }
    }
    std::stable_sort(line.begin(), line.end(), [](const told &left, const told &right) {
      return std::tie(left.what->order, left.record->sequence) <
             std::tie(right.what->order, right.record->sequence);
    });
    for (const auto &[what, record] : line)
      target_.live.apply(*what, record->file.file_sequence, record->offset);
    target_.next_sequence = end_;
  }

  // Where what superseded an object is damaged, the object is back, maybe under a name that another
  // has now.
  void settle_names() {
    std::vector<std::pair<fact, uint64_t>> lost;
    target_.names.build(target_.live, [&](const live_object &loser, const live_object &winner) {
      log(log_level::warning,
          "version %llu of %s in %s is superseded by version %llu: what said so is lost",
          ull(loser.meta.version), loser.meta.name.c_str(), loser.meta.space.c_str(),
          ull(winner.meta.version));
      lost.emplace_back().first.kind = fact_kind::remove;
      lost.back().first.meta.version = loser.meta.version;
      lost.back().second = winner.name_file != 0 ? winner.name_file : winner.file_sequence;
    });
    for (const auto &[removal, file_sequence] : lost)
      target_.live.apply(removal, file_sequence, 0);
  }

  status verify() {
    std::vector<const live_object *> objects;
    target_.live.visit([&](const live_object &object) { objects.push_back(&object); });
    std::sort(objects.begin(), objects.end(), [](const auto *left, const auto *right) {
      return std::tie(left->file_sequence, left->offset) <
             std::tie(right->file_sequence, right->offset);
    });
    std::vector<fact> damaged;
    std::vector<uint64_t> places;
    for (const auto *object : objects) {
      if (object->offset == 0 || object->meta.kind == checksum_kind::none)
        continue;
      const auto &file = *target_.files.at(object->file_sequence);
      bool matches = true;
      TND_TRY(verify_data(io_, file, object->offset, object->meta, matches));
      if (matches)
        continue;
      log(log_level::warning,
          "%s: offset %llu: the data of %s in %s does not match its checksum: it is lost",
          file.url.c_str(), ull(object->offset), object->meta.name.c_str(),
          object->meta.space.c_str());
      damaged.emplace_back().kind = fact_kind::remove;
      damaged.back().meta.version = object->meta.version;
      places.push_back(object->file_sequence);
    }
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
  bool changed_ = false;
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
