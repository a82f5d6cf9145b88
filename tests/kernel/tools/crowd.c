// SPDX-License-Identifier: GPL-2.0-only
/*
 * crowd - start many processes of one I/O priority. Each reads once and ends.
 *
 *	crowd DEVICE PROCESSES AT_ONCE CLASS LEVEL
 *
 * At most AT_ONCE processes are alive at a time. When one ends, the next one starts, until
 * there have been PROCESSES. Each takes the priority (CLASS: rt, be or idle) and reads
 * 4 KiB, directly, from its own place. crowd prints the longest time that a read took, in
 * microseconds.
 *
 * Exit status: 0, all processes have read; 1, a process could not, or another system call
 * failed; 2, the arguments make no sense.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES	4096
#define BLOCKS		8192	/* 32 MiB from the start of the device */
#define STRIDE		5	/* blocks from a read to the next; adjacent reads would be merged */

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static int parse_ioprio(const char *class, const char *level)
{
	static const char * const names[] = { "none", "rt", "be", "idle" };
	int i;

	for (i = 1; i < 4; i++)
		if (!strcmp(class, names[i]))
			return i << IOPRIO_CLASS_SHIFT | atoi(level);
	errx(2, "unknown class '%s'", class);
}

/* A process of the crowd: read block @number with priority @ioprio, and end. */
static void read_once(int fd, unsigned int number, int ioprio, uint64_t *longest)
{
	static char buffer[BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
	const off_t place = (off_t)(number * STRIDE % BLOCKS) * BLOCK_BYTES;
	uint64_t before, most, took;

	if (syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0, ioprio))
		err(1, "ioprio_set");
	before = now_us();
	if (pread(fd, buffer, sizeof(buffer), place) != sizeof(buffer))
		err(1, "read");
	took = now_us() - before;
	most = __atomic_load_n(longest, __ATOMIC_RELAXED);
	while (took > most && !__atomic_compare_exchange_n(longest, &most, took, 0,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	_exit(0);
}

/* Wait for any process of the crowd to end. Exit with an error if it could not read. */
static void reap_one(void)
{
	int status;

	while (wait(&status) < 0)
		if (errno != EINTR)
			err(1, "wait");
	if (status)
		errx(1, "a process could not read");
}

int main(int argc, char **argv)
{
	unsigned int processes, at_once, alive = 0, i;
	uint64_t *longest;
	int fd, ioprio;

	if (argc != 6)
		errx(2, "usage: crowd DEVICE PROCESSES AT_ONCE CLASS LEVEL");
	processes = atoi(argv[2]);
	at_once = atoi(argv[3]);
	ioprio = parse_ioprio(argv[4], argv[5]);
	fd = open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", argv[1]);
	longest = mmap(NULL, sizeof(*longest), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (longest == MAP_FAILED)
		err(1, "mmap");

	for (i = 0; i < processes; i++) {
		pid_t pid;

		if (alive == at_once) {
			reap_one();
			alive--;
		}
		pid = fork();
		if (pid < 0)
			err(1, "fork");
		if (!pid)
			read_once(fd, i, ioprio, longest);
		alive++;
	}
	while (alive--)
		reap_one();
	printf("%llu\n", (unsigned long long)*longest);
	return 0;
}
