// tests/e2e/pool/raw_client.hpp: a client that sends arbitrary bytes to the daemon.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/sockets/socket_stream.hpp"
#include "core/wire/pool.hpp"
#include "products/pool/address.hpp"
#include "products/pool/auth.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::test {

class raw_client {
 public:
  explicit raw_client(uint16_t port, bool is_local = false) {
    auto connection = is_local ? backends::unix_connect(pool::unix_name(port), soon())
                               : backends::tcp_connect("127.0.0.1", port, soon());
    EXPECT_TRUE(connection.ok());
    if (connection.ok())
      stream_ = std::move(connection).value();
  }

  static uint64_t soon() {
    return seams::monotonic_clock().now_ns() + 5'000'000'000;
  }

  // False: the daemon has closed the connection.
  bool send(const void *source, size_t size) {
    auto const *at = static_cast<const char *>(source);
    while (size > 0) {
      iovec const part{const_cast<char *>(at), size};
      auto sent = stream_->send({&part, 1});
      if (sent.ok()) {
        at += sent.value();
        size -= sent.value();
      } else if (sent.error() != status::again || stream_->wait(false, true, soon()) != status::ok)
        return false;
    }
    return true;
  }

  template <class Message>
  bool send(wire::pool::kind what,
            const Message &message,
            std::string data = {},
            uint64_t tag = 1) {
    auto const bytes = wire::pool::encode_frame(
        {.kind = uint16_t(what), .code = 0, .tag = tag, .data_size = data.size()}, message);
    return send(bytes.data(), bytes.size()) && send(data.data(), data.size());
  }

  // False: the connection has ended, or nothing arrived in time.
  bool receive(void *target, size_t size) {
    auto *at = static_cast<char *>(target);
    while (size > 0) {
      iovec const part{at, size};
      auto got = stream_->receive({&part, 1});
      if (got.ok()) {
        at += got.value();
        size -= got.value();
      } else if (got.error() != status::again || stream_->wait(true, false, soon()) != status::ok)
        return false;
    }
    return true;
  }

  struct frame {
    wire::pool::frame head;
    std::vector<std::byte> body;
    std::string data;
  };
  bool receive(frame &in) {
    if (!receive(&in.head, sizeof in.head) || wire::pool::frame_check(in.head) != status::ok)
      return false;
    in.body.resize(in.head.body_size);
    in.data.resize(in.head.data_size);
    return receive(in.body.data(), in.body.size()) && receive(in.data.data(), in.data.size());
  }

  // The status of an answer to one request; peer_lost: there was no answer.
  template <class Message>
  status ask(wire::pool::kind what, const Message &message, std::string data = {}) {
    frame in;
    // A daemon that rejects a client may have answered and closed before the request arrived.
    (void)send(what, message, std::move(data));
    if (!receive(in))
      return status::peer_lost;
    answer = std::move(in);
    return wire::pool::status_of(answer.head.code);
  }

  // The handshake with or without a key. Returns the daemon's final answer.
  status greet(const std::string &space, const pool::key *with = nullptr) {
    wire::pool::hello_message hello;
    hello.namespace_name = space;
    hello.nonce = pool::random_bytes();
    if (with != nullptr)
      hello.key_id = with->id;
    if (status const code = ask(wire::pool::kind::hello, hello); code != status::ok)
      return code;
    wire::pool::challenge_message challenge;
    if (wire::decode(answer.body, challenge) != status::ok)
      return status::protocol;
    wire::pool::proof_message mine;
    if (with != nullptr)
      mine.proof = pool::proof_of(*with, pool::prover::client, hello.nonce, challenge.nonce, space);
    return ask(wire::pool::kind::proof, mine);
  }

  // The next descriptor that arrived with received bytes; the caller closes it. -1: none.
  int take_descriptor() {
    return stream_->take_descriptor();
  }

  // True: the daemon closes the connection soon.
  bool is_closed() {
    char byte;
    return !receive(&byte, 1) && stream_->wait(true, false, 0) == status::ok;
  }

  frame answer;

 private:
  std::unique_ptr<seams::stream> stream_;
};

}  // namespace tanada::test
