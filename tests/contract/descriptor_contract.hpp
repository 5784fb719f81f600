// tests/contract/descriptor_contract.hpp: the contract of the exchange of file descriptors between
// the processes of a node, over every implementation of seams::bootstrap. Subject is that of
// bootstrap_contract.hpp.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <thread>

#include "contract/bootstrap_contract.hpp"

namespace tanada::contract {

// A file in memory whose content identifies its rank and index.
inline int marked_file(int32_t rank, size_t index) {
  int const made = memfd_create("marked", MFD_CLOEXEC);
  int64_t const mark = rank * 100 + int64_t(index);
  EXPECT_EQ(pwrite(made, &mark, sizeof mark, 0), ssize_t(sizeof mark));
  return made;
}

inline int64_t mark_of(int descriptor) {
  int64_t mark = -1;
  return pread(descriptor, &mark, sizeof mark, 0) == ssize_t(sizeof mark) ? mark : -1;
}

inline seams::descriptor_list marked_files(int32_t rank, size_t count) {
  seams::descriptor_list made;
  for (size_t i = 0; i < count; i++)
    made.push_back(marked_file(rank, i));
  return made;
}

inline std::vector<int> numbers_of(const seams::descriptor_list &list) {
  std::vector<int> numbers;
  for (size_t i = 0; i < list.size(); i++)
    numbers.push_back(list[i]);
  return numbers;
}

template <class Subject>
class descriptor_contract : public bootstrap_contract<Subject> {
 protected:
  // Each rank of the group contributes `count` files and receives those of all ranks.
  void exchange(seams::bootstrap &launcher,
                std::span<const int32_t> group,
                const std::string &word,
                size_t count) {
    auto const mine = marked_files(launcher.rank(), count);
    auto all = seams::descriptor_exchange(
        launcher, group, this->key(word), numbers_of(mine), bootstrap_patience_ns);
    ASSERT_TRUE(all.ok()) << last_message();
    ASSERT_EQ(all.value().size(), group.size());
    for (size_t i = 0; i < group.size(); i++) {
      ASSERT_EQ(all.value()[i].size(), count);
      for (size_t k = 0; k < count; k++) {
        EXPECT_EQ(mark_of(all.value()[i][k]), group[i] * 100 + int64_t(k));
        EXPECT_NE(fcntl(all.value()[i][k], F_GETFD) & FD_CLOEXEC, 0);
      }
    }
    for (size_t k = 0; k < count; k++)
      EXPECT_EQ(mark_of(mine[k]), launcher.rank() * 100 + int64_t(k));
  }
};
TYPED_TEST_SUITE_P(descriptor_contract);

TYPED_TEST_P(descriptor_contract, everybody_gets_all_in_order) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    for (size_t count : {size_t{1}, size_t{0}, seams::descriptor_count_max}) {
      this->exchange(launcher, launcher.node_ranks(), std::to_string(count), count);
    }
  });
}

TYPED_TEST_P(descriptor_contract, groups_meet_at_the_same_time) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    std::vector<int32_t> half;
    for (int32_t const each : launcher.node_ranks()) {
      if (each % 2 == launcher.rank() % 2)
        half.push_back(each);
    }
    for (int round = 0; round < 5; round++)
      this->exchange(launcher, half, "half" + std::to_string(round), 2);
  });
}

TYPED_TEST_P(descriptor_contract, what_does_not_fit_is_refused) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    auto const &node = launcher.node_ranks();
    std::vector<int> const more(seams::descriptor_count_max + 1, 0);
    auto const ask =
        [&](std::span<const int32_t> group, const std::string &label, std::span<const int> mine) {
          return seams::descriptor_exchange(launcher, group, label, mine, 1'000'000).error();
        };
    EXPECT_EQ(ask(node, this->key("a"), more), status::too_big);
    EXPECT_EQ(ask(node, std::string(seams::descriptor_label_size_max + 1, 'l'), {}),
              status::too_big);
    EXPECT_EQ(ask({}, this->key("b"), {}), status::invalid);
    int32_t const strange[] = {launcher.rank(), launcher.count()};
    EXPECT_EQ(ask(strange, this->key("c"), {}), status::invalid);
    int32_t const twice[] = {launcher.rank(), launcher.rank()};
    EXPECT_EQ(ask(twice, this->key("d"), {}), status::invalid);
    int const closed[] = {1'000'000};
    if (node.size() == 1) {
      EXPECT_EQ(ask(node, this->key("e"), closed), status::bad_file);
    }
  });
}

// One rank does not take part: the others time out at the deadline, and a later exchange succeeds.
TYPED_TEST_P(descriptor_contract, the_missing_one_is_waited_for_until_the_deadline) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    auto const &node = launcher.node_ranks();
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    if (node.size() > 1) {
      for (int32_t const missing : {node.back(), node.front()}) {
        if (launcher.rank() == missing)
          continue;
        auto const all = seams::descriptor_exchange(
            launcher, node, this->key("m" + std::to_string(missing)), {}, 200'000'000);
        // peer_lost: this rank connected to the leader while the leader timed out.
        EXPECT_TRUE(all.error() == status::timed_out || all.error() == status::peer_lost)
            << last_message();
        EXPECT_NE(last_message().find("rank"), std::string::npos) << last_message();
      }
    }
    this->exchange(launcher, node, "after", 1);
  });
}

TYPED_TEST_P(descriptor_contract, all_give_as_many) {
  this->subject_.run([&](seams::bootstrap &launcher) {
    auto const &node = launcher.node_ranks();
    ASSERT_EQ(launcher.exchange(bootstrap_patience_ns), status::ok) << last_message();
    if (node.size() == 1)
      return;
    auto const mine = marked_files(0, launcher.rank() == node.back() ? 2 : 1);
    auto const all = seams::descriptor_exchange(
        launcher, node, this->key("uneven"), numbers_of(mine), 2'000'000'000);
    // peer_lost and timed_out: this rank connected after the leader had ended the exchange.
    EXPECT_TRUE(all.error() == status::invalid || all.error() == status::peer_lost ||
                all.error() == status::timed_out);
    if (launcher.rank() == node.front()) {
      EXPECT_EQ(all.error(), status::invalid);
    }
  });
}

REGISTER_TYPED_TEST_SUITE_P(descriptor_contract,
                            everybody_gets_all_in_order,
                            groups_meet_at_the_same_time,
                            what_does_not_fit_is_refused,
                            the_missing_one_is_waited_for_until_the_deadline,
                            all_give_as_many);

}  // namespace tanada::contract
