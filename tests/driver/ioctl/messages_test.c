/* messages_test.c: matching and receiving. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests.h"

enum { SLOT = 3, OTHER_SLOT = 4, TAG = 5 };

static void message_in_pieces_is_received_at_every_boundary(void) {
  enum { SIZE = 40, TOTAL_SIZE = sizeof(struct o2g_header) + SIZE };
  struct context context;
  char message[TOTAL_SIZE];
  char buffer[SIZE];
  struct o2g_header const header = header_of(0, TAG, SIZE);
  setup(&context, 1, 1 << 20);
  memcpy(message, &header, sizeof header);
  fill(message + sizeof header, SIZE, TAG);
  for (size_t split = 1; split < TOTAL_SIZE; split++) {
    bool const is_expected = split % 2 != 0;
    memset(buffer, 0, sizeof buffer);
    if (is_expected)
      CHECK_EQUAL(put_after(&context, SLOT, 0, TAG, buffer, SIZE, ~0ull), 0);
    send_all(context.peers[0], message, split);
    send_all(context.peers[0], message + split, TOTAL_SIZE - split);
    if (is_expected) {
      wait_flags(&context, SLOT, O2G_RECEIVED);
      CHECK(is_filled(buffer, SIZE, TAG));
    } else {
      uint32_t const slot = find(&context, 0, TAG);
      wait_flags(&context, slot, O2G_RECEIVED);
      CHECK(is_filled(context.area + slot_of(&context, slot)->dump_offset, SIZE, TAG));
      CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
    }
  }
}

static void message_in_single_bytes_is_received(void) {
  struct context context;
  char buffer[100];
  char message[sizeof(struct o2g_header) + sizeof buffer];
  struct o2g_header const header = header_of(0, TAG, sizeof buffer);
  setup(&context, 1, 0);
  memcpy(message, &header, sizeof header);
  fill(message + sizeof header, sizeof buffer, TAG);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  for (size_t i = 0; i < sizeof message; i++)
    send_all(context.peers[0], message + i, 1);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
}

static void expected_message_is_received_by_the_handler_without_a_call(void) {
  struct context context;
  static char buffer[20000];
  struct o2g_slot *slot;
  setup(&context, 1, 0);
  slot = slot_of(&context, SLOT);
  CHECK_EQUAL(put(&context, SLOT, O2G_ANY_SOURCE, O2G_ANY_TAG, buffer + 1, 10000), 0);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_QUEUED);
  send_message(&context, 0, TAG, 10000);
  expect_flags_soon(&context, SLOT, O2G_RECEIVED);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED | O2G_RECEIVED);
  CHECK(is_filled(buffer + 1, 10000, TAG));
  CHECK(buffer[0] == 0 && buffer[10001] == 0);
  CHECK_EQUAL(slot->source, 0);
  CHECK_EQUAL(slot->tag, TAG);
  CHECK_EQUAL(slot->message_size, 10000);
  CHECK_EQUAL(slot->received_size, 10000);
  CHECK_EQUAL(context.shared->event_count, 1);
  CHECK_EQUAL(counters_of(&context).handler_size, 10000);
}

static void unexpected_message_is_found_and_freed(void) {
  struct context context;
  struct o2g_find request = {0, TAG, MESSAGE_CONTEXT, 0, 0};
  uint32_t slot;
  setup(&context, 1, 1 << 20);
  send_message(&context, 0, TAG + 1, 100);
  send_message(&context, 0, TAG, 5000);
  expect_soon(&context.shared->unclaimed_count, 2);
  CHECK_EQUAL(context.shared->sequence, 2);
  slot = find(&context, 0, TAG);
  CHECK_EQUAL(context.shared->unclaimed_count, 1);
  wait_flags(&context, slot, O2G_RECEIVED);
  CHECK_EQUAL(flags_of(&context, slot), O2G_UNEXPECTED | O2G_CLAIMED | O2G_MATCHED | O2G_RECEIVED);
  CHECK_EQUAL(slot_of(&context, slot)->sequence, 2);
  CHECK_EQUAL(slot_of(&context, slot)->context, MESSAGE_CONTEXT);
  CHECK(is_filled(context.area + slot_of(&context, slot)->dump_offset, 5000, TAG));
  CHECK_EQUAL(call(&context, O2G_IOC_FIND, &request), -ENOENT);
  CHECK_EQUAL(request.sequence, 2);
  CHECK_EQUAL(counters_of(&context).unexpected_count, 2);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), -EINVAL);
  CHECK_EQUAL(flags_of(&context, slot), 0);
  CHECK_EQUAL(counters_of(&context).unexpected_count, 1);
}

static void messages_are_walked_from_the_oldest(void) {
  struct context context;
  struct o2g_next request = {O2G_SLOT_NONE, 0};
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(call(&context, O2G_IOC_NEXT, &request), 0);
  CHECK_EQUAL(request.slot, O2G_SLOT_NONE);
  for (int tag = 0; tag < 3; tag++)
    send_message(&context, 0, tag, 10);
  expect_soon(&context.shared->unclaimed_count, 3);
  find(&context, 0, 1);
  for (int tag = 0; tag < 3; tag++) {
    CHECK_EQUAL(call(&context, O2G_IOC_NEXT, &request), 0);
    CHECK_EQUAL(slot_of(&context, request.slot)->tag, tag);
    request.after = request.slot;
  }
  CHECK_EQUAL(call(&context, O2G_IOC_NEXT, &request), 0);
  CHECK_EQUAL(request.slot, O2G_SLOT_NONE);
  request.after = SLOT; /* of an expected entry */
  CHECK_EQUAL(call(&context, O2G_IOC_NEXT, &request), -EINVAL);
}

