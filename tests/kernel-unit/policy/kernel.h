/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Substitutes for the kernel's interfaces that triage's sources use, for one thread in user space.
 * kernel_now is the time. The Makefile has the compiler read this file before all others, and puts
 * empty files in the place of the kernel's headers. Locks and barriers do nothing here.
 */
#ifndef POLICY_KERNEL_H
#define POLICY_KERNEL_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "userspace.h"

/* The compiler */

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define ____cacheline_aligned_in_smp
#define __acquires(lock)
#define __releases(lock)
#define likely(condition) (condition)
#define unlikely(condition) (condition)

/* Types and numbers */

typedef u64 sector_t;
typedef unsigned int blk_opf_t;
typedef unsigned int blk_insert_t;
typedef u64 ktime_t;

#define S64_MAX INT64_MAX
#define U16_MAX UINT16_MAX
#define SZ_1K 1024
#define SZ_4K 4096
#define SZ_64K 65536
#define SECTOR_SHIFT 9
#define BIT_ULL(bit) (1ull << (bit))

#define min(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ : b_; })
#define clamp(value, low, high) min(max(value, low), high)
#undef abs
#define abs(x) ({ __auto_type x_ = (x); x_ < 0 ? -x_ : x_; })
#define DIV_ROUND_UP(dividend, divisor) (((dividend) + (divisor) - 1) / (divisor))
#define div_u64(dividend, divisor) div64_u64(dividend, divisor)

static inline unsigned long roundup_pow_of_two(unsigned long x)
{
	return x > 1 ? 1ul << (ilog2(x - 1) + 1) : 1;
}

/* Any spread will do: multiply by 2^64 divided by the golden ratio, and take the upper bits. */
static inline u32 hash_64(u64 key, unsigned int bits)
{
	return key * 0x9e3779b97f4a7c15ull >> (64 - bits);
}

/* Time: a tick is 4 ms. The first tick is not 0, so that `jiffies - n` does not wrap around. */

#define HZ 250
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define TICK_NS (NSEC_PER_SEC / HZ)
#define FIRST_TICK 1000000

static u64 kernel_now;	/* in ns */

#define jiffies ((unsigned long)(FIRST_TICK + kernel_now / TICK_NS))
#define nsecs_to_jiffies(ns) ((unsigned long)((ns) / TICK_NS))
#define msecs_to_jiffies(ms) ((unsigned long)DIV_ROUND_UP(ms, 1000 / HZ))
#define jiffies_to_msecs(ticks) ((unsigned int)((ticks) * (1000 / HZ)))
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define ns_to_ktime(ns) ((ktime_t)(ns))

static inline u64 ktime_get_ns(void)
{
	return kernel_now;
}

/* Timers: timers_fire() in policy/device.h calls @function once @expires has passed. */

#define CLOCK_MONOTONIC 0
#define HRTIMER_MODE_REL 0

enum hrtimer_restart {
	HRTIMER_NORESTART,
};

struct hrtimer {
	u64 expires;	/* in ns; 0: not armed */
	enum hrtimer_restart (*function)(struct hrtimer *timer);
};

#define hrtimer_setup(timer, callback, clock, mode) ((timer)->function = (callback))

static inline void hrtimer_start(struct hrtimer *timer, ktime_t time, int mode)
{
	timer->expires = kernel_now + time;
}

static inline void hrtimer_cancel(struct hrtimer *timer)
{
	timer->expires = 0;
}

static inline bool hrtimer_is_queued(const struct hrtimer *timer)
{
	return timer->expires;
}

/* Memory that CPUs share: there is only one CPU here */

typedef struct { int value; } atomic_t;
typedef struct { s64 value; } atomic64_t;
typedef struct { int unused; } spinlock_t;

