// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stop QEMU's main loop while the virtual CPUs run.  The machine `sim` preloads this
 * library into QEMU.
 *
 * QEMU 7.2 has a race.  When all virtual CPUs have halted, its main loop skips virtual
 * time to the next timer (icount_start_warp_timer()).  The main loop holds the big lock
 * while it checks that all CPUs have halted.  But a CPU reports its halt before it takes
 * the big lock to account for the instructions that it has executed.  If the main loop
 * checks in between, it skips too far: a nanosecond for each of these instructions.  On a
 * busy computer this happened in one of about ten runs.
 *
 * With this library, the main loop keeps the big lock only if the thread of the virtual
 * CPUs waits for work.  If not, the main loop releases the lock, and takes it again once
 * that thread waits.  That thread waits on a condition, with the big lock as its mutex.
 * From this wait the library learns which mutex is the big lock.  The thread holds the big
 * lock whenever it changes `waiting`.
 *
 * The main loop can do nothing until the thread of the CPUs waits, so nothing should wake
 * the main loop earlier.  For every timer that is due, the thread of the CPUs writes to an
 * eventfd to wake other threads.  These writes took a quarter of QEMU's CPU time.  The
 * library delays them until the thread of the CPUs waits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/*
 * The main loop waits at most this long for the CPUs, because it must carry out shutdown and
 * reset even if the CPUs never wait.  Until this limit, it must do nothing while the CPUs run:
 * the moment of its action would depend on this computer, and the guest may notice.  With a limit
 * of 0.3 ms, half of the boots differed from the others.  With 2 s, one boot in a hundred
 * differed: on a busy computer, the CPUs may run for longer than 2 s before they wait.
 */
enum { PATIENCE_S = 30 };

static int (*real_lock)(pthread_mutex_t *mutex);
static int (*real_unlock)(pthread_mutex_t *mutex);
static int (*real_wait)(pthread_cond_t *cond, pthread_mutex_t *mutex);
static ssize_t (*real_write)(int fd, const void *buffer, size_t length);
static int (*real_eventfd)(unsigned int value, int flags);
static int (*real_close)(int fd);
static int (*real_ppoll)(struct pollfd *fds, nfds_t number, const struct timespec *timeout,
			 const sigset_t *signals);

/* A bit for each of the first 64 file descriptors. */
static _Atomic uint64_t eventfds;	/* descriptors that are eventfds */
static uint64_t untold;			/* delayed writes; only the CPUs' thread uses it */

static pthread_mutex_t *big_lock;
static volatile bool waiting = true;	/* written under both big_lock and guard */

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

__attribute__((constructor)) static void find_real(void)
{
	real_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	real_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	/* Ask for the version that glibc has had since 2002: dlsym() may find the older version. */
	real_wait = (int (*)(pthread_cond_t *, pthread_mutex_t *))
		dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	real_eventfd = (int (*)(unsigned int, int))dlsym(RTLD_NEXT, "eventfd");
	real_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
	real_ppoll = (int (*)(struct pollfd *, nfds_t, const struct timespec *,
			      const sigset_t *))dlsym(RTLD_NEXT, "ppoll");
}

/*
 * Return true in the thread of the virtual CPUs.  With debug-threads=on, QEMU puts "/TCG"
 * into the name of this thread.
 */
static bool runs_cpus(void)
{
	static __thread int known;	/* 0: not checked yet, 1: yes, 2: no */
	char name[16] = "";

	if (!known) {
		pthread_getname_np(pthread_self(), name, sizeof(name));
		known = strstr(name, "/TCG") ? 1 : 2;
	}
	return known == 1;
}

static bool is_main(void)
{
	static __thread int known;

	if (!known)
		known = getpid() == gettid() ? 1 : 2;
	return known == 1;
}

static void set_waiting(bool now)
{
	real_lock(&guard);
	waiting = now;
	pthread_cond_signal(&changed);
	real_unlock(&guard);
}

/* Wait until the CPUs wait for work.  Return false if they have not done so in PATIENCE_S. */
static bool wait_for_cpus(void)
{
	struct timespec end;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	real_lock(&guard);
	while (!waiting && ret != ETIMEDOUT)
		ret = pthread_cond_timedwait(&changed, &guard, &end);
	real_unlock(&guard);
	return ret != ETIMEDOUT;
}

static uint64_t bit(int fd)
{
	return fd >= 0 && fd < 64 ? 1ULL << fd : 0;
}

int eventfd(unsigned int value, int flags)
{
	int fd;

	if (!real_eventfd)
		find_real();
	fd = real_eventfd(value, flags);
	eventfds |= bit(fd);
	return fd;
}

int close(int fd)
{
	if (!real_close)
		find_real();
	eventfds &= ~bit(fd);
	return real_close(fd);
}

ssize_t write(int fd, const void *buffer, size_t length)
{
	if (!real_write)
		find_real();
	if (!(eventfds & bit(fd)) || !runs_cpus())
		return real_write(fd, buffer, length);
	untold |= bit(fd);
	return length;
}

static void tell(void)
{
	static const uint64_t one = 1;
	int fd;

	for (fd = 0; untold; fd++, untold >>= 1)
		/* A write fails if the eventfd's counter is full.  Then the reader wakes anyway. */
		if (untold & 1 && real_write(fd, &one, sizeof(one)) < 0)
			continue;
}

/*
 * Let the main loop sleep for PATIENCE_S at most.  The write that would wake it is delayed until
 * the CPUs wait, and they may never wait.
 */
int ppoll(struct pollfd *fds, nfds_t number, const struct timespec *timeout,
	  const sigset_t *signals)
{
	static const struct timespec patience = { .tv_sec = PATIENCE_S };

	if (!real_ppoll)
		find_real();
	if (is_main() && (!timeout || timeout->tv_sec >= PATIENCE_S))
		timeout = &patience;
	return real_ppoll(fds, number, timeout, signals);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int ret;

	if (!runs_cpus())
		return real_wait(cond, mutex);
	big_lock = mutex;
	tell();
	set_waiting(true);
	ret = real_wait(cond, mutex);
	set_waiting(false);
	return ret;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int ret;

	if (!real_lock)
		find_real();
	ret = real_lock(mutex);
	if (mutex != big_lock || !is_main())
		return ret;
	while (!waiting) {
		bool patient;

		real_unlock(mutex);
		patient = wait_for_cpus();
		ret = real_lock(mutex);
		if (!patient)
			break;
	}
	return ret;
}
