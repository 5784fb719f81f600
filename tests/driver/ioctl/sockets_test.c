/* sockets_test.c: registration and the ends of connections. */
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests.h"

enum { SLOT = 3, TAG = 5 };

static int register_socket(struct context *context, int file, int rank) {
  struct o2g_register request = {.socket = file, .rank = rank};
  return call(context, O2G_IOC_REGISTER, &request);
}

static void only_connected_tcp_sockets_are_registered(void) {
  struct context context;
  int pair[2];
  int const listener = socket(AF_INET, SOCK_STREAM, 0);
  open_context(&context);
  CHECK_EQUAL(register_socket(&context, -1, 0), -EBADF);
  CHECK_EQUAL(register_socket(&context, 0, 0), -EINVAL);
  CHECK_EQUAL(register_socket(&context, context.file, 0), -EINVAL);
  CHECK_EQUAL(register_socket(&context, socket(AF_INET, SOCK_DGRAM, 0), 0), -EINVAL);
  CHECK_EQUAL(register_socket(&context, socket(AF_UNIX, SOCK_STREAM, 0), 0), -EINVAL);
  CHECK_EQUAL(register_socket(&context, listener, 0), -EINVAL);
  CHECK_EQUAL(listen(listener, 1), 0);
  CHECK_EQUAL(register_socket(&context, listener, 0), -EINVAL);
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  CHECK_EQUAL(register_socket(&context, pair[0], 0), -EOPNOTSUPP);
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
  CHECK_EQUAL(register_socket(&context, pair[0], 0), -EINVAL);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -ENOENT);
  CHECK_EQUAL(context.shared->open_count, 0);
}

/* The kernel keeps such a socket in another state than one whose connect() has waited. */
static void socket_of_a_connect_that_did_not_block_is_registered(void) {
  struct context context;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  int const listener = socket(AF_INET, SOCK_STREAM, 0);
  int const file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct o2g_header const header = header_of(0, TAG, 100);
  char body[100];
  char buffer[100];
  int peer;
  setup(&context, 0, 0);
  CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, size), 0);
  CHECK_EQUAL(listen(listener, 1), 0);
  CHECK_EQUAL(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  CHECK(connect(file, (struct sockaddr *)&address, size) < 0 && errno == EINPROGRESS);
  peer = accept(listener, NULL, NULL);
  CHECK_EQUAL(register_socket(&context, file, 0), 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  fill(body, sizeof body, TAG);
  send_all(peer, &header, sizeof header);
  send_all(peer, body, sizeof body);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
}

static void socket_is_registered_once(void) {
  struct context context;
  struct context other;
  int sockets[2];
  setup(&context, 1, 0);
  open_context(&other);
  connect_pair(AF_INET, &sockets[0], &sockets[1]);
  CHECK_EQUAL(register_socket(&context, context.sockets[0], 0), -EEXIST);
  CHECK_EQUAL(register_socket(&context, sockets[0], 0), -EEXIST);
  CHECK_EQUAL(register_socket(&context, context.sockets[0], 1), -EBUSY);
  CHECK_EQUAL(register_socket(&context, dup(context.sockets[0]), 1), -EBUSY);
  CHECK_EQUAL(register_socket(&other, context.sockets[0], 1), -EBUSY);
  CHECK_EQUAL(register_socket(&context, sockets[0], -1), -EINVAL);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 1), -ENOENT);
  CHECK_EQUAL(register_socket(&context, sockets[0], 1), 0);
}

static void no_more_sockets_than_announced_are_registered(void) {
  struct o2g_binding binding = {O2G_DRIVER_ABI, 0, 1, 0};
  struct context context = {0};
  int sockets[4];
  context.file = open(O2G_DRIVER_PATH, O_RDWR);
  CHECK_EQUAL(call(&context, O2G_IOC_INIT, &binding), 0);
  connect_pair(AF_INET, &sockets[0], &sockets[1]);
  connect_pair(newer_domain(), &sockets[2], &sockets[3]);
  CHECK_EQUAL(register_socket(&context, sockets[2], 0), 0);
  CHECK_EQUAL(register_socket(&context, sockets[0], 1), -EMFILE);
}

