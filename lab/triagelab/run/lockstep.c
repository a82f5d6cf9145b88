// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into QEMU by the `sim` machine: keeps QEMU's main loop out of the way
 * while the virtual CPUs run.
 *
 * QEMU 7.2 has a race: when all virtual CPUs halt, its main loop skips virtual time
 * to the next timer (icount_start_warp_timer()). It looks whether they have halted
 * under the big lock, but a CPU says that it has before it takes that lock to account
 * for the instructions it has executed. A main loop that happens to look in between
 * skips too far, by so many nanoseconds: once in some ten runs on a busy computer.
 *
 * Here the main loop, having taken the big lock, gives it back until the thread of
 * the CPUs waits for something to do. That one waits with the big lock, on a
 * condition: so it is known which lock it is, and `waiting` changes only under it.
 *
 * And as it can do nothing until then, it is not woken before: the thread of the CPUs
 * tells other threads of every timer that is due, by an eventfd, a quarter of all that
 * QEMU did. What it would tell is kept until it waits.
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
 * Shutdown and reset are for the main loop to do, even if the CPUs run on. Else it is not to
 * do anything meanwhile: when it does depends on this computer, and a guest may notice. With
 * 0.3 ms half of the boots are others; with 2 s, as a boot on a busy computer runs for longer
 * without waiting, one in a hundred was.
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

/* A bit for each of the first descriptors. */
static _Atomic uint64_t eventfds;
static uint64_t untold;			/* the thread of the CPUs' own */

static pthread_mutex_t *big_lock;
static volatile bool waiting = true;	/* changed under the big lock, and guard */

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

__attribute__((constructor)) static void find_real(void)
{
	real_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	real_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	/* The version that is current since 2002; without one, dlsym() may find the old. */
	real_wait = (int (*)(pthread_cond_t *, pthread_mutex_t *))
		dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	real_eventfd = (int (*)(unsigned int, int))dlsym(RTLD_NEXT, "eventfd");
	real_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
	real_ppoll = (int (*)(struct pollfd *, nfds_t, const struct timespec *,
			      const sigset_t *))dlsym(RTLD_NEXT, "ppoll");
}

/* Is this the thread of the virtual CPUs? QEMU names it, with debug-threads=on. */
static bool runs_cpus(void)
{
	static __thread int known;	/* 0: not asked yet, 1: yes, 2: no */
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

/* Returns false when patience ran out. */
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
		/* Fails only where there is as much to be read as can be, which tells too. */
		if (untold & 1 && real_write(fd, &one, sizeof(one)) < 0)
			continue;
}

/* The main loop looks by itself now and then, should the CPUs never wait again. */
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
