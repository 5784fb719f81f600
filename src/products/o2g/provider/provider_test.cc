// Tests of messages and one-sided transfers through libfabric.

#include "products/o2g/provider/provider_fixture.hpp"

namespace tanada::o2g::provider {
namespace {

// libfabric searches for providers in its first call.
int const is_configured = [] {
  setenv("FI_PROVIDER_PATH", TND_PROVIDER_FOLDER, 1);
  return setenv("FI_PROVIDER", "o2g", 1);
}();

fi_context contexts[16];

fi_msg make_message(const iovec &part, fi_addr_t peer, void *context) {
  fi_msg message{};
  message.msg_iov = &part;
  message.iov_count = 1;
  message.addr = peer;
  message.context = context;
  return message;
}

struct two_sides : testing::Test {
  two_sides() : b_of_a{a.number_of(b)}, a_of_b{b.number_of(a)} {}
  test_endpoint a, b;
  fi_addr_t b_of_a, a_of_b;
  std::array<char, 64> sent{"a message"}, received{};
  fi_cq_tagged_entry entry{};
};

TEST_F(two_sides, exchange_tagged_messages_with_data) {
  ASSERT_EQ(fi_trecv(b.ep,
                     received.data(),
                     received.size(),
                     nullptr,
                     FI_ADDR_UNSPEC,
                     0x70,
                     0x0F,
                     &contexts[0]),
            0);
  ASSERT_EQ(fi_tsenddata(a.ep, sent.data(), 10, nullptr, 77, b_of_a, 0x75, &contexts[1]), 0);
  fi_addr_t source = 0;
  ASSERT_EQ(read_entry(b, entry, {&a}, &source), 1);
  EXPECT_EQ(entry.op_context, &contexts[0]);
  EXPECT_EQ(entry.flags & (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA),
            FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.len, 10u);
  EXPECT_EQ(entry.data, 77u);
  EXPECT_EQ(entry.tag, 0x75u);
  EXPECT_EQ(source, a_of_b);
  EXPECT_STREQ(received.data(), "a message");
  ASSERT_EQ(read_entry(a, entry), 1);
  EXPECT_EQ(entry.op_context, &contexts[1]);
  EXPECT_EQ(entry.flags & (FI_TAGGED | FI_SEND), FI_TAGGED | FI_SEND);
  EXPECT_EQ(fi_cntr_read(a.sends), 1u);
  EXPECT_EQ(fi_cntr_read(b.receives), 1u);
}

TEST_F(two_sides, gather_and_scatter) {
  size_t const part_count = std::min(a.info->tx_attr->iov_limit, b.info->rx_attr->iov_limit);
  uint32_t seed = 1;
  auto const random = [&](size_t below) {
    seed = seed * 1664525 + 1013904223;
    return size_t(seed) / 65536 % below;
  };
  auto const split = [&](std::vector<char> &bytes) {
    std::vector<iovec> parts(1 + random(part_count));
    size_t position = 0;
    for (iovec &part : parts) {
      size_t const remaining = bytes.size() - position;
      part = {bytes.data() + position,
              &part == &parts.back()
                  ? remaining
                  : std::min(remaining, random(2 * bytes.size() / parts.size() + 1))};
      position += part.iov_len;
    }
    return parts;
  };
  for (size_t const size : {1, 15, 64, 1000, 5000, 70'000, 3'000'000})
    for (bool const is_expected : {true, false}) {
      std::vector<char> source(size), target(size);
      for (char &byte : source)
        byte = char(random(256));
      auto const sent_parts = split(source), got_parts = split(target);
      auto const receive = [&] {
        ASSERT_EQ(fi_trecvv(b.ep,
                            got_parts.data(),
                            nullptr,
                            got_parts.size(),
                            FI_ADDR_UNSPEC,
                            1,
                            0,
                            &contexts[0]),
                  0);
      };
      if (is_expected)
        receive();
      ASSERT_EQ(
          fi_tsendv(a.ep, sent_parts.data(), nullptr, sent_parts.size(), b_of_a, 1, &contexts[1]),
          0);
      if (!is_expected) {
        for (int i = 0; i < 5; i++)
          (void)fi_cq_read(b.queue, nullptr, 0);
        receive();
      }
      ASSERT_EQ(read_entry(b, entry, {&a}), 1);
      EXPECT_EQ(entry.len, size);
      EXPECT_EQ(source, target) << size;
      ASSERT_EQ(read_entry(a, entry, {&b}), 1);
    }
}

TEST_F(two_sides, fail_requests_for_bytes_at_the_address_null) {
  uint64_t value = 1;
  fid_mr *region = nullptr;
  ASSERT_EQ(fi_mr_reg(b.domain,
                      &value,
                      sizeof value,
                      FI_REMOTE_READ | FI_REMOTE_WRITE,
                      0,
                      9,
                      0,
                      &region,
                      nullptr),
            0);
  testing::internal::CaptureStderr();
  // Messages complete with an error.
  std::array<ssize_t, 5> const accepted{
      fi_send(a.ep, nullptr, 8, nullptr, b_of_a, &contexts[0]),
      fi_tsend(a.ep, nullptr, 8, nullptr, b_of_a, 1, &contexts[1]),
      fi_tsenddata(a.ep, nullptr, 1 << 20, nullptr, 7, b_of_a, 1, &contexts[2]),
      fi_recv(a.ep, nullptr, 8, nullptr, FI_ADDR_UNSPEC, &contexts[3]),
      fi_trecv(a.ep, nullptr, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, &contexts[4])};
  for (size_t i = 0; i < accepted.size(); i++) {
    EXPECT_EQ(accepted[i], 0);
    fi_cq_err_entry const error = error_of(a);
    EXPECT_EQ(error.err, EFAULT);
    EXPECT_EQ(error.op_context, &contexts[i]);
  }
  // Operations without a completion and one-sided operations are refused at once.
  std::array<ssize_t, 6> const refused{
      fi_inject(a.ep, nullptr, 8, b_of_a),
      fi_write(a.ep, nullptr, 8, nullptr, b_of_a, 0, 9, &contexts[0]),
      fi_inject_write(a.ep, nullptr, 8, b_of_a, 0, 9),
      fi_read(a.ep, nullptr, 8, nullptr, b_of_a, 0, 9, &contexts[0]),
      fi_atomic(a.ep, nullptr, 1, nullptr, b_of_a, 0, 9, FI_UINT64, FI_SUM, &contexts[0]),
      fi_fetch_atomic(a.ep,
                      &value,
                      1,
                      nullptr,
                      nullptr,
                      nullptr,
                      b_of_a,
                      0,
                      9,
                      FI_UINT64,
                      FI_SUM,
                      &contexts[0])};
  std::string const lines = testing::internal::GetCapturedStderr();
  for (ssize_t const code : refused)
    EXPECT_EQ(code, -FI_EINVAL);
  EXPECT_NE(lines.find("a request with 8 bytes at the address NULL fails"), std::string::npos)
      << lines;
  // Zero bytes at NULL are a valid message.
  ASSERT_EQ(fi_trecv(b.ep, nullptr, 0, nullptr, FI_ADDR_UNSPEC, 1, 0, &contexts[1]), 0);
  ASSERT_EQ(fi_tsend(a.ep, nullptr, 0, nullptr, b_of_a, 1, &contexts[0]), 0);
  EXPECT_EQ(read_entry(b, entry, {&a}), 1);
  EXPECT_EQ(fi_close(&region->fid), 0);
}

TEST_F(two_sides, cut_a_message_that_is_too_long) {
  ASSERT_EQ(fi_trecv(b.ep, received.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &contexts[0]), 0);
  ASSERT_EQ(fi_tsend(a.ep, sent.data(), 10, nullptr, b_of_a, 1, &contexts[1]), 0);
  ASSERT_EQ(read_entry(a, entry, {&b}), 1);
  fi_cq_err_entry const error = error_of(b);
  EXPECT_EQ(error.err, FI_ETRUNC);
  EXPECT_EQ(error.len, 4u);
  EXPECT_EQ(error.olen, 6u);
  EXPECT_EQ(error.tag, 1u);
  EXPECT_EQ(error.op_context, &contexts[0]);
  EXPECT_STREQ(fi_cq_strerror(b.queue, error.prov_errno, nullptr, nullptr, 0),
               "the message is larger than the receive buffer");
  EXPECT_EQ(fi_cntr_readerr(b.receives), 1u);
}

TEST_F(two_sides, cancel_a_receive) {
  ASSERT_EQ(fi_recv(b.ep, received.data(), received.size(), nullptr, FI_ADDR_UNSPEC, &contexts[0]),
            0);
  ASSERT_EQ(fi_cancel(&b.ep->fid, &contexts[0]), 0);
  fi_cq_err_entry const error = error_of(b);
  EXPECT_EQ(error.err, FI_ECANCELED);
  EXPECT_EQ(error.op_context, &contexts[0]);
  EXPECT_EQ(fi_cancel(&b.ep->fid, &contexts[0]), -FI_ENOENT);
}

TEST_F(two_sides, peek_claim_and_discard) {
  auto const peek = [&](uint64_t flags) {
    fi_msg_tagged message{};
    message.addr = FI_ADDR_UNSPEC;
    message.tag = 5;
    message.context = &contexts[0];
    return fi_trecvmsg(b.ep, &message, flags);
  };
  ASSERT_EQ(peek(FI_PEEK), 0);
  EXPECT_EQ(error_of(b).err, FI_ENOMSG);
  EXPECT_EQ(fi_cntr_readerr(b.receives), 0u);
  for (int i = 0; i < 2; i++)
    ASSERT_EQ(fi_tinject(a.ep, i == 0 ? "first" : "other", 6, b_of_a, 5), 0);
  for (fi_cq_err_entry error{};;) {  // until the message has arrived
    ASSERT_EQ(peek(FI_PEEK | FI_CLAIM), 0);
    if (read_entry(b, entry, {&a}) == 1)
      break;
    ASSERT_EQ(fi_cq_readerr(b.queue, &error, 0), 1);
    ASSERT_EQ(error.err, FI_ENOMSG);
  }
  EXPECT_EQ(entry.len, 6u);
  EXPECT_EQ(fi_cntr_read(b.receives), 0u);  // found, not received
  iovec const part{received.data(), received.size()};
  fi_msg_tagged message{};
  message.msg_iov = &part;
  message.iov_count = 1;
  message.context = &contexts[0];
  ASSERT_EQ(fi_trecvmsg(b.ep, &message, FI_CLAIM), 0);
  ASSERT_EQ(read_entry(b, entry), 1);
  EXPECT_STREQ(received.data(), "first");
  ASSERT_EQ(peek(FI_PEEK | FI_DISCARD), 0);
  ASSERT_EQ(read_entry(b, entry), 1);
  ASSERT_EQ(peek(FI_PEEK), 0);
  EXPECT_EQ(error_of(b).err, FI_ENOMSG);
}

TEST_F(two_sides, read_nothing_for_progress_alone) {
  fi_addr_t const self = a.number_of(a);
  EXPECT_EQ(fi_cq_read(a.queue, nullptr, 0), -FI_EAGAIN);
  ASSERT_EQ(fi_recv(a.ep, received.data(), received.size(), nullptr, FI_ADDR_UNSPEC, &contexts[0]),
            0);
  ASSERT_EQ(fi_inject(a.ep, "x", 1, self), 0);
  EXPECT_EQ(fi_cq_read(a.queue, nullptr, 0), 0);
  ASSERT_EQ(read_entry(a, entry), 1);
  ASSERT_EQ(fi_recv(a.ep, received.data(), 1, nullptr, FI_ADDR_UNSPEC, &contexts[0]), 0);
  ASSERT_EQ(fi_inject(a.ep, "xy", 2, self), 0);
  EXPECT_EQ(fi_cq_read(a.queue, nullptr, 0), -FI_EAVAIL);
  EXPECT_EQ(error_of(a).err, FI_ETRUNC);
}

TEST_F(two_sides, receive_many_messages_into_one_buffer) {
  size_t const size_min = 32;
  ASSERT_EQ(
      fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size_min, sizeof size_min), 0);
  iovec const part{received.data(), received.size()};
  fi_msg const message = make_message(part, FI_ADDR_UNSPEC, &contexts[0]);
  ASSERT_EQ(fi_recvmsg(b.ep, &message, FI_MULTI_RECV), 0);
  for (const char *text : {"0123456789abcdef", "ghijklmnopqrstuv", "w"})
    ASSERT_EQ(fi_inject(a.ep, text, strlen(text), b_of_a), 0);
  size_t total = 0;
  for (int i = 0; i < 3 && total < 33; i++) {
    ASSERT_EQ(read_entry(b, entry, {&a}), 1);
    EXPECT_EQ(entry.buf, received.data() + total);
    total += entry.len;
    EXPECT_EQ((entry.flags & FI_MULTI_RECV) != 0, total > 32);
  }
  EXPECT_EQ(std::string(received.data(), total), "0123456789abcdefghijklmnopqrstuvw");
}

TEST_F(two_sides, refuse_what_is_too_large_to_inject) {
  std::vector<char> large(a.info->tx_attr->inject_size + 1);
  EXPECT_EQ(fi_inject(a.ep, large.data(), large.size(), b_of_a), -FI_EINVAL);
  EXPECT_EQ(fi_inject(a.ep, large.data(), large.size() - 1, b_of_a), 0);
  EXPECT_EQ(fi_inject(a.ep, large.data(), 1, b_of_a + 1), -FI_EINVAL);  // an unassigned number
  ASSERT_EQ(fi_recv(b.ep, large.data(), large.size(), nullptr, FI_ADDR_UNSPEC, &contexts[0]), 0);
  ASSERT_EQ(read_entry(b, entry, {&a}), 1);
  EXPECT_EQ(entry.len, large.size() - 1);
}

TEST_F(two_sides, write_read_and_add_to_memory) {
  std::array<uint64_t, 2> memory{1, 2};
  fid_mr *region = nullptr;
  ASSERT_EQ(fi_mr_reg(b.domain,
                      memory.data(),
                      sizeof memory,
                      FI_REMOTE_READ | FI_REMOTE_WRITE,
                      0,
                      9,
                      0,
                      &region,
                      nullptr),
            0);
  ASSERT_EQ(fi_mr_bind(region, &b.receives->fid, FI_REMOTE_WRITE), 0);
  EXPECT_EQ(fi_close(&b.receives->fid), -FI_EBUSY);
  uint64_t const written = 40, added = 2;
  uint64_t fetched = 0;
  ASSERT_EQ(fi_writedata(a.ep, &written, 8, nullptr, 5, b_of_a, 8, 9, &contexts[0]), 0);
  ASSERT_EQ(read_entry(a, entry, {&b}), 1);
  ASSERT_EQ(read_entry(b, entry), 1);
  EXPECT_EQ(entry.flags & (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA),
            FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.data, 5u);
  ASSERT_EQ(fi_atomic(a.ep, &added, 1, nullptr, b_of_a, 8, 9, FI_UINT64, FI_SUM, &contexts[1]), 0);
  ASSERT_EQ(read_entry(a, entry, {&b}), 1);
  EXPECT_EQ(memory[1], 42u);
  ASSERT_EQ(fi_read(a.ep, &fetched, 8, nullptr, b_of_a, 8, 9, &contexts[2]), 0);
  ASSERT_EQ(read_entry(a, entry, {&b}), 1);
  EXPECT_EQ(fetched, 42u);
  EXPECT_EQ(fi_cntr_read(b.remote_writes), 2u);
  EXPECT_EQ(fi_cntr_read(b.receives), 2u);  // through the region's counter
  ASSERT_EQ(fi_write(a.ep, &written, 8, nullptr, b_of_a, 16, 9, &contexts[3]), 0);
  uint64_t const end_ns = seams::monotonic_clock().now_ns() + test_timeout_ns;
  while (fi_cq_read(a.queue, &entry, 1) == -FI_EAGAIN && seams::monotonic_clock().now_ns() < end_ns)
    (void)fi_cq_read(b.queue, nullptr, 0);
  EXPECT_EQ(error_of(a).err, EFAULT);
  ASSERT_EQ(fi_write(a.ep, &written, 8, nullptr, b_of_a, 8, 10, &contexts[4]), 0);
  while (fi_cq_read(a.queue, &entry, 1) == -FI_EAGAIN && seams::monotonic_clock().now_ns() < end_ns)
    (void)fi_cq_read(b.queue, nullptr, 0);
  EXPECT_EQ(error_of(a).err, FI_ENOENT);
  EXPECT_EQ(fi_close(&region->fid), 0);
}

TEST(directed, receives_take_messages_of_their_source_only) {
  test_endpoint a, b, c;
  fi_addr_t const a_of_c = c.number_of(a), b_of_c = c.number_of(b);
  ASSERT_NE(a_of_c, b_of_c);
  std::array<char, 8> from_a{}, from_b{};
  ASSERT_EQ(fi_trecv(c.ep, from_b.data(), 8, nullptr, b_of_c, 1, 0, &contexts[0]), 0);
  ASSERT_EQ(fi_trecv(c.ep, from_a.data(), 8, nullptr, a_of_c, 1, 0, &contexts[1]), 0);
  ASSERT_EQ(fi_tinject(a.ep, "a", 2, a.number_of(c), 1), 0);
  fi_cq_tagged_entry entry{};
  ASSERT_EQ(read_entry(c, entry, {&a, &b}), 1);
  EXPECT_EQ(entry.op_context, &contexts[1]);
  ASSERT_EQ(fi_tinject(b.ep, "b", 2, b.number_of(c), 1), 0);
  ASSERT_EQ(read_entry(c, entry, {&a, &b}), 1);
  EXPECT_EQ(entry.op_context, &contexts[0]);
  EXPECT_STREQ(from_a.data(), "a");
  EXPECT_STREQ(from_b.data(), "b");
}

TEST(selective, completions_come_where_they_were_asked_for) {
  test_endpoint a{{.tx_binding = FI_SELECTIVE_COMPLETION}},
      b{{.rx_binding = FI_SELECTIVE_COMPLETION}};
  std::array<char, 4> received{};
  fi_addr_t const target = a.number_of(b);
  ASSERT_EQ(fi_recv(b.ep, received.data(), 4, nullptr, FI_ADDR_UNSPEC, &contexts[0]), 0);
  ASSERT_EQ(fi_send(a.ep, "one", 4, nullptr, target, &contexts[1]), 0);
  iovec const part{received.data(), 4}, sent{const_cast<char *>("two"), 4};
  fi_msg const expected_message = make_message(part, FI_ADDR_UNSPEC, &contexts[2]),
               sent_message = make_message(sent, target, &contexts[3]);
  ASSERT_EQ(fi_recvmsg(b.ep, &expected_message, FI_COMPLETION), 0);
  ASSERT_EQ(fi_sendmsg(a.ep, &sent_message, FI_COMPLETION), 0);
  fi_cq_tagged_entry entry{};
  ASSERT_EQ(read_entry(b, entry, {&a}), 1);
  EXPECT_EQ(entry.op_context, &contexts[2]);
  ASSERT_EQ(read_entry(a, entry), 1);
  EXPECT_EQ(entry.op_context, &contexts[3]);
  EXPECT_EQ(fi_cq_read(a.queue, &entry, 1), -FI_EAGAIN);
  EXPECT_EQ(fi_cntr_read(b.receives), 2u);
}

}  // namespace
}  // namespace tanada::o2g::provider
