/* worker.c: a thread that posts receives, takes messages, and checks contents and order. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "receiver.h"

enum { REGION_SIZE = BUFFER_SIZE + 8192 };

static const unsigned char guard_byte = 0xA5;

struct o2g_slot *slot_of(uint32_t number) {
  uint32_t const chunk = number / O2G_CHUNK_SLOT_COUNT;
  if (chunk >= O2G_CHUNK_COUNT_MAX)
    fail("the driver returned slot %u", number);
  struct o2g_slot *slots = atomic_load(&receiver.chunks[chunk]);
  if (slots == NULL) {
    pthread_mutex_lock(&receiver.mutex);
    slots = atomic_load(&receiver.chunks[chunk]);
    if (slots == NULL) {
      off_t const offset = (off_t)(chunk + 1) * O2G_CHUNK_SIZE;
      void *mapping;
      do {
        mapping = mmap(
            NULL, O2G_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, receiver.context, offset);
      } while (mapping == MAP_FAILED && errno == ENOMEM && current->has_faults);
      if (mapping == MAP_FAILED)
        fail("mmap of chunk %u: errno %d", chunk, errno);
      slots = mapping;
      atomic_store(&receiver.chunks[chunk], slots);
    }
    pthread_mutex_unlock(&receiver.mutex);
  }
  return &slots[number % O2G_CHUNK_SLOT_COUNT];
}

uint32_t flags_of(uint32_t slot) {
  return __atomic_load_n(&slot_of(slot)->flags, __ATOMIC_ACQUIRE);
}

bool is_done(uint32_t slot) {
  return (flags_of(slot) & (O2G_RECEIVED | O2G_FAILED)) != 0;
}

/* Bytes that a rank's socket has received and that nobody has read. */
int unread_size(int32_t rank) {
  int size = -1;
  if (rank >= 0 && (uint32_t)rank < current->rank_count)
    ioctl(current->ranks[rank].receiver_socket, FIONREAD, &size);
  return size;
}

void await_completion(uint32_t slot) {
  uint64_t const limit_ms = now_ms() + COMPLETION_LIMIT_MS;
  while (!is_done(slot)) {
    struct o2g_wait wait = {receiver.page->event_count, 5000000};
    if (!is_done(slot) && call(O2G_IOC_WAIT, (uintptr_t)&wait) == -EPIPE)
      rest_us(1000);
    if (now_ms() < limit_ms)
      continue;
    struct o2g_slot const state = *slot_of(slot);
    fail(
        "slot %u has flags %#x and %llu of %llu bytes since %d s; rank %d of fate %d has sent %u"
        " messages, and %d bytes are unread; %u sockets are pending, %u blocked",
        slot,
        state.flags,
        (unsigned long long)state.received_size,
        (unsigned long long)state.message_size,
        COMPLETION_LIMIT_MS / 1000,
        state.source,
        state.source < 0 ? -1 : (int)current->ranks[state.source].fate,
        state.source < 0 ? 0 : atomic_load(&current->ranks[state.source].sent_count),
        unread_size(state.source),
        receiver.page->pending_count,
        receiver.page->blocked_count);
  }
}

void take(uint32_t rank, int64_t number) {
  atomic_fetch_add(&receiver.taken_count[rank], 1);
  atomic_fetch_add(&totals->messages, 1);
  if (number < 0)
    return;
  if (number >= MESSAGE_COUNT_MAX)
    fail("rank %u has sent no message %lld", rank, (long long)number);
  uint64_t const bit = UINT64_C(1) << (number % 64);
  if ((atomic_fetch_or(&receiver.taken[rank][number / 64], bit) & bit) != 0)
    fail("message %lld of rank %u was received twice", (long long)number, rank);
}

static bool matches(struct receive const *receive, struct o2g_slot const *slot) {
  bool const is_source = receive->source == O2G_ANY_SOURCE || receive->source == slot->source;
  bool const is_tag = receive->tag == O2G_ANY_TAG || receive->tag == slot->tag;
  return is_source && is_tag && receive->context == slot->context;
}

/* MPI's order: a receive takes a newer message than each earlier receive that would have taken its
 * message. */
static void check_order(struct worker *worker,
                        struct receive const *receive,
                        struct o2g_slot const *slot,
                        int64_t number) {
  int64_t *const of_any = &worker->newest_of_any[slot->source][slot->context];
  int64_t *const of_tag = &worker->newest_of_tag[slot->source][slot->context][slot->tag];
  if (number <= *of_any || number <= *of_tag)
    fail("worker %u: message %lld of rank %d, tag %d, context %u overtaken by %lld",
         worker->index,
         (long long)number,
         slot->source,
         slot->tag,
         slot->context,
         (long long)(*of_any > *of_tag ? *of_any : *of_tag));
  if (!receive->is_ordered)
    return;
  if (receive->tag == O2G_ANY_TAG)
    *of_any = number;
  else
    *of_tag = number;
}

