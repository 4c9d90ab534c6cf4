/* What programs lose that share their hosts, by PVM's C interface.
 *
 *   pvm_gang WAIT COMPETITION SECONDS SPIN HOST HOST GRAIN...
 *
 * WAIT is how a program waits for its other half: block, spin, or twophase (spins for SPIN times of what it takes to wake
 * another process of its host, then blocks).
 * COMPETITION is none, copies:N (N copies in all), cpu (a program that only computes) or flood (two programs that only
 * compute, one of which sends itself junk all the time). For each GRAIN, the microseconds of work between two exchanges,
 * a line is printed:
 *
 *   GRAIN SLOWDOWN ITS-SHARE OTHERS-SLOWDOWN OTHERS-SHARE DAEMONS-SHARE SWITCHES RATE
 *
 * where slowdowns are against the same program alone, shares are of the hosts' processors, switches are the tasks' per
 * second and host, and RATE is how often a second the program does its work alone.
 *
 *   pvm_gang WAIT asked SECONDS SPIN HOST HOST
 *
 * prints how many steps of work it does in a microsecond, and then, for each line GRAIN STEPS that it reads, RATE. So two of
 * them can be compared that take turns.
 *
 *   pvm_gang WAIT costs SECONDS SPIN HOST HOST
 *
 * prints the microseconds that it takes to wake another process on the first host, and those of the kernel's time slice. */
#include "bench.h"
#include "must.h"

#include <pvm3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORDER = 1, READY, GO, DATA, JUNK, RESULT };

/* What a program does: an exchange after each grain, work only, work and junk, or no more. */
enum kind { EXCHANGES, COMPUTES, FLOODS, ENDS };

#define MOST_PROGRAMS 16
#define HOSTS 2

/* For so long all run before what they do counts, and after, and no more than this part of what counts. */
#define MARGIN 0.15
#define MARGIN_PART 4
/* Work between two looks at the clock, or two pieces of junk, in microseconds. */
#define PIECE 100

struct result {
    double rate, cpu, switches, daemon;
};
enum { NUMBERS = sizeof(struct result) / sizeof(double) };

static const char *waits;
static double seconds, margin, spins, spin_time;
static char **hosts;
static char *myself;

/* Work is counted in steps, so that it takes processor time and not time. */

static volatile double sink;

static void work(long steps)
{
    double value = sink;
    for (long i = 0; i < steps; i++) value = value * 0.999999 + 0.5;
    sink = value;
}

static double time_by(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double processor_time(void)
{
    return time_by(CLOCK_PROCESS_CPUTIME_ID);
}

/* Of the daemon that has started this task. */
static double daemon_time(void)
{
    clockid_t clock;
    if (clock_getcpuclockid(getppid(), &clock)) fail("the daemon's time cannot be read");
    return time_by(clock);
}

/* Steps in a microsecond: the most of several tries. */
static double measure_speed(void)
{
    double best = 0;
    for (int i = 0; i < 20; i++) {
        long steps = 1000000;
        double start = processor_time();
        work(steps);
        double speed = steps / (processor_time() - start) / 1e6;
        if (speed > best) best = speed;
    }
    return best;
}

#define WAKES 200
#define TRIES 5

/* Seconds until another process runs that waits for this one, on this processor: the least of several tries. */
static double measure_waking(void)
{
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) || pipe(back)) fail("no pipes");
    pid_t child = fork();
    if (child < 0) fail("no process");
    if (!child) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {}
        _exit(0);
    }
    double best = 1;
    for (int try = 0; try < TRIES; try++) {
        double begin = now();
        for (int i = 0; i < WAKES; i++)
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) fail("no answer");
        double took = (now() - begin) / WAKES / 2;
        if (took < best) best = took;
    }
    close(there[1]);
    waitpid(child, NULL, 0);
    close(there[0]), close(back[0]), close(back[1]);
    return best;
}

/* Seconds that the kernel lets a process run before another one that wants to. */
static double measure_slice(void)
{
    enum { PROCESSES = 2 };
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    double begin = now();
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        if (child < 0) fail("no process");
        if (!child) {
            while (now() < begin + seconds) {}
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) wait(NULL);
    getrusage(RUSAGE_CHILDREN, &after);
    long slices = after.ru_nivcsw - before.ru_nivcsw;
    return seconds / (slices > 0 ? slices : 1);
}

static double context_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* What happens between two moments. */

static double begun, worked;
static struct result start;

static void start_counting(void)
{
    begun = now();
    worked = 0;
    start.cpu = processor_time();
    start.switches = context_switches();
    start.daemon = daemon_time();
}

