/* envelopes_test.c: contexts with O2G_BIND_ENVELOPES. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/o2g/envelope.h"
#include "tests.h"

enum { SLOT = 3, OTHER_SLOT = 4, TAG = 5, PEER = 17, KIND_BODY = 7, KIND_ACK = 13 };

static uint32_t *ring;

static void open_envelopes(struct context *context, int peer_count) {
  struct o2g_grow grow = {O2G_CHUNK_EXPECTED, 0};
  open_context_with(context, O2G_BIND_ENVELOPES);
  ring = mmap(NULL, O2G_RING_SIZE, PROT_READ, MAP_SHARED, context->file, (off_t)O2G_RING_OFFSET);
  CHECK(ring != MAP_FAILED);
  CHECK_EQUAL(call(context, O2G_IOC_GROW, &grow), 0);
  for (int rank = 0; rank < peer_count; rank++) {
    struct o2g_register request = {.rank = rank, .peer = PEER};
    connect_pair(AF_INET, &context->sockets[rank], &context->peers[rank]);
    request.socket = context->sockets[rank];
    CHECK_EQUAL(call(context, O2G_IOC_REGISTER, &request), 0);
  }
}

static struct o2g_envelope envelope_of(int kind, int flags, uint64_t tag, uint64_t size) {
  return (struct o2g_envelope){.mark = htole16(O2G_ENVELOPE_MARK),
                               .kind = (uint8_t)kind,
                               .flags = (uint8_t)flags,
                               .size = htole64(size),
                               .tag = htole64(tag),
                               .data = htole64(tag + 1),
                               .id = htole64(tag + 2)};
}

static void send_frame(struct context *context, int rank, int kind, uint64_t tag, size_t size) {
  char *const frame = malloc(sizeof(struct o2g_envelope) + size);
  int const flags = kind == O2G_KIND_MESSAGE || kind == O2G_KIND_ANNOUNCE ? O2G_ENVELOPE_TAGGED : 0;
  struct o2g_envelope const head = envelope_of(kind, flags, tag, size);
  uint64_t const following_size = o2g_envelope_following_size(&head);
  CHECK(frame != NULL);
  memcpy(frame, &head, sizeof head);
  fill(frame + sizeof head, following_size, (int)tag);
  send_all(context->peers[rank], frame, sizeof head + following_size);
  free(frame);
}

static int put_message(
    struct context *context, uint32_t slot, uint64_t tag, void *data, size_t size, uint32_t flags) {
  struct o2g_put_message request = {.slot = slot,
                                    .flags = flags,
                                    .tag = tag,
                                    .source = O2G_ANY_PEER,
                                    .address = (uintptr_t)data,
                                    .size = size};
  return call(context, O2G_IOC_PUT_MESSAGE, &request);
}

/* The number of bytes, or -errno. */
static long read_some(struct context *context, int rank, void *data, size_t size) {
  struct o2g_read request = {
      .rank = rank, .part_count = 1, .parts = {{(uintptr_t)data, size}, {0, 0}}};
  int const error = call(context, O2G_IOC_READ, &request);
  return error != 0 ? error : (long)request.read_size;
}

static uint32_t take_readable(struct context *context, uint32_t *ranks, uint32_t count) {
  struct o2g_readable request = {.address = (uintptr_t)ranks, .count = count};
  CHECK_EQUAL(call(context, O2G_IOC_READABLE, &request), 0);
  return request.count;
}

/* Reads exactly `size` bytes. */
static void read_all(struct context *context, int rank, char *data, size_t size) {
  size_t done = 0;
  for (int i = 0; i < 10000 && done < size; i++) {
    long const part = read_some(context, rank, data + done, size - done);
    CHECK(part > 0 || part == -EAGAIN);
    if (part > 0)
      done += (size_t)part;
    else
      usleep(1000);
  }
  CHECK_EQUAL(done, size);
}

static void expect_completed(struct context *context, uint64_t count) {
  for (int i = 0; i < 10000 && context->shared->completed_count < count; i++)
    usleep(1000);
  CHECK_EQUAL(context->shared->completed_count, count);
}

