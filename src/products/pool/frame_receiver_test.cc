// Tests of the receiver with a stream that delivers given chunks, and with a UNIX socket.
#include "products/pool/frame_receiver.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <string>

#include "backends/sockets/socket_stream.hpp"

namespace tanada::pool {
namespace {

using wire::pool::frame;

// Each receive returns bytes of at most one chunk.
class chunk_stream final : public seams::stream {
 public:
  void deliver(std::string chunk) {
    chunks_.push_back(std::move(chunk));
  }
  void close() {
    is_closed_ = true;
  }
  void fail_next() {
    is_faulty_ = true;
  }
  // The memory of the last receive.
  const std::vector<iovec> &offered() const {
    return offered_;
  }

  result<size_t> receive(std::span<const iovec> parts) override {
    offered_.assign(parts.begin(), parts.end());
    if (std::exchange(is_faulty_, false))
      return status::fault;
    if (chunks_.empty())
      return is_closed_ ? status::peer_lost : status::again;
    std::string &chunk = chunks_.front();
    part_cursor memory{offered_};
    size_t const size = memory.fill(std::as_bytes(std::span{chunk}));
    chunk.erase(0, size);
    if (chunk.empty())
      chunks_.pop_front();
    return size;
  }
  result<size_t> send(std::span<const iovec>, int) override {
    return status::not_supported;
  }
  status wait(bool, bool, uint64_t) override {
    return status::timed_out;
  }
  std::string peer() const override {
    return "chunks";
  }

 private:
  std::deque<std::string> chunks_;
  std::vector<iovec> offered_;
  bool is_closed_ = false, is_faulty_ = false;
};

std::string frame_bytes(const frame &head) {
  return {reinterpret_cast<const char *>(&head), sizeof head};
}
std::string frame_bytes(uint64_t tag, const std::string &body, const std::string &data = {}) {
  frame const head{.body_size = uint32_t(body.size()), .tag = tag, .data_size = data.size()};
  return frame_bytes(head) + body + data;
}
std::string text_of(std::span<const std::byte> body) {
  return {reinterpret_cast<const char *>(body.data()), body.size()};
}
iovec part_of(std::string &text) {
  return {text.data(), text.size()};
}

// A frame with the data that followed it.
struct arrived_frame {
  uint64_t tag;
  std::string body, data;
  bool operator==(const arrived_frame &) const = default;
};

class pool_frame_receiver : public testing::Test {
 protected:
  // Receives all chunks. `data` is the destination of each frame's data.
  std::vector<arrived_frame> receive_all(std::string &data) {
    std::vector<arrived_frame> arrived;
    bool is_in_frame = false;
    for (;;) {
      if (!is_in_frame) {
        auto next = receiver_.next();
        is_in_frame = next.ok();
        if (is_in_frame) {
          auto const &[head, body] = next.value();
          arrived.push_back({head.tag, text_of(body), {}});
          data.assign(head.data_size, '.');
          receiver_.set_destination({part_of(data)});
        } else {
          EXPECT_EQ(next.error(), status::again);
        }
      }
      receiver_.store_data();
      if (is_in_frame && receiver_.remaining_data_size() == 0) {
        arrived.back().data = data;
        is_in_frame = false;
      } else if (!receiver_.receive(stream_).ok()) {
        return arrived;
      }
    }
  }

  size_t offered_size() const {
    size_t size = 0;
    for (const iovec &part : stream_.offered())
      size += part.iov_len;
    return size;
  }

