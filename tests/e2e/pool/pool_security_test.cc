// The rights of clients, and what happens to peers that send something other than requests.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>

#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"
#include "sim/world.hpp"

namespace tanada::test {
namespace {

using namespace wire::pool;

struct key_file {
  std::string path;
  explicit key_file(const std::string &text, const char *name = "keys", mode_t mode = 0600)
      : path{testing::TempDir() + "tanada_" + name + "_" + std::to_string(getpid())} {
    std::ofstream{path} << text;
    chmod(path.c_str(), mode);
  }
  ~key_file() {
    std::remove(path.c_str());
  }
};

std::string const alice = "alice " + std::string(64, 'a') + " rw runs\n",
                  bob = "bob " + std::string(64, 'b') + " ro runs\n",
                  mallory = "alice " + std::string(64, 'c') + " rw runs\n",
                  carol = "carol " + std::string(64, 'd') + " rw *\n";

class pool_keys : public testing::Test {
 protected:
  key_file all{alice + bob + carol, "all"}, of_alice{alice, "alice"}, of_bob{bob, "bob"},
      of_mallory{mallory, "mallory"};
  std::unique_ptr<poold::daemon> daemon = [this] {
    auto options = small_pool();
    options.key_file = all.path;
    options.size = 16 << 20;
    return started(options);
  }();
  pool::key key_of(size_t index) {
    return pool::keys_read(all.path).value()[index];
  }
};

TEST_F(pool_keys, let_their_clients_in_and_nobody_else) {
  EXPECT_EQ(connection(url_of(*daemon, "runs"), true, 5'000'000'000, of_alice.path.c_str()).code,
            TND_OK);
  EXPECT_EQ(connection(url_of(*daemon, "runs"), false, 5'000'000'000, of_alice.path.c_str()).code,
            TND_OK);
  EXPECT_EQ(connection(url_of(*daemon, "runs"), true, 5'000'000'000, of_mallory.path.c_str()).code,
            -EACCES);
  EXPECT_EQ(connection(url_of(*daemon, "runs"), true).code, -EACCES);
  EXPECT_EQ(connection(url_of(*daemon, "other"), true, 5'000'000'000, of_alice.path.c_str()).code,
            -EACCES);
  key_file const unknown{"eve " + std::string(64, 'e') + " rw runs\n", "eve"};
  EXPECT_EQ(connection(url_of(*daemon, "runs"), true, 5'000'000'000, unknown.path.c_str()).code,
            -EACCES);
}

TEST_F(pool_keys, a_daemon_without_the_key_is_not_trusted) {
  auto const open_one = started(small_pool(4 << 20));
  EXPECT_EQ(connection(url_of(*open_one, "runs"), true, 5'000'000'000, of_alice.path.c_str()).code,
            -EACCES);
}

TEST_F(pool_keys, reading_only_is_reading_only) {
  connection writer{url_of(*daemon, "runs"), true, 5'000'000'000, of_alice.path.c_str()};
  ASSERT_EQ(put(writer, "a", pattern(100, 1)), TND_OK);
  for (bool const shared : {true, false}) {
    connection reader{url_of(*daemon, "runs"), shared, 5'000'000'000, of_bob.path.c_str()};
    EXPECT_EQ(get(reader, "a"), pattern(100, 1));
    handle object;
    EXPECT_EQ(put(reader, "a", pattern(100, 2)), -EACCES);
    EXPECT_EQ(tnd_pool_create(reader, "b", 1, 0, nullptr, &object), -EACCES);
    EXPECT_EQ(tnd_pool_remove(reader, "a", 0), -EACCES);
    EXPECT_EQ(tnd_pool_rename(reader, "a", "b", 0), -EACCES);
    EXPECT_EQ(tnd_pool_set_flags(reader, "a", TND_POOL_EVICTABLE), -EACCES);
    EXPECT_EQ(tnd_pool_set_commit(reader, "a", 0, 0), -EACCES);
    EXPECT_EQ(get(writer, "a"), pattern(100, 1));
  }
}

std::vector<std::string> spaces_seen(tnd_pool *pool, const char *only = nullptr) {
  std::vector<std::string> names;
  auto const take = [](void *to, const char *name, const tnd_pool_namespace_info *) {
    static_cast<std::vector<std::string> *>(to)->push_back(name);
    return 0;
  };
  EXPECT_EQ(tnd_pool_list_namespaces(pool, only, take, &names), TND_OK) << tnd_last_message();
  return names;
}

using names = std::vector<std::string>;

// A client that knows no namespaces sees those of its key.
TEST_F(pool_keys, a_client_sees_only_namespaces_of_its_key) {
  key_file const of_carol{carol, "carol"};
  uint64_t const limit_ns = 5'000'000'000;
  connection writer{url_of(*daemon, "runs"), true, limit_ns, of_alice.path.c_str()};
  connection other{url_of(*daemon, "secret"), true, limit_ns, of_carol.path.c_str()};
  ASSERT_EQ(put(writer, "a", pattern(100, 1)), TND_OK);
  ASSERT_EQ(put(other, "a", pattern(100, 1)), TND_OK);
  EXPECT_EQ(spaces_seen(writer), names{"runs"});
  EXPECT_EQ(spaces_seen(writer, "secret"), names{});
  EXPECT_EQ(spaces_seen(other), (names{"runs", "secret"}));
  EXPECT_EQ(spaces_seen(other, "secret"), names{"secret"});
  EXPECT_EQ(spaces_seen(lister{*daemon, of_bob.path.c_str()}), names{"runs"});
  EXPECT_EQ(spaces_seen(lister{*daemon, of_carol.path.c_str()}), (names{"runs", "secret"}));
  EXPECT_EQ((lister{*daemon, of_mallory.path.c_str()}.code), -EACCES);
  EXPECT_EQ((lister{*daemon, nullptr}.code), -EACCES);
}

TEST_F(pool_keys, a_handshake_cannot_be_replayed) {
  pool::key const with = key_of(0);
  hello_message hello;
  hello.namespace_name = "runs";
  hello.key_id = with.id;
  hello.nonce = pool::random_bytes();
  proof_message seen;
  {
    raw_client honest{daemon->port()};
    ASSERT_EQ(honest.ask(kind::hello, hello), status::ok);
    challenge_message challenge;
    ASSERT_EQ(wire::decode(honest.answer.body, challenge), status::ok);
    seen.proof = pool::proof_of(with, pool::prover::client, hello.nonce, challenge.nonce, "runs");
    ASSERT_EQ(honest.ask(kind::proof, seen), status::ok);
  }
  raw_client replayer{daemon->port()};
  ASSERT_EQ(replayer.ask(kind::hello, hello), status::ok);
  EXPECT_EQ(replayer.ask(kind::proof, seen), status::access);
  EXPECT_TRUE(replayer.is_closed());
  // The daemon's own proof is not accepted as a client's.
  raw_client mirror{daemon->port()};
  ASSERT_EQ(mirror.ask(kind::hello, hello), status::ok);
  challenge_message challenge;
  ASSERT_EQ(wire::decode(mirror.answer.body, challenge), status::ok);
  EXPECT_EQ(mirror.ask(kind::proof, proof_message{challenge.proof}), status::access);
}

TEST_F(pool_keys, requests_before_the_handshake_end_the_connection) {
  raw_client client{daemon->port()};
  EXPECT_EQ(client.ask(kind::get, get_request{"a", 100}), status::peer_lost);
  raw_client second{daemon->port()};
  hello_message hello;
  hello.namespace_name = "runs";
  ASSERT_EQ(second.ask(kind::hello, hello), status::ok);
  EXPECT_EQ(second.ask(kind::list, list_request{}), status::peer_lost);
}

TEST(pool_listen, without_a_key_only_loopback) {
  auto options = small_pool(4 << 20);
  options.listen = "0.0.0.0";
  EXPECT_EQ(poold::daemon::start(options).error(), status::access);
}

class pool_rubbish : public testing::Test {
 protected:
  std::unique_ptr<poold::daemon> daemon = started(small_pool());
  connection good{url_of(*daemon), true};

  uint64_t used() {
    tnd_pool_statistics all{};
    all.struct_size = sizeof all;
    EXPECT_EQ(tnd_pool_get_statistics(good, &all), TND_OK);
    return all.used;
  }
  raw_client in() {
    raw_client client{daemon->port()};
    EXPECT_EQ(client.greet("test"), status::ok);
    return client;
  }
};

TEST_F(pool_rubbish, oversized_frames_end_the_connection) {
  for (frame const head : {frame{.kind = 20, .body_size = 65537},
                           frame{.kind = 20, .data_size = ~uint64_t{0}},
                           frame{.magic = 1, .kind = 20},
                           frame{.kind = 999},
                           frame{.kind = 20, .reserved = 1}}) {
    raw_client client = in();
    client.send(&head, sizeof head);
    EXPECT_TRUE(client.is_closed());
  }
  EXPECT_EQ(put(good, "a", pattern(10, 1)), TND_OK);
}

TEST_F(pool_rubbish, requests_for_too_much_are_refused) {
  raw_client client = in();
  create_request create;
  create.name = "big";
  create.size = ~uint64_t{0};
  EXPECT_EQ(client.ask(kind::create, create), status::too_big);
  create.size = uint64_t{1} << 45;
  EXPECT_EQ(client.ask(kind::create, create), status::no_space);
  create.size = 100;
  create.name = std::string(513, 'x');
  EXPECT_EQ(client.ask(kind::create, create), status::invalid);
  create.name = std::string("a\0b", 3);
  EXPECT_EQ(client.ask(kind::create, create), status::invalid);
  create.name = "fine";
  create.flags = 1 << 30;
  EXPECT_EQ(client.ask(kind::create, create), status::invalid);
  create.flags = 0;
  ASSERT_EQ(client.ask(kind::create, create), status::ok);
  object_reply made;
  ASSERT_EQ(wire::decode(client.answer.body, made), status::ok);
  EXPECT_TRUE(made.extents.empty());  // nothing of the pool's memory is reported over TCP
  EXPECT_EQ(client.ask(kind::write, ranges_request{made.handle, {{~uint64_t{0}, 4}}}, "data"),
            status::overflow);
  EXPECT_EQ(client.ask(kind::write, ranges_request{made.handle, {{uint64_t{1} << 45, 4}}}, "data"),
            status::no_space);
  EXPECT_EQ(client.ask(kind::write, ranges_request{77, {{0, 4}}}, "data"), status::bad_file);
  EXPECT_EQ(client.ask(kind::read, ranges_request{77, {{0, 4}}}), status::bad_file);
  EXPECT_EQ(client.ask(kind::read, ranges_request{made.handle, {{50, 40}, {90, 20}}}),
            status::range);
  EXPECT_EQ(client.ask(kind::read, ranges_request{made.handle, {{~uint64_t{0}, ~uint64_t{0}}}}),
            status::overflow);
  EXPECT_EQ(client.ask(kind::commit, commit_request{made.handle, {.checksum_kind = 9}}),
            status::invalid);
  EXPECT_EQ(client.ask(kind::segment, segment_request{0}), status::not_supported);
  EXPECT_EQ(client.ask(kind::put, put_request{"", {}}, std::string(100'000, 'x')), status::invalid);
  EXPECT_EQ(client.ask(kind::stat, open_request{"fine", 0}), status::no_entry);
}

TEST_F(pool_rubbish, a_write_whose_ranges_lie_ends_the_connection) {
  raw_client client = in();
  create_request create;
  create.name = "a";
  create.size = 100;
  ASSERT_EQ(client.ask(kind::create, create), status::ok);
  EXPECT_EQ(client.ask(kind::write, ranges_request{1, {{0, 50}}}, "four"), status::peer_lost);
}

TEST_F(pool_rubbish, a_connection_without_a_namespace_only_lists) {
  raw_client client{daemon->port()};
  ASSERT_EQ(client.greet(""), status::ok);
  for (kind const what :
       {kind::put, kind::get, kind::list, kind::create, kind::segment, kind::reserve, kind::fabric})
    EXPECT_EQ(client.ask(what, get_request{"a", 100}, what == kind::put ? "data" : ""),
              status::invalid);
  EXPECT_EQ(client.ask(kind::statistics, empty_message{}), status::ok);
  EXPECT_EQ(client.ask(kind::namespaces, namespaces_request{}), status::ok);
  namespaces_reply found;
  ASSERT_EQ(wire::decode(client.answer.body, found), status::ok);
  ASSERT_EQ(found.entries.size(), 1u);  // of the fixture's client
  EXPECT_EQ(found.entries[0].namespace_name, "test");
  EXPECT_EQ(client.ask(kind::close, handle_request{1}), status::peer_lost);
  EXPECT_EQ(put(good, "a", pattern(10, 1)), TND_OK);
}

// More than one answer holds.
TEST_F(pool_rubbish, many_namespaces_come_in_many_answers) {
  constexpr int count = 300;
  std::string const stem(480, 'n');
  for (int i = 0; i < count; i++) {
    connection made{url_of(*daemon, stem + std::to_string(1000 + i)), false};
    ASSERT_EQ(put(made, "a", pattern(10, 1)), TND_OK) << tnd_last_message();
  }
  struct seen {
    std::vector<std::string> names;
    uint64_t object_count = 0;
    bool is_owned = true;
  } all;
  auto const take = [](void *to, const char *name, const tnd_pool_namespace_info *info) {
    auto &found = *static_cast<seen *>(to);
    found.names.push_back(name);
    found.object_count += info->object_count;
    found.is_owned = found.is_owned && info->owned >= info->used;
    return 0;
  };
  ASSERT_EQ(tnd_pool_list_namespaces(good, nullptr, take, &all), TND_OK);
  EXPECT_EQ(all.names.size(), size_t(count) + 1);
  EXPECT_TRUE(std::is_sorted(all.names.begin(), all.names.end()));
  EXPECT_EQ(all.object_count, uint64_t(count));
  EXPECT_TRUE(all.is_owned);
}

TEST_F(pool_rubbish, handles_are_bounded) {
  raw_client client = in();
  ASSERT_EQ(put(good, "a", pattern(10, 1)), TND_OK);
  status code = status::ok;
  for (int i = 0; i < 5000 && code == status::ok; i++)
    code = client.ask(kind::open, open_request{"a", 0});
  EXPECT_EQ(code, status::too_many_files);
  EXPECT_EQ(get(good, "a"), pattern(10, 1));
}

TEST_F(pool_rubbish, freed_memory_is_never_read) {
  auto const secret = pattern(8 << 20, 1);
  ASSERT_EQ(put(good, "secret", secret), TND_OK);
  ASSERT_EQ(tnd_pool_remove(good, "secret", 0), TND_OK);
  raw_client client = in();
  create_request create;
  create.name = "mine";
  create.size = 8 << 20;
  ASSERT_EQ(client.ask(kind::create, create), status::ok);
  ASSERT_EQ(client.ask(kind::read, ranges_request{1, {{0, 8 << 20}}}), status::ok);
  EXPECT_EQ(client.answer.data, std::string(8 << 20, '\0'));
}

// Random bytes, and bytes in requests that begin correctly: the daemon survives, serves others, and
// keeps nothing of it.
TEST_F(pool_rubbish, random_bytes_harm_nobody) {
  ASSERT_EQ(put(good, "a", pattern(1000, 1)), TND_OK);
  uint64_t const before = used();
  sim::prng random{11};
  for (int round = 0; round < 300; round++) {
    raw_client client{daemon->port()};
    if (random.chance(70)) {
      EXPECT_EQ(client.greet("test"), status::ok);
    }
    for (int i = 0; i < 5; i++) {
      std::vector<std::byte> body(random.below(400));
      for (std::byte &one : body)
        one = std::byte(random.chance(50) ? random.below(4) : random.below(256));
      frame head{.kind = uint16_t(random.chance(90) ? 16 + random.below(26) : random.below(100)),
                 .body_size = uint32_t(body.size()),
                 .tag = random.next(),
                 .data_size = random.chance(30) ? random.below(50) : 0};
      if (random.chance(10))
        head.magic = uint32_t(random.next());
      if (!client.send(&head, sizeof head) || !client.send(body.data(), body.size()))
        break;
      std::string const data(head.data_size, 'x');
      client.send(data.data(), data.size());
    }
  }
  EXPECT_EQ(get(good, "a"), pattern(1000, 1));
  for (int i = 0; i < 500 && used() > before + 4096; i++)
    usleep(10'000);
  EXPECT_LE(used(), before + 4096);
}

// Many connections that are idle, or stop half-way: others are served, and those that stall in a
// handshake are closed.
TEST_F(pool_rubbish, many_idle_and_half_open_connections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<std::unique_ptr<raw_client>> crowd;
  for (int i = 0; i < 1000; i++) {
    crowd.push_back(std::make_unique<raw_client>(daemon->port()));
    if (i % 4 == 0)
      continue;  // sends nothing
    if (i % 4 == 1)
      crowd.back()->send("rubbish", 7);  // half a header
    if (i % 4 == 2) {
      ASSERT_EQ(crowd.back()->greet("test"), status::ok);
    }
    if (i % 4 == 3) {
      hello_message hello;
      hello.namespace_name = "test";
      crowd.back()->send(kind::hello, hello);
    }
  }
  EXPECT_EQ(put(good, "a", pattern(1'000'000, 1)), TND_OK);
  EXPECT_EQ(get(good, "a"), pattern(1'000'000, 1));
  connection another{url_of(*daemon), false};
  EXPECT_EQ(get(another, "a"), pattern(1'000'000, 1));
}

TEST(pool_limits, connections_are_bounded) {
  auto options = small_pool(4 << 20);
  options.client_count_max = 10;
  auto const daemon = started(options);
  std::vector<std::unique_ptr<raw_client>> crowd;
  for (int i = 0; i < 10; i++) {
    crowd.push_back(std::make_unique<raw_client>(daemon->port()));
    EXPECT_EQ(crowd.back()->greet("test"), status::ok);
  }
  raw_client one_more{daemon->port()};
  EXPECT_EQ(one_more.greet("test"), status::busy);
  EXPECT_EQ(connection(url_of(*daemon), false).code, -EBUSY);
  EXPECT_NE(std::string(tnd_last_message()).find("10 connections"), std::string::npos)
      << tnd_last_message();
  crowd.clear();
  for (int i = 0; i < 200; i++) {
    raw_client later{daemon->port()};
    if (later.greet("test") == status::ok)
      return;
    usleep(10'000);
  }
  FAIL() << "nobody gets in after the others have gone";
}

// A connection that arrives while the last handshake ends must not be admitted in addition.
TEST(pool_limits, clients_that_come_at_once_never_exceed_the_bound) {
  constexpr uint32_t bound = 4, thread_count = 8, round_count = 100;
  auto options = small_pool(4 << 20);
  options.client_count_max = bound;
  auto const daemon = started(options);
  for (uint32_t round = 0; round < round_count; round++) {
    std::atomic<uint32_t> welcome_count{0}, ready_count{0};
    std::vector<std::unique_ptr<raw_client>> crowd(thread_count);
    std::vector<std::thread> threads;
    for (auto &client : crowd) {
      threads.emplace_back([&] {
        for (ready_count++; ready_count < thread_count;)
          std::this_thread::yield();
        client = std::make_unique<raw_client>(daemon->port());
        if (client->greet("test") == status::ok)
          welcome_count++;
      });
    }
    for (std::thread &one : threads)
      one.join();
    ASSERT_LE(welcome_count, bound) << "in round " << round;
    crowd.clear();
    // The daemon has closed the last of them.
    for (;;) {
      raw_client next{daemon->port()};
      if (next.greet("test") == status::ok)
        break;
    }
  }
}

// A client of this node has a second connection until it knows that both lead to one daemon.
TEST(pool_limits, each_connection_is_one_clients) {
  for (uint32_t const count : {1, 2, 3}) {
    auto options = small_pool();
    options.client_count_max = count;
    auto const daemon = started(options);
    std::vector<std::unique_ptr<connection>> crowd;
    for (uint32_t i = 0; i < count; i++) {
      crowd.push_back(std::make_unique<connection>(url_of(*daemon), way::shared_memory));
      ASSERT_EQ(crowd.back()->code, TND_OK) << i << " of " << count << ": " << tnd_last_message();
      EXPECT_EQ(put(*crowd.back(), "a", pattern(100, 1)), TND_OK);
    }
    EXPECT_EQ(connection(url_of(*daemon), way::shared_memory).code, -EBUSY) << count;
  }
}

// No key is needed to stay silent.
TEST(pool_limits, silent_connections_shut_nobody_out) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto options = small_pool();
  options.client_count_max = 1024;
  auto const daemon = started(options);
  std::vector<std::unique_ptr<raw_client>> crowd;
  for (int i = 0; i < 1200; i++)
    crowd.push_back(std::make_unique<raw_client>(daemon->port(), i % 2 == 0));
  for (way const by : {way::tcp, way::shared_memory}) {
    connection client{url_of(*daemon), by};
    EXPECT_EQ(client.code, TND_OK) << tnd_last_message();
    EXPECT_EQ(put(client, "a", pattern(100, 1)), TND_OK);
  }
}

// A thread of another user, as seen by the kernel.
void as_user(uint32_t user, const std::function<void()> &work) {
  std::thread{[&] {
    ASSERT_EQ(syscall(SYS_setresuid, user, user, user), 0);
    work();
  }}.join();
}

TEST(pool_users, without_keys_only_the_daemons_own_may_come) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can be somebody else";
  auto const daemon = started(small_pool(4 << 20));
  for (bool const is_local : {true, false}) {
    as_user(65534, [&] {
      raw_client client{daemon->port(), is_local};
      EXPECT_EQ(client.greet("test"), status::access) << is_local;
    });
    raw_client own{daemon->port(), is_local};
    EXPECT_EQ(own.greet("test"), status::ok) << is_local;
  }
  as_user(65534, [&] {
    EXPECT_EQ(connection(url_of(*daemon), true).code, -EACCES);
    EXPECT_NE(std::string(tnd_last_message()).find("--open"), std::string::npos)
        << tnd_last_message();
  });
}

TEST(pool_users, an_open_pool_and_one_with_keys_take_all_users) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can be somebody else";
  auto options = small_pool(4 << 20);
  options.is_open = true;
  auto const open_one = started(options);
  as_user(65534, [&] { EXPECT_EQ(connection(url_of(*open_one), true).code, TND_OK); });
}

// A connection that was made while a key was needed was admitted without a check of its user. As in
// a sandbox whose kernel has no sock_diag: for this thread and those that it starts.
bool give_up_netlink() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(pool_users, a_connection_of_an_unknown_user_is_refused_with_the_reason) {
  bool is_given_up = false;
  std::unique_ptr<poold::daemon> daemon;
  std::thread{[&] {
    is_given_up = give_up_netlink();
    daemon = started(small_pool());
  }}.join();
  if (!is_given_up)
    GTEST_SKIP() << "this system has no filters of system calls";
  for (way const by : {way::shared_memory, way::tcp}) {
    EXPECT_EQ(connection(url_of(*daemon), by).code, -EACCES);
    EXPECT_NE(std::string(tnd_last_message())
                  .find("the kernel does not report the user of this connection"),
              std::string::npos)
        << tnd_last_message();
  }
}

TEST_F(pool_keys, given_up_by_the_daemon_let_no_earlier_connection_in) {
  raw_client waiting{daemon->port()}, greeted{daemon->port()};
  hello_message hello;
  hello.namespace_name = "runs";
  ASSERT_EQ(waiting.ask(kind::identify, empty_message{}), status::ok);
  ASSERT_EQ(greeted.ask(kind::hello, hello), status::ok);
  auto options = small_pool();
  options.size = 16 << 20;
  ASSERT_EQ(daemon->reload(options), status::ok);
  EXPECT_EQ(waiting.ask(kind::hello, hello), status::access);
  EXPECT_EQ(greeted.ask(kind::proof, proof_message{}), status::access);
  raw_client later{daemon->port()};
  EXPECT_EQ(later.greet("runs"), status::ok);
}

// The state of the socket counts: the kernel reports root for a socket without an owner.
TEST(pool_users, a_connection_that_was_closed_is_not_roots) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can be somebody else";
  auto const daemon = started(small_pool(4 << 20));
  connection own{url_of(*daemon), true};
  as_user(65534, [&] {
    for (int i = 0; i < 50; i++) {
      raw_client client{daemon->port()};
      hello_message hello;
      hello.namespace_name = "test";
      put_request stolen;
      stolen.name = "stolen";
      client.send(kind::hello, hello);
      client.send(kind::proof, proof_message{});
      client.send(kind::put, stolen, "x");
    }
  });
  usleep(100'000);
  get(own, "stolen", -ENOENT);
}

TEST(pool_limits, a_quota_is_kept) {
  auto options = small_pool();
  options.quotas = {{"small", 1 << 20}};
  auto const daemon = started(options);
  connection small{url_of(*daemon, "small"), true}, large{url_of(*daemon, "large"), true};
  EXPECT_EQ(put(small, "a", pattern(900'000, 1)), TND_OK);
  EXPECT_EQ(put(small, "b", pattern(900'000, 1)), -ENOSPC);
  EXPECT_EQ(put(large, "b", pattern(900'000, 1)), TND_OK);
  EXPECT_EQ(tnd_pool_remove(small, "a", 0), TND_OK);
  EXPECT_EQ(put(small, "b", pattern(900'000, 1)), TND_OK);
}

TEST(pool_limits, a_namespace_is_not_seen_by_another) {
  auto const daemon = started(small_pool());
  connection one{url_of(*daemon, "one"), true}, two{url_of(*daemon, "two"), true};
  ASSERT_EQ(put(one, "a", pattern(100, 1)), TND_OK);
  get(two, "a", -ENOENT);
}

}  // namespace
}  // namespace tanada::test