#define READ_ONCE(word) (word)
#define WRITE_ONCE(word, value) ((word) = (value))
#define smp_load_acquire(word) (*(word))
#define smp_store_release(word, value) (*(word) = (value))
#define smp_mb() ((void)0)
#define smp_rmb() ((void)0)
#define smp_mb__after_atomic() ((void)0)
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define synchronize_rcu() ((void)0)
#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)
#define spin_lock_init(lock) ((void)(lock))
#define spin_lock(lock) ((void)(lock))
#define spin_unlock(lock) ((void)(lock))
#define spin_trylock(lock) ((void)(lock), true)
#define lockdep_assert_held(lock) ((void)(lock))
#define lockdep_assert_not_held(lock) ((void)(lock))
#define WARN_ON_ONCE(condition) assert(!(condition))

#define atomic_read(atomic) ((atomic)->value)
#define atomic_inc(atomic) ((atomic)->value++)
#define atomic_dec(atomic) ((atomic)->value--)
#define atomic_dec_return(atomic) (--(atomic)->value)
#define atomic64_read(atomic) ((atomic)->value)
#define atomic64_set(atomic, to) ((atomic)->value = (to))
#define atomic64_add(by, atomic) ((atomic)->value += (by))
#define atomic64_add_return(by, atomic) ((atomic)->value += (by))

static inline bool atomic64_try_cmpxchg(atomic64_t *atomic, s64 *old, s64 new)
{
	if (atomic->value != *old) {
		*old = atomic->value;
		return false;
	}
	atomic->value = new;
	return true;
}

static inline s64 atomic64_xchg(atomic64_t *atomic, s64 new)
{
	const s64 old = atomic->value;

	atomic->value = new;
	return old;
}

#define upper_32_bits(n) ((u32)((u64)(n) >> 32))
#define lower_32_bits(n) ((u32)(n))

#define xchg(word, new) ({					\
	__typeof__(word) word_ = (word);			\
	__typeof__(*word_) old_ = *word_;			\
	*word_ = (new);						\
	old_;							\
})
#define cmpxchg(word, old, new) ({				\
	__typeof__(word) word_ = (word);			\
	__typeof__(*word_) found_ = *word_;			\
	if (found_ == (old))					\
		*word_ = (new);					\
	found_;							\
})

#define try_cmpxchg(word, old, new) ({				\
	__typeof__(old) old_ = (old);				\
	__typeof__(*old_) seen_ = cmpxchg(word, *old_, new);	\
	bool done_ = seen_ == *old_;				\
	*old_ = seen_;						\
	done_;							\
})

static inline bool test_bit(unsigned int bit, const unsigned long *word)
{
	return *word >> bit & 1;
}

static inline void set_bit(unsigned int bit, unsigned long *word)
{
	*word |= 1ul << bit;
}

static inline void clear_bit(unsigned int bit, unsigned long *word)
{
	*word &= ~(1ul << bit);
}

static inline bool test_and_set_bit(unsigned int bit, unsigned long *word)
{
	const bool was_set = test_bit(bit, word);

	set_bit(bit, word);
	return was_set;
}

static inline bool test_and_clear_bit(unsigned int bit, unsigned long *word)
{
	const bool was_set = test_bit(bit, word);

	clear_bit(bit, word);
	return was_set;
}

/* Lists */

#define container_of(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))
/* Return the entry whose member is at @pointer. Return NULL if @pointer is NULL. */
#define entry_or_null(pointer, type, member) ({			\
	__auto_type node_ = (pointer);				\
	node_ ? container_of(node_, type, member) : NULL;	\
})

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline bool list_is_singular(const struct list_head *list)
{
	return !list_empty(list) && list->next == list->prev;
}

static inline void list_add(struct list_head *entry, struct list_head *after)
{
	entry->prev = after;
	entry->next = after->next;
	entry->next->prev = entry;
	after->next = entry;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	list_add(entry, list->prev);
}