  chunk_stream stream_;
  frame_receiver receiver_{frame_limits{}};
};

TEST_F(pool_frame_receiver, joins_a_frame_that_is_split_at_any_byte) {
  std::string const bytes = frame_bytes(1, "the body", "the data") + frame_bytes(2, "next");
  std::vector<arrived_frame> const expected = {{1, "the body", "the data"}, {2, "next", ""}};
  for (size_t split = 1; split < bytes.size(); split++) {
    stream_.deliver(bytes.substr(0, split));
    stream_.deliver(bytes.substr(split));
    std::string data;
    EXPECT_EQ(receive_all(data), expected) << "split at byte " << split;
    EXPECT_TRUE(receiver_.is_idle());
  }
  for (char const byte : bytes)
    stream_.deliver({byte});
  std::string data;
  EXPECT_EQ(receive_all(data), expected) << "byte by byte";
}

TEST_F(pool_frame_receiver, returns_several_frames_of_one_read) {
  stream_.deliver(frame_bytes(1, "one") + frame_bytes(2, "", "data") + frame_bytes(3, "three") +
                  "TND");
  auto const arrival = receiver_.receive(stream_);
  ASSERT_TRUE(arrival.ok());
  EXPECT_EQ(arrival.value().data_size, 0u);
  EXPECT_TRUE(arrival.value().is_drained);
  auto const first = receiver_.next();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(text_of(first.value().body), "one");
  ASSERT_TRUE(receiver_.next().ok());
  std::string data(4, '.');
  receiver_.set_destination({part_of(data)});
  EXPECT_EQ(receiver_.remaining_data_size(), 4u);
  EXPECT_EQ(receiver_.store_data(), 4u);
  EXPECT_EQ(data, "data");
  auto const third = receiver_.next();
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third.value().head.tag, 3u);
  EXPECT_EQ(receiver_.next().error(), status::again);
  EXPECT_FALSE(receiver_.is_idle());
  EXPECT_EQ(receiver_.receive(stream_).error(), status::again);
}

TEST_F(pool_frame_receiver, refuses_a_header_before_its_body_arrives) {
  frame const bad_frames[] = {{.magic = 0},
                              {.reserved = 1},
                              {.body_size = wire::pool::body_size_max + 1},
                              {.data_size = wire::pool::object_size_max + 1}};
  for (const frame &head : bad_frames) {
    frame_receiver receiver{frame_limits{}};
    stream_.deliver(frame_bytes(head));
    EXPECT_TRUE(receiver.receive(stream_).ok());
    EXPECT_EQ(receiver.next().error(), status::protocol);
  }
}

TEST_F(pool_frame_receiver, refuses_another_protocol_by_its_first_bytes) {
  stream_.deliver("TND");
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_EQ(receiver_.next().error(), status::again);
  for (const char *text : {"SSH-2.0", "HTTP/1.1"}) {
    frame_receiver receiver{frame_limits{}};
    chunk_stream stream;
    stream.deliver(text);
    EXPECT_TRUE(receiver.receive(stream).ok());
    EXPECT_EQ(receiver.next().error(), status::protocol);
    EXPECT_EQ(receiver.has_http_response(), *text == 'H');
  }
}

TEST_F(pool_frame_receiver, applies_the_limits_at_the_time_of_the_header) {
  receiver_.set_limits({.body_size_max = 8, .data_size_max = 4});
  std::string const body(9, 'b');
  stream_.deliver(frame_bytes(1, "8 bytes.") + frame_bytes(2, body, "data"));
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_TRUE(receiver_.next().ok());
  EXPECT_EQ(receiver_.next().error(), status::protocol);
  receiver_.set_limits({.body_size_max = 9, .data_size_max = 3});
  EXPECT_EQ(receiver_.next().error(), status::protocol);
  receiver_.set_limits({.body_size_max = 9, .data_size_max = 4});
  auto const next = receiver_.next();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(text_of(next.value().body), body);
}

TEST_F(pool_frame_receiver, reports_an_end_in_the_middle_of_header_body_or_data) {
  std::string const bytes = frame_bytes(1, "the body", "the data");
  for (size_t const size :
       {sizeof(frame) / 2, sizeof(frame), sizeof(frame) + 4, bytes.size() - 4}) {
    chunk_stream stream;
    frame_receiver receiver{frame_limits{}};
    stream.deliver(bytes.substr(0, size));
    stream.close();
    EXPECT_TRUE(receiver.receive(stream).ok());
    bool const has_body = size > sizeof(frame) + 8;
    EXPECT_EQ(receiver.next().ok(), has_body) << size;
    receiver.store_data();
    EXPECT_EQ(receiver.receive(stream).error(), status::peer_lost);
    EXPECT_FALSE(receiver.is_idle());
    EXPECT_EQ(receiver.remaining_data_size(), has_body ? 4u : 0u);
  }
}

TEST_F(pool_frame_receiver, receives_data_directly_into_their_destination) {
  stream_.deliver(frame_bytes(1, "body"));
  stream_.deliver(frame_bytes({.data_size = 6}));
  stream_.deliver("abcdef" + frame_bytes(3, "next"));
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_TRUE(receiver_.next().ok());
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_TRUE(receiver_.next().ok());
  std::string first(2, '.'), second(4, '.');
  receiver_.set_destination({part_of(first), part_of(second)});
  auto const arrival = receiver_.receive(stream_);
  ASSERT_TRUE(arrival.ok());
  EXPECT_EQ(arrival.value().data_size, 6u);
  EXPECT_EQ(arrival.value().size, 6 + sizeof(frame) + 4);
  ASSERT_EQ(stream_.offered().size(), 3u) << "the buffer follows the destination";
  EXPECT_EQ(stream_.offered()[0].iov_base, first.data());
  EXPECT_EQ(stream_.offered()[1].iov_base, second.data());
  EXPECT_EQ(first + second, "abcdef");
  auto const next = receiver_.next();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(text_of(next.value().body), "next");
}

TEST_F(pool_frame_receiver, fills_more_parts_than_one_receive_can_take) {
  std::string const data(1000, 'd');
  std::string memory(1000, '.');
  std::vector<iovec> parts;
  for (char &byte : memory)
    parts.push_back({&byte, 1});
  stream_.deliver(frame_bytes({.data_size = 1000}));
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  ASSERT_TRUE(receiver_.next().ok());
  receiver_.set_destination(std::move(parts));
  stream_.deliver(data + frame_bytes(2, "next"));
  while (receiver_.remaining_data_size() > 0)
    ASSERT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_EQ(memory, data);
  std::string rest;
  EXPECT_EQ(receive_all(rest), (std::vector<arrived_frame>{{2, "next", ""}}));
}

TEST_F(pool_frame_receiver, skips_data_past_the_destination) {
  stream_.deliver(frame_bytes({.data_size = 10}) + "ab");
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  ASSERT_TRUE(receiver_.next().ok());
  std::string memory(4, '.');
  receiver_.set_destination({part_of(memory)});
  EXPECT_EQ(receiver_.store_data(), 2u);
  stream_.deliver("cdefghij");
  auto const arrival = receiver_.receive(stream_);
  ASSERT_TRUE(arrival.ok());
  EXPECT_EQ(arrival.value().size, 2u) << "what is skipped must not precede data in the buffer";
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_EQ(receiver_.store_data(), 0u);
  EXPECT_EQ(receiver_.remaining_data_size(), 0u);
  EXPECT_EQ(memory, "abcd");
}

TEST_F(pool_frame_receiver, does_not_touch_memory_after_skip_data) {
  stream_.deliver(frame_bytes({.data_size = 8}) + "ab");
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  ASSERT_TRUE(receiver_.next().ok());
  std::string memory(8, '.');
  receiver_.set_destination({part_of(memory)});
  receiver_.store_data();
  receiver_.skip_data();
  stream_.deliver("cdefgh" + frame_bytes(2, "next"));
  std::string rest;
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  EXPECT_EQ(receiver_.store_data(), 0u);
  EXPECT_EQ(receive_all(rest), (std::vector<arrived_frame>{{2, "next", ""}}));
  EXPECT_EQ(memory, "ab......");
}

TEST_F(pool_frame_receiver, loses_no_bytes_when_the_destination_is_inaccessible) {
  stream_.deliver(frame_bytes({.data_size = 4}));
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  ASSERT_TRUE(receiver_.next().ok());
  std::string memory(4, '.');
  receiver_.set_destination({part_of(memory)});
  stream_.deliver("data" + frame_bytes(2, "next"));
  stream_.fail_next();
  EXPECT_EQ(receiver_.receive(stream_).error(), status::fault);
  receiver_.skip_data();
  EXPECT_TRUE(receiver_.receive(stream_).ok());
  receiver_.store_data();
  std::string rest;
  EXPECT_EQ(receive_all(rest), (std::vector<arrived_frame>{{2, "next", ""}}));
  EXPECT_EQ(memory, "....");
}

TEST_F(pool_frame_receiver, grows_its_buffer_only_if_the_limits_need_it) {
  size_t const small_size = sizeof(frame) + small_body_size_max;
  std::string const small_body(small_body_size_max, 's');
  std::string const large_body(wire::pool::body_size_max, 'l');
  receiver_.set_limits({.body_size_max = small_body_size_max, .data_size_max = 0});
  stream_.deliver(frame_bytes(1, small_body));
  std::string data;
  EXPECT_EQ(receive_all(data), (std::vector<arrived_frame>{{1, small_body, ""}}));
  EXPECT_EQ(offered_size(), small_size);
  receiver_.set_limits({});
  stream_.deliver(frame_bytes(2, large_body));
  EXPECT_EQ(receive_all(data), (std::vector<arrived_frame>{{2, large_body, ""}}));
  EXPECT_GT(offered_size(), wire::pool::body_size_max);
  receiver_.shrink_buffer();
  EXPECT_EQ(receiver_.receive(stream_).error(), status::again);
  EXPECT_EQ(offered_size(), small_size);
  stream_.deliver(frame_bytes(3, large_body));
  EXPECT_EQ(receive_all(data), (std::vector<arrived_frame>{{3, large_body, ""}}));
}

// Whether both descriptors are of one file. Closes the first.
bool is_same_file(int received, int sent) {
  struct stat received_state{}, sent_state{};
  bool const is_same = fstat(received, &received_state) == 0 && fstat(sent, &sent_state) == 0 &&
                       received_state.st_ino == sent_state.st_ino;
  close(received);
  return is_same;
}

TEST_F(pool_frame_receiver, leaves_descriptors_with_the_connection) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  auto const sender = backends::socket_stream_create(ends[0]);
  auto const connection = backends::socket_stream_create(ends[1]);
  int const files[] = {memfd_create("first", MFD_CLOEXEC), memfd_create("second", MFD_CLOEXEC)};
  auto const send = [&](std::string bytes, int descriptor = -1) {
    iovec const part = part_of(bytes);
    auto const size = sender->send({&part, 1}, descriptor);
    EXPECT_TRUE(size.ok() && size.value() == bytes.size());
  };
  std::string const bytes = frame_bytes(1, "with a descriptor");
  send(bytes.substr(0, 1), files[0]);
  EXPECT_TRUE(receiver_.receive(*connection).ok());
  EXPECT_EQ(receiver_.next().error(), status::again);
  send(bytes.substr(1));
  send(bytes, files[1]);
  int frame_count = 0;
  while (frame_count < 2) {
    if (receiver_.next().ok())
      frame_count++;
    else
      ASSERT_TRUE(receiver_.receive(*connection).ok());
  }
  EXPECT_TRUE(is_same_file(connection->take_descriptor(), files[0]));
  EXPECT_TRUE(is_same_file(connection->take_descriptor(), files[1]));
  EXPECT_EQ(connection->take_descriptor(), -1);
  close(files[0]);
  close(files[1]);
}

}  // namespace
}  // namespace tanada::pool
