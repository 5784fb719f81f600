/* frames.c: a receiver of frames, as libo2g-fi.so is one. It has the same receives as the driver,
 * in the same order, and matches the messages that it reads itself. Of each connection every frame
 * is seen once, either read or received by the driver, and no frame before an older one. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "receiver.h"

enum {
  POST_COUNT = 48, /* receives in progress */
  UNEXPECTED_COUNT_MAX = 4096,
  READ_SIZE_MAX = 70000,
  STALE_SLOT = 1000, /* never put */
  HOSTILE_PEER_MIN = 1000,
};

enum post_state { POST_FREE, POST_QUEUED, POST_MATCHED, POST_CANCELED };

struct post {
  enum post_state state;
  struct o2g_put_message put;
  uint32_t rank;   /* POST_MATCHED */
  uint32_t number; /* POST_MATCHED */
  char *region;    /* BUFFER_SIZE and guards */
  void *mapping;   /* hostile memory, or NULL */
};

struct connection {
  bool is_registered;
  bool has_ended; /* read, or detached */
  bool is_detached;
  bool is_readable; /* O2G_IOC_READABLE has returned it, and it was not read to its end since */
  bool has_head;    /* the frame's envelope was read */
  struct o2g_envelope head;
  size_t head_size;
  uint64_t body_size;
  uint64_t body_offset;
  uint32_t next_number; /* all frames before it were seen */
  uint64_t seen[MESSAGE_COUNT_MAX / 64];
  /* Newest message of an earlier receive with this pattern, and one more; 0: none. */
  uint32_t newest_of_tag[CONTEXT_COUNT][TAG_COUNT];
  uint32_t newest_of_any[CONTEXT_COUNT];
};

/* A message that was read and that no receive has matched. */
struct unexpected {
  uint32_t rank;
  uint32_t number;
};

static struct post posts[POST_COUNT]; /* a ring in the order in which they were posted */
static uint32_t first;
static uint32_t count;
static struct connection connections[RANK_COUNT_MAX];
static struct unexpected early[UNEXPECTED_COUNT_MAX];
static uint32_t early_count;
static uint32_t *ring;
static uint64_t taken_count;
static uint64_t random_state;
static char piece[2][READ_SIZE_MAX];

static const unsigned char guard_byte = 0xA5;

static void count_operation(enum operation operation) {
  atomic_fetch_add(&totals->operations[operation], 1);
}

static bool may_end(uint32_t rank) {
  return current->has_lossy_faults || current->ranks[rank].fate != FATE_NORMAL ||
         connections[rank].is_detached;
}

static bool matches(struct post const *post, uint32_t rank, struct message message) {
  uint64_t const tag = (uint64_t)message.context << 32 | (uint32_t)message.tag;
  bool const is_source = post->put.source == O2G_ANY_PEER || post->put.source == peer_of(rank);
  return is_source && ((tag ^ post->put.tag) & ~post->put.ignore) == 0;
}

static void see(uint32_t rank, uint32_t number) {
  struct connection *const connection = &connections[rank];
  if (number >= MESSAGE_COUNT_MAX)
    fail("rank %u has sent no frame %u", rank, number);
  uint64_t const bit = UINT64_C(1) << (number % 64);
  if ((connection->seen[number / 64] & bit) != 0)
    fail("frame %u of rank %u was seen twice", number, rank);
  connection->seen[number / 64] |= bit;
  while (connection->next_number < MESSAGE_COUNT_MAX &&
         (connection->seen[connection->next_number / 64] >> (connection->next_number % 64) & 1))
    connection->next_number++;
  atomic_fetch_add(&totals->messages, 1);
}

