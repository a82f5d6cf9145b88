/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of the protocol of kernel/triage/core.c. The question: is a request ever queued
 * while no CPU will run its queue? The rules 1 to 6 are those at the top of core.c.
 *
 * A comment "file function: code" names the code that a step stands for; test_proof.py
 * checks that the function has that code. Each FLAW_ removes a step, such as a barrier or a run
 * of the queue, or swaps two steps. Then the scenario that test_proof.py names for the flaw must
 * fail.
 *
 * An urgent request may always go to the device. All other requests are bulk. While the device
 * has bulk, no further bulk may go, unless a GRANTER, LEARNER or ENDER has permitted it.
 *
 * A scenario is the number of each kind of process:
 *	URGENT, BULK	submitters of one urgent request each, or of one request of bulk
 *	COMPLETERS	CPUs that get requests back from the device
 *	GRANTERS	CPUs that dispatch an urgent request of another shard (another hardware
 *			queue's part of the scheduler); then bulk of any shard may go even if the
 *			device has some
 *	LEARNERS	CPUs that learn from a completed request that bulk may go
 *	ENDERS		CPUs that find, by a completion, that submitters no longer share
 *			the device, so that bulk may go
 *	MERGERS		lock holders that do not dispatch: merging, debugfs, sysfs
 *	WORKERS		CPUs that run the hardware queue
 *	LEAVERS		exits of the scheduler, once all requests have completed
 * and three settings that are 0 or 1:
 *	MISTAKEN	urgent submitters take their requests for bulk
 *	BUSY		the device has a request of bulk from the beginning
 *	LIMITS		the administrator's limit holds all bulk until the watchdog has fired
 *
 * A hold is the state in which no queued request may go. Here the watchdog fires only for
 * limits: any other hold must end without it. In core.c the watchdog ends each hold after at most
 * 10 ms.
 *
 * The model's memory is more weakly ordered than that of any CPU that Linux runs on, except
 * that no store overtakes the loads before it. Each location has a history of values. A CPU's
 * view says up to which point of each history it has seen the values. A load may return the
 * value at this point, or any newer one. A value carries the view that its writer had at its
 * last barrier. A read barrier adds the views of all values that the CPU has loaded to the CPU's
 * own view. A full barrier joins the CPU's view with that of the last full barrier of any CPU.
 * These are the views of the "promising semantics" (Kang et al., POPL 2017) without promises.
 * With -DSTRONG each load returns the newest value.
 */

#define INBOX	0	/* urgent requests + 8 * requests of bulk */
#define QUEUED	1
#define STATE	2	/* HELD | LIMITED */
#define NR_HELD	3
#define SENT	4	/* requests of bulk sent to the device; the one of BUSY does not count */
#define BACK	5	/* requests of bulk that came back; the one of BUSY counts */
#define OPENERS	(GRANTERS + LEARNERS + ENDERS)
#if OPENERS
#define OPENED	6	/* 1: a grant, a learnt budget or the end of the sharing lets bulk go */
#define PLACES	7
#else
#define PLACES	6
#endif

#define HELD	1
#define LIMITED	2

#define A_BULK	8
#define CPUS	(URGENT + BULK + COMPLETERS + OPENERS + MERGERS + WORKERS + LEAVERS + 1)	/* 1: the watchdog */

/* A view is a word: four bits for each location hold a point in its history. */
#define POINTS	16

c_decl {
	/* Return a view that has, for each location, the newer of the points in two views. */
	static int join(int a, int b)
	{
		int both = 0;

		for (int at = 0; at < 4 * PLACES; at += 4) {
			const int seen_a = a >> at & 15, seen_b = b >> at & 15;

			both |= (seen_a > seen_b ? seen_a : seen_b) << at;
		}
		return both;
	}
}

byte newest[PLACES];
byte value[PLACES * POINTS];
int carried[PLACES * POINTS];

int view[CPUS];		/* each CPU's view */
int pending[CPUS];	/* the views of values that a CPU has loaded, for its next read barrier */
int released[CPUS];	/* each CPU's view at its last barrier: its stores carry this view */
int fenced;		/* the view at the last full barrier of any CPU */

/* Operands of the operations below. Each operation is atomic, so all processes share them. */
byte cpu, where, what;
int to_join;

#define NOW(at)		value[(at) * POINTS + newest[at]]
#define IN_HISTORY	(now.where * POINTS + now.newest[now.where])

inline full_barrier()
{
	cpu = me;
	c_code {
		now.fenced = join(join(now.view[now.cpu], now.pending[now.cpu]), now.fenced);
		now.view[now.cpu] = now.fenced;
		now.pending[now.cpu] = now.fenced;
		now.released[now.cpu] = now.fenced;
	};
	cpu = 0
}

inline read_barrier()
{
	cpu = me;
	c_code { now.view[now.cpu] = join(now.view[now.cpu], now.pending[now.cpu]); };
	cpu = 0
}

/* Add to the CPU's view the view @from, of the CPU that handed over a lock, work or a request. */
inline take_over(from)
{
	cpu = me; to_join = from;
	c_code { now.view[now.cpu] = join(now.view[now.cpu], now.to_join); };
	cpu = 0; to_join = 0
}

/*
 * Get a request back from the device. A driver's doorbell is a full barrier for the stores
 * before it, so the completer's stores carry the dispatcher's view too.
 */
inline take_back()
{
	cpu = me;
	c_code {
		now.view[now.cpu] = join(now.view[now.cpu], now.device_view);
		now.released[now.cpu] = join(now.released[now.cpu], now.device_view);
	};
	cpu = 0
}

inline hand_over(from)
{
	cpu = me; to_join = from;
	c_code { now.to_join = join(now.view[now.cpu], now.to_join); };
	from = to_join;
	cpu = 0; to_join = 0
}

inline load(at, to)
{
	atomic {
		point = newest[at];
#ifndef STRONG
		do
		:: point > ((view[me] >> (4 * at)) & 15) -> point--
		:: break
		od;
#endif
		d_step {
			cpu = me; to_join = carried[at * POINTS + point];
			c_code {
				now.pending[now.cpu] = join(now.pending[now.cpu], now.to_join);
			};
			to_join = point << (4 * at);
			c_code { now.view[now.cpu] = join(now.view[now.cpu], now.to_join); };
			to = value[at * POINTS + point];
			/* The variable @to has room for the value. */
			assert(to == value[at * POINTS + point]);
			cpu = 0; to_join = 0; point = 0
		}
	}
}

/* Write a new value. It carries the view of the CPU's last barrier, and the view @to_join. */
inline append(at, new)
{
	what = new;
	assert(what == (new));
	/* This fails if the protocol never stops writing to a location. */
	assert(newest[at] < POINTS - 1);
	newest[at]++;
	cpu = me; where = at;
	c_code {
		const int point = now.newest[now.where] << 4 * now.where;

		now.value[IN_HISTORY] = now.what;
		now.view[now.cpu] = join(now.view[now.cpu], point);
		now.carried[IN_HISTORY] = join(join(now.released[now.cpu], now.to_join), point);
	};
	cpu = 0; where = 0; what = 0; to_join = 0
}

inline store(at, new)
{
	d_step { append(at, new) }
}

/* An atomic operation without a barrier. The caller must be in atomic or d_step. */
inline modify(at, new)
{
	cpu = me; to_join = carried[at * POINTS + newest[at]];
	c_code { now.pending[now.cpu] = join(now.pending[now.cpu], now.to_join); };
	append(at, new)
}

/*
 * The scheduler ends once all requests have completed and no inserter uses it any more:
 * tg_core_wait_for_inserters() waits for the inserters.
 */
byte completed, inserters;
bool gone;

/* Variables without a history: the lock, and what it guards. */
bool locked;
int lock_view;		/* the view of the lock's last holder */
byte urgent_queued, bulk_queued;
byte sent = BUSY;
bool kick;

/* The block layer and the device. */
bool work;		/* the hardware queue's work is queued */
int work_view;
byte urgent_inside, bulk_inside = BUSY;
int device_view;
byte urgent_dispatched, bulk_dispatched;

/* The administrator's limit and the watchdog. */
bool limit_is_open = !LIMITS;
bool armed;
int armed_view;

inline lock()
{
	atomic { !locked -> locked = true; take_over(lock_view) }
}

inline unlock()
{
	d_step { hand_over(lock_view); locked = false }
}

/* core.c tg_release: if (!test_and_clear_bit(TG_HELD, &shard->state)) */
/* core.c tg_release: atomic_dec(&shard->tg->nr_held); */
inline release(ended)
{
	atomic {
		full_barrier();
		ended = NOW(STATE) & HELD;
		if
		:: ended -> modify(STATE, NOW(STATE) & ~HELD)
		:: else
		fi;
		full_barrier()
	}
	if
	:: ended -> d_step { modify(NR_HELD, NOW(NR_HELD) - 1) }
	:: else
	fi
}

/* core.c tg_has_work: if (llist_empty(&shard->inbox)) { */
/* core.c tg_has_work: smp_rmb(); */
/* core.c tg_has_work: if (!READ_ONCE(shard->queued)) */
/* core.c tg_has_work: return likely(!test_bit(TG_HELD, &shard->state)); */
inline has_work(says)
{
	says = true;
	load(INBOX, seen);
	if
	:: !seen ->
#ifndef FLAW_HAS_WORK_WITHOUT_BARRIER
		d_step { read_barrier() };
#endif
		load(QUEUED, seen);
		if
		:: !seen -> says = false
		:: else
		fi
	:: else
	fi;
	if
	:: says -> load(STATE, seen); says = !(seen & HELD)
	:: else
	fi;
	seen = 0
}

/* blk_mq_run_hw_queue(hctx, true), which asks has_work() first. */
/* core.c tg_run: blk_mq_run_hw_queue(READ_ONCE(shard->hctx), true); */
inline run_queue()
{
	has_work(yes);
	if
	:: yes -> d_step { full_barrier(); work = true; hand_over(work_view) }
	:: else
	fi;
	yes = false
}

/*
 * Set @says to whether bulk may go: it fits its budget, or an opener has let it go beyond that.
 * A dispatcher knows what it has sent, so it loads only BACK.
 */
/* gauge.h tg_gauge_inside: const u64 back = atomic64_read(&gauge->back); */
inline may_go(says)
{
	load(BACK, seen);
	says = sent == seen;
#if OPENERS
	/* budget.c tg_bulk_fits: if (atomic64_read(&tg->budget.granted) > 0) */
	/* device.h tg_budget_now: const u64 found = READ_ONCE(tg->controller.budget); */
	/* budget.c tg_bulk_is_let_in: return !tg_is_shared(tg) || tg_bulk_may_share(tg, patient); */
	load(OPENED, seen);
	says = says || seen;
#endif
	seen = 0
}

/*
 * Do may_go() for a CPU other than the dispatcher. The CPU must never see that more requests
 * came back than were sent.
 */
inline may_go_outside(says)
{
	load(BACK, back);
#ifndef FLAW_GAUGE_WITHOUT_BARRIER
	/* gauge.h tg_gauge_inside: smp_rmb(); */
	d_step { read_barrier() };
#endif
	/* gauge.h tg_gauge_inside: return READ_ONCE(gauge->sent) - back; */
	load(SENT, seen);
	assert(back <= seen + BUSY);
	says = seen + BUSY == back;
#if OPENERS
	load(OPENED, seen);
	says = says || seen;
#endif
	seen = 0; back = 0
}

inline take_in()
{
	/* core.c tg_take_in: if (llist_empty(&shard->inbox)) */
	load(INBOX, list);
	if
	:: list ->
#ifndef FLAW_DRAIN_UNSEEN
		/* core.c tg_take_in: WRITE_ONCE(shard->queued, shard->queued + 1); */
		store(QUEUED, urgent_queued + bulk_queued + 1);
#endif
		/* core.c tg_take_in: urgent = tg_sort(shard, llist_del_all(&shard->inbox)); */
		atomic {
#ifndef FLAW_DRAIN_WITHOUT_BARRIER
			full_barrier();
#endif
			list = NOW(INBOX);
			modify(INBOX, 0);
#ifndef FLAW_DRAIN_WITHOUT_BARRIER
			full_barrier()
#endif
		}
		urgent_queued = urgent_queued + list % A_BULK;
		bulk_queued = bulk_queued + list / A_BULK;
#ifndef FLAW_DRAIN_UNSEEN
		store(QUEUED, urgent_queued + bulk_queued + 1);
#endif
		/* core.c tg_take_in: WRITE_ONCE(shard->queued, shard->queued - 1); */
		store(QUEUED, urgent_queued + bulk_queued);
		came = list % A_BULK
	:: else
	fi;
	list = 0
}

inline drain()
{
	take_in();
	/* core.c tg_drain: if (tg_take_in(shard) && test_bit(TG_HELD, &shard->state)) */
	if
	:: came ->
		load(STATE, seen);
		if
		:: seen & HELD ->
			/* core.c tg_drain: shard->kick |= tg_release(shard); */
			release(ended);
			kick = kick || ended
		:: else
		fi;
		ended = 0; seen = 0
	:: else
	fi;
	came = 0
}

/* device.h tg_send: WRITE_ONCE(gauge->sent, gauge->sent + TG_GAUGE_ONE + tag->cost); */
inline send_urgent()
{
	d_step { urgent_dispatched++; urgent_inside++; hand_over(device_view) };
	found = true
}

inline send_bulk()
{
	sent++;
	store(SENT, sent - BUSY);
	d_step { bulk_dispatched++; bulk_inside++; hand_over(device_view) };
	found = true
}

/* core.c tg_take_next: rq = tg_next(shard, &reason); */
/* core.c tg_take_next: tg_send(shard, rq); */
inline take_next()
{
	if
	:: urgent_queued -> urgent_queued--; store(QUEUED, urgent_queued + bulk_queued); send_urgent()
	:: !urgent_queued && bulk_queued && limit_is_open ->
		may_go(yes);
		if
		:: yes -> bulk_queued--; store(QUEUED, urgent_queued + bulk_queued); send_bulk()
		:: else
		fi;
		yes = false
	:: else
	fi
}

/* core.c tg_take_only: if (!list || READ_ONCE(list->next)) */
inline take_only()
{
	load(INBOX, list);
	if
	:: list == A_BULK -> may_go(yes)
	:: else -> yes = list == 1
	fi;
	if
	:: yes ->
		/* core.c tg_take_only: if (cmpxchg(&shard->inbox.first, list, NULL) != list) */
		atomic {
			full_barrier();
			if
			:: NOW(INBOX) == list -> modify(INBOX, 0)
			:: else -> yes = false
			fi;
			full_barrier()
		}
		if
		:: yes && list == 1 -> send_urgent()
		:: yes && list != 1 -> send_bulk()
		:: else
		fi
	:: else
	fi;
	yes = false; list = 0
}

inline set_held()
{
#ifndef FLAW_LIMITED_KEPT
	/* core.c tg_set_held: clear_bit(TG_LIMITED, &shard->state); */
	d_step { modify(STATE, NOW(STATE) & ~LIMITED) };
#endif
#ifndef FLAW_COUNTED_LATE
	/* core.c tg_set_held: atomic_inc(&shard->tg->nr_held); */
	d_step { modify(NR_HELD, NOW(NR_HELD) + 1) };
#endif
	/* core.c tg_set_held: if (test_and_set_bit(TG_HELD, &shard->state)) */
	atomic {
#ifndef FLAW_HELD_WITHOUT_BARRIER
		full_barrier();
#endif
		ended = NOW(STATE) & HELD;
		modify(STATE, NOW(STATE) | HELD);
#ifndef FLAW_HELD_WITHOUT_BARRIER
		full_barrier()
#endif
	}
#ifdef FLAW_COUNTED_LATE
	if
	:: !ended -> d_step { modify(NR_HELD, NOW(NR_HELD) + 1) }
	:: else
	fi;
#else
	/* core.c tg_set_held: atomic_dec(&shard->tg->nr_held); */
	if
	:: ended -> d_step { modify(NR_HELD, NOW(NR_HELD) - 1) }
	:: else
	fi;
#endif
	ended = 0
}

/* core.c tg_keep_held: set_bit(TG_LIMITED, &shard->state); */
/* core.c tg_keep_held: tg_watch(shard, ns); */
inline keep_held()
{
	if
	:: !limit_is_open ->
		d_step { modify(STATE, NOW(STATE) | LIMITED) };
#ifndef FLAW_NO_WATCHDOG
		d_step { hand_over(armed_view); armed = true }
#endif
	:: else
	fi
}

inline look_again()
{
	may_go(yes);
	if
	:: !urgent_queued && !(yes && limit_is_open) -> load(INBOX, list); again = list != 0
	:: else -> again = true
	fi;
	yes = false; list = 0
}

/* core.c tg_dispatch_chosen: tg_take_in(shard); */
/* core.c tg_dispatch_chosen: if (!shard->queued) */
/* core.c tg_dispatch_chosen: rq = tg_take_next(shard); */
/* core.c tg_dispatch_chosen: tg_set_held(shard); */
/* core.c tg_dispatch_chosen: if (wait && llist_empty(&shard->inbox)) { */
/* core.c tg_dispatch_chosen: tg_take_in(shard); */
/* core.c tg_dispatch_chosen: rq = tg_take_next(shard); */
inline dispatch_chosen()
{
	take_in();
	if
	:: urgent_queued + bulk_queued ->
		take_next();
		if
		:: !found ->
			set_held();
#ifndef FLAW_ONE_LOOK
			look_again();
			if
			:: again -> take_in(); take_next()
			:: else
			fi;
			again = false;
#endif
			if
			:: !found -> keep_held()
			:: else
			fi
		:: else
		fi;
		if
		:: found ->
			/* core.c tg_dispatch_chosen: if (unlikely(test_bit(TG_HELD, &shard->state))) */
			/* core.c tg_dispatch_chosen: tg_release(shard); */
			load(STATE, seen);
			if
			:: seen & HELD -> release(ended)
			:: else
			fi;
			ended = 0; seen = 0
		:: else
		fi
	:: else
	fi
}

/* core.c tg_dispatch_request: rq = tg_take_only(shard); */
/* core.c tg_dispatch_request: rq = tg_dispatch_chosen(shard, hctx); */
inline dispatch()
{
	found = false;
	lock();
	if
	:: !(urgent_queued + bulk_queued) && !LIMITS -> take_only()
	:: else
	fi;
	if
	:: !found -> dispatch_chosen(); came = 0
	:: else
	fi;
	unlock()
}

/* core.c tg_wake: if (tg_release(shard)) { */
/* core.c tg_wake: tg_run(shard); */
inline wake()
{
	load(STATE, seen);
	if
	:: (seen & HELD) && !(seen & LIMITED) ->
		may_go_outside(yes);
		if
		:: yes ->
			release(ended);
#ifndef FLAW_WAKE_WITHOUT_RUN
			if
			:: ended -> run_queue()
			:: else
			fi;
#endif
			ended = 0
		:: else
		fi;
		yes = false
	:: else
	fi;
	seen = 0
}

/* Each is a byte: a bool would store a count of two as 0. */
#define LOCALS	byte me = _pid, point, seen, back, list, ended, yes, found, again, came

/* core.c tg_insert_requests: ends = likely(!test_bit(TG_HELD, &shard->state)) || tg_some_ends_hold(shard, list); */
/* core.c tg_insert_requests: preempt_disable(); */
/* core.c tg_insert_requests: tg_push(&shard->inbox, newest, oldest); */
/* core.c tg_push: struct llist_node *first = READ_ONCE(inbox->first); */
/* core.c tg_push: while (!try_cmpxchg(&inbox->first, &first, newest)); */
/* core.c tg_insert_requests: if (unlikely(test_bit(TG_HELD, &shard->state)) && ends) */
/* core.c tg_insert_requests: tg_release(shard); */
inline insert(what, ends_hold)
{
	load(STATE, seen);
	yes = !(seen & HELD) || ends_hold;
#ifndef FLAW_PUSHED_UNGUARDED
	inserters++;
#endif
	atomic {
#ifndef FLAW_PUSH_WITHOUT_BARRIER
		full_barrier();
#endif
		modify(INBOX, NOW(INBOX) + what);
#ifndef FLAW_PUSH_WITHOUT_BARRIER
		full_barrier()
#endif
	}
#ifndef FLAW_INSERT_KEEPS_HOLD
	load(STATE, seen);
	if
	:: (seen & HELD) && yes -> release(ended)
	:: else
	fi;
#endif
	/* core.c tg_insert_requests: preempt_enable(); */
	assert(!gone);
#ifndef FLAW_PUSHED_UNGUARDED
	inserters--;
#endif
	yes = false; seen = 0; ended = 0;
	run_queue()
}

#if URGENT
active [URGENT] proctype urgent_submitter()
{
	LOCALS;

	insert(1, !MISTAKEN)
}
#endif

#if BULK
active [BULK] proctype bulk_submitter()
{
	LOCALS;

	insert(A_BULK, false)
}
#endif

/* device.c tg_back_noticed: tg_learn_back(tg, rq, done); */
/* controller.c tg_learn_budget: WRITE_ONCE(controller->budget, budget); */
inline learn()
{
	store(OPENED, 1);
#ifndef FLAW_LEARNT_WITHOUT_BARRIER
	/* device.c tg_back_noticed: smp_mb(); */
	d_step { full_barrier() }
#endif
}

/* device.c tg_sharing_ends: WRITE_ONCE(submitters->share, false); */
inline end_sharing()
{
	store(OPENED, 1);
#ifndef FLAW_ENDED_WITHOUT_BARRIER
	/* device.c tg_back_noticed: if (tg_period_ends(&tg->submitters) && tg_sharing_ends(tg)) { */
	/* device.c tg_back_noticed: smp_mb(); */
	d_step { full_barrier() }
#endif
}

inline back_noticed()
{
	load(NR_HELD, seen);
#ifndef FLAW_BACK_WITHOUT_WAKE
	/* device.c tg_back_noticed: if (atomic_read(&tg->nr_held)) */
	/* device.c tg_back_noticed: tg_wake(tg, tg->nr_shards); */
	if
	:: seen -> seen = 0; wake()
	:: else
	fi
#endif
}

#if COMPLETERS
/* device.c tg_back: atomic64_add(TG_GAUGE_ONE + tag.cost, tag.urgent ? &shard->device.urgent.back : */
/* device.c tg_back: smp_mb__after_atomic(); */
/* device.c tg_back: return unlikely(atomic_read(&tg->nr_held)) || tag.timed || tag.measured || */
active [COMPLETERS] proctype completer()
{
	LOCALS;

end:	do
	:: atomic { urgent_inside -> urgent_inside--; take_back() };
		load(NR_HELD, seen);
		if
		:: seen -> seen = 0; wake()
		:: else
		fi;
		completed++
	:: atomic { bulk_inside -> bulk_inside--; take_back() };
		d_step { modify(BACK, NOW(BACK) + 1) };
#ifndef FLAW_BACK_WITHOUT_BARRIER
		d_step { full_barrier() };
#endif
		back_noticed()
	od
}
#endif

#if GRANTERS
/* device.c tg_send_before_bulk: tg_grant(tg, budget, rq->io_start_time_ns); */
active [GRANTERS] proctype granter()
{
	LOCALS;

	store(OPENED, 1);
#ifndef FLAW_GRANT_WITHOUT_BARRIER
	/* device.c tg_send_before_bulk: smp_mb(); */
	d_step { full_barrier() };
#endif
	load(NR_HELD, seen);
#ifndef FLAW_GRANT_WITHOUT_WAKE
	/* core.c tg_dispatch_request: if (unlikely(READ_ONCE(shard->granted)) && xchg(&shard->granted, 0) && */
	/* core.c tg_dispatch_request: atomic_read(&tg->nr_held)) */
	/* core.c tg_dispatch_request: tg_wake(tg, 1); */
	if
	:: seen -> seen = 0; wake()
	:: else
	fi
#endif
}
#endif

#if LEARNERS
active [LEARNERS] proctype learner()
{
	LOCALS;

	learn();
	back_noticed()
}
#endif

#if ENDERS
active [ENDERS] proctype ender()
{
	LOCALS;

	end_sharing();
	back_noticed()
}
#endif

#if MERGERS
/* merge.c tg_bio_merge_queued: tg_drain(shard); */
/* merge.c tg_bio_merge_queued: tg_shard_leave(shard); */
/* core.c tg_shard_enter: tg_drain(shard); */
active [MERGERS] proctype merger()
{
	LOCALS;

	lock();
	drain();
	/* core.c tg_shard_leave: const bool kick = shard->kick; */
	found = kick;
	kick = false;
	unlock();
#ifndef FLAW_LEFT_WITHOUT_RUN
	/* core.c tg_shard_leave: if (kick) */
	/* core.c tg_shard_leave: tg_run(shard); */
	if
	:: found -> run_queue()
	:: else
	fi
#endif
}
#endif

#if LEAVERS
/* main.c tg_exit_sched: tg_core_wait_for_inserters(); */
/* core.c tg_core_wait_for_inserters: synchronize_rcu(); */
active [LEAVERS] proctype leaver()
{
	atomic { completed == URGENT && !inserters -> gone = true }
}
#endif

/* Run the hardware queue like __blk_mq_do_dispatch_sched(): dispatch while requests come. */
active [WORKERS] proctype worker()
{
	LOCALS;

end:	do
	:: atomic { work -> work = false; take_over(work_view); full_barrier() };
		do
		:: has_work(yes);
			if
			:: yes -> yes = false; dispatch()
			:: else -> break
			fi;
			if
			:: !found -> break
			:: else -> found = false
			fi
		od;
		found = false
	od
}

/* core.c tg_watchdog: tg_release(shard); */
/* core.c tg_watchdog: tg_run(shard); */
active proctype watchdog()
{
	LOCALS;

end:	do
	:: atomic { armed -> armed = false; take_over(armed_view);
		    limit_is_open = true };
		release(ended);
		ended = 0;
#ifndef FLAW_WATCHDOG_WITHOUT_RUN
		run_queue()
#endif
	od
}

/* Once no process can go on, no request that the device has room for may still be queued. */
active proctype nobody_is_left_waiting()
{
	timeout ->
	/* The request of a mistaken submitter may stay in the inbox until a CPU looks there. */
	assert(urgent_dispatched == URGENT || (MISTAKEN && NOW(INBOX)));
	/*
	 * Completers and openers let all bulk go. Without them, the device has one request of
	 * bulk, and no room for another.
	 */
	assert(COMPLETERS || OPENERS -> bulk_dispatched == BULK :
	       BUSY + bulk_dispatched == 1 || !BULK);
	/* NR_HELD counts a hold once, from its beginning to its end. */
	assert(NOW(NR_HELD) == (NOW(STATE) & HELD))
}
