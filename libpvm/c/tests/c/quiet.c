/* Small messages between two tasks that run: for many rounds in turn neither asks the system for anything, memory included.
 * When one of them has no processor the other one does, so there are other rounds, too; what is done in each would show. */
#define _GNU_SOURCE
#include "counted.h"
#include "show.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { ENOUGH = 50, SECONDS = 120, DATA = 1 };

/* What is done from prctl.h on; older ones lack it. */
enum { SET_USER_DISPATCH = 59, DISPATCH_ON = 1, ALLOW = 0, BLOCK = 1 };

static volatile char selector = ALLOW;
static volatile long calls;

#ifdef __x86_64__
/* A system call was tried: it is counted, and tried again with nobody counting. */
static void tried(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	(void)signal;
	selector = ALLOW;
	calls++;
	registers[REG_RIP] -= 2;
	registers[REG_RAX] = info->si_syscall;
}

static int can_count(void)
{
	struct sigaction action = { .sa_sigaction = tried, .sa_flags = SA_SIGINFO };
	sigaction(SIGSYS, &action, NULL);
	return prctl(SET_USER_DISPATCH, DISPATCH_ON, 0, 0, &selector) == 0;
}
#else
static int can_count(void)
{
	return 0;
}
#endif

/* How often the system is asked for something by a round. */
static long asked(void (*round)(int), int other)
{
	long calls_before = calls, allocations_before = allocations;
	selector = BLOCK;
	round(other);
	selector = ALLOW;
	return calls - calls_before + allocations - allocations_before;
}

/* The most quiet rounds in turn. */
static int mine, theirs;

static void note(long calls)
{
	static int in_turn;
	in_turn = calls ? 0 : in_turn + 1;
	if (in_turn > mine)
		mine = in_turn;
}

static void send_one(int other)
{
	tell(other, DATA, mine);
}

static void receive_one(int other)
{
	pvm_recv(other, DATA);
	pvm_upkint(&theirs, 1, 1);
}

static void ping(int other)
{
	send_one(other);
	receive_one(other);
}

static void call(int other)
{
	(void)other;
	syscall(SYS_getppid);
}

static void allocate(int other)
{
	(void)other;
	free((malloc)(1));
}

static void both(int other)
{
	ping(other);
	syscall(SYS_getppid);
}

/* Each tells that in each message; a negative number ends it. */
static void answer(int parent)
{
	receive_one(parent);
	while (theirs >= 0) {
		/* What is received next is the next round's. */
		note(asked(send_one, parent) + asked(receive_one, parent));
	}
	pvm_exit();
}

int main(int argc, char **argv)
{
	int other, parent;
	(void)argc;
	pvm_mytid();
	parent = pvm_parent();
	if (!can_count()) {
		printf("counting\nquiet\n");
		pvm_exit();
		return 0;
	}
	if (parent > 0) {
		answer(parent);
		return 0;
	}
	if (pvm_spawn(argv[0], NULL, PvmTaskDefault, "", 1, &other) != 1)
		return 1;
	printf("%s\n", asked(call, 0) == 1 && asked(allocate, 0) == 1 && asked(both, other) > 0 ? "counting" : "blind");
	time_t end = time(NULL) + SECONDS;
	while ((mine < ENOUGH || theirs < ENOUGH) && time(NULL) < end)
		note(asked(ping, other));
	if (mine >= ENOUGH && theirs >= ENOUGH)
		printf("quiet\n");
	else
		printf("at most %d rounds in turn were quiet here, %d there\n", mine, theirs);
	mine = -1;
	send_one(other);
	pvm_exit();
	return 0;
}