static inline void list_del_init(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	INIT_LIST_HEAD(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *list)
{
	list_del_init(entry);
	list_add(entry, list);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *list)
{
	list_del_init(entry);
	list_add_tail(entry, list);
}

/* The list's head takes the place before @entry. */
static inline void list_rotate_to_front(struct list_head *entry, struct list_head *list)
{
	list_move_tail(list, entry);
}

static inline void list_replace(struct list_head *old, struct list_head *new)
{
	list_add(new, old);
	list_del_init(old);
}

#define list_entry container_of
#define list_first_entry(list, type, member) list_entry((list)->next, type, member)
#define list_last_entry(list, type, member) list_entry((list)->prev, type, member)
#define list_first_entry_or_null(list, type, member) \
	(list_empty(list) ? NULL : list_first_entry(list, type, member))
#define list_for_each_entry(entry, list, member)					\
	for (entry = list_first_entry(list, __typeof__(*entry), member);		\
	     &entry->member != (list);							\
	     entry = list_entry(entry->member.next, __typeof__(*entry), member))

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

/* Insert @node before the node that @link points to. */
static inline void hlist_link(struct hlist_node *node, struct hlist_node **link)
{
	node->next = *link;
	node->pprev = link;
	if (node->next)
		node->next->pprev = &node->next;
	*link = node;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *list)
{
	hlist_link(node, &list->first);
}

static inline void hlist_add_behind(struct hlist_node *node, struct hlist_node *before)
{
	hlist_link(node, &before->next);
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (!node->pprev)
		return;
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	node->next = NULL;
	node->pprev = NULL;
}

#define hlist_entry_safe entry_or_null
#define hlist_for_each_entry(entry, list, member)					\
	for (entry = entry_or_null((list)->first, __typeof__(*entry), member); entry;	\
	     entry = entry_or_null(entry->member.next, __typeof__(*entry), member))

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

static inline void init_llist_head(struct llist_head *list)
{
	list->first = NULL;
}

static inline bool llist_empty(const struct llist_head *list)
{
	return !list->first;
}

static inline struct llist_node *llist_del_all(struct llist_head *list)
{
	return xchg(&list->first, NULL);
}

static inline struct llist_node *llist_reverse_order(struct llist_node *node)
{
	struct llist_node *reversed = NULL;

	while (node) {
		struct llist_node *const next = node->next;

		node->next = reversed;
		reversed = node;
		node = next;
	}
	return reversed;
}

#define llist_entry container_of
#define llist_for_each_entry_safe(entry, following, node, member)			\
	for (entry = entry_or_null(node, __typeof__(*entry), member);			\
	     entry && (following = entry_or_null(entry->member.next,			\
						 __typeof__(*entry), member), true);	\
	     entry = following)

/* Only a disk's flows are sorted, and no disk is modelled here. */
struct rb_root {
	void *unused;
};

#define RB_ROOT ((struct rb_root){ NULL })

struct rcu_head {
	void *unused;
};

/* Memory */

#define GFP_KERNEL 0
#define array_size(count, size) ((count) * (size))
#define kvzalloc_node(size, gfp, node) ((void)(node), calloc(1, size))
#define kvfree free
#define memalloc_noio_save() 0
#define memalloc_noio_restore(flags) ((void)(flags))

/* I/O priorities, as in ioprio_set(2) */

#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_PRIO_CLASS(ioprio) ((ioprio) >> IOPRIO_CLASS_SHIFT & 7)
#define IOPRIO_NR_LEVELS 8
#define IOPRIO_BE_NORM 4

enum {
	IOPRIO_CLASS_NONE,
	IOPRIO_CLASS_RT,
	IOPRIO_CLASS_BE,
	IOPRIO_CLASS_IDLE,
};

/* The block layer */

enum req_op {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_ZONE_APPEND = 7,
};

#define REQ_OP_MASK 255u
#define REQ_BACKGROUND (1u << 8)
#define REQ_META (1u << 9)
#define REQ_PRIO (1u << 10)
#define REQ_SWAP (1u << 11)
#define REQ_RAHEAD (1u << 12)
#define REQ_SYNC (1u << 13)
#define REQ_IDLE (1u << 14)
#define REQ_FUA (1u << 15)
#define REQ_PREFLUSH (1u << 16)
#define op_is_write(flags) ((flags) & 1)

#define BLK_MQ_S_INACTIVE 3
#define BLK_MQ_F_TAG_HCTX_SHARED 8
#define BLK_MQ_INSERT_AT_HEAD 1

enum {
	HCTX_TYPE_DEFAULT,
	HCTX_TYPE_READ,
	HCTX_TYPES,
};

enum {
	STAT_FLUSH,
	STATS,
};

struct bio;
struct blk_mq_alloc_data;
struct elevator_type;

struct block_device {
	u64 ios[STATS], nsecs[STATS];
};

#define part_stat_read(disk, field) ((disk)->field)

struct gendisk {
	struct block_device *part0;
};

struct elevator_queue {
	void *elevator_data;
};

struct elv_fs_entry {
	const char *name;
};

struct blk_mq_tags {
	struct {
		struct {
			unsigned int depth;
		} sb;
	} bitmap_tags;
};

struct blk_mq_hw_ctx {
	struct list_head dispatch;
	void *sched_data;
	unsigned long state;
	unsigned int flags;
	struct blk_mq_tags *sched_tags;
};

struct blk_mq_ctx {
	struct blk_mq_hw_ctx *hctxs[HCTX_TYPES];
};

struct request_queue {
	struct elevator_queue *elevator;
	int mq_freeze_depth;
	unsigned int nr_hw_queues;
	int node;
	struct gendisk *disk;
	struct blk_mq_ctx *queue_ctx;
	struct blk_mq_hw_ctx *hw_queues;
	spinlock_t queue_lock;
};

static inline s64 sign_extend64(u64 value, int index)
{
	return (s64)(value << (63 - index)) >> (63 - index);
}

#define list_empty_careful(list) list_empty(list)
#define raw_cpu_ptr(pointer) (pointer)
#define queue_for_each_hw_ctx(queue, hctx, i)						\
	for (i = 0; i < (queue)->nr_hw_queues && (hctx = &(queue)->hw_queues[i], true); i++)

struct request {
	struct list_head queuelist;
	struct hlist_node hash;
	struct llist_node ipi_list;
	struct {
		void *priv[2];
	} elv;
	blk_opf_t cmd_flags;
	unsigned short ioprio;
	unsigned int bytes;
	sector_t sector;
	unsigned long fifo_time;
	u64 start_time_ns, io_start_time_ns;
	struct bio *bio;
	struct blk_mq_hw_ctx *mq_hctx;
	/* Fields of the model (policy/device.h): */
	struct process *process;
	u64 at;	/* when the process may send the request, or the device answers it, in ns */
};

#define req_op(rq) ((enum req_op)((rq)->cmd_flags & REQ_OP_MASK))
#define req_get_ioprio(rq) ((rq)->ioprio)
#define blk_rq_bytes(rq) ((rq)->bytes)
#define blk_rq_pos(rq) ((rq)->sector)
#define blk_rq_sectors(rq) ((rq)->bytes >> SECTOR_SHIFT)

void blk_mq_run_hw_queue(struct blk_mq_hw_ctx *hctx, bool async);

/* Substitutes for kernel/compat/iosched.h */

#define iosched_was_prepared(rq) ((void)(rq), true)
#define iosched_set_prepared(rq) ((void)(rq))
/* When the device's flush began, in ns; 0: the device has no flush. */
static u64 flush_began_at __attribute__((unused));
#define iosched_flush_began(hctx) ((void)(hctx), flush_began_at)

/* Tracepoints: all are off. Defining TG_TRACE_H keeps triage/trace.h out. */

#define TG_TRACE_H
#define trace_block_rq_insert(rq) ((void)(rq))
#define trace_block_rq_insert_enabled() false
#define trace_triage_dispatch_enabled() false
#define trace_triage_hold_enabled() false

#endif
