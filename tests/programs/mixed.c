/*
 * mixed OTHER HOST1 HOST2: tasks of two libraries on two hosts. OTHER is this program, linked with the other library;
 * this one runs on HOST1. Prints what each finds of what the other sent.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { ECHO = 1, BACK, WATCH, WATCHING, GONE, END, TOLD, CROSS, LOAD, PSEND, PUT, SPAWN, CAST, REDUCE, SCATTER, GATHER };

#define MOST (1 << 17)
#define MEMBERS 8
#define GROUP_PART 3
#define LOADS 8

static double numbers[MOST];

/* Connections to other tasks: the daemon is reached by a socket of another family. */
static int streams(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++) {
		struct sockaddr_storage peer;
		socklen_t size = sizeof peer;
		if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.ss_family == AF_INET)
			count++;
	}
	return count;
}

/*
 * One of every type, and `n` doubles. In place, what is packed must stay until it is sent, and strings cannot be
 * packed at all; the original cannot unpack negative longs that another task packed by XDR.
 */
static short shorts[2] = { -2, 32767 };
static int ints[2] = { -3, 2147483647 };
static long longs[2] = { 4, 65536 };
static float floats[4] = { 0.5f, -1e30f, 3.25f, 1e-30f };
static unsigned int unsigneds[2] = { 0, 4000000000u };
static char bytes[5] = { 1, 0, -1, 127, -128 };

static void pack(int encoding, int n)
{
	for (int i = 0; i < n; i++)
		numbers[i] = i / 3.0;
	pvm_pkbyte(bytes, 5, 1);
	pvm_pkshort(shorts, 2, 1);
	pvm_pkint(ints, 2, 1);
	pvm_pkuint(unsigneds, 2, 1);
	pvm_pklong(longs, 2, 1);
	pvm_pkfloat(floats, 4, 1);
	pvm_pkcplx(floats, 2, 1);
	if (encoding != PvmDataInPlace)
		pvm_pkstr("gr\303\274\303\237e");
	pvm_pkdouble(numbers, n, 1);
}

/* How many of the parts of a message are not what `pack` makes them. */
static int wrong(int encoding, int n)
{
	short s[2];
	int i[2], bad = 0;
	unsigned int u[2];
	long l[2];
	float f[4], c[4];
	char b[5], text[32] = "";

	memset(numbers, 0, sizeof numbers);
	bad += pvm_upkbyte(b, 5, 1) < 0 || memcmp(b, bytes, sizeof b);
	bad += pvm_upkshort(s, 2, 1) < 0 || memcmp(s, shorts, sizeof s);
	bad += pvm_upkint(i, 2, 1) < 0 || memcmp(i, ints, sizeof i);
	bad += pvm_upkuint(u, 2, 1) < 0 || memcmp(u, unsigneds, sizeof u);
	bad += pvm_upklong(l, 2, 1) < 0 || memcmp(l, longs, sizeof l);
	bad += pvm_upkfloat(f, 4, 1) < 0 || memcmp(f, floats, sizeof f);
	bad += pvm_upkcplx(c, 2, 1) < 0 || memcmp(c, floats, sizeof c);
	if (encoding != PvmDataInPlace)
		bad += pvm_upkstr(text) < 0 || strcmp(text, "gr\303\274\303\237e");
	bad += pvm_upkdouble(numbers, n, 1) < 0;
	for (int k = 0; k < n; k++) {
		if (numbers[k] != k / 3.0) {
			bad++;
			break;
		}
	}
	return bad;
}

/* Sends a lot to a task that does the same at the same time; how many of its messages are not as they should be. */
static int cross(int peer)
{
	int bad = 0;

	for (int i = 0; i < LOADS; i++) {
		pvm_initsend(PvmDataRaw);
		pvm_pkint(&i, 1, 1);
		pack(PvmDataRaw, MOST);
		pvm_send(peer, LOAD);
	}
	for (int i = 0; i < LOADS; i++) {
		int number = -1;
		pvm_recv(peer, LOAD);
		pvm_upkint(&number, 1, 1);
		bad += number != i || wrong(PvmDataRaw, MOST);
	}
	return bad;
}

static void tell(int tid, int tag, int number)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&number, 1, 1);
	pvm_send(tid, tag);
}

static int told(int tid, int tag)
{
	int number = -1;

	pvm_recv(tid, tag);
	pvm_upkint(&number, 1, 1);
	return number;
}

/* A task of this program on a host; ends the program if there is none. */
static int start(char *program, char *host, char *role, int route)
{
	char number[16];
	char *words[] = { role, number, NULL };
	int tid;

	snprintf(number, sizeof number, "%d", route);
	if (pvm_spawn(program, words, PvmTaskHost, host, 1, &tid) != 1) {
		printf("no %s on %s: %d\n", program, host, tid);
		exit(1);
	}
	return tid;
}

/* Tells what it found in a message and sends the same back. */
static void answer(int parent)
{
	int what[3];

	pvm_upkint(what, 2, 1);
	what[2] = wrong(what[0], what[1]);
	pvm_initsend(what[0]);
	pvm_pkint(&what[2], 1, 1);
	pack(what[0], what[1]);
	pvm_send(parent, BACK);
}