static void bytes_from_before_the_registration_are_received(void) {
  struct context context;
  static char buffer[50000];
  setup(&context, 0, 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  connect_pair(newer_domain(), &context.sockets[0], &context.peers[0]);
  send_message(&context, 0, TAG, sizeof buffer);
  close(context.peers[0]);
  CHECK_EQUAL(register_socket(&context, context.sockets[0], 0), 0);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
  expect_soon(&context.shared->open_count, 0);
}

static void closed_descriptor_is_still_read(void) {
  struct context context;
  static char buffer[1000];
  char byte;
  setup(&context, 1, 0);
  close(context.sockets[0]);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_message(&context, 0, TAG, sizeof buffer);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
  CHECK_EQUAL(shutdown(context.peers[0], SHUT_WR), 0);
  CHECK_EQUAL(recv(context.peers[0], &byte, 1, 0), 0); /* the driver has closed it */
}

static void end_fails_the_entries_of_its_source(void) {
  struct context context;
  struct o2g_wait wait = {0, 1000000000};
  static char buffer[5000];
  struct o2g_header const header = header_of(0, TAG, 3000);
  setup(&context, 2, 0);
  CHECK_EQUAL(put(&context, SLOT, O2G_ANY_SOURCE, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(put(&context, SLOT + 1, 0, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(put(&context, SLOT + 2, O2G_ANY_SOURCE, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(put(&context, SLOT + 3, 1, TAG, buffer, sizeof buffer), 0);
  fill(buffer, 1000, TAG);
  send_all(context.peers[0], &header, sizeof header);
  send_all(context.peers[0], buffer, 1000);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED);
  memset(buffer + 1000, 0, 1000);
  close(context.peers[0]);
  expect_soon(&context.shared->open_count, 1);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED | O2G_FAILED);
  CHECK_EQUAL(slot_of(&context, SLOT)->error, -EPIPE);
  CHECK_EQUAL(slot_of(&context, SLOT)->received_size, 1000);
  CHECK_EQUAL(flags_of(&context, SLOT + 1), O2G_FAILED);
  CHECK_EQUAL(flags_of(&context, SLOT + 2), O2G_QUEUED);
  CHECK_EQUAL(flags_of(&context, SLOT + 3), O2G_QUEUED);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -EPIPE);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), -EPIPE);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT + 1), -EAGAIN);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), 0);
  CHECK_EQUAL(wait.event_count, 3);
  CHECK_EQUAL(register_socket(&context, context.sockets[1], 0), -EEXIST);
  close(context.peers[1]);
  expect_soon(&context.shared->open_count, 0);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), 0);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), -EPIPE);
}

static void reset_ends_after_all_bytes_are_received(void) {
  struct context context;
  struct linger const reset = {1, 0};
  uint32_t slot;
  setup(&context, 1, 1 << 20);
  send_message(&context, 0, TAG, 1000);
  CHECK_EQUAL(setsockopt(context.peers[0], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  close(context.peers[0]);
  expect_soon(&context.shared->open_count, 0);
  slot = find(&context, 0, TAG);
  CHECK((flags_of(&context, slot) & O2G_RECEIVED) != 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
}

static void unexpected_message_that_failed_is_found(void) {
  struct context context;
  struct o2g_header const header = header_of(0, TAG, 3000);
  uint32_t slot;
  setup(&context, 1, 1 << 20);
  send_all(context.peers[0], &header, sizeof header);
  expect_soon(&context.shared->unclaimed_count, 1);
  slot = find(&context, 0, TAG);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), -EBUSY);
  close(context.peers[0]);
  wait_flags(&context, slot, O2G_FAILED);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
}

static void check_refused(struct o2g_header header) {
  struct context context;
  char rest[4] = {0};
  char buffer[10];
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_all(context.peers[0], &header, sizeof header);
  send_all(context.peers[0], "rest", 4);
  wait_flags(&context, SLOT, O2G_FAILED);
  CHECK_EQUAL(slot_of(&context, SLOT)->error, -EPROTO);
  expect_soon(&context.shared->open_count, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -EPROTO);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), -EPROTO);
  CHECK_EQUAL(recv(context.sockets[0], rest, sizeof rest, 0), 4);
  CHECK_EQUAL(memcmp(rest, "rest", 4), 0);
  close(context.file);
  close(context.sockets[0]);
  close(context.peers[0]);
}

static void invalid_header_ends_the_connection(void) {
  struct o2g_header header = header_of(0, TAG, 10);
  header.magic++;
  check_refused(header);
  check_refused(header_of(1, TAG, 10));
  check_refused(header_of(0, -1, 10));
  check_refused(header_of(0, TAG, O2G_MESSAGE_SIZE_MAX + 1));
  header = header_of(0, TAG, 10);
  header.reserved = 1;
  check_refused(header);
}

