/* What all measured programs share: the clock, the data, and how often a thing is done until its time is known. */
#ifndef BENCH_H
#define BENCH_H

/* No program uses all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The longest message. */
#define MOST (64L << 20)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Memory that has been written to, so that no page is missing when the time is taken. */
static void *memory(long size)
{
    void *bytes = malloc(size);
    if (!bytes) fail("no memory");
    memset(bytes, 1, size);
    return bytes;
}

/* Whole numbers as doubles: a value that any conversion keeps, and that differs from place to place. */
static void fill(void *data, long size, int seed)
{
    for (long i = 0; i < size / 8; i++) ((double *)data)[i] = (double)((i * 31 + seed) % 65521);
    for (long i = size / 8 * 8; i < size; i++) ((char *)data)[i] = (char)(i * 31 + seed);
}

/* Ends the program if what came is not what fill() wrote. */
static void verify(const void *data, long size, int seed)
{
    char *expected = memory(size + 1);
    fill(expected, size, seed);
    if (memcmp(data, expected, size) != 0) fail("what was received is not what was sent");
    free(expected);
}

/* The same, but only the first time for a size: comparing takes time, too. */
static void verify_once(const void *data, long size, int seed)
{
    static long verified;
    if (size != verified) verify(data, size, seed);
    verified = size;
}

/* Does something `times` times with the size, or whatever else x is. */
typedef void (*act)(long x, long times);

/* Sends data there and back, and ends the program if others come. */
static void check_round_trip(act there_and_back, long size, char *out, char *in)
{
    fill(out, size, 3);
    memset(in, 0, size);
    there_and_back(size, 1);
    verify(in, size, 3);
}

/* Number of batches, of which the median counts: an interruption of one of them changes nothing. */
#define BATCHES 9

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The fewest times that warm up: tasks meet in shared memory from their second message on. */
#define WARM_UP 4

/* Seconds that it takes once: first a few times, to warm up and to learn how often fits the time given. */
static double timed(act run, long x, double seconds)
{
    double took, each[BATCHES];
    long times = 1;
    for (;;) {
        double start = now();
        run(x, times);
        took = now() - start;
        if (took >= seconds / 8 && (times >= WARM_UP || took > 10 * seconds)) break;
        times *= 4;
    }
    /* What takes so long needs no second look. */
    if (took / times > 10 * seconds) return took / times;
    int batches = took / times * BATCHES > 4 * seconds ? 3 : BATCHES;
    times = (long)(times * seconds / batches / took);
    if (times < 1) times = 1;
    for (int i = 0; i < batches; i++) {
        double start = now();
        run(x, times);
        each[i] = (now() - start) / times;
    }
    qsort(each, batches, sizeof *each, by_size);
    return each[batches / 2];
}

/* What 99 of 100 took at most. */
static double percentile(double *each, long n)
{
    qsort(each, n, sizeof *each, by_size);
    return each[n * 99 / 100];
}

/* Seconds for which others start tasks while answers are waited for, and the most answers. */
#define LASTS 2.0
#define MOST_TIMES 100000

/* Between two questions, so that they are no load. */
static void pause_between(void)
{
    struct timespec pause = { .tv_nsec = 1000000 };
    nanosleep(&pause, NULL);
}

/* A line of the result: x, and the seconds one takes. */
static void report(long x, double seconds)
{
    printf("%ld %.9g\n", x, seconds);
    fflush(stdout);
}

#endif
