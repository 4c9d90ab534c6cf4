/*
 * To be preloaded: the time of day is wrong by as many seconds as stand in the file that CLOCK_ERROR names.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long error(void)
{
	const char *name = getenv("CLOCK_ERROR");
	FILE *file = name ? fopen(name, "r") : NULL;
	long seconds = 0;

	if (file) {
		if (fscanf(file, "%ld", &seconds) != 1)
			seconds = 0;
		fclose(file);
	}
	return seconds;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
	int result = syscall(SYS_clock_gettime, which, now);

	if (result == 0 && which == CLOCK_REALTIME)
		now->tv_sec += error();
	return result;
}
