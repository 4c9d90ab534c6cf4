/* Use before the enrolment, after pvm_exit, and after fork without exec. */
#include "show.h"
#include <sys/wait.h>

enum { HELLO = 1 };

static void pack(int n)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
}

/* Nothing here needs the daemon. */
static void before(void)
{
	int length;

	ID(pvm_initsend(PvmDataDefault));
	ID(pvm_mkbuf(PvmDataRaw));
	SHOW(pvm_pkstr("packed before"));
	SHOW(pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL));
	printf("%d bytes\n", length);
	SHOW(pvm_getopt(PvmRoute));
	SHOW(pvm_setopt(PvmAutoErr, 0));
	SHOW(pvm_getcontext());
	SHOW(pvm_tidtohost(0x40001) == 0x40000);
}

static void whole_life(int times)
{
	int me, last = 0;

	while (times-- > 0) {
		me = pvm_mytid();
		printf("enrolled %d, another %d\n", me > 0, me != last);
		last = me;
		pack(times);
		SHOW(pvm_send(me, HELLO));
		ID(pvm_recv(me, HELLO));
		printf("got %d\n", number());
		SHOW(pvm_exit());
	}
	SHOW(pvm_exit());
	printf("a buffer is there still: %d\n", pvm_getsbuf() > 0);
}

/* The child leaves the parent's identity to it, and is a task of its own once it has forgotten. */
static void after_fork(void)
{
	int me = pvm_mytid(), status = -1;
	pid_t child;

	pack(4);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		/* A child that does nothing with PVM. */
		_exit(3);
	}
	waitpid(child, &status, 0);
	printf("child ended with %d\n", WEXITSTATUS(status));
	SHOW(pvm_send(me, HELLO));
	ID(pvm_recv(me, HELLO));
	printf("got %d\n", number());
	SHOW(pvm_mytid() == me);
}

/* A child that uses what its parent had is a task of its own, and the parent does not notice. */
static void in_child(void)
{
	int me = pvm_mytid(), status = -1, mine, from;
	pid_t child = fork();

	if (child == 0) {
		mine = pvm_mytid();
		pack(11);
		_exit(mine > 0 && mine != me && pvm_parent() == PvmNoParent && pvm_send(me, HELLO) == 0 ? 5 : 6);
	}
	ID(pvm_recv(-1, HELLO));
	pvm_bufinfo(pvm_getrbuf(), NULL, NULL, &from);
	printf("got %d from another: %d\n", number(), from != me);
	waitpid(child, &status, 0);
	printf("child ended with %d\n", WEXITSTATUS(status));
	SHOW(pvm_mytid() == me);
	child = fork();
	if (child == 0)
		_exit(pvm_exit() == 0 ? 5 : 6);
	waitpid(child, &status, 0);
	printf("child left with %d\n", WEXITSTATUS(status));
	SHOW(pvm_pstat(me));
}

/* More than the parent may have on its way at once: the child gives back what it has read. */
static void much_for_child(void)
{
	static char data[200000];
	int me = pvm_mytid(), status = -1, from, i, count = 0;
	pid_t child = fork();

	if (child == 0) {
		pack(12);
		pvm_send(me, HELLO);
		while (count < 64 && pvm_recv(me, HELLO) > 0 && pvm_upkbyte(data, sizeof data, 1) == 0)
			count++;
		_exit(count == 64 ? 5 : 6);
	}
	pvm_recv(-1, HELLO);
	pvm_bufinfo(pvm_getrbuf(), NULL, NULL, &from);
	for (i = 0; i < 64; i++) {
		pvm_initsend(PvmDataRaw);
		pvm_pkbyte(data, sizeof data, 1);
		pvm_send(from, HELLO);
	}
	waitpid(child, &status, 0);
	printf("child that took much ended with %d\n", WEXITSTATUS(status));
}

/* A program that forks before it enrols: both are tasks. */
static void before_fork(void)
{
	int status = -1, me;
	pid_t child = fork();

	if (child == 0)
		_exit(pvm_mytid() > 0 && pvm_parent() == PvmNoParent && pvm_exit() == 0 ? 7 : 8);
	me = pvm_mytid();
	waitpid(child, &status, 0);
	printf("child ended with %d, me %d\n", WEXITSTATUS(status), me > 0);
}

int main(void)
{
	setenv("PVM_SHM_MAX", "4000000", 1);
	begin();
	before();
	before_fork();
	after_fork();
	in_child();
	much_for_child();
	SHOW(pvm_exit());
	whole_life(3);
	return 0;
}
