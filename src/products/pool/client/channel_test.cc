// Tests that a request's memory is no longer in use once its reply was received, even if the daemon
// refuses the request before it has all of its data. A daemon's end of a simulated connection keeps
// the bytes that it receives.
#include "products/pool/client/channel.hpp"

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "seams/clock/clock.hpp"
#include "sim/stream.hpp"

namespace tanada::pool {
namespace {

using wire::pool::frame;
using wire::pool::kind;

// Carries out the handshake, and refuses each other request as soon as its frame was received.
class refusing_daemon {
 public:
  void connect(std::unique_ptr<seams::stream> connection) {
    connection_ = std::move(connection);
  }

  bool turn() {
    std::vector<char> bytes(16 << 10);
    iovec const part{bytes.data(), bytes.size()};
    auto size = connection_->receive({&part, 1});
    if (size.ok())
      input_.append(bytes.data(), size.value());
    while (take_one())
      continue;
    return true;
  }

  // The data of each request.
  const std::vector<std::string> &data() const {
    return data_;
  }

 private:
  bool take_one() {
    if (data_rest_ > 0) {
      size_t const size = size_t(std::min<uint64_t>(data_rest_, input_.size()));
      data_.back().append(input_, 0, size);
      input_.erase(0, size);
      data_rest_ -= size;
      return size > 0;
    }
    frame head;
    if (input_.size() < sizeof head)
      return false;
    std::memcpy(&head, input_.data(), sizeof head);
    EXPECT_EQ(wire::pool::frame_check(head), status::ok);
    if (input_.size() < sizeof head + head.body_size)
      return false;
    input_.erase(0, sizeof head + head.body_size);
    answer(head);
    return true;
  }

  void answer(const frame &head) {
    if (kind(head.kind) == kind::hello)
      return send(kind::challenge, head, 0, wire::pool::challenge_message{});
    if (kind(head.kind) == kind::proof)
      return send(kind::welcome, head, 0, wire::pool::welcome_message{});
    data_.emplace_back();
    data_rest_ = head.data_size;
    send(kind(head.kind),
         head,
         tnd_status(status::exists),
         wire::pool::text_message{"the name is taken"});
  }

  template <class Message>
  void send(kind message_kind, const frame &request_frame, int32_t code, const Message &message) {
    auto const bytes = wire::pool::encode_frame(
        {.kind = uint16_t(message_kind), .code = code, .tag = request_frame.tag}, message);
    iovec const part{const_cast<std::byte *>(bytes.data()), bytes.size()};
    auto size = connection_->send({&part, 1}, -1);
    ASSERT_TRUE(size.ok() && size.value() == bytes.size());
  }

  std::unique_ptr<seams::stream> connection_;
  std::string input_;
  std::vector<std::string> data_;
  uint64_t data_rest_ = 0;
};

class pool_channel : public testing::Test {
 protected:
  pool_channel() {
    sim::stream_faults const faults{.window_size = 64 << 10};
    auto [here, there] = sim::stream_pair_create(world_, faults, [this] { return daemon_.turn(); });
    daemon_.connect(std::move(there));
    auto opened = channel::open(std::move(here), "s", nullptr, deadline_ns());
    EXPECT_TRUE(opened.ok());
    channel_ = std::move(opened).value();
  }

  static uint64_t deadline_ns() {
    return seams::monotonic_clock().now_ns() + 60'000'000'000;
  }

  status put_of(std::vector<iovec> sources) {
    bool is_answered = false;
    status code = status::ok;
    channel_->post(
        kind::put, wire::pool::put_request{"n", {}}, std::move(sources), {}, [&](const reply &got) {
          is_answered = true;
          code = got.code;
        });
    while (!is_answered && channel_->progress(deadline_ns()) == status::ok)
      continue;
    return code;
  }

  sim::world world_{1};
  refusing_daemon daemon_;
  std::unique_ptr<channel> channel_;
};

TEST_F(pool_channel, nothing_of_a_source_is_sent_after_its_request_was_refused) {
  std::string first(300'000, 'a'), second(1'000'000, 'b'), third(100, 'c');
  ASSERT_EQ(put_of({{first.data(), first.size()}, {second.data(), second.size()}}), status::exists);
  ASSERT_LT(daemon_.data()[0].size(), first.size()) << "not all of it was sent before the answer";
  // The caller may reuse the memory.
  std::fill(first.begin(), first.end(), 'x');
  std::fill(second.begin(), second.end(), 'x');
  ASSERT_EQ(put_of({{third.data(), third.size()}}), status::exists);
  ASSERT_EQ(daemon_.data().size(), 2u);
  std::string const &sent = daemon_.data()[0];
  EXPECT_EQ(sent.size(), first.size() + second.size())
      << "the daemon passes over as much as was announced";
  EXPECT_EQ(std::count(sent.begin(), sent.end(), 'x'), 0);
  EXPECT_EQ(daemon_.data()[1], third);
}

}  // namespace
}  // namespace tanada::pool