/* The end of the task named in a message is told. */
static void watch(int parent)
{
	int watched;

	pvm_upkint(&watched, 1, 1);
	pvm_notify(PvmTaskExit, GONE, 1, &watched);
	tell(parent, WATCHING, 0);
	tell(parent, TOLD, told(-1, GONE));
}

/* A task of the other library, that one's child, back on the first host. */
static void spawn_back(int parent)
{
	char program[256], host[64];
	int child;

	pvm_upkstr(program);
	pvm_upkstr(host);
	child = start(program, host, "child", PvmDontRoute);
	told(child, TOLD);
	tell(parent, TOLD, child);
}

/* Does what its parent asks for, until it is told to end. */
static void echo(int route)
{
	int parent = pvm_parent(), tag, all[3];

	pvm_setopt(PvmRoute, route);
	while (pvm_bufinfo(pvm_recv(parent, -1), NULL, &tag, NULL) >= 0 && tag != END) {
		switch (tag) {
		case ECHO:
			answer(parent);
			break;
		case WATCH:
			watch(parent);
			break;
		case CROSS:
			tell(parent, TOLD, cross(parent));
			break;
		case PSEND:
			pvm_precv(parent, PSEND, all, 3, PVM_INT, NULL, NULL, NULL);
			all[0]++;
			pvm_psend(parent, PSEND, all, 3, PVM_INT);
			break;
		case PUT:
			pvm_initsend(PvmDataDefault);
			pvm_pkstr("put there");
			tell(parent, TOLD, pvm_putinfo("there", pvm_getsbuf(), PvmMboxDefault));
			break;
		case SPAWN:
			spawn_back(parent);
			break;
		}
	}
}

/* The larger of two numbers, in the way of a user's own function. */
static void larger(int *type, void *x, void *y, int *count, int *info)
{
	int *mine = x, *other = y;

	(void)type;
	for (int i = 0; i < *count; i++)
		if (other[i] > mine[i])
			mine[i] = other[i];
	*info = PvmOk;
}

/* What a member finds wrong in what others did with it. */
static int collectives(char *group, int me)
{
	int bad = 0, part[GROUP_PART], all[GROUP_PART * MEMBERS], sum[2] = { me, 10 * me }, most[1] = { me % 5 };
	double low[1] = { 100.0 - me };

	bad += pvm_barrier(group, MEMBERS) < 0;
	if (me == 3) {
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&me, 1, 1);
		bad += pvm_bcast(group, CAST) < 0;
	} else {
		int who = -1;
		pvm_recv(-1, CAST);
		bad += pvm_upkint(&who, 1, 1) < 0 || who != 3;
	}
	bad += pvm_reduce(PvmSum, sum, 2, PVM_INT, REDUCE, group, 2) < 0;
	bad += me == 2 && (sum[0] != 28 || sum[1] != 280);
	bad += pvm_reduce(PvmMin, low, 1, PVM_DOUBLE, REDUCE + 100, group, 5) < 0;
	bad += me == 5 && low[0] != 93.0;
	bad += pvm_reduce(larger, most, 1, PVM_INT, REDUCE + 200, group, 0) < 0;
	bad += me == 0 && most[0] != 4;
	for (int i = 0; i < GROUP_PART * MEMBERS; i++)
		all[i] = 7 * i;
	bad += pvm_scatter(part, all, GROUP_PART, PVM_INT, SCATTER, group, 1) < 0;
	for (int i = 0; i < GROUP_PART; i++) {
		bad += part[i] != 7 * (me * GROUP_PART + i);
		part[i]++;
	}
	bad += pvm_gather(all, part, GROUP_PART, PVM_INT, GATHER, group, 6) < 0;
	for (int i = 0; me == 6 && i < GROUP_PART * MEMBERS; i++)
		bad += all[i] != 7 * i + 1;
	bad += pvm_barrier(group, MEMBERS) < 0;
	return bad;
}

static void member(int route)
{
	int found[2];

	pvm_setopt(PvmRoute, route);
	found[0] = pvm_joingroup("mixed");
	found[1] = collectives("mixed", found[0]);
	found[1] += pvm_freezegroup("mixed", MEMBERS) < 0;
	found[1] += 100 * collectives("mixed", found[0]);
	found[1] += 10000 * (pvm_lvgroup("mixed") < 0);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(found, 2, 1);
	pvm_send(pvm_parent(), TOLD);
}

static void end(int tid)
{
	pvm_initsend(PvmDataDefault);
	pvm_send(tid, END);
}

