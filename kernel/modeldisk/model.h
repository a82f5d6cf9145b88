/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between a model of a device and its driver. The driver is the block
 * driver, with the kernel's clock and a timer, or a test in user space, with a clock
 * of its own.
 *
 * A model is a simulation of discrete events that never reads a clock. The
 * driver passes the time, in ns, and the model simulates up to it. Every event
 * happens at its own exact time, however late the driver calls. The driver
 *
 *   - submits a command, at a time no earlier than any that it passed before;
 *   - asks when a command may complete next, and calls again by then;
 *   - advances the model to the present and gets the completed commands.
 *
 * A model does not sleep, allocate or lock: the driver holds one lock for all
 * calls.
 */
#ifndef MODELDISK_MODEL_H
#define MODELDISK_MODEL_H

#include "params.h"

#define MODEL_SECTOR_SHIFT	9

/* The largest transfer that a driver may submit. It limits the length of model_io.parts[]. */
#define MODEL_MAX_BYTES		(512 * 1024)

/* The most hardware queues: settings.h bounds hw_queues by the same number. */
#define MODEL_MAX_QUEUES	1024

enum model_op {
	MODEL_READ,
	MODEL_WRITE,
	MODEL_FLUSH,
	MODEL_DISCARD,	/* write-zeroes too: no data moves */
};

struct model_io;

/* The part of a read that lies in one page. A page is on one die. */
struct model_part {
	struct model_part *next;
	struct model_io *io;
	u32 bytes;
	u32 read_ns;
};

/**
 * struct model_io - a command in the device
 * @sector: first sector, of 512 bytes
 * @sectors: number of sectors
 * @op: the operation
 * @fua: a write that must be on the medium before it completes
 * @queue: the hardware queue that it comes from, below MODEL_MAX_QUEUES
 * @done_ns: the time when it completed
 * @submit_ns: the time when the driver submitted it
 *
 * The driver fills in @sector, @sectors, @op, @fua and @queue, the model @done_ns and
 * @submit_ns. All fields after @submit_ns belong to the model from submission to
 * completion.
 */
struct model_io {
	u64 sector;
	u32 sectors;
	enum model_op op;
	bool fua;
	u32 queue;
	u64 done_ns;
	u64 submit_ns;

	struct model_io *next;
	u64 event_ns;		/* the end of the command's present stage */
	/*
	 * A flush waits for each program (flash) or run of the write cache (disk) that has a lower
	 * number.
	 */
	u64 barrier;
	u32 pending;		/* transfers, programs or runs that the command still waits for */
	u32 charge;		/* a write's room in the buffer, bytes */
	bool landed;		/* a write: its data is in the buffer */
	struct model_part parts[];
};

/* A first-in, first-out queue. Zeroed memory is an empty queue. */
struct io_fifo {
	struct model_io *head;
	struct model_io **tail;
};

static inline void io_fifo_push(struct io_fifo *fifo, struct model_io *io)
{
	io->next = NULL;
	if (fifo->head)
		*fifo->tail = io;
	else
		fifo->head = io;
	fifo->tail = &io->next;
}

static inline struct model_io *io_fifo_pop(struct io_fifo *fifo)
{
	struct model_io *io = fifo->head;

	if (io)
		fifo->head = io->next;
	return io;
}

/* A figure that a model publishes: a sum since its start, or a present state. */
struct model_stat {
	const char *name;
	u64 value;
};

#define MODEL_MAX_STATS	16

/**
 * struct model_ops - a model
 * @name: the model's name for users
 * @param: the flag of its parameters in model-params.h, PARAM_FLASH or PARAM_HDD
 * @size: size of the model's state in bytes, whatever the parameters
 * @check: returns NULL, or a message that says why parameters do not fit together although each
 *	is within its bounds
 * @parts: returns the length of model_io.parts[] that commands need
 * @init: sets up the state, which the driver has zeroed, for a device of @sectors sectors
 * @discards: the model takes MODEL_DISCARD
 * @volatile_cache: returns whether a power loss loses completed writes
 * @submit: does what @advance does, then takes a command
 * @advance: simulates up to @now, and appends completed commands to @done
 * @next: returns a time before which no command completes unless the driver submits
 *	another; U64_MAX if no command can complete
 * @stats: fills in at most MODEL_MAX_STATS figures and returns their number
 */
struct model_ops {
	const char *name;
	u32 param;
	size_t size;
	const char *(*check)(const struct model_params *p);
	u32 (*parts)(const struct model_params *p);
	void (*init)(void *model, const struct model_params *p, u64 sectors);
	bool discards;
	bool (*volatile_cache)(const struct model_params *p);
	void (*submit)(void *model, struct model_io *io, u64 now,
		       struct io_fifo *done);
	void (*advance)(void *model, u64 now, struct io_fifo *done);
	u64 (*next)(const void *model);
	u32 (*stats)(const void *model, struct model_stat *stats);
};

extern const struct model_ops flash_model;
extern const struct model_ops hdd_model;

/**
 * struct model_profile - a named device: a model with values of all parameters
 * @name: as in configfs
 * @model: the model, flash or hdd
 * @rotational: the block layer's flag
 * @size_mib: default size
 * @hw_queues: default number of hardware queues
 * @depth: default number of tags of each hardware queue
 * @params: parameters of the model
 */
struct model_profile {
	const char *name;
	const struct model_ops *model;
	bool rotational;
	u32 size_mib;
	u32 hw_queues;
	u32 depth;
	struct model_params params;
};

extern const struct model_profile model_profiles[];
extern const u32 model_nr_profiles;

/*
 * Return the time for @bytes at @mbps (10^6 bytes a second), in ns. Round up, so that
 * the parts of a transfer never take less than the whole.
 */
static inline u64 transfer_ns(u64 bytes, u32 mbps)
{
	return div64_u64(bytes * 1000 + mbps - 1, mbps);
}

#endif /* MODELDISK_MODEL_H */
