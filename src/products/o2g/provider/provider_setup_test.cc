// Tests of fi_getinfo, address vectors, and settings.

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <filesystem>

#include "products/o2g/provider/exception_barrier.hpp"
#include "products/o2g/provider/provider_fixture.hpp"

namespace tanada::o2g::provider {
namespace {

struct setting {
  setting(const char *name, const char *value) : name_{name} {
    setenv(name, value, 1);
  }
  ~setting() {
    unsetenv(name_);
  }
  const char *name_;
};

sockaddr_in ipv4(const char *host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

TEST(getinfo, offers_reliable_datagrams_alone) {
  auto const info = query_info();
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->ep_attr->type, FI_EP_RDM);
  EXPECT_STREQ(info->fabric_attr->prov_name, "o2g");
  EXPECT_EQ(info->addr_format, uint32_t(FI_SOCKADDR_IN));
  for (fi_ep_type const type : {FI_EP_MSG, FI_EP_DGRAM})
    EXPECT_EQ(query_info([&](fi_info &hints) { hints.ep_attr->type = type; }), nullptr);
  for (uint64_t const caps : {FI_TRIGGER, FI_FENCE, FI_COLLECTIVE, FI_NAMED_RX_CTX, FI_SHARED_AV})
    EXPECT_EQ(query_info([&](fi_info &hints) { hints.caps = caps; }), nullptr) << std::hex << caps;
}

// libfabric closes its providers at exit, when an endpoint's thread may still run in the provider.
TEST(library, stays_when_it_is_closed) {
  auto const copy =
      std::filesystem::temp_directory_path() / ("o2g_copy" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(std::string{TND_PROVIDER_FOLDER} + "/libo2g-fi.so", copy);
  void *const opened = dlopen(copy.c_str(), RTLD_NOW);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(dlclose(opened), 0);
  EXPECT_NE(dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  std::filesystem::remove(copy);
}

TEST(address_vectors, say_so_when_the_endpoint_can_have_no_more_peers) {
  test_endpoint a;
  std::vector<sockaddr_in> many(65536, ipv4("10.0.0.1", 1));
  std::vector<fi_addr_t> numbers(many.size());
  for (size_t i = 0; i < many.size(); i++)
    many[i].sin_addr.s_addr = htonl(uint32_t(0x0A000000 + i));
  int const inserted_count =
      fi_av_insert(a.peers, many.data(), many.size(), numbers.data(), 0, nullptr);
  ASSERT_GT(inserted_count, 60'000);
  ASSERT_EQ(fi_av_remove(a.peers, numbers.data(), size_t(inserted_count), 0), 0);
  // the vector has free numbers, but the endpoint keeps peers it has ever added
  sockaddr_in const address = ipv4("10.2.0.1", 1);
  fi_addr_t number = 0;
  EXPECT_EQ(fi_av_insert(a.peers, &address, 1, &number, 0, nullptr), 0);
  EXPECT_EQ(number, FI_ADDR_NOTAVAIL);
}

int grow(size_t count) {
  if (count == 0)
    throw std::runtime_error{"no"};
  if (count == 1)
    throw std::bad_alloc{};
  return int(count);
}

TEST(fences, turn_exceptions_into_errors) {
  EXPECT_EQ(no_throw<grow>(3), 3);
  EXPECT_EQ(no_throw<grow>(1), -FI_ENOMEM);
  EXPECT_EQ(no_throw<grow>(0), -FI_EOTHER);
}

TEST(getinfo, gives_what_was_asked_for) {
  auto const selected = query_info([](fi_info &hints) {
    hints.caps = FI_TAGGED;
    hints.domain_attr->threading = FI_THREAD_DOMAIN;
    hints.domain_attr->av_type = FI_AV_MAP;
    hints.domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_PROV_KEY;
  });
  ASSERT_NE(selected, nullptr);
  EXPECT_EQ(selected->caps & (FI_TAGGED | FI_SEND | FI_RECV | FI_MSG | FI_RMA),
            FI_TAGGED | FI_SEND | FI_RECV);
  EXPECT_EQ(selected->domain_attr->threading, FI_THREAD_DOMAIN);
  EXPECT_EQ(selected->domain_attr->av_type, FI_AV_MAP);
  EXPECT_EQ(selected->domain_attr->mr_mode, 0);
}

TEST(getinfo, keeps_to_one_interface) {
  ifaddrs *list = nullptr;
  ASSERT_EQ(getifaddrs(&list), 0);
  std::string loopback;
  for (ifaddrs *interface = list; interface != nullptr; interface = interface->ifa_next)
    if ((interface->ifa_flags & IFF_LOOPBACK) != 0)
      loopback = interface->ifa_name;
  freeifaddrs(list);
  auto const names_of = [](const info_pointer &first) {
    std::vector<std::string> names;
    for (fi_info *entry = first.get(); entry != nullptr; entry = entry->next)
      names.emplace_back(entry->domain_attr->name);
    return names;
  };
  setting const wanted{"TND_O2G_INTERFACE", loopback.c_str()};
  auto const names = names_of(query_info({}, nullptr, nullptr, 0));
  ASSERT_FALSE(names.empty());
  for (std::string const &name : names)
    EXPECT_EQ(name, loopback);
  setting const absent{"TND_O2G_INTERFACE", "no_such_interface"};
  EXPECT_EQ(query_info({}, nullptr, nullptr, 0), nullptr);
}

TEST(getinfo, keeps_to_a_domain_by_name) {
  EXPECT_EQ(
      query_info([](fi_info &hints) { hints.domain_attr->name = strdup("no_such_interface"); }),
      nullptr);
  std::string const interface_name = query_info()->domain_attr->name;
  EXPECT_NE(
      query_info([&](fi_info &hints) { hints.domain_attr->name = strdup(interface_name.c_str()); }),
      nullptr);
}

TEST(ipv6, endpoints_talk) {
  auto const info = [] {
    return query_info([](fi_info &hints) { hints.addr_format = FI_SOCKADDR_IN6; }, "::1");
  };
  if (info() == nullptr)
    GTEST_SKIP() << "there is no ::1 here";
  test_endpoint a{{}, info()}, b{{}, info()};
  EXPECT_EQ(a.name().size(), sizeof(sockaddr_in6));
  char got = 0;
  ASSERT_EQ(fi_recv(b.ep, &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  ASSERT_EQ(fi_inject(a.ep, "x", 1, a.number_of(b)), 0);
  fi_cq_tagged_entry entry{};
  ASSERT_EQ(read_entry(b, entry, {&a}), 1);
  EXPECT_EQ(got, 'x');
}

struct tables : testing::TestWithParam<fi_av_type> {};

TEST_P(tables, number_addresses_and_number_them_anew) {
  test_endpoint a{{.table = GetParam()}};
  std::array<sockaddr_in, 3> addresses{
      ipv4("10.0.0.1", 1), ipv4("10.0.0.2", 2), ipv4("10.0.0.1", 1)};
  std::array<fi_addr_t, 3> numbers{};
  ASSERT_EQ(fi_av_insert(a.peers, addresses.data(), 3, numbers.data(), 0, nullptr), 3);
  EXPECT_NE(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[0], numbers[2]);  // a sender has one number
  sockaddr_in back{};
  size_t size = sizeof back;
  ASSERT_EQ(fi_av_remove(a.peers, &numbers[0], 1, 0), 0);
  // still valid, because it was inserted twice
  ASSERT_EQ(fi_av_lookup(a.peers, numbers[2], &back, &size), 0);
  EXPECT_EQ(back.sin_port, htons(1));
  ASSERT_EQ(fi_av_remove(a.peers, &numbers[2], 1, 0), 0);
  EXPECT_EQ(fi_av_lookup(a.peers, numbers[2], &back, &size), -FI_EINVAL);
  EXPECT_EQ(fi_av_remove(a.peers, &numbers[2], 1, 0), -FI_EINVAL);
  EXPECT_EQ(fi_inject(a.ep, "x", 1, numbers[0]), -FI_EINVAL);
  ASSERT_EQ(fi_av_insert(a.peers, &addresses[0], 1, &numbers[2], 0, nullptr), 1);
  ASSERT_EQ(fi_av_lookup(a.peers, numbers[2], &back, &size), 0);
  EXPECT_EQ(back.sin_port, htons(1));
  sockaddr_in const another = ipv4("10.0.0.4", 4);
  fi_addr_t number = 0;
  ASSERT_EQ(fi_av_insert(a.peers, &another, 1, &number, 0, nullptr), 1);
  EXPECT_NE(number, numbers[1]);
  EXPECT_NE(number, numbers[2]);
  std::array<char, 64> text{};
  size = text.size();
  EXPECT_STREQ(fi_av_straddr(a.peers, &addresses[1], text.data(), &size),
               "fi_sockaddr_in://10.0.0.2:2");
}

TEST_P(tables, go_on_after_a_bad_address) {
  test_endpoint a{{.table = GetParam()}};
  std::array<sockaddr_in, 3> addresses{
      ipv4("10.0.0.1", 1), ipv4("10.0.0.2", 2), ipv4("10.0.0.3", 3)};
  addresses[1].sin_family = 99;
  std::array<fi_addr_t, 3> numbers{};
  std::array<int, 3> errors{};
  EXPECT_EQ(fi_av_insert(a.peers, addresses.data(), 3, numbers.data(), FI_SYNC_ERR, errors.data()),
            2);
  EXPECT_EQ(errors, (std::array<int, 3>{0, FI_EINVAL, 0}));
  EXPECT_EQ(numbers[1], FI_ADDR_NOTAVAIL);
  EXPECT_NE(numbers[2], FI_ADDR_NOTAVAIL);
}

INSTANTIATE_TEST_SUITE_P(kinds, tables, testing::Values(FI_AV_TABLE, FI_AV_MAP));

TEST(tables, resolve_names_and_count_them_up) {
  test_endpoint a;
  std::array<fi_addr_t, 4> numbers{};
  ASSERT_EQ(fi_av_insertsvc(a.peers, "127.0.0.1", "4711", &numbers[0], 0, nullptr), 1);
  EXPECT_EQ(fi_av_insertsym(a.peers, "127.0.0.1", 2, "4711", 2, numbers.data(), 0, nullptr), 4);
  sockaddr_in last{};
  size_t size = sizeof last;
  ASSERT_EQ(fi_av_lookup(a.peers, numbers[3], &last, &size), 0);
  EXPECT_EQ(last.sin_addr.s_addr, htonl(0x7F000002));
  EXPECT_EQ(last.sin_port, htons(4712));
  EXPECT_EQ(fi_av_insertsym(a.peers, "127.0.0.1", 1, "four", 1, numbers.data(), 0, nullptr),
            -FI_EINVAL);
}

TEST(tables, tell_of_insertions_by_events) {
  test_endpoint a;
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_UNSPEC;
  fid_eq *events = nullptr;
  ASSERT_EQ(fi_eq_open(a.fabric, &eq_attr, &events, nullptr), 0);
  fi_av_attr attr{};
  attr.type = FI_AV_TABLE;
  attr.flags = FI_EVENT;
  fid_av *peers = nullptr;
  ASSERT_EQ(fi_av_open(a.domain, &attr, &peers, nullptr), 0);
  std::array<sockaddr_in, 2> addresses{ipv4("10.0.0.1", 1), ipv4("10.0.0.2", 2)};
  EXPECT_EQ(fi_av_insert(peers, addresses.data(), 2, nullptr, 0, nullptr), -FI_ENOEQ);
  ASSERT_EQ(fi_av_bind(peers, &events->fid, 0), 0);
  addresses[0].sin_family = 99;
  int mark = 0;
  ASSERT_EQ(fi_av_insert(peers, addresses.data(), 2, nullptr, 0, &mark), 0);
  uint32_t event = 0;
  fi_eq_entry entry{};
  EXPECT_EQ(fi_eq_sread(events, &event, &entry, sizeof entry, 1000, 0), -FI_EAVAIL);
  fi_eq_err_entry error{};
  ASSERT_EQ(fi_eq_readerr(events, &error, 0), ssize_t(sizeof error));
  EXPECT_EQ(error.data, 0u);  // the index
  EXPECT_EQ(error.err, FI_EINVAL);
  ASSERT_EQ(fi_eq_sread(events, &event, &entry, sizeof entry, 1000, 0), ssize_t(sizeof entry));
  EXPECT_EQ(event, uint32_t(FI_AV_COMPLETE));
  EXPECT_EQ(entry.data, 1u);
  EXPECT_EQ(entry.context, &mark);
  EXPECT_EQ(fi_eq_sread(events, &event, &entry, sizeof entry, 5, 0), -FI_EAGAIN);
  EXPECT_EQ(fi_close(&events->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&peers->fid), 0);
  EXPECT_EQ(fi_close(&events->fid), 0);
}

TEST(settings, that_make_no_sense_are_refused) {
  for (auto const &[name, value] : {std::pair{"TND_O2G_DUMP_SOFT", "much"},
                                    std::pair{"TND_O2G_DUMP_HARD", "1K"},
                                    std::pair{"TND_O2G_TICK", "7"},
                                    std::pair{"TND_O2G_SLEEP_MAX", "-1ms"},
                                    std::pair{"TND_O2G_CONNECT_TIMEOUT", "soon"},
                                    std::pair{"TND_O2G_RECEIVE", "always"},
                                    std::pair{"TND_O2G_MISSPELT", "1M"}}) {
    setting const bad{name, value};
    test_endpoint a{{.is_enabled = false}};
    testing::internal::CaptureStderr();
    EXPECT_EQ(fi_enable(a.ep), -FI_EINVAL) << name;
    std::string const lines = testing::internal::GetCapturedStderr();
    EXPECT_NE(lines.find("tanada error: o2g: fi_enable cannot open the endpoint"),
              std::string::npos)
        << lines;
  }
  setting const good{"TND_O2G_DUMP_SOFT", "1M"};
  test_endpoint a{{.is_enabled = false}};
  EXPECT_EQ(fi_enable(a.ep), 0);
}

TEST(settings, that_nobody_knows_are_refused_with_the_nearest_name) {
  setting const misspelt{"TND_O2G_DUMP_SOFT_MISSPELT", "1M"};
  test_endpoint a{{.is_enabled = false}};
  testing::internal::CaptureStderr();
  EXPECT_EQ(fi_enable(a.ep), -FI_EINVAL);
  std::string const lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("TND_O2G_DUMP_SOFT"), std::string::npos) << lines;
  EXPECT_NE(lines.find("tanada error: "), std::string::npos) << lines;
}

// A large message is not received while the receiver makes no calls, and is received by its calls.
TEST(settings, can_limit_receiving_to_the_calls_of_the_program) {
  setting const by_select{"TND_O2G_RECEIVE", "select"};
  setting const without_driver{"TND_O2G_DRIVER", "off"};
  test_endpoint a;
  test_endpoint b;
  std::vector<char> source(16 << 20, 'x');
  std::vector<char> target(source.size());
  ASSERT_EQ(fi_trecv(b.ep, target.data(), target.size(), nullptr, FI_ADDR_UNSPEC, 0, 0, nullptr),
            0);
  ASSERT_EQ(fi_tsend(a.ep, source.data(), source.size(), nullptr, a.number_of(b), 0, nullptr), 0);
  uint64_t const end_ns = seams::monotonic_clock().now_ns() + 100'000'000;
  fi_cq_tagged_entry entry{};
  while (seams::monotonic_clock().now_ns() < end_ns)
    EXPECT_EQ(fi_cq_read(a.queue, &entry, 1), -FI_EAGAIN);
  EXPECT_EQ(target.front(), 0);
  ASSERT_EQ(read_entry(b, entry, {&a}), 1);
  EXPECT_EQ(entry.len, source.size());
  EXPECT_EQ(target, source);
}

TEST(settings, of_another_job_keep_it_out) {
  setenv("TND_O2G_COOKIE", "one", 1);
  test_endpoint a;
  setenv("TND_O2G_COOKIE", "two", 1);
  test_endpoint b;
  unsetenv("TND_O2G_COOKIE");
  std::vector<char> large(1 << 20);
  ASSERT_EQ(fi_send(a.ep, large.data(), large.size(), nullptr, a.number_of(b), nullptr), 0);
  uint64_t const end_ns = seams::monotonic_clock().now_ns() + test_timeout_ns;
  fi_cq_tagged_entry entry{};
  ssize_t got = -FI_EAGAIN;
  while (got == -FI_EAGAIN && seams::monotonic_clock().now_ns() < end_ns) {
    got = fi_cq_read(a.queue, &entry, 1);
    (void)fi_cq_read(b.queue, &entry, 0);
  }
  ASSERT_EQ(got, -FI_EAVAIL);
  EXPECT_EQ(error_of(a).err, EACCES);
}

}  // namespace
}  // namespace tanada::o2g::provider
