// tests/contract/bootstrap_contract.hpp: the contract of seams::bootstrap, as a typed suite that
// every launcher's implementation runs. Subject has `void run(body)`, which starts a new job and
// calls body(bootstrap &) concurrently on each of its ranks that this process contains.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tanada/status.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <string>

#include "core/base/log.hpp"
#include "seams/bootstrap/bootstrap.hpp"
#include "seams/bootstrap/descriptor_exchange.hpp"

namespace tanada::contract {

inline constexpr uint64_t bootstrap_patience_ns = 30'000'000'000;

inline std::vector<std::byte> bootstrap_pattern(size_t size, int32_t rank) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = std::byte(i * 7 + size_t(rank) * 13 + 1);
  return bytes;
}

template <class Subject>
class bootstrap_contract : public testing::Test {
 protected:
  // A key that only this test uses.
  static std::string key(const std::string &word) {
    return std::string{testing::UnitTest::GetInstance()->current_test_info()->name()}.substr(0,
                                                                                             40) +
           "/" + word;
  }
  Subject subject_;
};
TYPED_TEST_SUITE_P(bootstrap_contract);

TYPED_TEST_P(bootstrap_contract, ranks_and_nodes_are_told) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    EXPECT_GE(launcher.rank(), 0);
    EXPECT_LT(launcher.rank(), launcher.count());
    auto const &node = launcher.node_ranks();
    EXPECT_TRUE(std::is_sorted(node.begin(), node.end(), std::less_equal{}));
    EXPECT_TRUE(std::binary_search(node.begin(), node.end(), launcher.rank()));
    EXPECT_GE(node.front(), 0);
    EXPECT_LT(node.back(), launcher.count());
    EXPECT_EQ(launcher.find_failed_rank(), -1);
    EXPECT_FALSE(launcher.job().empty());
    EXPECT_NE(std::string{launcher.name()}, "");
  });
}

TYPED_TEST_P(bootstrap_contract, what_all_published_is_there_after_the_exchange) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    auto const mine = bootstrap_pattern(100 + size_t(launcher.rank()), launcher.rank());
    ASSERT_EQ(launcher.publish(this->key("value"), mine), status::ok);
    ASSERT_EQ(launcher.publish(this->key("empty"), {}), status::ok);
    if (launcher.rank() == 0) {
      ASSERT_EQ(launcher.publish(this->key("of first"), mine), status::ok);
    }
    EXPECT_EQ(launcher.lookup(launcher.rank(), this->key("value")).error(), status::no_entry);
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    for (int32_t rank = 0; rank < launcher.count(); rank++) {
      auto found = launcher.lookup(rank, this->key("value"));
      ASSERT_TRUE(found.ok()) << last_message();
      EXPECT_EQ(found.value(), bootstrap_pattern(100 + size_t(rank), rank));
      auto empty = launcher.lookup(rank, this->key("empty"));
      ASSERT_TRUE(empty.ok()) << last_message();
      EXPECT_TRUE(empty.value().empty());
      EXPECT_EQ(launcher.lookup(rank, this->key("of first")).ok(), rank == 0);
      EXPECT_EQ(launcher.lookup(rank, this->key("nobody's")).error(), status::no_entry);
    }
  });
}

TYPED_TEST_P(bootstrap_contract, exchanges_follow_one_another) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    for (int round = 0; round < 5; round++) {
      auto const word = this->key(std::to_string(round));
      ASSERT_EQ(launcher.publish(word, bootstrap_pattern(8, launcher.rank() + round)), status::ok);
      ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
      // Values of the first exchange remain available in later rounds.
      for (auto const &each : {word, this->key("0")}) {
        int32_t const last = launcher.count() - 1;
        auto found = launcher.lookup(last, each);
        ASSERT_TRUE(found.ok()) << last_message();
        EXPECT_EQ(found.value(), bootstrap_pattern(8, last + (each == word ? round : 0)));
      }
    }
  });
}