static void envelope_that_matches_is_received_by_the_handler(void) {
  struct context context;
  static char buffer[10000];
  struct o2g_slot *slot;
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, sizeof buffer);
  expect_completed(&context, 1);
  CHECK_EQUAL(ring[0], SLOT);
  slot = slot_of(&context, SLOT);
  CHECK_EQUAL(slot->flags, O2G_MATCHED | O2G_RECEIVED);
  CHECK_EQUAL(slot->source, PEER);
  CHECK_EQUAL(slot->tag, TAG);
  CHECK_EQUAL(slot->connection, 0);
  CHECK_EQUAL(slot->message_size, sizeof buffer);
  CHECK_EQUAL(slot->received_size, sizeof buffer);
  CHECK_EQUAL(slot->o2g_slot_envelope_flags, O2G_ENVELOPE_TAGGED);
  CHECK_EQUAL(slot->o2g_slot_envelope_data, TAG + 1);
  CHECK_EQUAL(slot->o2g_slot_envelope_id, TAG + 2);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
  CHECK_EQUAL(counters_of(&context).handler_size, sizeof buffer);
  CHECK_EQUAL(context.shared->readable_count, 0);
}

static void other_frames_are_read_by_the_process(void) {
  struct context context;
  char buffer[100];
  char frames[3 * sizeof(struct o2g_envelope) + 30];
  struct o2g_envelope head;
  uint32_t ranks[4];
  open_envelopes(&context, 2);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_frame(&context, 1, KIND_ACK, 1, 0);
  send_frame(&context, 1, KIND_BODY, 2, 10);
  send_frame(&context, 1, O2G_KIND_MESSAGE, TAG, 100); /* the driver receives it between them */
  send_frame(&context, 1, KIND_BODY, 3, 20);
  expect_soon(&context.shared->readable_count, 1);
  CHECK_EQUAL(context.shared->completed_count, 0); /* it waits behind the others */
  CHECK_EQUAL(take_readable(&context, ranks, 4), 1);
  CHECK_EQUAL(ranks[0], 1);
  CHECK_EQUAL(context.shared->readable_count, 0);
  read_all(&context, 1, frames, sizeof frames);
  expect_completed(&context, 1);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
  memcpy(&head, frames, sizeof head);
  CHECK_EQUAL(head.kind, KIND_ACK);
  memcpy(&head, frames + sizeof head, sizeof head);
  CHECK_EQUAL(le64toh(head.size), 10);
  CHECK(is_filled(frames + 2 * sizeof head, 10, 2));
  CHECK(is_filled(frames + sizeof frames - 20, 20, 3));
  CHECK_EQUAL(read_some(&context, 1, frames, sizeof frames), -EAGAIN);
  CHECK_EQUAL(read_some(&context, 3, frames, sizeof frames), -ENOENT);
}

static void message_that_waits_matches_a_later_receive(void) {
  struct context context;
  static char buffer[5000];
  open_envelopes(&context, 1);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, sizeof buffer);
  expect_soon(&context.shared->blocked_count, 1);
  CHECK_EQUAL(put_message(&context, OTHER_SLOT, TAG + 1, buffer, sizeof buffer, 0), 0);
  CHECK_EQUAL(context.shared->blocked_count, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  expect_completed(&context, 1);
  CHECK_EQUAL(ring[0], SLOT);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
  CHECK_EQUAL(context.shared->readable_count, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, OTHER_SLOT), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), -EAGAIN);
}

static void message_that_was_read_matches_nothing_later(void) {
  struct context context;
  char buffer[100];
  char frame[sizeof(struct o2g_envelope) + 100];
  open_envelopes(&context, 1);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  expect_soon(&context.shared->blocked_count, 1);
  /* Only the envelope fits: the rest is still for the process. */
  read_all(&context, 0, frame, sizeof(struct o2g_envelope));
  CHECK_EQUAL(context.shared->blocked_count, 0);
  CHECK_EQUAL(context.shared->readable_count, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  read_all(&context, 0, frame, 100);
  CHECK(is_filled(frame, 100, TAG));
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_QUEUED);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  expect_completed(&context, 1);
}

static void envelope_needs_space(void) {
  struct context context;
  char frame[sizeof(struct o2g_envelope)];
  open_envelopes(&context, 1);
  send_frame(&context, 0, KIND_ACK, 1, 0);
  expect_soon(&context.shared->readable_count, 1);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame - 1), -EINVAL);
  CHECK_EQUAL(context.shared->readable_count, 1);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), sizeof frame);
}

