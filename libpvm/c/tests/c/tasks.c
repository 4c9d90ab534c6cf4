/* Spawning, siblings, multicast, notify, signals, and what the machine tells of its hosts and tasks. */
#include "show.h"

enum { READY = 1, WORK = 2, DONE = 3, GONE = 4, KIDS = 4 };

static char program[4096];

/* A child: tells its place among its siblings, answers one piece of work, ends when told or killed. */
static int child(int argc, char **argv)
{
	int *tids, n = pvm_siblings(&tids), i, place = -1, parent = pvm_parent();

	for (i = 0; i < n; i++)
		if (tids[i] == pvm_mytid())
			place = i;
	tell(parent, READY, n * 100 + place * 10 + (argc == 3 && !strcmp(argv[2], "with spaces, too")));
	for (;;) {
		pvm_recv(parent, -1);
		pvm_bufinfo(pvm_getrbuf(), NULL, &i, NULL);
		if (i != WORK)
			break;
		tell(parent, DONE, number() + place);
	}
	pvm_exit();
	return 0;
}

static void spawning(int *kids)
{
	char *args[] = {"child", "with spaces, too", NULL};
	int i, sum = 0, *tids;

	SHOW(pvm_siblings(&tids));
	printf("only me: %d\n", tids[0] == pvm_mytid());
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, KIDS, kids));
	for (i = 0; i < KIDS; i++) {
		pvm_recv(kids[i], READY);
		sum += number();
	}
	printf("places and arguments: %d\n", sum);
}

static void multicast(int *kids)
{
	int tids[2 * KIDS + 1], i, sum = 0, n = 1000;

	for (i = 0; i < 2 * KIDS; i++)
		tids[i] = kids[i % KIDS];
	tids[i] = pvm_mytid();
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_mcast(tids, 2 * KIDS + 1, WORK));
	for (i = 0; i < KIDS; i++) {
		pvm_recv(-1, DONE);
		sum += number();
	}
	printf("sum %d\n", sum);
	sleep(1);
	SHOW(pvm_nrecv(-1, -1));
}

static void ends(int *kids)
{
	int i, n, known;

	SHOW(pvm_notify(PvmTaskExit, GONE, 2, kids));
	SHOW(pvm_notify(PvmTaskExit | PvmNotifyCancel, GONE, 1, kids + 1));
	pvm_recv(-1, GONE);
	printf("withdrawn, told at once: %d\n", number() == kids[1]);
	SHOW(pvm_pstat(kids[0]));
	SHOW(pvm_kill(kids[0]));
	pvm_recv(-1, GONE);
	printf("killed: %d\n", number() == kids[0]);
	SHOW(pvm_pstat(kids[0]));
	SHOW(pvm_notify(PvmTaskExit, GONE, KIDS, kids));
	pvm_recv(-1, GONE);
	printf("gone already: %d\n", number() == kids[0]);
	SHOW(pvm_sendsig(kids[1], 9));
	pvm_recv(-1, GONE);
	printf("killed: %d\n", number() == kids[1]);
	pvm_initsend(PvmDataDefault);
	pvm_mcast(kids + 2, KIDS - 2, GONE);
	for (i = 2; i < KIDS; i++) {
		pvm_recv(-1, GONE);
		n = number();
		known = n == kids[2] || n == kids[3];
		printf("ended: %d\n", known);
	}
	SHOW(pvm_notify(PvmTaskExit, GONE, 1, kids));
	SHOW(pvm_recv(-1, GONE) > 0);
	n = pvm_mytid();
	SHOW(pvm_notify(PvmTaskExit, GONE, 1, &n));
	sleep(1);
	SHOW(pvm_nrecv(-1, GONE));
	SHOW(pvm_notify(PvmTaskExit | PvmNotifyCancel, GONE, 1, &n));
	SHOW(pvm_notify(PvmHostAdd, GONE, -1, NULL));
	SHOW(pvm_notify(PvmHostAdd, GONE, 0, NULL));
	n = 9 << 18;
	SHOW(pvm_notify(PvmHostDelete, GONE, 1, &n));
	while (pvm_recv(-1, GONE) > 0 && number() != n)
		;
	printf("no such host, told at once\n");
	SHOW(pvm_notify(PvmRouteAdd, GONE, -1, NULL));
	n = pvm_mytid() + 1000;
	SHOW(pvm_notify(PvmRouteDelete, GONE, 1, &n));
	pvm_recv(-1, GONE);
	printf("no route: %d", number() == n);
	printf(", descriptor %d\n", number());
}

static void machine(void)
{
	int hosts, formats, tasks, i;
	struct pvmhostinfo *host;
	struct pvmtaskinfo *task;
	struct timeval clock, delta;

	SHOW(pvm_config(&hosts, &formats, &host));
	printf("%d host, %d format, architecture %s, speed %d, signature %x, mine %d\n", hosts, formats,
		host[0].hi_arch, host[0].hi_speed, host[0].hi_dsig, host[0].hi_tid == pvm_tidtohost(pvm_mytid()));
	SHOW(pvm_config(NULL, NULL, NULL));
	SHOW(pvm_archcode(host[0].hi_arch) == host[0].hi_dsig);
	SHOW(pvm_mstat(host[0].hi_name));
	SHOW(pvm_mstat("."));
	pvm_tasks(pvm_mytid(), &tasks, &task);
	printf("%d task, me %d, parent %d, flags %d, name '%s', pid %d, host %d\n", tasks,
		task[0].ti_tid == pvm_mytid(), task[0].ti_ptid, task[0].ti_flag, task[0].ti_a_out,
		task[0].ti_pid == getpid(), task[0].ti_host == host[0].hi_tid);
	pvm_tasks(0, &tasks, &task);
	for (i = 0; i < tasks && task[i].ti_tid != pvm_mytid(); i++)
		;
	printf("among all: %d\n", i < tasks);
	SHOW(pvm_hostsync(host[0].hi_tid, &clock, &delta));
	printf("near: %d\n", clock.tv_sec > now() - 3 && (delta.tv_sec == 0 || delta.tv_sec == -1));
	i = 5;
	SHOW(pvm_tickle(1, &i, &tasks, &hosts));
	printf("%d result, %d\n", tasks, hosts);
}

static void failures(void)
{
	int tids[3] = {0};

	SHOW(pvm_spawn("nothing-of-this-name", NULL, 0, NULL, 2, tids));
	printf("%d %d %d\n", tids[0], tids[1], tids[2]);
	SHOW(pvm_spawn(program, NULL, PvmTaskHost, "no-such-host", 1, tids));
	printf("%d\n", tids[0]);
	SHOW(pvm_spawn(program, NULL, PvmTaskHost | PvmHostCompl, ".", 1, tids));
	printf("%d\n", tids[0]);
}

int main(int argc, char **argv)
{
	int kids[KIDS];

	begin();
	if (argc > 1 && !strcmp(argv[1], "child"))
		return child(argc, argv);
	ID(pvm_mytid());
	if (!realpath(argv[0], program))
		return 1;
	SHOW(pvm_export("LD_LIBRARY_PATH"));
	SHOW(pvm_export("PVM_ALLOW_ROOT"));
	SHOW(pvm_export("LD_LIBRARY_PATH"));
	printf("%s\n", getenv("PVM_EXPORT"));
	SHOW(pvm_unexport("PVM_ALLOW_ROOT"));
	printf("%s\n", getenv("PVM_EXPORT"));
	spawning(kids);
	multicast(kids);
	ends(kids);
	machine();
	failures();
	SHOW(pvm_exit());
	return 0;
}