/* Receives are checked in the order in which they were posted. */
static void check_order(struct post const *post) {
  struct connection *const connection = &connections[post->rank];
  struct message const message = message_of(post->rank, post->number);
  uint32_t *const of_tag = &connection->newest_of_tag[message.context][message.tag];
  uint32_t *const of_any = &connection->newest_of_any[message.context];
  bool const is_any = post->put.ignore != 0;
  if (post->number < *of_tag || post->number < *of_any)
    fail("frame %u of rank %u, tag %d, context %u was overtaken by %u",
         post->number,
         post->rank,
         message.tag,
         message.context,
         (*of_tag > *of_any ? *of_tag : *of_any) - 1);
  *(is_any ? of_any : of_tag) = post->number + 1;
}

static void check_guards(struct post const *post) {
  char const *const buffer = (char const *)post->put.address;
  for (size_t i = 0; i < GUARD_SIZE; i++) {
    if ((unsigned char)buffer[-1 - (ptrdiff_t)i] != guard_byte ||
        (unsigned char)buffer[post->put.size + i] != guard_byte)
      fail("a byte beside a buffer of %llu bytes was written", (unsigned long long)post->put.size);
  }
}

static void retire(void) {
  while (count != 0 && posts[first].state != POST_QUEUED) {
    struct post *const post = &posts[first];
    if (post->mapping != NULL)
      munmap(post->mapping, BUFFER_SIZE);
    else
      check_guards(post);
    if (post->state == POST_MATCHED)
      check_order(post);
    post->mapping = NULL;
    post->state = POST_FREE;
    first = (first + 1) % POST_COUNT;
    count--;
  }
}

static void match(struct post *post, uint32_t rank, uint32_t number) {
  post->state = POST_MATCHED;
  post->rank = rank;
  post->number = number;
}

static struct post *post_of_slot(uint32_t slot) {
  for (uint32_t i = 0; i < count; i++) {
    struct post *const post = &posts[(first + i) % POST_COUNT];
    if (post->put.slot == slot && post->state == POST_QUEUED)
      return post;
  }
  fail("the driver has completed slot %u, which is not posted", slot);
}

static void check_contents(struct post const *post, struct o2g_slot const *slot) {
  struct message const message = message_of(post->rank, post->number);
  bool const is_cut = message.size > post->put.size;
  bool const is_complete_now = (slot->flags & O2G_RECEIVED) != 0;
  if (slot->message_size != message.size || slot->tag != message.tag ||
      slot->context != message.context || slot->source != (int32_t)peer_of(post->rank) ||
      slot->o2g_slot_envelope_data != ~(uint64_t)post->number)
    fail("frame %u of rank %u has the envelope of another one", post->number, post->rank);
  if (!matches(post, post->rank, message) || message.kind != O2G_KIND_MESSAGE)
    fail("frame %u of rank %u does not match its receive", post->number, post->rank);
  if (is_complete_now && (slot->received_size != (is_cut ? post->put.size : message.size) ||
                          is_cut != ((slot->flags & O2G_TRUNCATED) != 0)))
    fail("frame %u of rank %u has %llu of %llu bytes in %llu, flags %#x",
         post->number,
         post->rank,
         (unsigned long long)slot->received_size,
         (unsigned long long)slot->message_size,
         (unsigned long long)post->put.size,
         slot->flags);
  if (post->mapping == NULL)
    message_check(post->rank, (void const *)post->put.address, slot->received_size);
}

static void complete(uint32_t number) {
  struct post *const post = post_of_slot(number);
  struct o2g_slot const slot = *slot_of(number);
  uint64_t const id = slot.o2g_slot_envelope_id;
  uint32_t const rank = (uint32_t)(id >> 32);
  if (!is_done(number) || (slot.flags & O2G_MATCHED) == 0)
    fail("slot %u is in the ring with flags %#x", number, slot.flags);
  if (post->put.flags & O2G_PUT_MATCH_ONLY)
    fail("slot %u only matches, and was received into", number);
  if (rank >= current->rank_count || slot.connection != rank)
    fail("slot %u has ID %#llx and connection %llu",
         number,
         (unsigned long long)id,
         (unsigned long long)slot.connection);
  if ((slot.flags & O2G_FAILED) != 0) {
    atomic_fetch_add(&totals->failed_entries, 1);
    bool const is_known = slot.error == -EPIPE || slot.error == -EPROTO || slot.error == -EFAULT;
    if (!may_end(rank) || !is_known)
      fail("a receive of rank %u failed with %d", rank, slot.error);
  }
  see(rank, (uint32_t)id);
  match(post, rank, (uint32_t)id);
  check_contents(post, &slot);
}

