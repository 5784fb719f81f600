/* sender.c: writes messages of several ranks by turns, in pieces of any size. */
#include "stress.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE_SIZE_MAX = 64 << 10, HELD_COUNT_MAX = 8 };

struct outgoing {
  uint32_t rank;
  uint32_t number;
  uint64_t offset; /* in header and payload */
  uint64_t total;
  uint64_t written;
  bool is_done;
};

struct sender {
  uint64_t random;
  struct outgoing queue[RANK_COUNT_MAX];
  uint32_t count;
  int held[HELD_COUNT_MAX]; /* descriptors of the receiver */
  char piece[PIECE_SIZE_MAX];
};

static void begin_message(struct outgoing *outgoing) {
  struct message const message = message_of(outgoing->rank, outgoing->number);
  bool const is_alone = current->has_envelopes && message.kind == O2G_KIND_ANNOUNCE;
  outgoing->offset = 0;
  outgoing->total = message_head_size() + (is_alone ? 0 : message.size);
}

static void close_connection(struct outgoing *outgoing, bool is_reset) {
  struct rank_state *rank = &current->ranks[outgoing->rank];
  struct linger const linger = {1, 0};
  if (is_reset)
    setsockopt(rank->sender_socket, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  close(rank->sender_socket);
  outgoing->is_done = true;
  atomic_store(&rank->is_finished, true);
}

/* Without space in the socket it is tried again later: the receiver waits for the end. */
static void write_urgent(struct outgoing *outgoing) {
  struct rank_state *rank = &current->ranks[outgoing->rank];
  ssize_t const sent = send(rank->sender_socket, "u", 1, MSG_OOB | MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno == EAGAIN)
    return;
  outgoing->is_done = true;
  atomic_store(&rank->is_finished, true);
}

static struct o2g_envelope envelope_rubbish(uint64_t *random) {
  struct o2g_envelope envelope = {.mark = htole16(O2G_ENVELOPE_MARK),
                                  .kind = O2G_KIND_MESSAGE,
                                  .flags = O2G_ENVELOPE_TAGGED,
                                  .size = htole64(8)};
  switch (random_below(random, 5)) {
    case 0:
      envelope.mark = htole16(O2G_ENVELOPE_MARK + 1);
      break;
    case 1:
      envelope.kind = one_in(random, 2) ? 0 : O2G_KIND_LAST + 1;
      break;
    case 2:
      envelope.flags = O2G_ENVELOPE_FLAGS_ALL + 1;
      break;
    case 3:
      envelope.reserved = htole16(1);
      break;
    default:
      envelope.size = htole64(O2G_ENVELOPE_SIZE_MAX + 1);
      break;
  }
  return envelope;
}

static struct o2g_header header_rubbish(uint32_t rank, uint64_t *random) {
  struct o2g_header header = {O2G_MAGIC, (int32_t)rank, 1, 0, 16, 0};
  switch (random_below(random, 6)) {
    case 0:
      header.magic++;
      break;
    case 1:
      header.source++;
      break;
    case 2:
      header.tag = -1;
      break;
    case 3:
      header.size = (UINT64_C(1) << 40) + 1;
      break;
    case 4:
      header.size = ~UINT64_C(0);
      break;
    default:
      header.reserved = 1;
      break;
  }
  return header;
}

static void write_rubbish(struct sender *sender, struct outgoing *outgoing) {
  struct rank_state *rank = &current->ranks[outgoing->rank];
  struct o2g_header const header = header_rubbish(outgoing->rank, &sender->random);
  struct o2g_envelope const envelope = envelope_rubbish(&sender->random);
  char bytes[sizeof envelope + 100];
  memset(bytes, 0x77, sizeof bytes);
  if (current->has_envelopes)
    memcpy(bytes, &envelope, sizeof envelope);
  else
    memcpy(bytes, &header, sizeof header);
  size_t done = 0;
  while (done < sizeof bytes && !atomic_load(&current->is_stopping)) {
    ssize_t const size =
        send(rank->sender_socket, bytes + done, sizeof bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0)
      done += (size_t)size;
    else if (size < 0 && errno != EAGAIN && errno != ENOMEM && errno != ENOBUFS)
      break;
    else
      rest_us(1000);
  }
  outgoing->is_done = true;
  atomic_store(&rank->is_finished, true);
}

/* Whether the connection of this rank ends here. */
static bool meets_fate(struct sender *sender, struct outgoing *outgoing) {
  struct rank_state const *rank = &current->ranks[outgoing->rank];
  if (outgoing->written < rank->end_at)
    return false;
  if (rank->fate == FATE_FIN || rank->fate == FATE_RST) {
    close_connection(outgoing, rank->fate == FATE_RST);
    return true;
  }
  if (rank->fate == FATE_RUBBISH && outgoing->offset == 0) {
    write_rubbish(sender, outgoing);
    return true;
  }
  if (rank->fate == FATE_URGENT) {
    write_urgent(outgoing);
    return true;
  }
  return false;
}

static size_t piece_size(struct sender *sender, struct outgoing const *outgoing) {
  uint32_t const limits[] = {1, 31, 33, 100, 1500, 9000, PIECE_SIZE_MAX};
  uint32_t const limit = limits[random_below(&sender->random, 7)];
  uint64_t size = 1 + random_below(&sender->random, limit);
  if (size > outgoing->total - outgoing->offset)
    size = outgoing->total - outgoing->offset;
  struct rank_state const *rank = &current->ranks[outgoing->rank];
  bool const ends = rank->fate == FATE_FIN || rank->fate == FATE_RST;
  if (ends && size > rank->end_at - outgoing->written)
    size = rank->end_at - outgoing->written;
  return (size_t)size;
}

/* Writes one piece. Returns whether the socket took something. */
static bool write_piece(struct sender *sender, struct outgoing *outgoing) {
  struct rank_state *rank = &current->ranks[outgoing->rank];
  bool const is_over =
      atomic_load(&current->is_stopping) || outgoing->number == MESSAGE_COUNT_MAX - 1;
  if (outgoing->offset == 0 && is_over) {
    outgoing->is_done = true;
    atomic_store(&rank->is_finished, true);
    return false;
  }
  if (meets_fate(sender, outgoing))
    return true;
  size_t const size = piece_size(sender, outgoing);
  message_bytes(outgoing->rank, outgoing->number, outgoing->offset, sender->piece, size);
  ssize_t const sent = send(rank->sender_socket, sender->piece, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS || errno == EINTR)
      return false;
    outgoing->is_done = true; /* the receiver ended, or ended the connection */
    atomic_store(&rank->is_finished, true);
    return false;
  }
  outgoing->offset += (uint64_t)sent;
  outgoing->written += (uint64_t)sent;
  if (outgoing->offset == outgoing->total) {
    outgoing->number++;
    atomic_store(&rank->sent_count, outgoing->number);
    begin_message(outgoing);
  }
  return true;
}

