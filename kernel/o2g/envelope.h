/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The frames between two endpoints of libo2g-fi.so: an envelope of 48 bytes, and the bytes that
 * follow it. The driver and tests of the library share this description; the whole protocol is in
 * src/core/wire/o2g.hpp. The driver interprets tagged messages only, and must know of all other
 * frames where they end.
 */
#ifndef O2G_ENVELOPE_H
#define O2G_ENVELOPE_H

#ifdef __KERNEL__
#include <asm/byteorder.h>
#include <linux/types.h>
#else
#include <endian.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#define le16_to_cpu le16toh
#define le64_to_cpu le64toh
#endif

#define O2G_ENVELOPE_MARK 0x326F
#define O2G_ENVELOPE_SIZE_MAX ((uint64_t)1 << 46) /* bytes of a message */

enum {
	O2G_KIND_MESSAGE = 4,
	O2G_KIND_ANNOUNCE = 5,
	O2G_KIND_PULL = 6,
	O2G_KIND_GET = 9,
	O2G_KIND_LAST = 16,
};

enum {
	O2G_ENVELOPE_TAGGED = 1,
	O2G_ENVELOPE_WANTS_ACK = 4, /* the sender waits until the process acknowledges it */
	O2G_ENVELOPE_FLAGS_ALL = 31,
};

struct o2g_envelope {
	__le16 mark;
	__u8 kind;
	__u8 flags;
	__u8 type;
	__u8 operation;
	__le16 reserved;
	__le64 size; /* bytes */
	__le64 tag;
	__le64 data;
	__le64 id;
	__le64 address;
};

static inline bool o2g_envelope_is_valid(const struct o2g_envelope *e)
{
	return le16_to_cpu(e->mark) == O2G_ENVELOPE_MARK && e->kind >= 1 &&
	       e->kind <= O2G_KIND_LAST && !(e->flags & ~O2G_ENVELOPE_FLAGS_ALL) &&
	       e->reserved == 0 && le64_to_cpu(e->size) <= O2G_ENVELOPE_SIZE_MAX;
}

/* Whether the driver matches it: a tagged message whose body follows. */
static inline bool o2g_envelope_is_message(const struct o2g_envelope *e)
{
	return e->kind == O2G_KIND_MESSAGE && (e->flags & O2G_ENVELOPE_TAGGED);
}

/* The bytes that follow a valid envelope. */
static inline uint64_t o2g_envelope_following_size(const struct o2g_envelope *e)
{
	bool is_alone = e->kind == O2G_KIND_ANNOUNCE || e->kind == O2G_KIND_PULL ||
			e->kind == O2G_KIND_GET;

	return is_alone ? 0 : le64_to_cpu(e->size);
}

#endif