static void take_completions(void) {
  while (__atomic_load_n(&receiver.page->completed_count, __ATOMIC_ACQUIRE) != taken_count)
    complete(ring[taken_count++ % O2G_RING_COUNT]);
  retire();
}

/* Removes a receive from the driver. False: it has a message, and completes. */
static bool cancel(struct post *post) {
  int const result = call_surely(O2G_IOC_CANCEL, post->put.slot);
  if (result == 0)
    return true;
  if (result != -EAGAIN || (post->put.flags & O2G_PUT_MATCH_ONLY) != 0)
    fail("cancel of slot %u: error %d", post->put.slot, result);
  atomic_fetch_add(&totals->raced, 1);
  return false;
}

/* Which connections have bytes for the process. Also continues with sockets that wait for a call.
 */
static void find_readable(void) {
  uint32_t ranks[RANK_COUNT_MAX];
  struct o2g_readable request = {(uintptr_t)ranks, RANK_COUNT_MAX, 0};
  int const result = call(O2G_IOC_READABLE, (uintptr_t)&request);
  if (result == -EFAULT && current->has_lossy_faults) { /* the ranks are lost */
    for (uint32_t rank = 0; rank < current->rank_count; rank++)
      connections[rank].is_readable = connections[rank].is_registered;
    return;
  }
  if (result != 0)
    fail("readable: error %d", result);
  for (uint32_t i = 0; i < request.count; i++) {
    if (ranks[i] >= current->rank_count || !connections[ranks[i]].is_registered)
      fail("rank %u is readable, and has no connection", ranks[i]);
    connections[ranks[i]].is_readable = true;
  }
}

static void await_oldest(void) {
  uint64_t const limit_ms = now_ms() + COMPLETION_LIMIT_MS;
  struct post *const post = &posts[first];
  if (cancel(post)) {
    post->state = POST_CANCELED;
    retire();
    return;
  }
  uint32_t const slot = post->put.slot;
  while (post->state == POST_QUEUED && post->put.slot == slot) {
    find_readable();
    take_completions();
    if (now_ms() > limit_ms)
      fail("slot %u has flags %#x since %d s", slot, flags_of(slot), COMPLETION_LIMIT_MS / 1000);
  }
}

static void detach(uint32_t rank) {
  struct connection *const connection = &connections[rank];
  int const result = call_surely(O2G_IOC_DETACH, rank);
  if (result != 0)
    fail("detach of rank %u: error %d", rank, result);
  connection->is_detached = true;
  connection->has_ended = true;
  take_completions();
}

/* The first receive in the order of posting that matches, which the driver has no more. */
static struct post *claim(uint32_t rank, struct message message) {
  for (uint32_t i = 0; i < count; i++) {
    struct post *const post = &posts[(first + i) % POST_COUNT];
    if (post->state == POST_QUEUED && matches(post, rank, message) && cancel(post))
      return post;
  }
  return NULL;
}

/* The envelope of a frame was read. All frames before it were seen. */
static void begin_frame(uint32_t rank) {
  struct connection *const connection = &connections[rank];
  uint64_t const id = le64toh(connection->head.id);
  uint32_t const number = (uint32_t)id;
  take_completions();
  if (id >> 32 != rank || number != connection->next_number)
    fail("frame %#llx of rank %u was read, and the next one is %u",
         (unsigned long long)id,
         rank,
         connection->next_number);
  struct message const message = message_of(rank, number);
  if (connection->head.kind != message.kind || le64toh(connection->head.size) != message.size)
    fail("frame %u of rank %u has the envelope of another one", number, rank);
  see(rank, number);
  connection->body_size = o2g_envelope_following_size(&connection->head);
  connection->body_offset = 0;
  connection->has_head = connection->body_size != 0;
  if (message.kind != O2G_KIND_MESSAGE && message.kind != O2G_KIND_ANNOUNCE)
    return;
  struct post *const post = claim(rank, message);
  if (post != NULL) {
    match(post, rank, number);
    retire();
  } else {
    if (early_count == UNEXPECTED_COUNT_MAX)
      fail("too many unexpected messages");
    early[early_count++] = (struct unexpected){rank, number};
  }
}

