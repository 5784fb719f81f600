// GPU memory over a fabric. RMA moves it where the provider supports it. Elsewhere registration is
// refused with a reason, and the pool stages it. The test prints which of the two it found.
#include <array>
#include <cstdio>

#include "e2e/pool/pool_fixture.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/fabric/fabric_plugin.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::test {
namespace {

using namespace seams;

constexpr size_t size = 9'000'001;

struct device_buffer {
  explicit device_buffer(seams::gpu &of) : owner{of} {
    auto made = owner.allocate_device(size);
    EXPECT_TRUE(made.ok());
    addr = made.ok() ? static_cast<std::byte *>(made.value()) : nullptr;
  }
  ~device_buffer() {
    owner.free_device(addr);
  }
  device_buffer(const device_buffer &) = delete;
  device_buffer &operator=(const device_buffer &) = delete;

  void set(const std::vector<char> &bytes) {
    ASSERT_EQ(owner.copy_to_device(addr, bytes.data(), size), status::ok);
  }
  std::vector<char> bytes() const {
    std::vector<char> found(size);
    EXPECT_EQ(owner.copy_to_host(found.data(), addr, size), status::ok);
    return found;
  }

  seams::gpu &owner;
  std::byte *addr;
};

class fabric_device : public testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    auto opened = gpu_open(gpu_choice::cuda, 0);
    ASSERT_TRUE(opened.ok()) << last_message();
    device_ = std::move(opened).value();
  }

  std::string provider() const {
    return GetParam();
  }
  std::string node() const {
    return provider() == "shm" ? "" : "127.0.0.1";
  }
  std::unique_ptr<seams::gpu> device_;
};

TEST_P(fabric_device, rma_from_and_to_device_memory) {
  std::array<std::unique_ptr<fabric_endpoint>, 2> ends;
  for (auto &one : ends) {
    auto opened = fabric_open({provider(), node(), true});
    ASSERT_TRUE(opened.ok()) << last_message();
    one = std::move(opened).value();
  }
  device_buffer here{*device_}, there{*device_};
  here.set(pattern(size, 1));
  there.set(pattern(size, 2));
  fabric_memory const memory{there.addr, size, fabric_memory_kind::cuda, 0};
  auto target = ends[1]->region_register(memory, {.remote_read = true, .remote_write = true});
  auto source = ends[0]->region_register({here.addr, size, fabric_memory_kind::cuda, 0}, {});
  if (!target.ok() || !source.ok()) {
    EXPECT_EQ(target.error(), status::not_supported);
    EXPECT_EQ(source.error(), status::not_supported);
    std::printf("%s: refused, for the reason in the log\n", GetParam());
    return;
  }
  auto peer = ends[0]->peer_add(ends[1]->address().span());
  ASSERT_TRUE(peer.ok());
  auto const move = [&](fabric_op_kind kind) {
    fabric_op op;
    op.kind = kind;
    op.peer = peer.value();
    op.addr = here.addr;
    op.size = size;
    op.region = source.value().id;
    op.remote = target.value().remote;
    uint64_t const deadline_ns = monotonic_clock().now_ns() + 20'000'000'000;
    op.deadline_ns = deadline_ns;
    if (status const code = ends[0]->post(op); code != status::ok)
      return code;
    for (fabric_completion done; monotonic_clock().now_ns() < deadline_ns;) {
      if (ends[0]->poll({&done, 1}) == 1 && done.settled)
        return done.code;
      (void)ends[1]->wait(monotonic_clock().now_ns() + 100'000);
      (void)ends[1]->poll({&done, 1});
    }
    return status::timed_out;
  };
  EXPECT_EQ(move(fabric_op_kind::write), status::ok);
  EXPECT_TRUE(there.bytes() == pattern(size, 1));
  there.set(pattern(size, 3));
  EXPECT_EQ(move(fabric_op_kind::read), status::ok);
  EXPECT_TRUE(here.bytes() == pattern(size, 3));
  std::printf("%s: moved by RMA from and to memory of the GPU\n", GetParam());
}

TEST_P(fabric_device, the_pool_moves_device_memory_one_way_or_the_other) {
  auto options = small_pool();
  options.fabric = provider();
  options.fabric_node = node();
  auto const daemon = started(options);
  ASSERT_NE(daemon, nullptr);
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.shared_memory = 0;
  config.timeout_ns = 20'000'000'000;
  config.fabric = GetParam();
  tnd_pool *pool = nullptr;
  ASSERT_EQ(tnd_pool_connect(url_of(*daemon).c_str(), &config, &pool), TND_OK)
      << tnd_last_message();
  device_buffer from{*device_}, to{*device_};
  from.set(pattern(size, 4));
  to.set(pattern(size, 5));
  EXPECT_EQ(tnd_pool_register(pool, to.addr, size, TND_POOL_MEMORY_DEVICE), TND_OK)
      << tnd_last_message();
  {
    handle writer, reader;
    EXPECT_EQ(tnd_pool_create(pool, "a", size, 0, nullptr, &writer), TND_OK);
    EXPECT_EQ(tnd_pool_write(writer, 0, from.addr, size, TND_POOL_MEMORY_DEVICE), TND_OK)
        << tnd_last_message();
    EXPECT_EQ(tnd_pool_commit(writer, nullptr, nullptr), TND_OK);
    EXPECT_EQ(tnd_pool_open(pool, "a", 0, &reader), TND_OK);
    EXPECT_EQ(tnd_pool_read(reader, 0, to.addr, size, TND_POOL_MEMORY_DEVICE, nullptr), TND_OK)
        << tnd_last_message();
  }
  EXPECT_TRUE(to.bytes() == pattern(size, 4));
  EXPECT_EQ(tnd_pool_unregister(pool, to.addr), TND_OK);
  tnd_pool_disconnect(pool);
}

INSTANTIATE_TEST_SUITE_P(providers,
                         fabric_device,
                         testing::Values("tcp;ofi_rxm", "shm"),
                         [](const auto &which) { return std::string{which.param}.substr(0, 3); });

}  // namespace
}  // namespace tanada::test
