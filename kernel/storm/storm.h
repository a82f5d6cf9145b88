/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * storm: the interfaces between the module's parts.
 *
 *	main.c		parameters and control files
 *	disk.c		a disk with random delays and faults
 *	yield.c		random delays of CPUs
 *
 * All random numbers follow from one seed, a parameter of the module.
 */
#ifndef STORM_H
#define STORM_H

#include <linux/types.h>

struct dentry;
struct seq_file;

/* Return the output of the generator splitmix64 (Steele, Lea, Flood, 2014) for @state. */
static inline u64 storm_mix(u64 state)
{
	state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
	state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
	return state ^ (state >> 31);
}

/* The step from one state of the generator to the next. */
#define STORM_STEP 0x9e3779b97f4a7c15ULL

/* yield.c */
void storm_yield(void);
void storm_yield_init(u64 seed, unsigned int chance, unsigned int longest);
void storm_yield_exit(void);
int storm_probe(const char *symbol);
void storm_points_show(struct seq_file *m);
u64 storm_fingerprint(void);

/* disk.c */
struct storm_disk_settings {
	unsigned int hw_queues;		/* 0: one for each CPU */
	unsigned int depth;
	unsigned int service_us;	/* mean service time; 0: queue_rq() completes the request */
	bool rotational;
};

int storm_disk_init(u64 seed, const struct storm_disk_settings *set, struct dentry *debugfs);
void storm_disk_exit(void);
void storm_disk_freeze(unsigned int us);
void storm_disk_quiesce(unsigned int us);
int storm_disk_passthrough(bool at_head);
void storm_disk_show(struct seq_file *m);

#endif
