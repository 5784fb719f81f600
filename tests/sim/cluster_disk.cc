// tests/sim/cluster_disk.cc: see cluster_disk.hpp.
#include "sim/cluster_disk.hpp"

#include "products/poold/log/log_file.hpp"

namespace tanada::test {

namespace {

using seams::store_op_kind;

constexpr uint64_t kib = 1 << 10;
constexpr uint64_t block_size = 4096, file_count_max = 200;
constexpr size_t block_count_min = 16;
constexpr const char *folder = "sim://log/";
constexpr store_op_kind log_operations[] = {store_op_kind::open,
                                            store_op_kind::write,
                                            store_op_kind::truncate,
                                            store_op_kind::sync,
                                            store_op_kind::unlink,
                                            store_op_kind::sync_names};

}  // namespace

cluster_disk::cluster_disk(sim::world &owner, bool is_tiered)
    : world_{owner}, store_{owner, base_faults()} {
  auto &random = world_.random;
  keeping_.folder = folder;
  keeping_.is_tiered = is_tiered;
  keeping_.checks_cold = is_tiered;
  settings_.url = folder;
  settings_.identity[0] = 42;
  settings_.file_size = random.between(64 * kib, 600 * kib);
  settings_.compact_above = random.between(100 * kib, 2'000 * kib);
  settings_.group_size_max = random.between(1, 200 * kib);
  settings_.mark_delay_ns = random.below(50 * ms);
  settings_.retry_delay_ns = 10 * ms;
  settings_.io_timeout_ns = 2'000 * ms;
}

sim::store_faults cluster_disk::base_faults() const {
  sim::store_faults faults;
  faults.volatile_cache = true;
  faults.delay_ns_max = 500'000;
  return faults;
}

result<std::unique_ptr<poold::durable_journal>> cluster_disk::open(seams::clock &clock,
                                                                   poold::pool_memory &memory) {
  return poold::durable_journal::open_with(store_, clock, memory, keeping_, settings_);
}

void cluster_disk::end_run(bool has_power) {
  if (has_power)
    store_.close_files();
  else
    store_.crash();
}

void cluster_disk::draw_faults() {
  auto &random = world_.random;
  sim::store_faults faults = base_faults();
  is_faulty_ = true;
  switch (random.below(4)) {
    case 0:
      for (auto const kind : log_operations)
        if (random.chance(50))
          faults.errors[size_t(kind)] = {uint32_t(random.between(1, 30)), status::io};
      faults.torn_write_percent = uint32_t(random.below(20));
      break;
    case 1:
      for (auto const kind : {store_op_kind::open, store_op_kind::write, store_op_kind::sync})
        faults.errors[size_t(kind)] = {100, status::io};
      break;
    case 2:
      faults.capacity = store_.used_size() + random.below(100 * kib);
      break;
    default:
      faults.delay_ns_max = random.between(ms, 100 * ms);
      break;
  }
  store_.faults_set(faults);
}

// Blocks of the first half of the log are followed by records that mark them as synced.
bool cluster_disk::damage() {
  std::vector<std::pair<std::string, uint64_t>> blocks;  // files and offsets
  for (uint64_t sequence = 1; sequence <= file_count_max; sequence++) {
    std::string const url = pool::file_url(folder, sequence);
    auto const bytes = store_.contents(url);
    for (uint64_t offset = 0; bytes.ok() && offset < bytes.value().size(); offset += block_size)
      blocks.emplace_back(url, offset);
  }
  if (blocks.size() < block_count_min)
    return false;
  auto const &[url, offset] = blocks[world_.random.below(blocks.size() / 2)];
  std::string bytes = store_.contents(url).value();
  for (uint64_t i = offset; i < std::min(offset + block_size, bytes.size()); i++)
    bytes[i] = char(bytes[i] ^ 0x5a);
  store_.contents_set(url, bytes);
  return true;
}

void cluster_disk::heal() {
  is_faulty_ = false;
  store_.faults_set(base_faults());
}

}  // namespace tanada::test