static void check_body(struct connection *connection,
                       uint32_t rank,
                       char const *bytes,
                       size_t size) {
  static char expected[MESSAGE_SIZE_MAX + sizeof(struct o2g_envelope)];
  uint32_t const number = (uint32_t)le64toh(connection->head.id);
  message_bytes(rank, number, message_head_size() + connection->body_offset, expected, size);
  if (memcmp(expected, bytes, size) != 0)
    fail("frame %u of rank %u: a byte after %llu is wrong",
         number,
         rank,
         (unsigned long long)connection->body_offset);
}

/* False: the envelope is invalid. */
static bool take_bytes(uint32_t rank, char const *bytes, size_t size) {
  struct connection *const connection = &connections[rank];
  while (size != 0) {
    size_t part;
    if (connection->has_head) {
      uint64_t const left = connection->body_size - connection->body_offset;
      part = size < left ? size : (size_t)left;
      check_body(connection, rank, bytes, part);
      connection->body_offset += part;
      connection->has_head = connection->body_offset != connection->body_size;
    } else {
      part = sizeof connection->head - connection->head_size;
      part = size < part ? size : part;
      memcpy((char *)&connection->head + connection->head_size, bytes, part);
      connection->head_size += part;
      if (connection->head_size == sizeof connection->head) {
        connection->head_size = 0;
        if (!o2g_envelope_is_valid(&connection->head)) {
          if (current->ranks[rank].fate != FATE_RUBBISH)
            fail("an envelope of rank %u is invalid", rank);
          return false;
        }
        begin_frame(rank);
      }
    }
    bytes += part;
    size -= part;
  }
  return true;
}

static void end_connection(uint32_t rank, int result) {
  if (!may_end(rank))
    fail("the connection of rank %u ended (%d), which nothing explains", rank, result);
  detach(rank);
}

/* One read, into one part or two. An envelope needs a first part of its size. */
static void read_connection(uint32_t rank) {
  struct connection *const connection = &connections[rank];
  uint32_t const limits[] = {1, 60, 1000, READ_SIZE_MAX - 64};
  uint64_t const least = connection->has_head ? 1 : sizeof connection->head;
  struct o2g_read request = {.rank = (int32_t)rank, .part_count = 1 + one_in(&random_state, 2)};
  for (uint32_t i = 0; i < request.part_count; i++) {
    uint64_t const size = random_below(&random_state, limits[random_below(&random_state, 4)]);
    request.parts[i].address = (uintptr_t)piece[i];
    request.parts[i].size = size + (i == 0 ? least : 0);
  }
  int const result = call(O2G_IOC_READ, (uintptr_t)&request);
  if (result == -EAGAIN) {
    connection->is_readable = false;
    return;
  }
  if (is_refusal(result) && result != -EFAULT)
    return;
  if (result != 0 || request.read_size == 0) {
    end_connection(rank, result);
    return;
  }
  uint64_t const first_size =
      request.read_size < request.parts[0].size ? request.read_size : request.parts[0].size;
  if (!take_bytes(rank, piece[0], first_size) ||
      !take_bytes(rank, piece[1], request.read_size - first_size))
    detach(rank);
}

static void read_some(void) {
  find_readable();
  for (uint32_t rank = 0; rank < current->rank_count; rank++) {
    uint32_t const turns = 1 + random_below(&random_state, 6);
    for (uint32_t i = 0; i < turns && connections[rank].is_readable; i++) {
      if (connections[rank].has_ended)
        break;
      read_connection(rank);
    }
  }
}

