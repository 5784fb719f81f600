/* messages.c: the contents of messages, which follow from the seed, the rank and their number. */
#include "stress.h"

#include <endian.h>
#include <string.h>

uint64_t mix(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t value = a ^ (b * 0x9E3779B97F4A7C15u) ^ (c * 0xD6E8FEB86659FD93u);
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93u;
  value ^= value >> 29;
  value *= 0x9E3779B97F4A7C15u;
  return value ^ (value >> 32);
}

uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state * 0x2545F4914F6CDD1Du;
}

uint32_t random_below(uint64_t *state, uint32_t limit) {
  return (uint32_t)((random_next(state) >> 32) * limit >> 32);
}

bool one_in(uint64_t *state, uint32_t count) {
  return random_below(state, count) == 0;
}

static uint64_t size_between(uint64_t hash, uint64_t least, uint64_t most) {
  return least + hash % (most - least + 1);
}

static int kind_of(uint64_t hash) {
  uint32_t const choice = (uint32_t)hash % 20;
  if (choice == 0)
    return O2G_KIND_ANNOUNCE;
  if (choice < 3)
    return KIND_ACK;
  return choice < 6 ? KIND_BODY : O2G_KIND_MESSAGE;
}

uint32_t peer_of(uint32_t rank) {
  return current->ranks[rank].fate == FATE_VICTIM ? 1000 + rank : rank % 3;
}

size_t message_head_size(void) {
  return current->has_envelopes ? sizeof(struct o2g_envelope) : sizeof(struct o2g_header);
}

struct message message_of(uint32_t rank, uint32_t number) {
  uint64_t const hash = mix(current->seed, rank, number);
  uint64_t const size_hash = mix(hash, 1, 2);
  struct message message = {.tag = (int32_t)(hash % TAG_COUNT),
                            .context = (uint32_t)(hash >> 8) % CONTEXT_COUNT,
                            .kind = kind_of(hash >> 40)};
  uint32_t const kind = (uint32_t)(hash >> 16) % 1000;
  if (kind < 80)
    message.size = 0;
  else if (kind < 160)
    message.size = size_between(size_hash, 1, 7);
  else if (kind < 600)
    message.size = size_between(size_hash, 8, 256);
  else if (kind < 850)
    message.size = size_between(size_hash, 257, 8192);
  else if (kind < 980)
    message.size = size_between(size_hash, 8193, 65536);
  else if (kind < 998)
    message.size = size_between(size_hash, 65537, 300000);
  else
    message.size = size_between(size_hash, 300001, MESSAGE_SIZE_MAX);
  if (current->has_envelopes && message.kind == KIND_ACK)
    message.size = 0;
  return message;
}

static uint64_t word_of(uint32_t rank, uint32_t number, uint64_t index) {
  uint64_t const identity = (uint64_t)rank << 32 | number;
  return index == 0 ? identity : mix(current->seed ^ 0x5A, identity, index);
}

/* Bytes of the payload. */
static void payload_bytes(
    uint32_t rank, uint32_t number, uint64_t offset, char *bytes, size_t size) {
  while (size != 0) {
    uint64_t const word = word_of(rank, number, offset / 8);
    size_t const start = offset % 8;
    size_t const part = size < 8 - start ? size : 8 - start;
    memcpy(bytes, (const char *)&word + start, part);
    bytes += part;
    offset += part;
    size -= part;
  }
}

static void head_bytes(uint32_t rank, uint32_t number, char *bytes) {
  struct message const message = message_of(rank, number);
  struct o2g_header const header = {
      O2G_MAGIC, (int32_t)rank, message.tag, message.context, message.size, 0};
  struct o2g_envelope const envelope = {
      .mark = htole16(O2G_ENVELOPE_MARK),
      .kind = (uint8_t)message.kind,
      .flags = message.kind == O2G_KIND_MESSAGE || message.kind == O2G_KIND_ANNOUNCE
                   ? O2G_ENVELOPE_TAGGED
                   : 0,
      .size = htole64(message.size),
      .tag = htole64((uint64_t)message.context << 32 | (uint32_t)message.tag),
      .data = htole64(~(uint64_t)number),
      .id = htole64((uint64_t)rank << 32 | number)};
  if (current->has_envelopes)
    memcpy(bytes, &envelope, sizeof envelope);
  else
    memcpy(bytes, &header, sizeof header);
}

void message_bytes(uint32_t rank, uint32_t number, uint64_t offset, void *bytes, size_t size) {
  size_t const head_size = message_head_size();
  char *target = bytes;
  if (offset < head_size) {
    char head[sizeof(struct o2g_envelope)];
    size_t const part = size < head_size - offset ? size : head_size - offset;
    head_bytes(rank, number, head);
    memcpy(target, head + offset, part);
    target += part;
    offset += part;
    size -= part;
  }
  payload_bytes(rank, number, offset - head_size, target, size);
}

int64_t message_check(uint32_t rank, const void *bytes, uint64_t size) {
  uint64_t identity;
  if (size < sizeof identity)
    return -1;
  memcpy(&identity, bytes, sizeof identity);
  uint32_t const number = (uint32_t)identity;
  if (identity >> 32 != rank)
    fail("a message of rank %u begins with %#llx", rank, (unsigned long long)identity);
  char expected[256];
  for (uint64_t offset = 0; offset < size; offset += sizeof expected) {
    size_t const part = size - offset < sizeof expected ? size - offset : sizeof expected;
    payload_bytes(rank, number, offset, expected, part);
    if (memcmp(expected, (const char *)bytes + offset, part) != 0)
      fail("message %u of rank %u: a byte after %llu of %llu is wrong",
           number,
           rank,
           (unsigned long long)offset,
           (unsigned long long)size);
  }
  return number;
}