static void check_envelope(struct receive const *receive, struct o2g_slot const *slot) {
  if (slot->source < 0 || (uint32_t)slot->source >= current->rank_count ||
      slot->context >= CONTEXT_COUNT || slot->tag < 0 || slot->tag >= TAG_COUNT ||
      !matches(receive, slot))
    fail("a receive of source %d, tag %d, context %u got source %d, tag %d, context %u",
         receive->source,
         receive->tag,
         receive->context,
         slot->source,
         slot->tag,
         slot->context);
  if (slot->message_size > MESSAGE_SIZE_MAX || slot->received_size > slot->message_size)
    fail("%llu of %llu bytes were received",
         (unsigned long long)slot->received_size,
         (unsigned long long)slot->message_size);
}

static void check_sizes(struct receive const *receive, struct o2g_slot const *slot) {
  bool const is_posted = receive->kind == RECEIVE_POSTED;
  bool const is_cut = is_posted && slot->message_size > receive->size;
  uint64_t const size = is_cut ? receive->size : slot->message_size;
  if (slot->received_size != size || is_cut != ((slot->flags & O2G_TRUNCATED) != 0))
    fail("a message of %llu bytes in %llu: %llu received, flags %#x",
         (unsigned long long)slot->message_size,
         (unsigned long long)receive->size,
         (unsigned long long)slot->received_size,
         slot->flags);
}

static void check_message(struct worker *worker,
                          struct receive const *receive,
                          struct o2g_slot const *slot) {
  bool const has_arrived = (slot->flags & O2G_RECEIVED) != 0;
  char const *const data =
      receive->kind == RECEIVE_POSTED ? receive->buffer : receiver.area + slot->dump_offset;
  int64_t number = -1;
  check_envelope(receive, slot);
  if (has_arrived)
    check_sizes(receive, slot);
  if (!receive->is_hostile)
    number = message_check((uint32_t)slot->source, data, slot->received_size);
  if (number >= 0) {
    struct message const sent = message_of((uint32_t)slot->source, (uint32_t)number);
    if (sent.tag != slot->tag || sent.context != slot->context || sent.size != slot->message_size)
      fail(
          "message %lld of rank %d has the header of another one", (long long)number, slot->source);
    check_order(worker, receive, slot, number);
  }
  if (has_arrived)
    take((uint32_t)slot->source, number);
}

void check_ended(int32_t source, const char *call_name, int result) {
  if (result != -EPIPE && result != -EPROTO && result != -EFAULT && result != -ENOMEM)
    fail("%s: error %d of rank %d", call_name, result, source);
  bool const may_end = source < 0 || current->has_lossy_faults ||
                       current->ranks[source].fate != FATE_NORMAL ||
                       current->ending == ENDING_UNMAP;
  if (!may_end)
    fail("%s: the connection of rank %d ended with %d, which nothing explains",
         call_name,
         source,
         result);
}

static void check_guards(struct receive const *receive) {
  for (size_t i = 0; i < GUARD_SIZE; i++) {
    if ((unsigned char)receive->buffer[-1 - (ptrdiff_t)i] != guard_byte ||
        (unsigned char)receive->buffer[receive->size + i] != guard_byte)
      fail("a byte beside a buffer of %llu bytes was written", (unsigned long long)receive->size);
  }
}

static void check_completed(struct worker *worker, struct receive const *receive) {
  struct o2g_slot const slot = *slot_of(receive->slot);
  if ((slot.flags & O2G_FAILED) != 0) {
    atomic_fetch_add(&totals->failed_entries, 1);
    bool const is_matched = (slot.flags & O2G_MATCHED) != 0;
    check_ended(is_matched ? slot.source : receive->source, "an entry", slot.error);
    if (is_matched)
      check_message(worker, receive, &slot);
  } else {
    check_message(worker, receive, &slot);
  }
}

void check_claimed(struct worker *worker, struct receive const *receive) {
  check_completed(worker, receive);
  int const result = call_surely(O2G_IOC_FREE, receive->slot);
  if (result != 0)
    fail("free of slot %u: error %d", receive->slot, result);
}

int put(struct worker *worker, struct receive const *receive, uint64_t sequence) {
  struct o2g_put put = {receive->slot,
                        receive->source,
                        receive->tag,
                        receive->context,
                        (uintptr_t)receive->buffer,
                        receive->size,
                        sequence};
  (void)worker;
  enter(STATE_PUT);
  int const result = call(O2G_IOC_PUT, (uintptr_t)&put);
  if (result == -EAGAIN)
    atomic_fetch_add(&totals->raced, 1);
  else if (result != 0 && result != -ENOMEM && !(result == -EFAULT && current->has_lossy_faults))
    check_ended(receive->source, "put", result);
  return result;
}

