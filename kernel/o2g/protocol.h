/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the driver shares with tanada/o2g.h, which kernel code cannot include: the header of a
 * message, the flags of an entry, and limits.
 */
#ifndef O2G_PROTOCOL_H
#define O2G_PROTOCOL_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/types.h>

#define O2G_MAGIC 0x3147324Fu
#define O2G_MESSAGE_SIZE_MAX BIT_ULL(40)
#define O2G_SOCKET_COUNT_MAX 65536
#define O2G_THREAD_COUNT_MAX 64
#define O2G_ANY_SOURCE (-1)
#define O2G_ANY_TAG (-1)

enum {
	O2G_QUEUED = 1,
	O2G_MATCHED = 2,
	O2G_RECEIVED = 4,
	O2G_TRUNCATED = 8,
	O2G_FAILED = 16,
	O2G_UNEXPECTED = 32,
	O2G_CLAIMED = 64,
};

/* The sender writes it before each payload. */
struct o2g_wire_header {
	__le32 magic;
	__le32 source;
	__le32 tag;
	__le32 context;
	__le64 size;
	__le64 reserved;
};

static_assert(sizeof(struct o2g_wire_header) == 32);

#endif