static void entry_that_only_matches_leaves_its_message(void) {
  struct context context;
  char buffer[100];
  char frame[sizeof(struct o2g_envelope) + 100];
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, NULL, 0, O2G_PUT_MATCH_ONLY), 0);
  CHECK_EQUAL(put_message(&context, OTHER_SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  expect_soon(&context.shared->readable_count, 1);
  read_all(&context, 0, frame, sizeof frame);
  /* The second message waits until the process has matched the first one. */
  CHECK_EQUAL(flags_of(&context, OTHER_SLOT), O2G_QUEUED);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), 0);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), -EAGAIN);
  expect_completed(&context, 1);
  CHECK_EQUAL(ring[0], OTHER_SLOT);
}

static void message_that_waits_is_kept_for_an_entry_that_only_matches(void) {
  struct context context;
  char buffer[100] = {0};
  char frame[sizeof(struct o2g_envelope) + 100];
  open_envelopes(&context, 1);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  expect_soon(&context.shared->blocked_count, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, NULL, 0, O2G_PUT_MATCH_ONLY), 0);
  CHECK_EQUAL(put_message(&context, OTHER_SLOT, TAG, buffer, sizeof buffer, 0), 0);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_QUEUED);
  CHECK_EQUAL(flags_of(&context, OTHER_SLOT), O2G_QUEUED);
  CHECK_EQUAL(context.shared->readable_count, 1);
  read_all(&context, 0, frame, sizeof frame);
  CHECK(is_filled(frame + sizeof(struct o2g_envelope), 100, TAG));
  CHECK_EQUAL(context.shared->completed_count, 0);
}

static void buffer_that_is_not_pinned_is_written_by_a_call(void) {
  struct context context;
  static char buffer[10000];
  uint32_t ranks[4];
  set_parameter("pin_limit", "0");
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  set_parameter("pin_limit", "1024");
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, sizeof buffer);
  expect_soon(&context.shared->pending_count, 1);
  CHECK_EQUAL(context.shared->completed_count, 0);
  CHECK_EQUAL(take_readable(&context, ranks, 4), 0);
  expect_completed(&context, 1);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
}

static void frames_after_an_announced_message_wait_for_the_next_read(void) {
  struct context context;
  char buffer[100];
  char frame[2 * sizeof(struct o2g_envelope)];
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_frame(&context, 0, O2G_KIND_ANNOUNCE, TAG, 1 << 20);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  expect_soon(&context.shared->readable_count, 1);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), sizeof(struct o2g_envelope));
  CHECK_EQUAL(context.shared->completed_count, 0);
  CHECK_EQUAL(context.shared->readable_count, 1);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), 0);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), sizeof frame);
  CHECK_EQUAL(((struct o2g_envelope *)frame)->kind, O2G_KIND_MESSAGE);
}

static void end_of_a_connection_is_read(void) {
  struct context context;
  char frame[sizeof(struct o2g_envelope)];
  uint32_t ranks[4];
  open_envelopes(&context, 1);
  send_frame(&context, 0, KIND_ACK, 1, 0);
  close(context.peers[0]);
  expect_soon(&context.shared->readable_count, 1);
  read_all(&context, 0, frame, sizeof frame);
  expect_soon(&context.shared->open_count, 0);
  expect_soon(&context.shared->readable_count, 1);
  CHECK_EQUAL(take_readable(&context, ranks, 4), 1);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DETACH, 0), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DETACH, 0), -ENOENT);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), -ENOENT);
}

/* All bytes and the end have arrived when the driver reads the socket for the first time. */
static void frame_before_the_end_is_read_after_registration(void) {
  struct context context;
  char frame[sizeof(struct o2g_envelope) + 1];
  struct o2g_register request = {.rank = 0, .peer = PEER};
  open_envelopes(&context, 0);
  connect_pair(AF_INET, &context.sockets[0], &context.peers[0]);
  send_frame(&context, 0, KIND_ACK, 1, 0);
  close(context.peers[0]);
  CHECK_EQUAL(recv(context.sockets[0], frame, sizeof frame, MSG_PEEK | MSG_WAITALL),
              sizeof frame - 1);
  request.socket = context.sockets[0];
  CHECK_EQUAL(call(&context, O2G_IOC_REGISTER, &request), 0);
  CHECK_EQUAL(context.shared->readable_count, 1);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), sizeof frame - 1);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), 0);
}