int find(struct receive *receive, uint64_t *sequence) {
  struct o2g_find request = {receive->source, receive->tag, receive->context, 0, 0};
  int const result = call(O2G_IOC_FIND, (uintptr_t)&request);
  *sequence = request.sequence;
  receive->slot = request.slot;
  if (result == 0) {
    enter(STATE_FOUND);
    uint32_t const flags = flags_of(receive->slot);
    if ((flags & (O2G_UNEXPECTED | O2G_MATCHED | O2G_CLAIMED)) !=
        (O2G_UNEXPECTED | O2G_MATCHED | O2G_CLAIMED))
      fail("find returned slot %u with flags %#x", receive->slot, flags);
    return 0;
  }
  bool const is_fault = result == -ENOMEM || (result == -EFAULT && current->has_lossy_faults);
  if (result != -ENOENT && !is_fault)
    fail("find: error %d", result);
  return result;
}

struct receive *ring_add(struct worker *worker) {
  if (worker->count == RING_SIZE)
    ring_finish_oldest(worker);
  uint32_t const place = (worker->head + worker->count) % RING_SIZE;
  struct receive *const receive = &worker->ring[place];
  worker->count++;
  memset(receive, 0, sizeof *receive);
  uint32_t const chunk_count = atomic_load(&receiver.expected_chunk_count);
  uint32_t const chunk = receiver.expected_chunks[random_below(&worker->random, chunk_count)];
  receive->slot = chunk * O2G_CHUNK_SLOT_COUNT + worker->index * RING_SIZE + place;
  uint32_t const limits[] = {1, 9, 300, 9000, BUFFER_SIZE};
  receive->size = random_below(&worker->random, limits[random_below(&worker->random, 5)]);
  receive->buffer = worker->regions[place] + GUARD_SIZE + random_below(&worker->random, 4096);
  memset(receive->buffer - GUARD_SIZE, guard_byte, GUARD_SIZE);
  memset(receive->buffer + receive->size, guard_byte, GUARD_SIZE);
  return receive;
}

void ring_drop_newest(struct worker *worker) {
  worker->count--;
}

static void ring_drop_oldest(struct worker *worker) {
  struct receive *const receive = &worker->ring[worker->head];
  if (receive->kind == RECEIVE_CLAIMED)
    check_claimed(worker, receive);
  else if (receive->kind == RECEIVE_POSTED)
    check_completed(worker, receive);
  if (receive->mapping != NULL)
    munmap(receive->mapping, REGION_SIZE);
  else if (receive->kind != RECEIVE_CLAIMED && !receive->is_hostile)
    check_guards(receive);
  worker->head = (worker->head + 1) % RING_SIZE;
  worker->count--;
}

/* Checks the oldest ones that are complete. */
void ring_retire(struct worker *worker) {
  while (worker->count != 0) {
    struct receive const *const receive = &worker->ring[worker->head];
    if (receive->kind != RECEIVE_CANCELLED && !is_done(receive->slot))
      return;
    ring_drop_oldest(worker);
  }
}

void ring_finish_oldest(struct worker *worker) {
  struct receive *const receive = &worker->ring[worker->head];
  if (receive->kind == RECEIVE_POSTED && !is_done(receive->slot)) {
    int const result = call_surely(O2G_IOC_CANCEL, receive->slot);
    if (result == 0)
      receive->kind = RECEIVE_CANCELLED;
    else if (result == -EAGAIN)
      atomic_fetch_add(&totals->raced, 1);
    else if (!is_done(receive->slot))
      fail(
          "cancel of slot %u: error %d, flags %#x", receive->slot, result, flags_of(receive->slot));
  }
  if (receive->kind != RECEIVE_CANCELLED)
    await_completion(receive->slot);
  ring_drop_oldest(worker);
}

/* Memory of several kinds. */
static char *region_create(uint32_t place) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  int file = -1;
  if (place % 4 == 1 || place % 8 == 2) {
    file = memfd_create("stress", 0);
    if (file < 0 || ftruncate(file, REGION_SIZE) != 0)
      fail("memfd_create: errno %d", errno);
    flags = place % 4 == 1 ? MAP_SHARED : MAP_PRIVATE;
  }
  void *const region = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, flags, file, 0);
  if (region == MAP_FAILED)
    fail("mmap of a buffer: errno %d", errno);
  if (file >= 0)
    close(file);
  memset(region, 0, REGION_SIZE); /* so that later writes need no memory */
  return region;
}

void worker_prepare(struct worker *worker, uint32_t index) {
  worker->index = index;
  worker->random = mix(current->seed, 33, index) | 1;
  for (uint32_t place = 0; place < RING_SIZE; place++)
    worker->regions[place] = region_create(place);
  memset(worker->newest_of_tag, -1, sizeof worker->newest_of_tag);
  memset(worker->newest_of_any, -1, sizeof worker->newest_of_any);
}

void *worker_run(void *argument) {
  struct worker *const worker = argument;
  while (!atomic_load(&current->is_stopping) && !atomic_load(&receiver.is_leaving)) {
    if (current->has_faults)
      faults_thread(one_in(&worker->random, 2));
    for (int step = 0; step < 32; step++)
      work_step(worker);
  }
  while (worker->count != 0 && !atomic_load(&receiver.is_leaving))
    ring_finish_oldest(worker);
  if (current->has_faults)
    faults_thread(false);
  return NULL;
}