/* Keeps or closes descriptors that the receiver has passed. A context of another process must
 * refuse every call. */
static void take_descriptor(struct sender *sender, int hand_over) {
  char byte;
  struct iovec part = {&byte, 1};
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr alignment;
  } control;
  struct msghdr message = {0};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  if (recvmsg(hand_over, &message, MSG_DONTWAIT) <= 0)
    return;
  struct cmsghdr const *const head = CMSG_FIRSTHDR(&message);
  if (head == NULL || head->cmsg_type != SCM_RIGHTS)
    return;
  int received;
  memcpy(&received, CMSG_DATA(head), sizeof received);
  struct o2g_counters counters;
  if (byte == 'c' && (ioctl(received, O2G_IOC_COUNTERS, &counters) == 0 || errno != EPERM))
    fail("a process that was passed a context can call it (errno %d)", errno);
  int *const held = &sender->held[random_below(&sender->random, HELD_COUNT_MAX)];
  if (*held >= 0)
    close(*held);
  *held = received;
}

static void wait_for_space(struct sender *sender) {
  struct pollfd waiting[RANK_COUNT_MAX];
  nfds_t count = 0;
  for (uint32_t i = 0; i < sender->count; i++) {
    if (!sender->queue[i].is_done)
      waiting[count++] =
          (struct pollfd){current->ranks[sender->queue[i].rank].sender_socket, POLLOUT, 0};
  }
  poll(waiting, count, 5);
}

void sender_run(uint32_t index, uint32_t count, int hand_over) {
  static _Thread_local struct sender sender;
  memset(&sender, 0, sizeof sender);
  sender.random = mix(current->seed, 77, index) | 1;
  memset(sender.held, -1, sizeof sender.held);
  for (uint32_t rank = index; rank < current->rank_count; rank += count) {
    sender.queue[sender.count].rank = rank;
    begin_message(&sender.queue[sender.count++]);
  }
  bool is_open = true;
  while (is_open && !atomic_load(&current->is_over)) {
    bool has_written = false;
    is_open = false;
    for (uint32_t i = 0; i < sender.count; i++) {
      struct outgoing *const outgoing = &sender.queue[i];
      for (uint32_t turn = random_below(&sender.random, 8); !outgoing->is_done; turn--) {
        bool const has_space = write_piece(&sender, outgoing);
        has_written = has_written || has_space;
        if (!has_space || turn == 0)
          break;
      }
      is_open = is_open || !outgoing->is_done;
    }
    if (hand_over >= 0)
      take_descriptor(&sender, hand_over);
    if (is_open && !has_written)
      wait_for_space(&sender);
  }
  while (hand_over >= 0 && !atomic_load(&current->is_over)) {
    take_descriptor(&sender, hand_over);
    rest_us(2000);
  }
}