static struct result stop_counting(void)
{
    double took = now() - begun;
    return (struct result){ worked / took, (processor_time() - start.cpu) / took,
                            (context_switches() - start.switches) / took, (daemon_time() - start.daemon) / took };
}

/* Whether to go on. Counts in the middle of the time. */
static int go_on(double first, struct result *result)
{
    double time = now() - first;
    if (!begun && time >= margin) start_counting();
    if (begun && !result->rate && time >= margin + seconds) *result = stop_counting();
    return time < 2 * margin + seconds;
}

static void wait_for(int other, int tag)
{
    if (strcmp(waits, "block")) {
        double end = now() + (strcmp(waits, "spin") ? spin_time : 1e9);
        do
            if (MUST(pvm_nrecv(other, tag))) return;
        while (now() < end);
    }
    MUST(pvm_recv(other, tag));
}

/* One superstep: work, then both know that the other has done its work. */
static int exchange(int other, int leads, int more, long steps)
{
    work(steps);
    MUST(pvm_initsend(PvmDataRaw));
    MUST(pvm_pkint(&more, 1, 1));
    MUST(pvm_send(other, DATA));
    wait_for(other, DATA);
    int its;
    MUST(pvm_upkint(&its, 1, 1));
    return leads ? more : its;
}

static struct result be_exchanging(int other, int leads, long steps)
{
    struct result result = { 0 };
    double first = now();
    int more = 1;
    while (more) {
        int ahead = go_on(first, &result);
        more = exchange(other, leads, ahead, steps);
        worked++;
    }
    if (!result.rate) result = stop_counting();
    return result;
}

static struct result be_computing(int other, int floods, double speed)
{
    struct result result = { 0 };
    double first = now();
    while (go_on(first, &result)) {
        work(PIECE * speed);
        worked++;
        if (floods) {
            MUST(pvm_initsend(PvmDataRaw));
            MUST(pvm_send(other, JUNK));
            while (MUST(pvm_nrecv(-1, JUNK)) > 0);
        }
    }
    return result;
}

/* Does what it is told once; whether there may be more. */
static int obey(int parent)
{
    int numbers[3];
    double speed;
    MUST(pvm_recv(parent, ORDER));
    MUST(pvm_upkint(numbers, 3, 1));
    MUST(pvm_upkdouble(&speed, 1, 1));
    int kind = numbers[0], grain = numbers[1], other = numbers[2], leads = pvm_mytid() < other;
    if (kind == ENDS) return 0;
    begun = 0;
    MUST(pvm_initsend(PvmDataRaw));
    MUST(pvm_send(parent, READY));
    MUST(pvm_recv(parent, GO));
    struct result result = kind == EXCHANGES ? be_exchanging(other, leads, grain * speed)
                                             : be_computing(other, kind == FLOODS, speed);
    MUST(pvm_initsend(PvmDataRaw));
    MUST(pvm_pkdouble((double *)&result, NUMBERS, 1));
    MUST(pvm_send(parent, RESULT));
    return 1;
}

/* The one who starts the others. */

static void start_program(int number, int *tids)
{
    char team[32];
    snprintf(team, sizeof team, "program %d", number);
    setenv("PVM_TEAM", team, 1);
    for (int n = 0; n < HOSTS; n++) {
        char *arguments[] = { (char *)waits, "half", NULL, NULL, NULL };
        char time[32], times[32];
        snprintf(time, sizeof time, "%g", seconds);
        snprintf(times, sizeof times, "%g", spins);
        arguments[2] = time;
        arguments[3] = times;
        if (MUST(pvm_spawn(myself, arguments, PvmTaskHost, hosts[n], 1, &tids[n])) != 1) {
            fprintf(stderr, "cannot start on %s: error %d\n", hosts[n], tids[n]);
            pvm_exit();
            exit(1);
        }
    }
}

static void tell_program(enum kind kind, int grain, double speed, const int *tids)
{
    for (int n = 0; n < HOSTS; n++) {
        int numbers[] = { kind, grain, tids[1 - n] };
        MUST(pvm_initsend(PvmDataRaw));
        MUST(pvm_pkint(numbers, 3, 1));
        MUST(pvm_pkdouble(&speed, 1, 1));
        MUST(pvm_send(tids[n], ORDER));
    }
}

/* Until all have left. */
static void end_programs(int count, const int *tids)
{
    for (int n = 0; n < count; n++) tell_program(ENDS, 0, 0, tids + n * HOSTS);
    struct pvmtaskinfo *tasks;
    struct timespec pause = { .tv_nsec = 5000000 };
    int running, left;
    do {
        nanosleep(&pause, NULL);
        MUST(pvm_tasks(0, &running, &tasks));
        left = 0;
        for (int n = 0; n < running; n++) left += tasks[n].ti_ptid == pvm_mytid();
    } while (left > 0);
}

