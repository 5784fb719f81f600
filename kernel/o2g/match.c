// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Matching of messages to posted receives, by hashed classes of patterns: see match.h. */

#include "match.h"

#ifdef __KERNEL__

#include <linux/bug.h>
#include <linux/container_of.h>
#include <linux/random.h>
#include <linux/slab.h>

#define O2G_MATCH_ASSERT(condition) WARN_ON_ONCE(!(condition))

static inline void *o2g_match_allocate(size_t count, size_t size)
{
	return kmalloc_array(count, size, GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
}

static inline void o2g_match_free(void *memory)
{
	kfree(memory);
}

/* The key is secret: a process or a peer could otherwise choose tags that are in one chain. */
static inline void o2g_match_seed(struct o2g_matcher *m)
{
	m->chain_count_max = KMALLOC_MAX_SIZE / sizeof(struct o2g_match_link);
	get_random_bytes(&m->hash_key, sizeof(m->hash_key));
}

static inline uint64_t o2g_match_mix(const struct o2g_matcher *m, uint64_t tag, uint32_t source)
{
	return hsiphash_3u32((uint32_t)tag, (uint32_t)(tag >> 32), source, &m->hash_key);
}

#else

#include <stdlib.h>

#define O2G_MATCH_ASSERT(condition) ((condition) ? (void)0 : abort())
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))

static inline void *o2g_match_allocate(size_t count, size_t size)
{
	return calloc(count, size);
}

static inline void o2g_match_free(void *memory)
{
	free(memory);
}

static inline void o2g_match_seed(struct o2g_matcher *m)
{
	m->chain_count_max = SIZE_MAX / sizeof(struct o2g_match_link);
}

/* Tags differ in few bits, often the low ones, so every bit must affect the low bits. */
static inline uint64_t o2g_match_mix(const struct o2g_matcher *m, uint64_t tag, uint32_t source)
{
	uint64_t mixed = tag * 0x9E3779B97F4A7C15u + source;

	(void)m;
	mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
	return mixed ^ (mixed >> 32);
}

#endif

static inline struct o2g_match_link *o2g_match_chain(const struct o2g_matcher *m,
						     const struct o2g_match_class *kind,
						     const struct o2g_match_table *table,
						     uint64_t tag, uint32_t source)
{
	uint64_t hash = o2g_match_mix(m, tag & ~kind->ignore, kind->any_source ? 0 : source);

	return &table->chains[hash & table->mask];
}

static inline struct o2g_match_link *o2g_match_posted_chain(const struct o2g_matcher *m,
							    const struct o2g_match_class *kind,
							    uint64_t tag, uint32_t source)
{
	return o2g_match_chain(m, kind, &kind->posted, tag, source);
}

static inline struct o2g_match_link *o2g_match_arrived_chain(const struct o2g_matcher *m,
							     const struct o2g_match_class *kind,
							     uint64_t tag, uint32_t source)
{
	return o2g_match_chain(m, kind, &kind->arrived, tag, source);
}

static inline struct o2g_arrived_entry *o2g_match_arrived_of(struct o2g_match_link *bucket,
							     size_t index)
{
	return container_of(bucket - index, struct o2g_arrived_entry, buckets[0]);
}

static void o2g_match_set_chains(struct o2g_match_table *table, struct o2g_match_link *chains,
				 size_t count)
{
	size_t i;

	table->chains = chains;
	table->mask = count - 1;
	for (i = 0; i < count; i++)
		o2g_match_link_init(&chains[i]);
}

/*
 * Makes the table larger than `count`, or as large as memory allows. True: its chains are new and
 * empty. False: nothing has changed.
 */
static bool o2g_match_grow(const struct o2g_matcher *m, struct o2g_match_table *table,
			   const struct o2g_match_link *first, size_t count)
{
	struct o2g_match_link *chains = NULL;
	size_t size = table->mask + 1;

	while (size <= count && size <= m->chain_count_max / 4)
		size *= 4;
	for (; size > table->mask + 1; size /= 4) {
		chains = o2g_match_allocate(size, sizeof(*chains));
		if (chains)
			break;
	}
	if (!chains)
		return false;
	if (table->chains != first)
		o2g_match_free(table->chains);
	o2g_match_set_chains(table, chains, size);
	return true;
}

/*
 * Whether a table of `count` entries should grow before the next one. If it could not, it is tried
 * again only after many more entries.
 */
static inline bool o2g_match_is_full(const struct o2g_match_table *table, size_t count)
{
	return count > table->mask && (count & table->mask) == 0;
}

/* Entries are added in the order of the queue, so that each chain begins with its oldest. */
static void o2g_match_index_arrived(struct o2g_matcher *m, size_t index)
{
	struct o2g_match_class *kind = &m->classes[index];
	struct o2g_arrived_entry *e;

	for (e = o2g_match_next_arrived(m, NULL); e; e = o2g_match_next_arrived(m, e))
		o2g_match_append(o2g_match_arrived_chain(m, kind, e->key.tag, e->key.source),
				 &e->buckets[index]);
}

