// SPDX-License-Identifier: GPL-2.0-only
/*
 * sampler DEVICES FOLDER PROGRAM [ARGUMENT...]: run PROGRAM and, until it ends, write
 * counters to CSV files every 100 ms.  DEVICES is one argument: names with spaces between.
 *
 * FOLDER/samples.csv	the guest's counters, and those of DEVICES added up
 * FOLDER/device.csv	the modelled device's own counters, if DEVICES is a single modelled device
 * FOLDER/locks.csv	how often the trace events in LOCK_EVENTS happened, if the guest has them
 *
 * The sampler does little, because the lab counts its instructions too.  It exits with the
 * program's status.  If requests are in flight and none completes for STALL_MS, the
 * sampler kills the program and exits with 75 (EX_TEMPFAIL).
 */
#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INTERVAL_MS = 100, STALL_MS = 60000, EXIT_STALLED = 75, MAX_COUNTS = 256, MAX_DEVICES = 8 };

#define LOCK_EVENTS "/sys/kernel/tracing/events/lock_waits/*/id"

/*
 * Perf events that count LOCK_EVENTS.  Each CPU counts in events of its own: the cache line
 * of a shared counter would move between CPUs and slow them down.
 */
static struct {
	int fds[MAX_COUNTS];
	int number;
} locks;

static struct {
	char stat[MAX_DEVICES][256];
	int number;
} devices;

struct counters {
	long long time_ns;		/* CLOCK_MONOTONIC */
	long long idle_ns;		/* sum over all CPUs, with the time idle in iowait */
	long long context_switches;
	long long reads, writes, discards, flushes;	/* completed */
	long long in_flight;
	long long io_ticks_ms, queue_ms;
};

/*
 * Return the text of a file in /proc or /sys, up to 1 MiB.  The next call overwrites the
 * text.  Exit if the file cannot be opened.
 */
static const char *slurp(const char *path)
{
	static char text[1 << 20];
	size_t length = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	while ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	close(fd);
	text[length] = '\0';
	return text;
}

/* Add up the numbers in `text` that follow `key`; return the sum. */
static long long sum_after(const char *text, const char *key)
{
	long long sum = 0;

	while ((text = strstr(text, key))) {
		text += strlen(key);
		sum += atoll(text + strspn(text, " :\t"));
	}
	return sum;
}

/*
 * Add to `now` the counters of a device, from its file `stat` in /sys
 * (Documentation/block/stat.rst in Linux).  Before Linux 5.5 the file has no flushes.
 */
static void add_device(const char *stat, struct counters *now)
{
	struct counters of = { 0 };

	if (sscanf(slurp(stat), "%lld %*d %*d %*d %lld %*d %*d %*d %lld %lld %lld %lld %*d %*d %*d %lld",
		   &of.reads, &of.writes, &of.in_flight, &of.io_ticks_ms,
		   &of.queue_ms, &of.discards, &of.flushes) < 6) {
		fprintf(stderr, "sampler: cannot make sense of %s\n", stat);
		exit(1);
	}
	now->reads += of.reads;
	now->writes += of.writes;
	now->in_flight += of.in_flight;
	now->io_ticks_ms += of.io_ticks_ms;
	now->queue_ms += of.queue_ms;
	now->discards += of.discards;
	now->flushes += of.flushes;
}

static void sample(struct counters *now)
{
	struct timespec time;
	const char *text;
	int i;

	*now = (struct counters){ 0 };
	clock_gettime(CLOCK_MONOTONIC, &time);
	now->time_ns = time.tv_sec * 1000000000LL + time.tv_nsec;
	text = slurp("/proc/timer_list");
	now->idle_ns = sum_after(text, ".idle_sleeptime") +
		       sum_after(text, ".iowait_sleeptime");
	now->context_switches = sum_after(slurp("/proc/stat"), "\nctxt");
	for (i = 0; i < devices.number; i++)
		add_device(devices.stat[i], now);
}