TYPED_TEST_P(bootstrap_contract, the_largest_values_arrive_whole) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    auto const longest = [&](char last) {
      auto name = this->key("");
      return name + std::string(seams::bootstrap_key_size_max - name.size() - 1, 'k') + last;
    };
    auto const mine = bootstrap_pattern(seams::bootstrap_value_size_max, launcher.rank());
    for (char last : {'a', 'b', 'c'})
      ASSERT_EQ(launcher.publish(longest(last), mine), status::ok);
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    for (int32_t rank = 0; rank < launcher.count(); rank++) {
      auto found = launcher.lookup(rank, longest('b'));
      ASSERT_TRUE(found.ok()) << last_message();
      EXPECT_TRUE(found.value() == bootstrap_pattern(seams::bootstrap_value_size_max, rank));
    }
  });
}

TYPED_TEST_P(bootstrap_contract, what_does_not_fit_is_refused) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    std::vector<std::byte> const larger(seams::bootstrap_value_size_max + 1);
    EXPECT_EQ(launcher.publish(this->key("larger"), larger), status::too_big);
    EXPECT_EQ(launcher.publish(std::string(seams::bootstrap_key_size_max + 1, 'k'), {}),
              status::too_big);
    EXPECT_EQ(launcher.publish("", {}), status::invalid);
    EXPECT_EQ(launcher.publish(this->key("twice"), {}), status::ok);
    EXPECT_EQ(launcher.publish(this->key("twice"), {}), status::exists);
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    EXPECT_EQ(launcher.publish(this->key("twice"), {}), status::exists);
    EXPECT_NE(last_message().find("twice"), std::string::npos) << last_message();
    EXPECT_EQ(launcher.lookup(-1, "x").error(), status::invalid);
    EXPECT_EQ(launcher.lookup(launcher.count(), "x").error(), status::invalid);
  });
}

// Each rank increments a shared counter before the barrier. After it, every rank finds the sum of
// all.
TYPED_TEST_P(bootstrap_contract, nobody_leaves_a_barrier_before_all_came) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    int const shared = launcher.rank() == 0 ? memfd_create("barrier", MFD_CLOEXEC) : -1;
    auto const &node = launcher.node_ranks();
    if (int32_t(node.size()) != launcher.count())
      return;
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    int const null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int const mine[] = {launcher.rank() == 0 ? shared : null};
    auto all = seams::descriptor_exchange(
        launcher, node, this->key("memory"), mine, bootstrap_patience_ns);
    close(null);
    close(shared);
    ASSERT_TRUE(all.ok()) << last_message();
    if (launcher.rank() == 0) {
      ASSERT_EQ(ftruncate(all.value()[0][0], 4096), 0);
    }
    ASSERT_EQ(launcher.barrier(bootstrap_patience_ns), status::ok) << last_message();
    auto *const arrived = static_cast<std::atomic<int32_t> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, all.value()[0][0], 0));
    ASSERT_NE(static_cast<void *>(arrived), MAP_FAILED);
    for (int32_t round = 1; round <= 20; round++) {
      if (launcher.rank() == round % launcher.count())
        usleep(2'000);
      (*arrived)++;
      EXPECT_EQ(launcher.barrier(bootstrap_patience_ns), status::ok) << last_message();
      EXPECT_GE(arrived->load(), round * launcher.count());
      EXPECT_EQ(launcher.barrier(bootstrap_patience_ns), status::ok) << last_message();
    }
    munmap(arrived, 4096);
  });
}

TYPED_TEST_P(bootstrap_contract, a_job_has_one_name) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    auto const name = std::as_bytes(std::span{launcher.job()});
    ASSERT_EQ(launcher.publish(this->key("job"), name), status::ok);
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    for (int32_t rank = 0; rank < launcher.count(); rank++) {
      auto found = launcher.lookup(rank, this->key("job"));
      ASSERT_TRUE(found.ok()) << last_message();
      EXPECT_TRUE(std::equal(name.begin(), name.end(), found.value().begin(), found.value().end()));
    }
  });
}

REGISTER_TYPED_TEST_SUITE_P(bootstrap_contract,
                            ranks_and_nodes_are_told,
                            what_all_published_is_there_after_the_exchange,
                            exchanges_follow_one_another,
                            the_largest_values_arrive_whole,
                            what_does_not_fit_is_refused,
                            nobody_leaves_a_barrier_before_all_came,
                            a_job_has_one_name);

}  // namespace tanada::contract
