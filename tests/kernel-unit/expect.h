/* SPDX-License-Identifier: GPL-2.0-only */
/* Helpers for tests of triage in user space. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>

#include "userspace.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

static int failed;

/* Check that @got is from @least to @most, both included. */
static inline void expect_between(const char *what, double got, double least, double most)
{
	if (got >= least && got <= most)
		return;
	fprintf(stderr, "%s: got %.10g, expected %.10g to %.10g\n", what, got, least, most);
	failed = 1;
}

static inline void expect_near(const char *what, double got, double wanted, double part)
{
	expect_between(what, got, wanted * (1 - part), wanted * (1 + part));
}

static inline void expect(const char *what, double got, double wanted)
{
	expect_between(what, got, wanted, wanted);
}

#define ANY_SEED 88172645463325252ull

static u64 any_state = ANY_SEED;

/* Restart the random numbers with series number @series. A program begins with series 0. */
static inline void any_begin(u64 series)
{
	any_state = ANY_SEED + series * 0x9e3779b97f4a7c15ull;
}

/* Return a random number (xorshift). The numbers are the same in every run. */
static inline u64 any(void)
{
	any_state ^= any_state << 13;
	any_state ^= any_state >> 7;
	any_state ^= any_state << 17;
	return any_state;
}

/* Return a random number from @least to @most, both included. */
static inline u64 any_between(u64 least, u64 most)
{
	return least + any() % (most - least + 1);
}

/* The one test function that runs; NULL: all run. */
static const char *only;
static bool any_ran;

/* Begin a program of test functions. Its argument, if any, names the only function to run. */
static inline void begin_tests(int argc, char **argv)
{
	only = argc > 1 ? argv[1] : NULL;
}

/* Return whether @call, such as "test_tails(4)", calls a test function that is to run. */
static inline bool is_wanted(const char *call)
{
	const size_t length = strcspn(call, "(");

	return !only || (strlen(only) == length && !strncmp(call, only, length));
}

/*
 * Call a test function if it is wanted. Restart the random numbers, so that a function gets the
 * same ones alone and after other functions.
 */
#define RUN(call) do { \
	if (is_wanted(#call)) { \
		any_ran = true; \
		any_begin(0); \
		call; \
	} \
} while (0)

/* If no test failed, print @success or the only function's name. Return the exit status. */
static inline int end_tests(const char *success)
{
	if (!any_ran) {
		fprintf(stderr, "there is no test function %s\n", only);
		return 2;
	}
	if (!failed)
		puts(only ? only : success);
	return failed;
}

#endif
