// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random delays of CPUs, at yield points. A yield point is a call of storm_yield() in a scheduler
 * built with STORM=1 (kernel/include/yield.h), or the beginning of a function that a test has
 * named (storm_probe()).
 *
 * A delay is a number of pauses, calls of cpu_relax(). If QEMU runs all virtual CPUs in one
 * thread, it changes to another CPU at each pause. Between two pauses, QEMU changes the
 * CPU only when the next timer is due. So the seed of the random numbers decides which CPU
 * passes a yield point first.
 */
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/panic_notifier.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "storm.h"

/* The module keeps this many yield points of each CPU, the latest ones. */
#define STORM_POINTS 64
/* A panic prints at most this many yield points, of all CPUs together. */
#define STORM_POINTS_TOLD 48
/*
 * At one yield point in STORM_AWAY the delay is very long, as if the host had given the CPU to
 * another guest. The delay ends after STORM_AWAY_PAUSES pauses, or earlier, after STORM_AWAY_NS.
 * This is long enough for the queue to change its scheduler. With storm_chance 0 no delay is so
 * long.
 */
#define STORM_AWAY 8192
#define STORM_AWAY_PAUSES BIT(20)
#define STORM_AWAY_NS (16 * NSEC_PER_MSEC)

/* A yield point that a CPU has passed. */
struct storm_point {
	u64 time_ns;
	unsigned long ip;
	unsigned int pauses;
};

/*
 * The state of a CPU. Only this CPU writes it, in any context. An interrupt may come during a
 * write. This does no harm: it only changes the random numbers that follow, and the fingerprint.
 */
struct storm_cpu {
	u64 random;
	u64 fingerprint;	/* a hash of all yield points so far and of their times */
	unsigned long passed;	/* number of yield points so far */
	struct storm_point last[STORM_POINTS];
};

static DEFINE_PER_CPU(struct storm_cpu, storm_cpus);
static unsigned int storm_chance;	/* of 1024 yield points, this many have a delay */
/* The longest delay, in pauses, except for the very long ones (STORM_AWAY). */
static unsigned int storm_longest;

/* Draw the length of a delay, in pauses. Return 0 for no delay. */
static unsigned int storm_draw(struct storm_cpu *cpu)
{
	u64 random;

	cpu->random += STORM_STEP;
	random = storm_mix(cpu->random);
	if (storm_chance && !((random >> 16) % STORM_AWAY))
		return STORM_AWAY_PAUSES;
	if ((random & 1023) >= storm_chance)
		return 0;
	/* Draw the scale first, so that short delays are as frequent as long ones. */
	return 1 + (random >> 32) % max(storm_longest >> (random >> 10 & 7), 1U);
}

/* Record that the CPU passes the yield point at @ip. Then delay the CPU, if the seed says so. */
static void storm_pass(unsigned long ip)
{
	struct storm_cpu *cpu = get_cpu_ptr(&storm_cpus);
	struct storm_point *point = &cpu->last[cpu->passed++ % STORM_POINTS];
	unsigned int pauses = storm_draw(cpu);
	u64 until;

	*point = (struct storm_point){
		.time_ns = ktime_get_mono_fast_ns(), .ip = ip, .pauses = pauses,
	};
	cpu->fingerprint = storm_mix(cpu->fingerprint ^ point->time_ns) + ip;
	until = point->time_ns + STORM_AWAY_NS;
	put_cpu_ptr(&storm_cpus);

	while (pauses-- && ktime_get_mono_fast_ns() < until)
		cpu_relax();
}

/* Pass a yield point. Schedulers call this where CPUs share data, in any context. */
void storm_yield(void)
{
	storm_pass(_RET_IP_);
}
EXPORT_SYMBOL_GPL(storm_yield);

/* Return a hash of the yield points that all CPUs have passed, and of their times. */
u64 storm_fingerprint(void)
{
	u64 all = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		all = storm_mix(all ^ per_cpu(storm_cpus, cpu).fingerprint);
	return all;
}

/*
 * Return the latest yield point of all CPUs that has not been returned yet, NULL if none is
 * left. Set @at to its CPU. @told[] counts the points of each CPU that have been returned.
 */