static void end_within_a_message_fails_its_receive(void) {
  struct context context;
  char buffer[100];
  struct o2g_envelope const head =
      envelope_of(O2G_KIND_MESSAGE, O2G_ENVELOPE_TAGGED, TAG, sizeof buffer);
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_all(context.peers[0], &head, sizeof head);
  send_all(context.peers[0], buffer, 40);
  close(context.peers[0]);
  expect_completed(&context, 1);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED | O2G_FAILED);
  CHECK_EQUAL(slot_of(&context, SLOT)->error, -EPIPE);
  CHECK_EQUAL(slot_of(&context, SLOT)->received_size, 40);
}

static void detached_socket_keeps_its_bytes(void) {
  struct context context;
  char buffer[100];
  char frame[sizeof(struct o2g_envelope) + 100];
  struct o2g_register request = {.rank = 9, .peer = PEER};
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DETACH, 0), 0);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  CHECK_EQUAL(recv(context.sockets[0], frame, sizeof frame, MSG_PEEK | MSG_WAITALL), sizeof frame);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_QUEUED);
  /* It can be registered again, with the same peer or another. */
  request.socket = context.sockets[0];
  CHECK_EQUAL(call(&context, O2G_IOC_REGISTER, &request), 0);
  expect_completed(&context, 1);
  CHECK_EQUAL(slot_of(&context, SLOT)->connection, 9);
}

static void detaching_fails_the_receive_of_an_incomplete_message(void) {
  struct context context;
  char buffer[100];
  struct o2g_envelope const head =
      envelope_of(O2G_KIND_MESSAGE, O2G_ENVELOPE_TAGGED, TAG, sizeof buffer);
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_all(context.peers[0], &head, sizeof head);
  expect_flags_soon(&context, SLOT, O2G_MATCHED);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DETACH, 0), 0);
  CHECK_EQUAL(context.shared->completed_count, 1);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED | O2G_FAILED);
  CHECK_EQUAL(context.shared->open_count, 0);
}

static void invalid_envelope_is_for_the_process(void) {
  struct context context;
  char frame[sizeof(struct o2g_envelope)];
  open_envelopes(&context, 1);
  memset(frame, 0x5A, sizeof frame);
  send_all(context.peers[0], frame, sizeof frame);
  expect_soon(&context.shared->readable_count, 1);
  memset(frame, 0, sizeof frame);
  read_all(&context, 0, frame, sizeof frame);
  CHECK_EQUAL(frame[0], 0x5A);
}

static void canceled_match_leaves_its_message_to_the_next_entry(void) {
  struct context context;
  char first[100], second[100];
  char frames[2 * (sizeof(struct o2g_envelope) + 100)];
  open_envelopes(&context, 1);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, first, sizeof first, O2G_PUT_MATCH_ONLY), 0);
  CHECK_EQUAL(put_message(&context, OTHER_SLOT, TAG, second, sizeof second, 0), 0);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  expect_soon(&context.shared->readable_count, 1);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 99);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), 0);
  read_all(&context, 0, frames, sizeof(struct o2g_envelope) + 99);
  expect_completed(&context, 1);
  CHECK_EQUAL(slot_of(&context, OTHER_SLOT)->message_size, 100);
  CHECK_EQUAL(le64toh(((struct o2g_envelope *)frames)->size), 99);
}

static void arm(const struct context *context, uint64_t quiet_size) {
  struct o2g_arm request = {__atomic_load_n(&context->shared->event_count, __ATOMIC_ACQUIRE),
                            quiet_size};
  CHECK_EQUAL(call(context, O2G_IOC_ARM, &request), 0);
}

static void poll_follows_what_the_process_has_seen(void) {
  struct context context;
  char buffer[100];
  char frame[sizeof(struct o2g_envelope)];
  struct pollfd file;
  open_envelopes(&context, 1);
  file = (struct pollfd){context.file, POLLIN, 0};
  arm(&context, 0);
  CHECK_EQUAL(poll(&file, 1, 0), 0);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  send_frame(&context, 0, O2G_KIND_MESSAGE, TAG, 100);
  CHECK_EQUAL(poll(&file, 1, 10000), 1);
  expect_completed(&context, 1);
  arm(&context, 0);
  CHECK_EQUAL(poll(&file, 1, 0), 0);
  send_frame(&context, 0, KIND_ACK, 1, 0);
  CHECK_EQUAL(poll(&file, 1, 10000), 1);
  read_all(&context, 0, frame, sizeof frame);
  CHECK_EQUAL(poll(&file, 1, 0), 0);
}