/* An early message takes the receive before the driver has it. */
static bool match_early(struct post *post) {
  for (uint32_t i = 0; i < early_count; i++) {
    struct unexpected const found = early[i];
    if (!matches(post, found.rank, message_of(found.rank, found.number)))
      continue;
    memmove(&early[i], &early[i + 1], (early_count - i - 1) * sizeof early[0]);
    early_count--;
    match(post, found.rank, found.number);
    return true;
  }
  return false;
}

static void choose_put(struct post *post) {
  static uint64_t const ignored[] = {0, 0, UINT32_MAX};
  uint32_t const limits[] = {1, 9, 300, 9000, BUFFER_SIZE - 2 * GUARD_SIZE - 4096};
  uint32_t const tag = random_below(&random_state, TAG_COUNT);
  uint32_t const context = random_below(&random_state, CONTEXT_COUNT);
  uint32_t const rank = random_below(&random_state, current->rank_count);
  post->put.flags = one_in(&random_state, 6) ? O2G_PUT_MATCH_ONLY : 0;
  post->put.ignore = ignored[random_below(&random_state, 3)];
  post->put.tag = (uint64_t)context << 32 | (post->put.ignore != 0 ? 0 : tag);
  post->put.source = one_in(&random_state, 2) ? O2G_ANY_PEER : peer_of(rank);
  post->put.size = random_below(&random_state, limits[random_below(&random_state, 5)]);
  post->put.address = (uintptr_t)post->region + GUARD_SIZE + random_below(&random_state, 4000);
}

/* For messages of a peer whose connection may end: memory that goes away. */
static void make_hostile(struct post *post) {
  uint32_t const rank = random_below(&random_state, current->rank_count);
  if (peer_of(rank) < HOSTILE_PEER_MIN)
    return;
  void *const mapping =
      mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return;
  post->mapping = mapping;
  post->put.source = peer_of(rank);
  post->put.address = (uintptr_t)mapping + random_below(&random_state, 4000);
  if (one_in(&random_state, 3))
    mprotect(mapping, BUFFER_SIZE, PROT_NONE);
}

static void put_one(void) {
  if (count == POST_COUNT)
    await_oldest();
  struct post *const post = &posts[(first + count) % POST_COUNT];
  choose_put(post);
  if (one_in(&random_state, 20))
    make_hostile(post);
  if (post->mapping == NULL) {
    char *const buffer = (char *)post->put.address;
    memset(buffer - GUARD_SIZE, guard_byte, GUARD_SIZE);
    memset(buffer + post->put.size, guard_byte, GUARD_SIZE);
  }
  post->state = POST_QUEUED;
  count++;
  if (match_early(post)) {
    retire();
    return;
  }
  enter(STATE_PUT);
  int const result = call(O2G_IOC_PUT_MESSAGE, (uintptr_t)&post->put);
  if (result == 0) {
    if (post->mapping != NULL && one_in(&random_state, 2))
      mprotect(post->mapping, BUFFER_SIZE, PROT_NONE);
    return;
  }
  if (!is_refusal(result))
    fail("put of slot %u: error %d", post->put.slot, result);
  post->state = POST_CANCELED;
  retire();
}

static void cancel_one(void) {
  if (count == 0)
    return;
  struct post *const post = &posts[(first + random_below(&random_state, count)) % POST_COUNT];
  if (post->state != POST_QUEUED || !cancel(post))
    return;
  post->state = POST_CANCELED;
  retire();
}

static void sleep_in_poll(void) {
  uint64_t const event_count = __atomic_load_n(&receiver.page->event_count, __ATOMIC_ACQUIRE);
  struct o2g_arm request = {event_count - one_in(&random_state, 4),
                            one_in(&random_state, 2) ? random_below(&random_state, 100000) : 0};
  struct pollfd file = {receiver.context, POLLIN, 0};
  int const result = call(O2G_IOC_ARM, (uintptr_t)&request);
  if (result != 0 && !is_refusal(result))
    fail("arm: error %d", result);
  enter(STATE_WAITING);
  poll(&file, 1, (int)random_below(&random_state, 4));
}