static void put_after_an_unseen_message_is_refused(void) {
  struct context context;
  char buffer[100];
  setup(&context, 1, 1 << 20);
  send_message(&context, 0, TAG, 10);
  expect_soon(&context.shared->unclaimed_count, 1);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), -EAGAIN);
  CHECK_EQUAL(put(&context, SLOT, O2G_ANY_SOURCE, O2G_ANY_TAG, buffer, sizeof buffer), -EAGAIN);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG + 1, buffer, sizeof buffer), 0);
  CHECK_EQUAL(put_after(&context, OTHER_SLOT, 0, TAG, buffer, sizeof buffer, 1), 0);
  CHECK_EQUAL(counters_of(&context).race_count, 2);
  find(&context, 0, TAG);
  CHECK_EQUAL(put(&context, OTHER_SLOT + 1, 0, TAG, buffer, sizeof buffer), 0);
}

static void entry_is_cancelled_until_it_matches(void) {
  struct context context;
  char buffer[100];
  setup(&context, 1, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), -EINVAL);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), -EINVAL);
  CHECK(counters_of(&context).pinned_size != 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), 0);
  CHECK_EQUAL(counters_of(&context).pinned_size, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), -EINVAL);
  CHECK_EQUAL(flags_of(&context, SLOT), 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_message(&context, 0, TAG, 10);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, SLOT), -EAGAIN);
}

static void larger_message_is_truncated(void) {
  struct context context;
  static char buffer[6000];
  setup(&context, 1, 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, 5000), 0);
  CHECK_EQUAL(put(&context, OTHER_SLOT, 0, TAG, NULL, 0), 0);
  send_message(&context, 0, TAG, 300000);
  send_message(&context, 0, TAG, 1000);
  wait_flags(&context, OTHER_SLOT, O2G_RECEIVED);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED | O2G_RECEIVED | O2G_TRUNCATED);
  CHECK_EQUAL(slot_of(&context, SLOT)->received_size, 5000);
  CHECK(is_filled(buffer, 5000, TAG));
  CHECK_EQUAL(buffer[5000], 0);
  CHECK_EQUAL(slot_of(&context, OTHER_SLOT)->received_size, 0);
}

static void full_dump_area_blocks_until_memory_is_freed(void) {
  struct context context;
  uint32_t slot;
  setup(&context, 2, 1024);
  send_message(&context, 0, 1, 900);
  send_message(&context, 0, 2, 600);
  send_message(&context, 0, 3, 300);
  send_message(&context, 1, 4, 100);
  expect_soon(&context.shared->blocked_count, 2);
  CHECK_EQUAL(context.shared->sequence, 1);
  slot = find(&context, 0, 1);
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
  expect_soon(&context.shared->blocked_count, 1);
  expect_soon(&context.shared->unclaimed_count, 2);
  slot = find(&context, 0, 2);
  wait_flags(&context, slot, O2G_RECEIVED);
  CHECK(is_filled(context.area + slot_of(&context, slot)->dump_offset, 600, 2));
  CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
  expect_soon(&context.shared->blocked_count, 0);
  expect_soon(&context.shared->unclaimed_count, 2);
}

