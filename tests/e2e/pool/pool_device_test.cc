// Device memory and a pool of the same node, with the host executor's device in place of a GPU:
// first puts, later ones, connections that share registrations, and checksums over the pool's
// memory.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "e2e/pool/pool_fixture.hpp"
#include "products/pool/checksum.hpp"
#include "products/pool/client/client.hpp"
#include "seams/gpu/testing/watched_gpu.hpp"

namespace tanada::test {
namespace {

constexpr uint64_t segment_size = uint64_t{2} << 20, object_size = 4 * segment_size + 12'345;

class pool_device : public testing::Test {
 protected:
  pool_device() {
    auto created = pool::device_copy::create(gpu, registration);
    EXPECT_TRUE(created.ok());
    copies = created.value();
    device = allocate();
    back = allocate();
    for (size_t at = 0; at < object_size; at++)
      bytes.push_back(std::byte(at * 31 >> 3));
    store(device, bytes);
  }
  ~pool_device() override {
    registration.stop();
    gpu->free_shared(device, block_size);
    gpu->free_shared(back, block_size);
  }

  std::byte *allocate() {
    auto block = gpu->allocate_shared(object_size);
    EXPECT_TRUE(block.ok()) << last_message();
    block_size = block.value().size;
    close(block.value().descriptor);
    return static_cast<std::byte *>(block.value().addr);
  }
  void store(std::byte *target, const std::vector<std::byte> &source) {
    auto slot = gpu->allocate_host(source.size());
    ASSERT_TRUE(slot.ok());
    std::memcpy(slot.value(), source.data(), source.size());
    ASSERT_EQ(gpu->copy_to_device(target, slot.value(), source.size()), status::ok);
    gpu->free_host(slot.value());
  }
  std::vector<std::byte> load(const std::byte *source) {
    std::vector<std::byte> loaded(object_size);
    auto slot = gpu->allocate_host(object_size);
    EXPECT_TRUE(slot.ok());
    EXPECT_EQ(gpu->copy_to_host(slot.value(), source, object_size), status::ok);
    std::memcpy(loaded.data(), slot.value(), object_size);
    gpu->free_host(slot.value());
    return loaded;
  }

  // `uses_device`: memory is prepared from the connect on.
  std::unique_ptr<pool::client> connect(bool shares_memory = true, bool uses_device = false) {
    pool::client_settings settings;
    settings.uses_device = [uses_device](uint32_t) {
      return uses_device;
    };
    settings.shared_memory = shares_memory;
    settings.open_device = [this](uint32_t) {
      return result<std::shared_ptr<pool::device_copy>>{copies};
    };
    auto where = pool::address_parse(url_of(*daemon));
    EXPECT_TRUE(where.ok());
    auto connected = pool::client::connect(where.value(), std::move(settings));
    EXPECT_TRUE(connected.ok()) << last_message();
    return connected.ok() ? std::move(connected).value() : nullptr;
  }

  static tnd_pool_box range(uint64_t offset, uint64_t size) {
    return {offset, size, {1, 1}, {}, {}};
  }

  void put(pool::client &client, const std::string &name, uint32_t checksum_kind = 0) {
    pool::open_object object;
    ASSERT_EQ(client.create(name, object_size, 0, {}, object), status::ok) << last_message();
    ASSERT_EQ(client.write(object, range(0, object_size), {device, true}), status::ok)
        << last_message();
    wire::pool::commit_terms terms;
    terms.checksum_kind = checksum_kind;
    uint64_t version = 0;
    ASSERT_EQ(client.commit(object, terms, version), status::ok) << last_message();
    client.close(object);
  }
  // To device memory and, verified if there is a checksum, to host memory.
  void expect_bytes(pool::client &client, const std::string &name) {
    pool::open_object object;
    ASSERT_EQ(client.open(name, 0, object), status::ok);
    store(back, std::vector<std::byte>(object_size));
    ASSERT_EQ(client.read(object, range(0, object_size), {back, true}), status::ok)
        << last_message();
    client.close(object);
    EXPECT_TRUE(load(back) == bytes) << name;
    std::vector<std::byte> host(object_size);
    wire::pool::info about;
    ASSERT_EQ(client.get(name, host.data(), host.size(), about, true), status::ok)
        << last_message();
    EXPECT_TRUE(host == bytes) << name;
  }
  // Until puts of the name no longer go through pinned memory.
  void put_until_direct(pool::client &client, const std::string &name) {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
    unsigned direct_count = 0;  // two versions have separate memory and alternate
    while (direct_count < 3 && std::chrono::steady_clock::now() < limit) {
      put(client, name);
      bool const is_direct =
          client.transfers().counters().last_path == uint32_t(TND_POOL_PATH_GPU_DIRECT);
      direct_count = is_direct ? direct_count + 1 : 0;
    }
    ASSERT_EQ(direct_count, 3u);
  }