/* Calls that must fail. */
static void call_rubbish(void) {
  struct o2g_read read = {.rank = one_in(&random_state, 2) ? -1 : RANK_COUNT_MAX,
                          .part_count = 1,
                          .parts = {{(uintptr_t)piece, sizeof piece[0]}}};
  struct o2g_readable readable = {(uintptr_t)piece, 0, 0};
  struct o2g_put_message put = {.slot = STALE_SLOT, .flags = 2};
  int result = 0;
  switch (random_below(&random_state, 6)) {
    case 0:
      result = call(O2G_IOC_READ, (uintptr_t)&read);
      break;
    case 1:
      read.part_count = 3 * random_below(&random_state, 2);
      result = call(O2G_IOC_READ, (uintptr_t)&read);
      break;
    case 2:
      result = call(O2G_IOC_READABLE, (uintptr_t)&readable);
      break;
    case 3:
      result = call(O2G_IOC_PUT_MESSAGE, (uintptr_t)&put);
      break;
    case 4:
      result = call(O2G_IOC_CANCEL, STALE_SLOT);
      break;
    default:
      result = call(O2G_IOC_DETACH, UINT64_C(1) << random_below(&random_state, 63) | 64);
      break;
  }
  if (result >= 0)
    fail("a call with invalid arguments returned %d", result);
}

static void register_connection(uint32_t rank) {
  if (!register_rank(rank))
    return;
  connections[rank].is_registered = atomic_load(&receiver.is_registered[rank]);
  if (!connections[rank].is_registered)
    connections[rank].has_ended = true;
}

/* Only connections that may lose frames. */
static void detach_one(void) {
  uint32_t const rank = random_below(&random_state, current->rank_count);
  if (current->ranks[rank].fate != FATE_NORMAL && connections[rank].is_registered &&
      !connections[rank].is_detached && one_in(&random_state, 40))
    detach(rank);
}

static void step(void) {
  uint32_t const choice = random_below(&random_state, 100);
  if (choice < 60) {
    count_operation(OPERATION_RECEIVE);
    put_one();
  } else if (choice < 75) {
    count_operation(OPERATION_FIND);
    read_some();
  } else if (choice < 83) {
    count_operation(OPERATION_CANCEL);
    cancel_one();
  } else if (choice < 90) {
    count_operation(OPERATION_WAIT);
    sleep_in_poll();
  } else if (choice < 94) {
    count_operation(OPERATION_RUBBISH);
    call_rubbish();
  } else if (choice < 99) {
    count_operation(OPERATION_REGISTER);
    register_connection(random_below(&random_state, current->rank_count));
  } else {
    detach_one();
  }
  take_completions();
}

static void map_ring(void) {
  do {
    ring =
        mmap(NULL, O2G_RING_SIZE, PROT_READ, MAP_SHARED, receiver.context, (off_t)O2G_RING_OFFSET);
  } while (ring == MAP_FAILED && errno == ENOMEM && current->has_faults);
  if (ring == MAP_FAILED)
    fail("mmap of the ring: errno %d", errno);
}

static void make_posts(void) {
  for (uint32_t i = 0; i < POST_COUNT; i++) {
    posts[i].put.slot = i;
    posts[i].region =
        mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (posts[i].region == MAP_FAILED)
      fail("mmap of a buffer: errno %d", errno);
    memset(posts[i].region, 0, BUFFER_SIZE); /* so that later writes need no memory */
  }
}