/* Posts a receive and sends its message, which has `flags` beside O2G_ENVELOPE_TAGGED. */
static void deliver(struct context *context, char *buffer, size_t size, int flags) {
  struct o2g_envelope const head =
      envelope_of(O2G_KIND_MESSAGE, O2G_ENVELOPE_TAGGED | flags, TAG, size);
  uint64_t const before = context->shared->completed_count;
  CHECK_EQUAL(put_message(context, SLOT, TAG, buffer, size, 0), 0);
  send_all(context->peers[0], &head, sizeof head);
  send_all(context->peers[0], buffer, size);
  expect_completed(context, before + 1);
}

static void quiet_poll_ignores_messages_up_to_its_size(void) {
  struct context context;
  char buffer[100] = {0};
  struct pollfd file;
  open_envelopes(&context, 1);
  file = (struct pollfd){context.file, POLLIN, 0};
  arm(&context, 2 * (100 + O2G_QUIET_OVERHEAD) + 1);
  deliver(&context, buffer, 100, 0);
  deliver(&context, buffer, 100, 0);
  CHECK_EQUAL(poll(&file, 1, 0), 0);
  deliver(&context, buffer, 100, 0);
  CHECK_EQUAL(poll(&file, 1, 10000), 1);
  arm(&context, 10000);
  CHECK_EQUAL(poll(&file, 1, 0), 0);
  deliver(&context, buffer, 100, O2G_ENVELOPE_WANTS_ACK);
  CHECK_EQUAL(poll(&file, 1, 10000), 1);
}

static void quiet_poll_returns_for_what_the_process_must_do(void) {
  struct context context;
  char buffer[100] = {0};
  struct o2g_arm late = {0, 10000};
  struct pollfd file;
  open_envelopes(&context, 1);
  file = (struct pollfd){context.file, POLLIN, 0};
  deliver(&context, buffer, 100, 0);
  CHECK_EQUAL(call(&context, O2G_IOC_ARM, &late), 0); /* the message came before the call */
  CHECK_EQUAL(poll(&file, 1, 0), 1);
  arm(&context, 10000);
  CHECK_EQUAL(poll(&file, 1, 0), 0);
  send_frame(&context, 0, KIND_ACK, 1, 0);
  CHECK_EQUAL(poll(&file, 1, 10000), 1);
}

/* A thread sleeps in poll() although a message has arrived; another thread then waits for it. */
static void *poll_file(void *argument) {
  struct pollfd file = {*(int *)argument, POLLIN, 0};
  return poll(&file, 1, 20000) == 1 ? argument : NULL;
}

static void arm_wakes_a_quiet_poll(void) {
  struct context context;
  char buffer[100] = {0};
  struct o2g_arm again = {0, 0};
  pthread_t thread;
  void *result = NULL;
  open_envelopes(&context, 1);
  arm(&context, 10000);
  again.event_count = context.shared->event_count;
  CHECK_EQUAL(pthread_create(&thread, NULL, poll_file, &context.file), 0);
  deliver(&context, buffer, 100, 0);
  usleep(20000); /* usually the thread sleeps by now */
  CHECK_EQUAL(call(&context, O2G_IOC_ARM, &again), 0);
  CHECK_EQUAL(pthread_join(thread, &result), 0);
  CHECK(result != NULL);
}

static void frames_in_single_bytes_are_received(void) {
  struct context context;
  char buffer[50];
  char read[3 * sizeof(struct o2g_envelope) + 50];
  struct {
    struct o2g_envelope heads[2];
    char body[50];
    struct o2g_envelope last;
  } __attribute__((packed)) frames;
  char const *const bytes = (const char *)&frames;
  size_t done = 0;
  open_envelopes(&context, 1);
  frames.heads[0] = envelope_of(KIND_ACK, 0, 1, 0);
  frames.heads[1] = envelope_of(O2G_KIND_MESSAGE, O2G_ENVELOPE_TAGGED, TAG, sizeof frames.body);
  fill(frames.body, sizeof frames.body, TAG);
  frames.last = envelope_of(KIND_ACK, 0, 2, 0);
  CHECK_EQUAL(put_message(&context, SLOT, TAG, buffer, sizeof buffer, 0), 0);
  for (size_t i = 0; i < sizeof frames; i++) {
    send_all(context.peers[0], bytes + i, 1);
    if (i % 5 == 0) {
      long const part = read_some(&context, 0, read + done, sizeof read - done);
      CHECK(part > 0 || part == -EAGAIN);
      done += part > 0 ? (size_t)part : 0;
    }
  }
  read_all(&context, 0, read + done, 2 * sizeof(struct o2g_envelope) - done);
  expect_completed(&context, 1);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
}