static void blocked_message_matches_an_entry_that_is_put(void) {
  struct context context;
  static char buffer[600000];
  setup(&context, 1, 1024);
  for (int tag = 1; tag < 4; tag++)
    send_message(&context, 0, tag, 100000);
  expect_soon(&context.shared->blocked_count, 1);
  for (int tag = 1; tag < 4; tag++) {
    CHECK_EQUAL(put(&context, SLOT, 0, O2G_ANY_TAG, buffer, sizeof buffer), 0);
    wait_flags(&context, SLOT, O2G_RECEIVED);
    CHECK_EQUAL(slot_of(&context, SLOT)->tag, tag);
    CHECK(is_filled(buffer, 100000, tag));
  }
  CHECK_EQUAL(context.shared->blocked_count, 0);
}

static void dump_area_that_is_set_late_unblocks(void) {
  struct context context;
  static char area[10000];
  struct o2g_dump_area request = {(uintptr_t)area, sizeof area, 0};
  setup(&context, 1, 0);
  send_message(&context, 0, TAG, 0);
  expect_soon(&context.shared->blocked_count, 1);
  CHECK_EQUAL(call(&context, O2G_IOC_SET_DUMP_AREA, &request), 0);
  CHECK_EQUAL(request.pinned_size, sizeof area);
  expect_soon(&context.shared->unclaimed_count, 1);
  CHECK_EQUAL(call(&context, O2G_IOC_SET_DUMP_AREA, &request), -EBUSY);
}

static void slots_for_unexpected_messages_grow(void) {
  enum { COUNT = 5000 };
  struct context context;
  setup(&context, 1, 2 << 20);
  for (int i = 0; i < COUNT; i++)
    send_message(&context, 0, i, 0);
  expect_soon(&context.shared->unclaimed_count, COUNT);
  for (int i = COUNT; i-- != 0;) {
    uint32_t const slot = find(&context, 0, i);
    wait_flags(&context, slot, O2G_RECEIVED);
    CHECK_EQUAL(slot_of(&context, slot)->sequence, i + 1);
    CHECK_EQUAL(call_value(&context, O2G_IOC_FREE, slot), 0);
  }
  CHECK_EQUAL(counters_of(&context).dump_free_size, 2 << 20);
}

static void become_ordinary_user_without_locked_memory(void) {
  struct rlimit const none = {0, 0};
  CHECK_EQUAL(setrlimit(RLIMIT_MEMLOCK, &none), 0);
  CHECK_EQUAL(setgid(65534), 0);
  CHECK_EQUAL(setuid(65534), 0);
}

static void memory_that_is_not_pinned_is_written_by_waiting_calls(void) {
  struct context context;
  static char buffer[600000];
  become_ordinary_user_without_locked_memory();
  setup(&context, 1, 1 << 20);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(counters_of(&context).pinned_size, 0);
  send_message(&context, 0, TAG, 100000);
  expect_soon(&context.shared->pending_count, 1);
  CHECK_EQUAL(flags_of(&context, SLOT), O2G_MATCHED);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, 100000, TAG));
  send_message(&context, 0, TAG + 1, 50000);
  expect_soon(&context.shared->pending_count, 1);
  wait_flags(&context, find(&context, 0, TAG + 1), O2G_RECEIVED);
  CHECK(is_filled(context.area, 50000, TAG + 1));
  CHECK_EQUAL(counters_of(&context).handler_size, 0);
  CHECK_EQUAL(counters_of(&context).dumper_size, 150000);
}

static void *run_dumper(void *argument) {
  int error = -EINTR;
  while (error == -EINTR)
    error = call_value(argument, O2G_IOC_DUMP, 0);
  CHECK_EQUAL(error, 0);
  return NULL;
}