static const struct storm_point *storm_point_before(unsigned int told[], int *at)
{
	const struct storm_point *found = NULL;
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct storm_cpu *c = per_cpu_ptr(&storm_cpus, cpu);
		const struct storm_point *point;

		if (told[cpu] >= min_t(unsigned long, c->passed, STORM_POINTS))
			continue;
		point = &c->last[(c->passed - 1 - told[cpu]) % STORM_POINTS];
		if (!found || point->time_ns > found->time_ns) {
			found = point;
			*at = cpu;
		}
	}
	if (found)
		told[*at]++;
	return found;
}

/*
 * The number of yield points of each CPU that have been printed. The array is static, because
 * a stack is too small for it. A reader of the control file "last" holds the mutex.
 * storm_panicked() does not take the mutex: in a panic it must not wait.
 */
static unsigned int storm_told[NR_CPUS];
static DEFINE_MUTEX(storm_telling);

/* Print one yield point a line, the latest first: time in ns, CPU, pauses, place. */
void storm_points_show(struct seq_file *m)
{
	const struct storm_point *point;
	int cpu = 0;

	mutex_lock(&storm_telling);
	memset(storm_told, 0, sizeof(storm_told));
	while ((point = storm_point_before(storm_told, &cpu)))
		seq_printf(m, "%llu cpu%d %u %pS\n", point->time_ns, cpu, point->pauses,
			   (void *)point->ip);
	mutex_unlock(&storm_telling);
}

static int storm_panicked(struct notifier_block *block, unsigned long event, void *data)
{
	const struct storm_point *point;
	int cpu = 0, i;

	pr_emerg("storm: fingerprint %016llx\n", storm_fingerprint());
	memset(storm_told, 0, sizeof(storm_told));
	for (i = 0; i < STORM_POINTS_TOLD; i++) {
		point = storm_point_before(storm_told, &cpu);
		if (!point)
			break;
		pr_emerg("storm: %llu cpu%d %u %pS\n", point->time_ns, cpu, point->pauses,
			 (void *)point->ip);
	}
	return NOTIFY_DONE;
}

static struct notifier_block storm_panic = { .notifier_call = storm_panicked };

#ifdef CONFIG_KPROBES

struct storm_kprobe {
	struct list_head list;
	struct kprobe kprobe;
	char symbol[];
};

static LIST_HEAD(storm_probes);
static DEFINE_MUTEX(storm_probing);	/* guards the list */

static int storm_probed(struct kprobe *kprobe, struct pt_regs *regs)
{
	storm_pass((unsigned long)kprobe->addr);
	return 0;
}

/* Put a yield point at the beginning of the function @symbol. */
int storm_probe(const char *symbol)
{
	struct storm_kprobe *probe;
	int ret;

	probe = kzalloc(sizeof(*probe) + strlen(symbol) + 1, GFP_KERNEL);
	if (!probe)
		return -ENOMEM;
	memcpy(probe->symbol, symbol, strlen(symbol));
	probe->kprobe.symbol_name = probe->symbol;
	probe->kprobe.pre_handler = storm_probed;
	ret = register_kprobe(&probe->kprobe);
	if (ret) {
		kfree(probe);
		return ret;
	}
	mutex_lock(&storm_probing);
	list_add(&probe->list, &storm_probes);
	mutex_unlock(&storm_probing);
	return 0;
}

static void storm_probes_exit(void)
{
	struct storm_kprobe *probe, *next;

	list_for_each_entry_safe(probe, next, &storm_probes, list) {
		unregister_kprobe(&probe->kprobe);
		kfree(probe);
	}
}

#else

int storm_probe(const char *symbol)
{
	return -EOPNOTSUPP;
}

static void storm_probes_exit(void)
{
}

#endif

void storm_yield_init(u64 seed, unsigned int chance, unsigned int longest)
{
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu(storm_cpus, cpu).random = storm_mix(seed + cpu);
	storm_longest = longest;
	storm_chance = chance;
	atomic_notifier_chain_register(&panic_notifier_list, &storm_panic);
}

void storm_yield_exit(void)
{
	atomic_notifier_chain_unregister(&panic_notifier_list, &storm_panic);
	storm_probes_exit();
}