static void read_to_an_invalid_address_ends_the_connection(void) {
  struct context context;
  char frame[100];
  open_envelopes(&context, 1);
  send_frame(&context, 0, KIND_ACK, 1, 0);
  expect_soon(&context.shared->readable_count, 1);
  CHECK_EQUAL(read_some(&context, 0, (void *)16, 4096), 0);
  CHECK_EQUAL(read_some(&context, 0, frame, sizeof frame), 0);
}

static void calls_of_the_other_kind_are_refused(void) {
  struct context context;
  struct context headers;
  struct o2g_put put_request = {0};
  struct o2g_find find_request = {0};
  struct o2g_next next_request = {0};
  struct o2g_dump_area area = {0};
  struct o2g_readable readable = {0};
  struct o2g_read read_request = {0};
  struct o2g_put_message message = {.flags = 2};
  open_envelopes(&context, 0);
  CHECK_EQUAL(call(&context, O2G_IOC_PUT, &put_request), -EOPNOTSUPP);
  CHECK_EQUAL(call(&context, O2G_IOC_FIND, &find_request), -EOPNOTSUPP);
  CHECK_EQUAL(call(&context, O2G_IOC_NEXT, &next_request), -EOPNOTSUPP);
  CHECK_EQUAL(call(&context, O2G_IOC_SET_DUMP_AREA, &area), -EOPNOTSUPP);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, 0), -EOPNOTSUPP);
  CHECK_EQUAL(call(&context, O2G_IOC_READABLE, &readable), -EINVAL);
  CHECK_EQUAL(call(&context, O2G_IOC_READ, &read_request), -EINVAL);
  CHECK_EQUAL(call(&context, O2G_IOC_PUT_MESSAGE, &message), -EINVAL);
  setup(&headers, 0, 0);
  CHECK_EQUAL(call(&headers, O2G_IOC_PUT_MESSAGE, &message), -EOPNOTSUPP);
  CHECK_EQUAL(call(&headers, O2G_IOC_READABLE, &readable), -EOPNOTSUPP);
  CHECK_EQUAL(call(&headers, O2G_IOC_READ, &read_request), -EOPNOTSUPP);
  CHECK_EQUAL(call_value(&headers, O2G_IOC_DETACH, 0), -EOPNOTSUPP);
  CHECK(mmap(NULL, O2G_RING_SIZE, PROT_READ, MAP_SHARED, headers.file, (off_t)O2G_RING_OFFSET) ==
        MAP_FAILED);
}

const struct test envelope_tests[] = {
    TEST(envelope_that_matches_is_received_by_the_handler),
    TEST(other_frames_are_read_by_the_process),
    TEST(message_that_waits_matches_a_later_receive),
    TEST(message_that_was_read_matches_nothing_later),
    TEST(envelope_needs_space),
    TEST(entry_that_only_matches_leaves_its_message),
    TEST(message_that_waits_is_kept_for_an_entry_that_only_matches),
    TEST(buffer_that_is_not_pinned_is_written_by_a_call),
    TEST(frames_after_an_announced_message_wait_for_the_next_read),
    TEST(end_of_a_connection_is_read),
    TEST(frame_before_the_end_is_read_after_registration),
    TEST(end_within_a_message_fails_its_receive),
    TEST(detached_socket_keeps_its_bytes),
    TEST(detaching_fails_the_receive_of_an_incomplete_message),
    TEST(invalid_envelope_is_for_the_process),
    TEST(canceled_match_leaves_its_message_to_the_next_entry),
    TEST(poll_follows_what_the_process_has_seen),
    TEST(quiet_poll_ignores_messages_up_to_its_size),
    TEST(quiet_poll_returns_for_what_the_process_must_do),
    TEST(arm_wakes_a_quiet_poll),
    TEST(frames_in_single_bytes_are_received),
    TEST(read_to_an_invalid_address_ends_the_connection),
    TEST(calls_of_the_other_kind_are_refused),
    {NULL, NULL},
};