/* All that were told begin; the results of each, the rates' and the shares' means over the hosts. */
static void go(int count, int *tids, struct result *results)
{
    int all = count * HOSTS;
    for (int n = 0; n < all; n++) MUST(pvm_recv(tids[n], READY));
    MUST(pvm_initsend(PvmDataRaw));
    MUST(pvm_mcast(tids, all, GO));
    for (int n = 0; n < all; n++) {
        struct result half, *whole = &results[n / HOSTS];
        MUST(pvm_recv(tids[n], RESULT));
        MUST(pvm_upkdouble((double *)&half, NUMBERS, 1));
        if (n % HOSTS == 0) memset(whole, 0, sizeof *whole);
        whole->rate += half.rate / HOSTS;
        whole->cpu += half.cpu / HOSTS;
        whole->switches += half.switches / HOSTS;
        whole->daemon += half.daemon / HOSTS;
    }
}

/* Programs side by side. */
static void run(const enum kind *kinds, int count, int grain, double speed, struct result *results)
{
    int tids[MOST_PROGRAMS * HOSTS];
    for (int n = 0; n < count; n++) {
        start_program(n, tids + n * HOSTS);
        tell_program(kinds[n], grain, speed, tids + n * HOSTS);
    }
    go(count, tids, results);
    end_programs(count, tids);
}

/* A program that runs when it is asked to. */
static void answer(void)
{
    int tids[HOSTS], grain;
    double steps;
    start_program(0, tids);
    printf("%.9g\n", measure_speed());
    fflush(stdout);
    while (scanf("%d %lf", &grain, &steps) == 2) {
        struct result result;
        tell_program(EXCHANGES, grain, steps, tids);
        go(1, tids, &result);
        printf("%.9g\n", result.rate);
        fflush(stdout);
    }
    end_programs(1, tids);
}

static void compare(const char *competition, int grain, double speed)
{
    enum kind kinds[MOST_PROGRAMS] = { EXCHANGES };
    struct result alone[2], results[MOST_PROGRAMS];
    int count = 1;
    if (!strncmp(competition, "copies:", 7)) count = atoi(competition + 7);
    if (count < 1 || count > MOST_PROGRAMS) fail("the number of copies is out of range");
    if (!strcmp(competition, "flood")) kinds[0] = FLOODS;
    if (!strcmp(competition, "cpu") || !strcmp(competition, "flood")) kinds[1] = COMPUTES, count = 2;
    run(kinds, 1, grain, speed, alone);
    // Who only computes needs no trial.
    alone[1].rate = 1e6 / PIECE;
    if (count > 1) run(kinds, count, grain, speed, results);
    else results[0] = alone[0];
    // Of copies none is special: all count.
    int firsts = kinds[1] == kinds[0] ? count : 1;
    struct result first = { 0 }, others = { 0 };
    double switches = 0;
    for (int n = 0; n < count; n++) {
        struct result *sum = n < firsts ? &first : &others;
        sum->rate += results[n].rate;
        sum->cpu += results[n].cpu;
        switches += results[n].switches;
    }
    double slowdown = alone[0].rate / (first.rate / firsts), theirs = firsts < count ? alone[1].rate / others.rate : 0;
    printf("%d %g %g %g %g %g %g %g\n", grain, slowdown, first.cpu / firsts, theirs, others.cpu, results[0].daemon,
           switches, alone[0].rate);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 5) fail("usage: WAIT COMPETITION SECONDS SPIN HOST HOST GRAIN...");
    myself = argv[0];
    waits = argv[1];
    seconds = atof(argv[3]);
    spins = atof(argv[4]);
    if (!strcmp(waits, "twophase")) spin_time = spins * measure_waking();
    margin = seconds / MARGIN_PART < MARGIN ? seconds / MARGIN_PART : MARGIN;
    MUST(pvm_mytid());
    if (pvm_parent() > 0) {
        while (obey(pvm_parent())) {}
    } else {
        hosts = argv + 5;
        if (!strcmp(argv[2], "asked")) {
            answer();
            pvm_exit();
            return 0;
        }
        if (!strcmp(argv[2], "costs")) {
            printf("%g %g\n", measure_waking() * 1e6, measure_slice() * 1e6);
            pvm_exit();
            return 0;
        }
        double speed = measure_speed();
        for (char **grain = argv + 7; *grain; grain++) compare(argv[2], atoi(*grain), speed);
    }
    pvm_exit();
    return 0;
}