static void largest_message_is_accepted(void) {
  struct context context;
  static char buffer[1000];
  struct o2g_header const header = header_of(0, TAG, O2G_MESSAGE_SIZE_MAX);
  setup(&context, 1, 1 << 20);
  send_all(context.peers[0], &header, sizeof header);
  expect_soon(&context.shared->blocked_count, 1);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED);
  CHECK(slot_of(&context, SLOT)->message_size == O2G_MESSAGE_SIZE_MAX);
  send_all(context.peers[0], buffer, sizeof buffer);
  close(context.peers[0]);
  wait_flags(&context, SLOT, O2G_FAILED);
  CHECK_EQUAL(slot_of(&context, SLOT)->received_size, sizeof buffer);
}

static void urgent_data_ends_the_connection(void) {
  struct context context;
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(send(context.peers[0], "x", 1, MSG_OOB), 1);
  expect_soon(&context.shared->open_count, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -EPROTO);
}

static void registered_socket_refuses_another_use(void) {
  struct context context;
  struct sockaddr const none = {.sa_family = AF_UNSPEC};
  char protocol[16] = "";
  socklen_t size = sizeof protocol;
  setup(&context, 1, 1 << 20);
  CHECK(setsockopt(context.sockets[0], IPPROTO_TCP, TCP_ULP, "tls", 3) != 0);
  CHECK_EQUAL(getsockopt(context.sockets[0], IPPROTO_TCP, TCP_ULP, protocol, &size), 0);
  CHECK_EQUAL(strcmp(protocol, "o2g"), 0);
  CHECK_EQUAL(connect(context.sockets[0], &none, sizeof none), 0);
  expect_soon(&context.shared->open_count, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -EPIPE);
  CHECK(listen(context.sockets[0], 1) != 0);
}

static void shutdown_of_reading_ends_the_connection(void) {
  struct context context;
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(shutdown(context.sockets[0], SHUT_RD), 0);
  expect_soon(&context.shared->open_count, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -EPIPE);
}

static void registered_socket_still_sends(void) {
  struct context context;
  static char bytes[100000];
  static char received[sizeof bytes];
  int const one = 1;
  size_t size = 0;
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(setsockopt(context.sockets[0], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one), 0);
  fill(bytes, sizeof bytes, TAG);
  CHECK_EQUAL(send(context.sockets[0], bytes, sizeof bytes, MSG_ZEROCOPY), sizeof bytes);
  while (size < sizeof bytes) {
    ssize_t const part = recv(context.peers[0], received + size, sizeof bytes - size, 0);
    CHECK(part > 0);
    size += (size_t)part;
  }
  CHECK(is_filled(received, sizeof received, TAG));
  send_message(&context, 0, TAG, 10);
  expect_soon(&context.shared->unclaimed_count, 1);
  CHECK_EQUAL(context.shared->open_count, 1);
}

static void many_sockets_are_left_to_the_end_of_the_process(void) {
  struct context context;
  static char buffer[100000];
  setup(&context, 0, 1 << 20);
  for (int rank = 0; rank < 60; rank++) {
    connect_pair(AF_INET, &context.sockets[0], &context.peers[0]);
    CHECK_EQUAL(register_socket(&context, context.sockets[0], rank * 1000), 0);
    if (rank % 3 == 0)
      CHECK_EQUAL(put(&context, (uint32_t)rank, rank * 1000, TAG, buffer, sizeof buffer), 0);
    if (rank % 2 == 0) {
      struct o2g_header const header = header_of(rank * 1000, TAG, sizeof buffer);
      send_all(context.peers[0], &header, sizeof header);
      send_all(context.peers[0], buffer, 30000);
    }
  }
  CHECK_EQUAL(context.shared->open_count, 60);
}

const struct test socket_tests[] = {
    TEST(only_connected_tcp_sockets_are_registered),
    TEST(socket_of_a_connect_that_did_not_block_is_registered),
    TEST(socket_is_registered_once),
    TEST(no_more_sockets_than_announced_are_registered),
    TEST(bytes_from_before_the_registration_are_received),
    TEST(closed_descriptor_is_still_read),
    TEST(end_fails_the_entries_of_its_source),
    TEST(reset_ends_after_all_bytes_are_received),
    TEST(unexpected_message_that_failed_is_found),
    TEST(invalid_header_ends_the_connection),
    TEST(largest_message_is_accepted),
    TEST(urgent_data_ends_the_connection),
    TEST(registered_socket_refuses_another_use),
    TEST(shutdown_of_reading_ends_the_connection),
    TEST(registered_socket_still_sends),
    TEST(many_sockets_are_left_to_the_end_of_the_process),
    {NULL, NULL},
};