/* Prepare to sample the devices in `names`.  strtok() writes to `names`. */
static void devices_open(char *names)
{
	char *name;

	for (name = strtok(names, " "); name; name = strtok(NULL, " ")) {
		if (devices.number == MAX_DEVICES) {
			fprintf(stderr, "sampler: more than %d devices\n", MAX_DEVICES);
			exit(2);
		}
		snprintf(devices.stat[devices.number++], sizeof(devices.stat[0]),
			 "/sys/block/%s/stat", name);
	}
}

static FILE *create(const char *folder, const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(1);
	}
	return file;
}

/* `text` has lines "name value".  Print a CSV line of all names or, if `second`, all values. */
static void print_words(FILE *file, const char *text, int second)
{
	const char *comma = "";

	while (*text) {
		const char *word = second ? text + strcspn(text, " ") + 1 : text;

		fprintf(file, "%s%.*s", comma, (int)strcspn(word, " \n"), word);
		comma = ",";
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	fputc('\n', file);
}

/* Append a modelled device's counters to a CSV file.  The first call writes the heading too. */
static void sample_device(const char *stats, FILE *file)
{
	const char *text = slurp(stats);

	if (!ftell(file))
		print_words(file, text, 0);
	print_words(file, text, 1);
}

static void print(FILE *file, const struct counters *now)
{
	fprintf(file, "%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld\n",
		now->time_ns, now->idle_ns, now->context_switches, now->reads,
		now->writes, now->discards, now->flushes, now->in_flight,
		now->io_ticks_ms, now->queue_ms);
}

/* Begin to count LOCK_EVENTS.  If the guest has no such events, locks.number stays 0. */
static void locks_open(void)
{
	long cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	glob_t found;
	size_t i;

	if (glob(LOCK_EVENTS, 0, NULL, &found))
		return;
	for (i = 0; i < found.gl_pathc; i++) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_TRACEPOINT,
			.size = sizeof(attr),
			.config = strtoull(slurp(found.gl_pathv[i]), NULL, 10),
		};

		for (cpu = 0; cpu < cpus && locks.number < MAX_COUNTS; cpu++) {
			int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1,
					 PERF_FLAG_FD_CLOEXEC);

			if (fd < 0) {
				perror("perf_event_open");
				exit(1);
			}
			locks.fds[locks.number++] = fd;
		}
	}
	globfree(&found);
}

static void sample_locks(long long time_ns, FILE *file)
{
	long long sum = 0;
	int i;

	for (i = 0; i < locks.number; i++) {
		long long count;

		if (read(locks.fds[i], &count, sizeof(count)) == sizeof(count))
			sum += count;
	}
	fprintf(file, "%lld,%lld\n", time_ns, sum);
}

static long long completed(const struct counters *now)
{
	return now->reads + now->writes + now->discards + now->flushes;
}

int main(int argc, char **argv)
{
	const struct timespec interval = { .tv_nsec = INTERVAL_MS * 1000000L };
	struct counters now, progress = { 0 };
	char stats[256];
	FILE *file, *device = NULL, *contended = NULL;
	pid_t child;
	int status;

	if (argc < 4) {
		fprintf(stderr, "usage: sampler DEVICES FOLDER PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	snprintf(stats, sizeof(stats), "/sys/kernel/debug/modeldisk/%s/stats", argv[1]);
	devices_open(argv[1]);
	file = create(argv[2], "samples.csv");
	if (!access(stats, R_OK))
		device = create(argv[2], "device.csv");
	fprintf(file, "time_ns,idle_ns,context_switches,reads,writes,discards,flushes,in_flight,io_ticks_ms,queue_ms\n");

	locks_open();
	if (locks.number) {
		contended = create(argv[2], "locks.csv");
		fprintf(contended, "time_ns,contended\n");
	}

	child = fork();
	if (child < 0) {
		perror("fork");
		return 1;
	}
	if (!child) {
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		_exit(127);
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		sample(&now);
		print(file, &now);
		if (device)
			sample_device(stats, device);
		if (contended)
			sample_locks(now.time_ns, contended);
		if (!now.in_flight || completed(&now) != completed(&progress))
			progress = now;
		if (now.time_ns - progress.time_ns > STALL_MS * 1000000LL) {
			kill(child, SIGKILL);
			return EXIT_STALLED;
		}
		nanosleep(&interval, NULL);
	}
	sample(&now);
	print(file, &now);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
