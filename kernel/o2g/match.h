/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Matches messages to receives in MPI's order. Posted receives and arrived messages that no
 * receive has matched are in two queues. A new receive or message takes the oldest matching entry
 * of the other queue. Both queues are hashed: matching costs the same with one entry and with ten
 * thousand.
 *
 * A receive matches by (tag & ~ignore), and by one source or any source. Receives with the same
 * `ignore` that all name a source, or all accept any, form a class with its own hash table (tuple
 * space search [Srinivasan, Suri, Varghese 1999]). A sequence number decides between classes.
 * Programs use few classes: MPI's wildcards result in at most four for each layout of tags.
 * Receives of a ninth class are found by a linear search. If a table cannot grow because of
 * insufficient memory, it keeps its size: matching is slower, but nothing fails.
 *
 * The driver and the library in the process share this code. It takes no locks and does not
 * sleep: the caller holds a lock. The caller owns the entries. They must not move while they are
 * queued. In a new entry `is_queued` is false; the other fields may have any value.
 */
#ifndef O2G_MATCH_H
#define O2G_MATCH_H

#ifdef __KERNEL__
#include <linux/siphash.h>
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define O2G_MATCH_ANY_PEER (~(uint32_t)0)
#define O2G_MATCH_CLASS_COUNT_MAX 8
#define O2G_MATCH_FIRST_CHAIN_COUNT 16 /* a power of two */

struct o2g_match_key {
	uint64_t tag;
	uint32_t source;
};

struct o2g_match_pattern {
	uint64_t tag;
	uint64_t ignore; /* bits of the tag that are not compared */
	uint32_t source; /* O2G_MATCH_ANY_PEER: any */
};

/* A node of a circular list, whose head is a node, too. */
struct o2g_match_link {
	struct o2g_match_link *prev;
	struct o2g_match_link *next;
};

/* A receive. The caller sets `pattern` before it adds the entry, and nothing else. */
struct o2g_posted_entry {
	struct o2g_match_pattern pattern;
	struct o2g_match_link order; /* in the whole queue, oldest first */
	struct o2g_match_link bucket; /* in its class, oldest first */
	uint64_t sequence; /* decides which of two classes has the oldest */
	uint8_t class_index; /* O2G_MATCH_CLASS_COUNT_MAX: no class */
	bool is_queued;
};

/*
 * A message. The caller sets `key` before it adds the entry, and `number` if it uses
 * o2g_match_is_raced(); numbers then increase in the order in which messages are added.
 */
struct o2g_arrived_entry {
	struct o2g_match_key key;
	struct o2g_match_link order;
	struct o2g_match_link buckets[O2G_MATCH_CLASS_COUNT_MAX];
	uint64_t number;
	bool is_queued;
};

/* Hash chains. The number of entries is at or below the number of chains if memory suffices. */
struct o2g_match_table {
	struct o2g_match_link *chains;
	size_t mask; /* number of chains - 1 */
};

struct o2g_match_class {
	uint64_t ignore;
	bool any_source;
	size_t posted_count;
	struct o2g_match_table posted;
	struct o2g_match_table arrived;
	/* The chains of small tables, which therefore need no other memory. */
	struct o2g_match_link first_posted[O2G_MATCH_FIRST_CHAIN_COUNT];
	struct o2g_match_link first_arrived[O2G_MATCH_FIRST_CHAIN_COUNT];
};

/* About 4.6 KiB. It must not move after o2g_matcher_init(). */
struct o2g_matcher {
	struct o2g_match_link posted; /* all entries, in order */
	struct o2g_match_link arrived;
	uint64_t sequence; /* of the next posted entry */
	size_t posted_count;
	size_t arrived_count;
	size_t unclassed_count; /* posted entries without a class */
	size_t class_count;
	size_t chain_count_max; /* tables do not grow beyond it; tests lower it */
#ifdef __KERNEL__
	hsiphash_key_t hash_key; /* prevents tags chosen to be in one chain */
#endif
	struct o2g_match_class classes[O2G_MATCH_CLASS_COUNT_MAX];
};

void o2g_matcher_init(struct o2g_matcher *m);
/* Removes the entries that are still queued, and frees the tables. */
void o2g_matcher_fini(struct o2g_matcher *m);

/* Return the oldest matching entry, which stays queued; NULL if there is no match. */
struct o2g_posted_entry *o2g_match_find_posted(struct o2g_matcher *m,
					       const struct o2g_match_key *key);
struct o2g_arrived_entry *o2g_match_find_arrived(struct o2g_matcher *m,
						 const struct o2g_match_pattern *pattern);

/* Append an entry to its queue. The caller has already checked that nothing matches. */
void o2g_match_add_posted(struct o2g_matcher *m, struct o2g_posted_entry *e);
void o2g_match_add_arrived(struct o2g_matcher *m, struct o2g_arrived_entry *e);

void o2g_match_remove_posted(struct o2g_matcher *m, struct o2g_posted_entry *e);
void o2g_match_remove_arrived(struct o2g_matcher *m, struct o2g_arrived_entry *e);

/* Whether a queued message with a number larger than `number` matches the pattern. */
bool o2g_match_is_raced(struct o2g_matcher *m, const struct o2g_match_pattern *pattern,
			uint64_t number);

static inline void o2g_match_link_init(struct o2g_match_link *link)
{
	link->prev = link;
	link->next = link;
}

/* Appends to the list of `head`. */
static inline void o2g_match_append(struct o2g_match_link *head, struct o2g_match_link *link)
{
	link->prev = head->prev;
	link->next = head;
	link->prev->next = link;
	head->prev = link;
}

static inline void o2g_match_unlink(struct o2g_match_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	o2g_match_link_init(link);
}

static inline bool o2g_match_matches(const struct o2g_match_pattern *pattern,
				     const struct o2g_match_key *key)
{
	return ((pattern->tag ^ key->tag) & ~pattern->ignore) == 0 &&
	       (pattern->source == O2G_MATCH_ANY_PEER || pattern->source == key->source);
}

/*
 * Return the entry that was added after `after`, which is queued, or the oldest if `after` is NULL.
 * NULL: there is no such entry.
 */
static inline struct o2g_posted_entry *o2g_match_next_posted(struct o2g_matcher *m,
							     const struct o2g_posted_entry *after)
{
	struct o2g_match_link *link = after ? after->order.next : m->posted.next;

	if (link == &m->posted)
		return NULL;
	return (struct o2g_posted_entry *)((char *)link - offsetof(struct o2g_posted_entry, order));
}

static inline struct o2g_arrived_entry *
o2g_match_next_arrived(struct o2g_matcher *m, const struct o2g_arrived_entry *after)
{
	struct o2g_match_link *link = after ? after->order.next : m->arrived.next;

	if (link == &m->arrived)
		return NULL;
	return (struct o2g_arrived_entry *)((char *)link -
					    offsetof(struct o2g_arrived_entry, order));
}

#ifdef __cplusplus
}
#endif

#endif