static void o2g_match_index_posted(struct o2g_matcher *m, size_t index)
{
	struct o2g_match_class *kind = &m->classes[index];
	struct o2g_posted_entry *e;

	for (e = o2g_match_next_posted(m, NULL); e; e = o2g_match_next_posted(m, e))
		if (e->class_index == index)
			o2g_match_append(o2g_match_posted_chain(m, kind, e->pattern.tag,
								e->pattern.source),
					 &e->bucket);
}

static size_t o2g_match_make_class(struct o2g_matcher *m, const struct o2g_match_pattern *pattern)
{
	size_t index = m->class_count++;
	struct o2g_match_class *kind = &m->classes[index];

	kind->ignore = pattern->ignore;
	kind->any_source = pattern->source == O2G_MATCH_ANY_PEER;
	kind->posted_count = 0;
	o2g_match_set_chains(&kind->posted, kind->first_posted, O2G_MATCH_FIRST_CHAIN_COUNT);
	o2g_match_set_chains(&kind->arrived, kind->first_arrived, O2G_MATCH_FIRST_CHAIN_COUNT);
	o2g_match_grow(m, &kind->arrived, kind->first_arrived, m->arrived_count);
	o2g_match_index_arrived(m, index);
	return index;
}

/* Finds or makes the class of a pattern. O2G_MATCH_CLASS_COUNT_MAX: there are too many. */
static size_t o2g_match_class_for(struct o2g_matcher *m, const struct o2g_match_pattern *pattern)
{
	bool any_source = pattern->source == O2G_MATCH_ANY_PEER;
	size_t i;

	for (i = 0; i < m->class_count; i++)
		if (m->classes[i].ignore == pattern->ignore &&
		    m->classes[i].any_source == any_source)
			return i;
	return i == O2G_MATCH_CLASS_COUNT_MAX ? i : o2g_match_make_class(m, pattern);
}

void o2g_matcher_init(struct o2g_matcher *m)
{
	o2g_match_link_init(&m->posted);
	o2g_match_link_init(&m->arrived);
	m->sequence = 0;
	m->posted_count = 0;
	m->arrived_count = 0;
	m->unclassed_count = 0;
	m->class_count = 0;
	o2g_match_seed(m);
}

void o2g_matcher_fini(struct o2g_matcher *m)
{
	size_t i;

	while (m->posted_count != 0)
		o2g_match_remove_posted(m, o2g_match_next_posted(m, NULL));
	while (m->arrived_count != 0)
		o2g_match_remove_arrived(m, o2g_match_next_arrived(m, NULL));
	O2G_MATCH_ASSERT(m->unclassed_count == 0);
	for (i = 0; i < m->class_count; i++) {
		struct o2g_match_class *kind = &m->classes[i];

		if (kind->posted.chains != kind->first_posted)
			o2g_match_free(kind->posted.chains);
		if (kind->arrived.chains != kind->first_arrived)
			o2g_match_free(kind->arrived.chains);
	}
	m->class_count = 0;
}

static struct o2g_posted_entry *o2g_match_scan_posted(struct o2g_matcher *m,
						      const struct o2g_match_key *key)
{
	struct o2g_posted_entry *e;

	for (e = o2g_match_next_posted(m, NULL); e; e = o2g_match_next_posted(m, e))
		if (o2g_match_matches(&e->pattern, key))
			break;
	return e;
}

static struct o2g_arrived_entry *o2g_match_scan_arrived(struct o2g_matcher *m,
							const struct o2g_match_pattern *pattern)
{
	struct o2g_arrived_entry *e;

	for (e = o2g_match_next_arrived(m, NULL); e; e = o2g_match_next_arrived(m, e))
		if (o2g_match_matches(pattern, &e->key))
			break;
	return e;
}

struct o2g_posted_entry *o2g_match_find_posted(struct o2g_matcher *m,
					       const struct o2g_match_key *key)
{
	struct o2g_posted_entry *best = NULL;
	size_t i;

	/* The search finds those with a class, too. */
	if (m->unclassed_count != 0)
		return o2g_match_scan_posted(m, key);
	for (i = 0; i < m->class_count; i++) {
		const struct o2g_match_class *kind = &m->classes[i];
		struct o2g_match_link *head, *link;

		if (kind->posted_count == 0)
			continue;
		head = o2g_match_posted_chain(m, kind, key->tag, key->source);
		for (link = head->next; link != head; link = link->next) {
			struct o2g_posted_entry *e =
				container_of(link, struct o2g_posted_entry, bucket);

			if (!o2g_match_matches(&e->pattern, key))
				continue;
			if (!best || e->sequence < best->sequence)
				best = e;
			break;
		}
	}
	return best;
}