/* Messages to and from a task on the other host, which takes this route. */
static void exchange(char *name, char *program, char *host, int mine, int its)
{
	static const int sizes[] = { 0, 100, MOST };
	static const char *const encodings[] = { "default", "raw", "in place" };
	int peer;

	pvm_setopt(PvmRoute, mine);
	peer = start(program, host, "echo", its);
	for (int encoding = PvmDataDefault; encoding <= PvmDataInPlace; encoding++) {
		for (int i = 0; i < 3; i++) {
			int what[2] = { encoding, sizes[i] }, there, here;
			pvm_initsend(encoding);
			pvm_pkint(what, 2, 1);
			pack(encoding, sizes[i]);
			pvm_send(peer, ECHO);
			there = told(peer, BACK);
			here = wrong(encoding, sizes[i]);
			printf("%s, %s, %d: wrong there %d, wrong here %d\n", name, encodings[encoding], sizes[i], there, here);
		}
	}
	tell(peer, CROSS, 0);
	printf("%s, crossing: wrong here %d\n", name, cross(peer));
	printf("%s, crossing: wrong there %d\n", name, told(peer, TOLD));
	printf("%s: streams %d\n", name, streams());
	end(peer);
	pvm_setopt(PvmRoute, PvmDontRoute);
}

/* Each host's task is told of the end of one on the other. */
static void notices(char *self, char *other, char *host1, char *host2)
{
	int far = start(other, host2, "echo", PvmDontRoute), victim = start(other, host2, "echo", PvmDontRoute);

	pvm_notify(PvmTaskExit, GONE, 1, &victim);
	pvm_kill(victim);
	printf("told of the end there: %d\n", told(-1, GONE) == victim);
	victim = start(self, host1, "echo", PvmDontRoute);
	tell(far, WATCH, victim);
	told(far, WATCHING);
	pvm_kill(victim);
	printf("told there of the end here: %d\n", told(far, TOLD) == victim);
	end(far);
}

/* What else tasks of two libraries have in common: multicasts, short messages, the mailbox, tasks that spawn tasks. */
static void services(char *self, char *other, char *host1, char *host2)
{
	int far = start(other, host2, "echo", PvmDontRoute), child, all[3] = { 1, 2, 3 }, what[2] = { PvmDataDefault, 100 };
	int tids[3] = { far, start(other, host1, "echo", PvmDontRoute), start(self, host2, "echo", PvmDontRoute) };
	char text[16] = "";

	pvm_initsend(PvmDataDefault);
	pvm_pkint(what, 2, 1);
	pack(what[0], what[1]);
	pvm_mcast(tids, 3, ECHO);
	for (int i = 0; i < 3; i++) {
		int there = told(tids[i], BACK);
		printf("multicast: wrong there %d, wrong here %d\n", there, wrong(what[0], what[1]));
	}
	tell(far, PSEND, 0);
	pvm_psend(far, PSEND, all, 3, PVM_INT);
	pvm_precv(far, PSEND, all, 3, PVM_INT, NULL, NULL, NULL);
	printf("psend: %d %d %d\n", all[0], all[1], all[2]);
	tell(far, PUT, 0);
	printf("put there: %d\n", told(far, TOLD));
	if (pvm_recvinfo("there", 0, PvmMboxDefault) > 0)
		pvm_upkstr(text);
	printf("found here: %s\n", text);
	pvm_initsend(PvmDataDefault);
	pvm_pkstr(self);
	pvm_pkstr(host1);
	pvm_send(far, SPAWN);
	child = told(far, TOLD);
	printf("spawned from there, is here: %d\n", child > 0 && pvm_tidtohost(child) == pvm_tidtohost(pvm_mytid()));
	for (int i = 0; i < 3; i++)
		end(tids[i]);
}

/* Members of both libraries on both hosts. */
static void group(char *name, char *self, char *other, char *host1, char *host2, int route)
{
	char *programs[] = { self, other }, *hosts[] = { host1, host2 };
	int instances = 0, bad = 0;

	for (int i = 0; i < MEMBERS; i++)
		start(programs[i % 2], hosts[i / 2 % 2], "member", route);
	for (int i = 0; i < MEMBERS; i++) {
		int found[2] = { 31, 1 };
		pvm_recv(-1, TOLD);
		pvm_upkint(found, 2, 1);
		instances |= 1 << found[0];
		bad += found[1];
	}
	printf("%s: instances %x, wrong %d\n", name, instances, bad);
}

int main(int count, char **words)
{
	int parent = pvm_parent();

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (parent > 0) {
		int route = count > 2 ? atoi(words[2]) : PvmDontRoute;
		if (strcmp(words[1], "echo") == 0)
			echo(route);
		else if (strcmp(words[1], "member") == 0)
			member(route);
		else
			tell(parent, TOLD, 0);
		pvm_exit();
		return 0;
	}
	if (count != 4)
		return 2;
	exchange("by daemons", words[1], words[3], PvmDontRoute, PvmDontRoute);
	exchange("direct from here", words[1], words[3], PvmRouteDirect, PvmAllowDirect);
	exchange("direct from there", words[1], words[3], PvmAllowDirect, PvmRouteDirect);
	notices(words[0], words[1], words[2], words[3]);
	services(words[0], words[1], words[2], words[3]);
	/* The group server of the original cannot be started by several tasks at once. */
	pvm_joingroup("first");
	pvm_lvgroup("first");
	group("group", words[0], words[1], words[2], words[3], PvmDontRoute);
	group("group, direct", words[0], words[1], words[2], words[3], PvmRouteDirect);
	pvm_exit();
	return 0;
}