static void memory_that_is_not_pinned_is_written_by_dumper_threads(void) {
  struct context context;
  static char buffer[3 << 20];
  pthread_t threads[2];
  become_ordinary_user_without_locked_memory();
  setup(&context, 1, 0);
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, run_dumper, &context), 0);
  for (int i = 0; i < 5; i++) {
    CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
    send_message(&context, 0, TAG, sizeof buffer);
    expect_flags_soon(&context, SLOT, O2G_RECEIVED);
    CHECK(is_filled(buffer, sizeof buffer, TAG));
    memset(buffer, 0, sizeof buffer);
  }
  CHECK_EQUAL(call_value(&context, O2G_IOC_STOP, 0), 0);
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_DUMP, 0), 0);
}

static void large_message_is_continued_by_the_worker(void) {
  struct context context;
  static char buffer[8 << 20];
  setup(&context, 1, 0);
  set_parameter("handler_bytes", "2000");
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_message(&context, 0, TAG, sizeof buffer);
  set_parameter("handler_bytes", "262144");
  expect_flags_soon(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(buffer, sizeof buffer, TAG));
  CHECK(counters_of(&context).worker_size > sizeof buffer / 2);
  CHECK(counters_of(&context).handler_size != 0);
  CHECK_EQUAL(counters_of(&context).dumper_size, 0);
}

static void handler_without_budget_leaves_all_to_the_worker(void) {
  struct context context;
  char buffer[1000];
  setup(&context, 1, 0);
  set_parameter("handler_bytes", "0");
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_message(&context, 0, TAG, sizeof buffer);
  expect_flags_soon(&context, SLOT, O2G_RECEIVED);
  set_parameter("handler_bytes", "262144");
  CHECK(is_filled(buffer, sizeof buffer, TAG));
}

static void buffer_that_cannot_be_written_fails_its_entry(void) {
  struct context context;
  char *const buffer = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  setup(&context, 1, 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, 8192), 0);
  send_message(&context, 0, TAG, 100);
  wait_flags(&context, SLOT, O2G_FAILED);
  CHECK_EQUAL(slot_of(&context, SLOT)->error, -EFAULT);
  CHECK_EQUAL(slot_of(&context, SLOT)->received_size, 0);
  expect_soon(&context.shared->open_count, 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_RANK_STATUS, 0), -EPIPE);
  CHECK_EQUAL(put(&context, OTHER_SLOT, -2, TAG, buffer, 10), -EINVAL);
  CHECK_EQUAL(put(&context, OTHER_SLOT, 0, TAG, (void *)-4096, 8192), -EINVAL);
}

static void mapped_file_is_a_buffer(void) {
  struct context context;
  char path[] = "/dev/shm/o2g-XXXXXX";
  int const file = mkstemp(path);
  char *shared;
  char *private;
  CHECK(file >= 0);
  unlink(path);
  CHECK_EQUAL(ftruncate(file, 10000), 0);
  shared = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  private =
      mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY), 0);
  CHECK(shared != MAP_FAILED && private != MAP_FAILED);
  setup(&context, 1, 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, shared, 10000), 0);
  CHECK_EQUAL(put(&context, OTHER_SLOT, 0, TAG, private, 10000), 0);
  send_message(&context, 0, TAG, 9000);
  send_message(&context, 0, TAG, 8000);
  wait_flags(&context, OTHER_SLOT, O2G_RECEIVED);
  CHECK(is_filled(shared, 9000, TAG) && is_filled(private, 8000, TAG));
}

static void slots_are_a_buffer_that_is_not_pinned(void) {
  struct context context;
  setup(&context, 1, 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, slot_of(&context, 512), 4096), 0);
  CHECK_EQUAL(counters_of(&context).pinned_size, 0);
  send_message(&context, 0, TAG, 4096);
  wait_flags(&context, SLOT, O2G_RECEIVED);
  CHECK(is_filled(slot_of(&context, 512), 4096, TAG));
  CHECK_EQUAL(call_value(&context, O2G_IOC_CANCEL, 512), -EINVAL);
}