struct o2g_arrived_entry *o2g_match_find_arrived(struct o2g_matcher *m,
						 const struct o2g_match_pattern *pattern)
{
	struct o2g_match_link *head, *link;
	size_t index;

	if (m->arrived_count == 0)
		return NULL;
	index = o2g_match_class_for(m, pattern);
	if (index == O2G_MATCH_CLASS_COUNT_MAX)
		return o2g_match_scan_arrived(m, pattern);
	head = o2g_match_arrived_chain(m, &m->classes[index], pattern->tag, pattern->source);
	for (link = head->next; link != head; link = link->next) {
		struct o2g_arrived_entry *e = o2g_match_arrived_of(link, index);

		if (o2g_match_matches(pattern, &e->key))
			return e;
	}
	return NULL;
}

static bool o2g_match_scan_raced(struct o2g_matcher *m, const struct o2g_match_pattern *pattern,
				 uint64_t number)
{
	struct o2g_match_link *link;

	for (link = m->arrived.prev; link != &m->arrived; link = link->prev) {
		struct o2g_arrived_entry *e = container_of(link, struct o2g_arrived_entry, order);

		if (e->number <= number)
			break;
		if (o2g_match_matches(pattern, &e->key))
			return true;
	}
	return false;
}

bool o2g_match_is_raced(struct o2g_matcher *m, const struct o2g_match_pattern *pattern,
			uint64_t number)
{
	struct o2g_match_link *head, *link;
	size_t index;

	if (m->arrived_count == 0)
		return false;
	if (container_of(m->arrived.prev, struct o2g_arrived_entry, order)->number <= number)
		return false;
	index = o2g_match_class_for(m, pattern);
	if (index == O2G_MATCH_CLASS_COUNT_MAX)
		return o2g_match_scan_raced(m, pattern, number);
	head = o2g_match_arrived_chain(m, &m->classes[index], pattern->tag, pattern->source);
	for (link = head->prev; link != head; link = link->prev) {
		struct o2g_arrived_entry *e = o2g_match_arrived_of(link, index);

		if (e->number <= number)
			break;
		if (o2g_match_matches(pattern, &e->key))
			return true;
	}
	return false;
}

void o2g_match_add_posted(struct o2g_matcher *m, struct o2g_posted_entry *e)
{
	size_t index = o2g_match_class_for(m, &e->pattern);
	struct o2g_match_class *kind;

	O2G_MATCH_ASSERT(!e->is_queued);
	e->is_queued = true;
	e->sequence = m->sequence++;
	e->class_index = (uint8_t)index;
	m->posted_count++;
	o2g_match_append(&m->posted, &e->order);
	if (index == O2G_MATCH_CLASS_COUNT_MAX) {
		o2g_match_link_init(&e->bucket);
		m->unclassed_count++;
		return;
	}
	kind = &m->classes[index];
	if (o2g_match_is_full(&kind->posted, kind->posted_count++) &&
	    o2g_match_grow(m, &kind->posted, kind->first_posted, kind->posted_count))
		o2g_match_index_posted(m, index);
	else
		o2g_match_append(o2g_match_posted_chain(m, kind, e->pattern.tag,
							e->pattern.source),
				 &e->bucket);
}

void o2g_match_add_arrived(struct o2g_matcher *m, struct o2g_arrived_entry *e)
{
	size_t i;

	O2G_MATCH_ASSERT(!e->is_queued);
	e->is_queued = true;
	m->arrived_count++;
	o2g_match_append(&m->arrived, &e->order);
	for (i = 0; i < m->class_count; i++) {
		struct o2g_match_class *kind = &m->classes[i];

		if (o2g_match_is_full(&kind->arrived, m->arrived_count - 1) &&
		    o2g_match_grow(m, &kind->arrived, kind->first_arrived, m->arrived_count))
			o2g_match_index_arrived(m, i);
		else
			o2g_match_append(o2g_match_arrived_chain(m, kind, e->key.tag,
								 e->key.source),
					 &e->buckets[i]);
	}
}

void o2g_match_remove_posted(struct o2g_matcher *m, struct o2g_posted_entry *e)
{
	O2G_MATCH_ASSERT(e->is_queued && m->posted_count != 0);
	e->is_queued = false;
	o2g_match_unlink(&e->order);
	o2g_match_unlink(&e->bucket);
	m->posted_count--;
	if (e->class_index == O2G_MATCH_CLASS_COUNT_MAX) {
		O2G_MATCH_ASSERT(m->unclassed_count != 0);
		m->unclassed_count--;
	} else {
		O2G_MATCH_ASSERT(e->class_index < m->class_count);
		O2G_MATCH_ASSERT(m->classes[e->class_index].posted_count != 0);
		m->classes[e->class_index].posted_count--;
	}
}

void o2g_match_remove_arrived(struct o2g_matcher *m, struct o2g_arrived_entry *e)
{
	size_t i;

	O2G_MATCH_ASSERT(e->is_queued && m->arrived_count != 0);
	e->is_queued = false;
	o2g_match_unlink(&e->order);
	for (i = 0; i < m->class_count; i++)
		o2g_match_unlink(&e->buckets[i]);
	m->arrived_count--;
}
