// SPDX-License-Identifier: GPL-2.0-only
/*
 * submit - submit requests to a block device, one by one, in the order given.
 *
 *	submit DEVICE [PID] < SCRIPT
 *
 * With PID, a child with this process id submits the requests. If the id is taken, submit fails.
 *
 * Each line of the script is one of
 *
 *	read SECTOR BYTES [CLASS [LEVEL]]	CLASS: none, rt, be or idle
 *	write SECTOR BYTES [CLASS [LEVEL]]
 *	sleep MS
 *	wait					wait until all requests so far are done
 *
 * Requests are asynchronous and direct. Each is submitted by a system call of
 * its own, so that the kernel keeps none in a plug. When the call returns, the
 * I/O scheduler has the request. submit prints "submitted N" when the scheduler
 * has the last request. For each request that completes it prints
 * "done SECTOR BYTES SUBMITTED_NS COMPLETED_NS" (times of CLOCK_MONOTONIC) or
 * "failed SECTOR RESULT".
 *
 * Exit status: 0, all requests are done; 1, a request or a system call failed; 2, the
 * arguments or the script make no sense.
 *
 * submit makes the system calls itself, so that a static build needs no libaio.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUESTS	4096	/* in flight at once */
#define SECTOR_BYTES	512
#define BUFFER_ALIGN	4096

struct request {
	struct iocb iocb;
	uint64_t submitted_ns;
};

static aio_context_t context;
static unsigned int in_flight;
static int failed;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Report a completed request and free it. */
static void finish(const struct io_event *event)
{
	struct request *request = (struct request *)(uintptr_t)event->data;
	const struct iocb *iocb = &request->iocb;
	long long sector = iocb->aio_offset / SECTOR_BYTES;

	if (event->res == (long long)iocb->aio_nbytes) {
		printf("done %lld %llu %llu %llu\n", sector,
		       (unsigned long long)iocb->aio_nbytes,
		       (unsigned long long)request->submitted_ns,
		       (unsigned long long)now_ns());
	} else {
		printf("failed %lld %lld\n", sector, (long long)event->res);
		failed = 1;
	}
	fflush(stdout);
	in_flight--;
	free((void *)(uintptr_t)iocb->aio_buf);
	free(request);
}

/* Report completions until @deadline_ns or, if that is 0, until all requests are done. */
static void reap(uint64_t deadline_ns)
{
	struct io_event events[64];
	struct timespec left, *timeout = NULL;
	uint64_t now;
	long i, n;

	while (deadline_ns || in_flight) {
		if (deadline_ns) {
			now = now_ns();
			if (now >= deadline_ns)
				return;
			left.tv_sec = (deadline_ns - now) / 1000000000ull;
			left.tv_nsec = (deadline_ns - now) % 1000000000ull;
			timeout = &left;
		}
		n = syscall(SYS_io_getevents, context, 1, 64, events, timeout);
		if (n < 0 && errno != EINTR)
			err(1, "io_getevents");
		for (i = 0; i < n; i++)
			finish(&events[i]);
	}
}

static void put(int fd, int opcode, unsigned long long sector,
		unsigned long bytes, int ioprio)
{
	struct request *request = calloc(1, sizeof(*request));
	void *buffer = aligned_alloc(BUFFER_ALIGN, (bytes + BUFFER_ALIGN - 1) &
						   ~(BUFFER_ALIGN - 1ul));
	struct iocb *iocb;

	if (!request || !buffer)
		errx(1, "out of memory");
	memset(buffer, 0, bytes);

	iocb = &request->iocb;
	iocb->aio_data = (uintptr_t)request;
	iocb->aio_fildes = fd;
	iocb->aio_lio_opcode = opcode;
	iocb->aio_buf = (uintptr_t)buffer;
	iocb->aio_nbytes = bytes;
	iocb->aio_offset = sector * SECTOR_BYTES;
	if (ioprio >= 0) {
		iocb->aio_flags = IOCB_FLAG_IOPRIO;
		iocb->aio_reqprio = ioprio;
	}

	request->submitted_ns = now_ns();
	if (syscall(SYS_io_submit, context, 1, &iocb) != 1)
		err(1, "io_submit at sector %llu", sector);
	in_flight++;
}

/* Return the ioprio of CLASS LEVEL. Return -1 for the process's own, if CLASS is empty. */
static int parse_ioprio(const char *class, int level)
{
	static const char * const names[] = { "none", "rt", "be", "idle" };
	int i;

	if (!*class)
		return -1;
	for (i = 0; i < 4; i++)
		if (!strcmp(class, names[i]))
			return i << IOPRIO_CLASS_SHIFT | level;
	errx(2, "unknown class '%s'", class);
}

static void run_line(int fd, const char *line)
{
	char word[8] = "", class[8] = "";
	unsigned long long arg = 0;
	unsigned long bytes = 0;
	int level = 0;
	int n = sscanf(line, "%7s %llu %lu %7s %d", word, &arg, &bytes, class,
		       &level);

	if (n == 1 && !strcmp(word, "wait"))
		reap(0);
	else if (n == 2 && !strcmp(word, "sleep"))
		reap(now_ns() + arg * 1000000ull);
	else if (n >= 3 && !strcmp(word, "read"))
		put(fd, IOCB_CMD_PREAD, arg, bytes, parse_ioprio(class, level));
	else if (n >= 3 && !strcmp(word, "write"))
		put(fd, IOCB_CMD_PWRITE, arg, bytes, parse_ioprio(class, level));
	else
		errx(2, "cannot make sense of: %s", line);
}

/* Go on in a child with the id @pid. The parent exits with the child's status. */
static void become(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&pid,
		.set_tid_size = 1,
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	if (child < 0)
		err(1, "process id %d", pid);
	if (!child)
		return;
	if (waitpid(pid, &status, 0) != pid)
		err(1, "waitpid");
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(int argc, char **argv)
{
	unsigned int submitted = 0, before;
	char line[128];
	int fd;

	if (argc != 2 && argc != 3)
		errx(2, "usage: submit DEVICE [PID] < SCRIPT");
	if (argc == 3)
		become(atoi(argv[2]));
	fd = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", argv[1]);
	if (syscall(SYS_io_setup, MAX_REQUESTS, &context))
		err(1, "io_setup");

	while (fgets(line, sizeof(line), stdin)) {
		before = in_flight;
		run_line(fd, line);
		if (in_flight > before)
			submitted++;
	}
	printf("submitted %u\n", submitted);
	fflush(stdout);
	reap(0);
	return failed;
}
