// Log files of a pool with arbitrary but correctly signed records. Recovery accepts or rejects each
// record, every accepted one can be encoded again, and afterwards the log still appends, compacts,
// and recovers once more.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "products/poold/log/format.hpp"
#include "products/poold/log/log.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace {

using namespace tanada;
using namespace tanada::pool;

constexpr size_t record_count_max = 20;
constexpr uint64_t blocks_max = 4;  // of the data of a record
const char *const url = "sim://log/log-0000000000000001.tnd";

void require(bool good, const char *what) {
  if (good)
    return;
  std::fprintf(stderr, "pool_log_record_fuzz: %s\n", what);
  std::abort();
}

class attack {
 public:
  attack(const uint8_t *bytes, size_t size) : at_{bytes}, end_{bytes + size} {}

  void run() {
    decode_raw();
    file_.resize(block_size);
    file_identity identity{.pool = {9}, .file_sequence = 1, .file_id = 3};
    with_data_ = byte() % 2 != 0;
    encode_file_header({identity, 1, with_data_}, file());
    for (uint64_t sequence = 1; sequence <= record_count_max && at_ != end_; sequence++)
      add_record(identity, sequence);
    store_.contents_set(url, file_);
    uint64_t const count = use(false);
    require(use(true) <= count + 1, "recovery finds objects that were never added");
  }

 private:
  std::span<std::byte> file() {
    return std::as_writable_bytes(std::span{file_});
  }
  uint8_t byte() {
    return at_ == end_ ? 0 : *at_++;
  }

  // Decodes the input without signing it, so no checksum matches.
  void decode_raw() {
    std::span<const std::byte> const all{reinterpret_cast<const std::byte *>(at_),
                                         size_t(end_ - at_)};
    if (auto const header = decode_record_header(all))
      (void)decode_entries(*header, all.subspan(record_header_size));
    (void)decode_file_header(all);
  }

  // The input has the number of changes, the number of data blocks, whether the record is durable,
  // the size of the metadata (two bytes), and the metadata.
  void add_record(const file_identity &identity, uint64_t sequence) {
    uint32_t const changes = byte();
    uint64_t const blocks = byte() % (blocks_max + 1);
    bool const durable = byte() % 2 != 0;
    size_t const wanted = size_t{byte()} | size_t{byte()} << 8;
    size_t const size = std::min(wanted, size_t(end_ - at_));
    block_buffer head{record_header_size + size};
    if (size != 0)
      std::memcpy(head.data() + record_header_size, at_, size);
    at_ += size;
    record_header header{.file = identity,
                         .offset = file_.size(),
                         .sequence = sequence,
                         .durable_sequence = durable ? sequence - 1 : 0,
                         .size = head.size() + blocks * block_size,
                         .metadata_checksum = 0,
                         .metadata_size = uint32_t(size),
                         .change_count = changes};
    sign_record(header, head.span());
    check_decoded(header, head.span().subspan(record_header_size, size));
    file_.append(reinterpret_cast<const char *>(head.data()), head.size());
    file_.append(blocks * block_size, 'x');
  }

  // A record that decodes has the same content after it is encoded and decoded again.
  static void check_decoded(record_header header, std::span<const std::byte> metadata) {
    auto facts = decode_entries(header, metadata);
    if (!facts.ok())
      return;
    auto moved = facts;
    auto const sizes = lay_out_record(true, moved.value());
    require(sizes.ok(), "what was decoded cannot be encoded");
    auto again = sizes;
    block_buffer head{again.value().head};
    encode_record(header, header.size, facts.value(), head.span());
    auto second =
        decode_entries(header, head.span().subspan(record_header_size, header.metadata_size));
    require(second.ok() && second.value().size() == facts.value().size(),
            "what was encoded cannot be decoded");
    for (size_t i = 0; i < facts.value().size(); i++) {
      const auto &left = facts.value()[i], &right = second.value()[i];
      require(left.meta == right.meta && left.extents == right.extents && left.order == right.order,
              "entries change");
    }
  }

  // Recovers, appends and compacts. Returns the number of objects.
  uint64_t use(bool verify) {
    log_options options;
    options.url = "sim://log/";
    options.verify_all = verify;
    options.with_data = with_data_;
    options.compact_above = 0;
    options.file_size = 64 << 10;
    auto opened = durable_log::open(store_, clock_, options);
    require(opened.ok(), "the log does not open");
    auto log = std::move(opened).value();
    uint64_t seen = 0;
    log->visit(
        [&](const live_object &each) { seen += log->find(each.meta.version)->meta == each.meta; });
    require(seen == log->counters().object_count, "the object count is wrong");
    put(*log);
    for (uint32_t i = 0; i < 2'000 && log->next_wake_ns() == 0; i++) {
      if (!log->poll())
        world_.step();
    }
    return log->counters().object_count;
  }

  void put(durable_log &log) {
    static const std::byte bytes[10]{};
    change one;
    one.meta = {.namespace_name = "s",
                .name = "added",
                .version = ++version_,
                .size = sizeof bytes,
                .created_ns = 0,
                .flags = 0,
                .kind = checksum_kind::crc32c,
                .checksum = checksum_of(checksum_kind::crc32c, bytes)};
    if (with_data_)
      one.data = {bytes};
    else
      one.extents = {{0, sizeof bytes}};
    auto const code = log.append(
        {one}, [](status appended) { require(appended == status::ok, "an append fails"); });
    require(code == status::ok || code == status::exists, "an append is refused");
    require(log.drain(clock_.now_ns() + 1'000'000'000) == status::ok, "the log does not drain");
  }

  const uint8_t *at_, *end_;
  std::string file_;
  bool with_data_ = false;
  uint64_t version_ = uint64_t{1} << 40;
  sim::world world_{1};
  sim::clock clock_{world_};
  sim::store store_{world_};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  attack{bytes, size}.run();
  return 0;
}