static void events_wake_poll_and_eventfd(void) {
  struct context context;
  char buffer[10];
  uint64_t count = 0;
  int const event = eventfd(0, EFD_NONBLOCK);
  struct o2g_wait wait = {0, 0};
  struct pollfd poll_file;
  setup(&context, 1, 0);
  poll_file = (struct pollfd){context.file, POLLIN, 0};
  CHECK_EQUAL(call_value(&context, O2G_IOC_EVENTFD, (unsigned long)event), 0);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), -ETIMEDOUT);
  CHECK_EQUAL(poll(&poll_file, 1, 0), 0);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  send_message(&context, 0, TAG, sizeof buffer);
  CHECK_EQUAL(poll(&poll_file, 1, 10000), 1);
  CHECK_EQUAL(poll_file.revents, POLLIN);
  CHECK_EQUAL(read(event, &count, sizeof count), sizeof count);
  CHECK(count != 0);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), 0);
  CHECK_EQUAL(wait.event_count, 1);
  CHECK_EQUAL(poll(&poll_file, 1, 0), 0);
  CHECK_EQUAL(call_value(&context, O2G_IOC_EVENTFD, (unsigned long)context.file), -EINVAL);
  CHECK_EQUAL(call_value(&context, O2G_IOC_EVENTFD, (unsigned long)-1), 0);
  close(event);
}

static void *send_after_a_while(void *argument) {
  usleep(50000);
  send_message(argument, 0, TAG, 10);
  return NULL;
}

static void waiting_call_returns_for_a_message_and_for_its_timeout(void) {
  struct context context;
  pthread_t sender;
  char buffer[10];
  struct o2g_wait wait = {0, 20000000};
  setup(&context, 1, 0);
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), -ETIMEDOUT);
  CHECK_EQUAL(put(&context, SLOT, 0, TAG, buffer, sizeof buffer), 0);
  CHECK_EQUAL(pthread_create(&sender, NULL, send_after_a_while, &context), 0);
  wait.timeout_ns = ~0ull;
  CHECK_EQUAL(call(&context, O2G_IOC_WAIT, &wait), 0);
  CHECK((flags_of(&context, SLOT) & O2G_RECEIVED) != 0);
  CHECK_EQUAL(pthread_join(sender, NULL), 0);
}

static void many_entries_match_in_order(void) {
  enum { COUNT = 3000 };
  struct context context;
  static uint32_t buffers[COUNT][2];
  struct o2g_grow grow = {O2G_CHUNK_EXPECTED, 0};
  setup(&context, 1, 0);
  for (int i = 0; i < 2; i++)
    CHECK_EQUAL(call(&context, O2G_IOC_GROW, &grow), 0);
  for (uint32_t i = 0; i < COUNT; i++)
    CHECK_EQUAL(put(&context,
                    i,
                    i % 2 == 0 ? 0 : O2G_ANY_SOURCE,
                    i % 3 == 0 ? O2G_ANY_TAG : (int)TAG,
                    buffers[i],
                    sizeof buffers[i]),
                0);
  for (uint32_t i = 0; i < COUNT; i++) {
    struct o2g_header const header = header_of(0, TAG, sizeof i);
    send_all(context.peers[0], &header, sizeof header);
    send_all(context.peers[0], &i, sizeof i);
  }
  for (uint32_t i = 0; i < COUNT; i++) {
    wait_flags(&context, i, O2G_RECEIVED);
    CHECK_EQUAL(buffers[i][0], i);
  }
}

const struct test message_tests[] = {
    TEST(message_in_pieces_is_received_at_every_boundary),
    TEST(message_in_single_bytes_is_received),
    TEST(expected_message_is_received_by_the_handler_without_a_call),
    TEST(unexpected_message_is_found_and_freed),
    TEST(messages_are_walked_from_the_oldest),
    TEST(put_after_an_unseen_message_is_refused),
    TEST(entry_is_cancelled_until_it_matches),
    TEST(larger_message_is_truncated),
    TEST(full_dump_area_blocks_until_memory_is_freed),
    TEST(blocked_message_matches_an_entry_that_is_put),
    TEST(dump_area_that_is_set_late_unblocks),
    TEST(slots_for_unexpected_messages_grow),
    TEST(memory_that_is_not_pinned_is_written_by_waiting_calls),
    TEST(memory_that_is_not_pinned_is_written_by_dumper_threads),
    TEST(large_message_is_continued_by_the_worker),
    TEST(handler_without_budget_leaves_all_to_the_worker),
    TEST(buffer_that_cannot_be_written_fails_its_entry),
    TEST(mapped_file_is_a_buffer),
    TEST(slots_are_a_buffer_that_is_not_pinned),
    TEST(events_wake_poll_and_eventfd),
    TEST(waiting_call_returns_for_a_message_and_for_its_timeout),
    TEST(many_entries_match_in_order),
    {NULL, NULL},
};