static void prepare(void) {
  random_state = mix(current->seed, 88, 0) | 1;
  pthread_mutex_init(&receiver.mutex, NULL);
  make_posts();
  if (current->is_memory_locked_limited)
    limit_locked_memory();
  if (current->has_faults)
    faults_thread(true);
  open_context(O2G_BIND_ENVELOPES);
  map_ring();
  grow();
  if (receiver.expected_chunks[0] != 0)
    fail("the first chunk is %u", receiver.expected_chunks[0]);
  (void)slot_of(0);
  if (current->has_faults)
    faults_thread(false);
}

static bool is_drained(void) {
  for (uint32_t rank = 0; rank < current->rank_count; rank++) {
    bool const is_read =
        connections[rank].is_detached || !connections[rank].is_registered ||
        connections[rank].next_number >= atomic_load(&current->ranks[rank].sent_count);
    if (is_complete(rank) && (!atomic_load(&current->ranks[rank].is_finished) || !is_read))
      return false;
  }
  return true;
}

/* A FIN or rubbish follows whole frames, so all of them must be seen. */
static void check_lost(void) {
  for (uint32_t rank = 0; rank < current->rank_count; rank++) {
    uint32_t const sent_count = atomic_load(&current->ranks[rank].sent_count);
    struct connection const *const connection = &connections[rank];
    bool const is_whole =
        is_complete(rank) && connection->is_registered && current->ranks[rank].fate == FATE_NORMAL;
    if (is_whole && connection->next_number != sent_count)
      fail("rank %u has sent %u frames, and %u were seen: %d bytes unread, %u readable, %u blocked",
           rank,
           sent_count,
           connection->next_number,
           unread_size((int32_t)rank),
           receiver.page->readable_count,
           receiver.page->blocked_count);
  }
}

static void drain(void) {
  uint64_t progress_ms = now_ms();
  uint64_t messages = totals->messages;
  enter(STATE_DRAINING);
  while (!is_drained() && now_ms() < progress_ms + COMPLETION_LIMIT_MS) {
    read_some();
    take_completions();
    early_count = 0;
    if (count != 0 && one_in(&random_state, 4))
      await_oldest();
    if (totals->messages != messages) {
      messages = totals->messages;
      progress_ms = now_ms();
    }
  }
  while (count != 0)
    await_oldest();
  check_lost();
}

static void check_counters(void) {
  struct o2g_counters counters;
  call_surely(O2G_IOC_COUNTERS, (uintptr_t)&counters);
  if (counters.expected_count != 0 && !current->has_lossy_faults)
    fail("%llu receives remain", (unsigned long long)counters.expected_count);
  add_counters();
}

/* After O2G_IOC_FINI nothing is written. */
static void end_by_fini(void) {
  static char copies[POST_COUNT][BUFFER_SIZE];
  int const result = call_surely(O2G_IOC_FINI, 0);
  if (result != 0)
    fail("fini: error %d", result);
  for (uint32_t i = 0; i < POST_COUNT; i++)
    memcpy(copies[i], posts[i].region, BUFFER_SIZE);
  rest_us(20000);
  for (uint32_t i = 0; i < POST_COUNT; i++) {
    if (memcmp(copies[i], posts[i].region, BUFFER_SIZE) != 0)
      fail("memory was written after fini");
  }
}

_Noreturn void frames_run(const char *program) {
  prepare();
  start_sender();
  for (uint64_t const end_ms = now_ms() + current->duration_ms; now_ms() < end_ms;) {
    if (current->has_faults)
      faults_thread(one_in(&random_state, 2));
    for (int i = 0; i < 32; i++)
      step();
  }
  atomic_store(&current->is_stopping, current->ending == ENDING_ORDERLY);
  if (current->has_faults)
    faults_thread(false);
  if (current->ending == ENDING_ORDERLY) {
    for (uint32_t rank = 0; rank < current->rank_count; rank++)
      register_connection(rank);
    drain();
    check_counters();
    enter(STATE_CLOSING);
  } else if (current->ending == ENDING_FINI) {
    end_by_fini();
  } else if (current->ending == ENDING_EXEC) {
    replace_program(program);
  }
  _exit(0);
}
