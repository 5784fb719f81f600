// tests/sim/pool_life_mistakes.cc: mistakes of a pool that its checks must find.
#include "products/poold/log/format.hpp"
#include "products/poold/log/log_file.hpp"
#include "sim/pool_life.hpp"

namespace tanada::test {
namespace {

using poold::change;

constexpr uint64_t page_size = 4096, large_size = 16 * page_size, file_count_max = 200;

// An object of 64 KiB or more as seen by a reader that treats each of its ranges as whole pages.
void widen(pool::log_entry &put) {
  if (put.meta.size < large_size)
    return;
  uint64_t rest = put.meta.size;
  for (pool::extent &place : put.extents) {
    place.size = std::min(rest, (place.size + page_size - 1) & ~(page_size - 1));
    rest -= place.size;
  }
  std::erase_if(put.extents, [](const pool::extent &place) { return place.size == 0; });
}

// Returns whether a record exists.
bool widen_record(std::span<std::byte> bytes) {
  auto header = pool::decode_record_header(bytes.first(pool::block_size));
  if (!header || header->size > bytes.size())
    return false;
  auto const metadata = bytes.subspan(pool::record_header_size, header->metadata_size);
  auto facts = pool::decode_entries(*header, metadata);
  if (!facts.ok())
    return false;
  for (pool::log_entry &each : facts.value())
    widen(each);
  auto const head = bytes.first(header->size);
  std::fill(head.begin(), head.end(), std::byte{0});
  pool::encode_record(*header, header->size, facts.value(), head);
  return true;
}

}  // namespace

std::shared_ptr<poold::cold_reader> planted_journal::open_reader(uint64_t logged_version) {
  uint64_t const last = std::exchange(last_read_version_, logged_version);
  bool const errs = planted_ == mistake::other_bytes && last != 0;
  return real_.open_reader(errs ? last : logged_version);
}

void planted_journal::append(std::vector<change> changes,
                             std::vector<poold::object_ref> superseded,
                             poold::journal_callback done) {
  auto const lose = [&](change::kind what) {
    std::erase_if(changes, [&](const change &each) { return each.type == what; });
  };
  if (planted_ == mistake::lost_removal)
    lose(change::kind::remove);
  if (planted_ == mistake::lost_stripe) {
    std::erase_if(changes, [](const change &each) {
      bool const is_put = each.type == change::kind::put;
      return is_put && wire::pool::is_hidden_namespace(each.namespace_name) &&
             wire::pool::stripe_index_parse(each.name) == 1;
    });
    for (change &each : changes)
      each.stripe_versions.clear();
  }
  if (planted_ == mistake::lost_rename)
    lose(change::kind::rename);
  if (planted_ == mistake::lost_overwrite && !superseded.empty())
    lose(change::kind::put);
  if (planted_ == mistake::partial_sets && changes.size() > 1)
    changes.pop_back();
  if (planted_ == mistake::early_reuse)
    superseded.clear();
  bool const early = planted_ == mistake::early_answer || changes.empty();
  if (early && done)
    early_.push_back(std::exchange(done, {}));
  if (!changes.empty())
    real_.append(std::move(changes), std::move(superseded), std::move(done));
}

void planted_journal::answer_early() {
  for (auto const &each : std::exchange(early_, {}))
    each(status::ok);
}

void plant_whole_pages(sim::store &store, const std::string &folder) {
  for (uint64_t file = 1; file < file_count_max; file++) {
    auto const url = pool::file_url(folder, file);
    auto bytes = store.contents(url);
    if (!bytes.ok())
      continue;
    auto const blocks = std::as_writable_bytes(std::span{bytes.value()});
    bool has_records = false;
    for (uint64_t at = 0; at + pool::block_size <= blocks.size(); at += pool::block_size) {
      has_records = widen_record(blocks.subspan(at)) || has_records;
    }
    if (has_records)
      store.contents_set(url, bytes.value());
  }
}

}  // namespace tanada::test