  std::unique_ptr<poold::daemon> daemon = started(small_pool());
  std::shared_ptr<seams::watched_gpu> gpu = std::make_shared<seams::watched_gpu>();
  pool::registrar registration;
  std::shared_ptr<pool::device_copy> copies;
  std::byte *device = nullptr, *back = nullptr;
  size_t block_size = 0;
  std::vector<std::byte> bytes;
};

TEST_F(pool_device, the_first_put_waits_for_no_registration_and_later_ones_use_it) {
  gpu->close_registration();
  auto const client = connect();
  put(*client, "a");
  EXPECT_EQ(client->transfers().counters().last_path, uint32_t(TND_POOL_PATH_SHARED_MEMORY));
  EXPECT_EQ(client->transfers().counters().staged_size, object_size);
  expect_bytes(*client, "a");
  put(*client, "a");  // a new version, in other memory, while the previous one is still registered
  expect_bytes(*client, "a");
  EXPECT_EQ(gpu->registration_count(), 0u);
  gpu->open_registration();
  put_until_direct(*client, "a");
  expect_bytes(*client, "a");
}

// The memory of first puts and of new versions is ready in time.
TEST_F(pool_device, puts_find_memory_registered_since_the_connect) {
  auto const client = connect(true, true);
  auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  constexpr unsigned ahead_count = 16;  // half of the pool's segments
  while (gpu->registration_count() < ahead_count && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  ASSERT_EQ(gpu->registration_count(), ahead_count);
  put(*client, "a");
  EXPECT_EQ(client->transfers().counters().last_path, uint32_t(TND_POOL_PATH_GPU_DIRECT));
  EXPECT_EQ(client->transfers().counters().staged_size, 0u);
  expect_bytes(*client, "a");
}

TEST_F(pool_device, what_puts_have_used_is_followed_by_more_that_is_registered) {
  auto const client = connect(true, true);
  for (int i = 0; i < 4; i++)
    put(*client, "a" + std::to_string(i));
  auto const limit = std::chrono::steady_clock::now() + std::chrono::minutes{2};
  constexpr unsigned next_count = 20;  // the puts have used 17
  while (gpu->registration_count() < next_count && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  EXPECT_GE(gpu->registration_count(), next_count);
  for (int i = 0; i < 4; i++)
    expect_bytes(*client, "a" + std::to_string(i));
}

TEST_F(pool_device, one_connection_of_a_process_reserves_for_all) {
  auto const first = connect(true, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([this, i] {
      auto const client = connect(true, true);
      put(*client, "thread_" + std::to_string(i));
    });
  }
  for (std::thread &each : threads)
    each.join();
  for (int i = 0; i < 4; i++)
    expect_bytes(*first, "thread_" + std::to_string(i));
  registration.stop();
  EXPECT_LE(gpu->registration_count(), 32u);  // the pool's segments, each once
}

// A put ends with a status, whatever happens.
TEST_F(pool_device, a_daemon_that_ends_within_a_put_fails_the_put) {
  gpu->close_registration();
  auto const client = connect();
  pool::open_object object;
  ASSERT_EQ(client->create("a", object_size, 0, {}, object), status::ok);
  uint64_t const half = object_size / 2;
  ASSERT_EQ(client->write(object, range(0, half), {device, true}), status::ok) << last_message();
  daemon.reset();
  (void)client->write(object, range(half, object_size - half), {device + half, true});
  uint64_t version = 0;
  EXPECT_NE(client->commit(object, {}, version), status::ok);
  client->close(object);
  gpu->open_registration();
}

TEST_F(pool_device, connections_of_threads_register_each_segment_once) {
  auto const first = connect();
  put_until_direct(*first, "a");
  unsigned const registration_count = gpu->registration_count();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([this] {
      auto const client = connect();
      pool::open_object object;
      ASSERT_EQ(client->open("a", 0, object), status::ok);
      uint64_t const size = object_size / 2;
      ASSERT_EQ(client->read(object, range(0, size), {back, true}), status::ok) << last_message();
      EXPECT_EQ(client->transfers().counters().last_path, uint32_t(TND_POOL_PATH_GPU_DIRECT));
      client->close(object);
    });
  }
  for (std::thread &each : threads)
    each.join();
  EXPECT_EQ(gpu->registration_count(), registration_count);
}

TEST_F(pool_device, nothing_stays_registered_once_all_connections_are_closed) {
  {
    auto const client = connect(), other = connect();
    put_until_direct(*client, "a");
    put_until_direct(*other, "b");
    EXPECT_GT(gpu->registered_range_count(), 0u);
  }
  registration.stop();
  EXPECT_EQ(gpu->registered_range_count(), 0u);
}

TEST_F(pool_device, a_checksum_asked_for_is_that_of_the_bytes) {
  auto const client = connect();
  uint64_t const expected = pool::checksum_of(pool::checksum_kind::crc32c, bytes);
  for (int i = 0; i < 2; i++) {
    put(*client, "summed", TND_POOL_CHECKSUM_CRC32C);
    wire::pool::info about;
    ASSERT_EQ(client->stat("summed", 0, about), status::ok);
    EXPECT_EQ(about.checksum, expected);
    EXPECT_EQ(about.checksum_kind, uint32_t(TND_POOL_CHECKSUM_CRC32C));
    expect_bytes(*client, "summed");
  }
}

// Unwritten memory holds old content until the daemon has cleared it.
TEST_F(pool_device, a_checksum_of_an_object_with_gaps_counts_zeros_there) {
  auto const client = connect();
  put(*client, "before");
  ASSERT_EQ(client->remove("before", 0), status::ok);
  constexpr uint64_t gap = 100'000;
  // Before the gap, and after it; after truncation and growth; out of order, with no gap in the
  // end.
  for (int kind = 0; kind < 3; kind++) {
    pool::open_object object;
    ASSERT_EQ(client->create("gaps", object_size, 0, {}, object), status::ok);
    std::vector<std::byte> expected(object_size);
    auto const write = [&](uint64_t begin, uint64_t end) {
      ASSERT_EQ(client->write(object, range(begin, end - begin), {device + begin, true}),
                status::ok)
          << last_message();
      std::memcpy(expected.data() + begin, bytes.data() + begin, end - begin);
    };
    if (kind == 0) {
      write(0, object_size / 2);
      write(object_size / 2 + gap, object_size);
    } else if (kind == 1) {
      write(0, object_size);
      ASSERT_EQ(client->resize(object, gap), status::ok);
      ASSERT_EQ(client->resize(object, object_size), status::ok);
      std::fill(expected.begin() + gap, expected.end(), std::byte{0});
    } else {
      write(gap, object_size);
      write(0, gap);
    }
    wire::pool::commit_terms terms;
    terms.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
    uint64_t version = 0;
    ASSERT_EQ(client->commit(object, terms, version), status::ok) << last_message();
    client->close(object);
    std::vector<std::byte> host(object_size);
    wire::pool::info about;
    ASSERT_EQ(client->get("gaps", host.data(), host.size(), about, true), status::ok)
        << last_message();
    EXPECT_TRUE(host == expected) << kind;
    EXPECT_EQ(about.checksum, pool::checksum_of(pool::checksum_kind::crc32c, expected)) << kind;
  }
}

// Rows of a matrix on the device, more than fit into one batch, between rows written by others.
TEST_F(pool_device, rows_arrive_in_their_places) {
  auto const client = connect();
  constexpr uint64_t row_size = 100, stride = 256, count = 5000;
  pool::open_object object;
  ASSERT_EQ(client->create("rows", count * stride, 0, {}, object), status::ok);
  tnd_pool_box const box{0, row_size, {count, 1}, {stride, 0}, {row_size, 0}};
  ASSERT_EQ(client->write(object, box, {device, true}), status::ok) << last_message();
  uint64_t version = 0;
  ASSERT_EQ(client->commit(object, {}, version), status::ok);
  client->close(object);
  std::vector<std::byte> host(count * stride);
  wire::pool::info about;
  ASSERT_EQ(client->get("rows", host.data(), host.size(), about, false), status::ok);
  for (uint64_t row = 0; row < count; row++) {
    ASSERT_EQ(std::memcmp(host.data() + row * stride, bytes.data() + row * row_size, row_size), 0)
        << row;
    ASSERT_EQ(host[row * stride + row_size], std::byte{0}) << row;
  }
}

TEST_F(pool_device, streams_are_staged) {
  auto const client = connect(false);
  put(*client, "a");
  EXPECT_EQ(client->transfers().counters().last_path, uint32_t(TND_POOL_PATH_TCP));
  expect_bytes(*client, "a");
  EXPECT_EQ(gpu->registration_count(), 0u);
}

}  // namespace
}  // namespace tanada::test
