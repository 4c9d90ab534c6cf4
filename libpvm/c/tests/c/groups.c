/* Groups: a parent and three children do the same, and the parent prints what each of them got. */
#include "show.h"
#include <stdarg.h>

extern int pvm_errno;

#define N 4
static int tids[N], me;
static char said[16384];

static void say(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(said + strlen(said), sizeof said - strlen(said), format, ap);
	va_end(ap);
}

/* The parent prints what all have said. */
static void stage(const char *name)
{
	if (me == 0) {
		printf("%s\n", name);
		for (int i = 0; i < N; i++) {
			if (i > 0) {
				if (tids[i] < 0)
					continue;
				pvm_recv(tids[i], 900);
				pvm_upkstr(said);
			}
			if (said[0])
				printf(" %d:%s\n", i, said);
		}
		fflush(stdout);
		pvm_initsend(PvmDataDefault);
		for (int i = 1; i < N; i++)
			if (tids[i] > 0)
				pvm_send(tids[i], 901);
	} else {
		pvm_initsend(PvmDataDefault);
		pvm_pkstr(said);
		pvm_send(tids[0], 900);
		pvm_recv(tids[0], 901);
	}
	said[0] = 0;
}

static const char *who(int tid)
{
	static char text[20];
	for (int i = 0; i < N; i++)
		if (tids[i] == tid)
			return sprintf(text, "#%d", i), text;
	sprintf(text, "%d", tid);
	return text;
}

/* One after the other does it. */
#define IN_TURN(body) \
	for (int turn = 0; turn < N; turn++) { \
		if (me == turn) { \
			if (me > 0) pvm_recv(tids[me - 1], 910); \
			body; \
			pvm_initsend(PvmDataDefault); \
			if (me < N - 1) pvm_send(tids[me + 1], 910); \
		} \
	}

static void nothing_there(void)
{
	say(" getinst %d gettid %d gsize %d", pvm_getinst("none", tids[0]), pvm_gettid("none", 0), pvm_gsize("none"));
	say(" barrier %d", pvm_barrier("none", 1));
	pvm_initsend(PvmDataDefault);
	say(" bcast %d lvgroup %d freeze %d", pvm_bcast("none", 1), pvm_lvgroup("none"), pvm_freezegroup("none", 1));
	say(" errno %d", pvm_errno);
	stage("no such group");
	say(" %d %d %d %d %d", pvm_joingroup(0), pvm_joingroup(""), pvm_lvgroup(0), pvm_lvgroup(""), pvm_getinst("", tids[0]));
	say(" %d %d %d %d", pvm_gettid(0, 0), pvm_gsize(""), pvm_barrier(0, 1), pvm_barrier("", 1));
	say(" %d %d %d %d", pvm_bcast(0, 1), pvm_bcast("", 1), pvm_freezegroup("", 2), pvm_gsize(0));
	stage("no name");
}

static void membership(void)
{
	IN_TURN(say(" %d", pvm_joingroup("g")); say(" %d", pvm_joingroup("g")));
	stage("join, twice");
	say(" size %d", pvm_gsize("g"));
	for (int i = -1; i <= N; i++)
		say(" %s", who(pvm_gettid("g", i)));
	for (int i = 0; i < N; i++)
		say(" %d", pvm_getinst("g", tids[i]));
	say(" %d", pvm_getinst("g", 0x40999));
	stage("size, tids, instances");
}

static void barriers(void)
{
	say(" %d", pvm_barrier("g", N));
	say(" %d", pvm_barrier("g", N));
	stage("barriers of all");
	say(" %d", pvm_barrier("g", -1));
	stage("barrier of -1");
	if (me < 2) {
		if (me == 1) {
			sleep(1);
			say(" other count %d", pvm_barrier("g", 3));
			say(" too few %d", pvm_barrier("g", 1));
		}
		say(" %d", pvm_barrier("g", 2));
	}
	stage("barrier of two");
}

static void broadcasts(void)
{
	char text[100];
	if (me == 0) {
		say(" no buffer %d", (pvm_freebuf(pvm_getsbuf()), pvm_bcast("g", 5)));
		pvm_initsend(PvmDataDefault);
		pvm_pkstr("from the first");
		say(" %d", pvm_bcast("g", 5));
		pvm_initsend(PvmDataRaw);
		pvm_pkstr("and another");
		say(" %d negative tag %d", pvm_bcast("g", 6), pvm_bcast("g", -3));
	} else {
		int bytes, tag, tid;
		for (int i = 0; i < 2; i++) {
			pvm_bufinfo(pvm_recv(-1, -1), &bytes, &tag, &tid);
			pvm_upkstr(text);
			say(" %s says %s with %d in %d;", who(tid), text, tag, pvm_getcontext());
		}
	}
	stage("broadcast");
	if (me == 1)
		say(" leave %d", pvm_lvgroup("g"));
	stage("one leaves");
	if (me == 1) {
		pvm_initsend(PvmDataDefault);
		pvm_pkstr("from outside");
		say(" %d", pvm_bcast("g", 7));
	} else {
		pvm_recv(tids[1], 7);
		pvm_upkstr(text);
		say(" %s", text);
	}
	stage("broadcast of one who is no member");
	if (me == 1) {
		say(" alone %d", pvm_joingroup("alone"));
		pvm_initsend(PvmDataDefault);
		say(" %d", pvm_bcast("alone", 7));
		say(" %d", pvm_lvgroup("alone"));
		say(" %d", pvm_lvgroup("alone"));
	}
	stage("broadcast of one who is alone");
}

static void gaps(void)
{
	int x[2 * N] = {1, 2, 3}, y[2 * N];
	say(" size %d tid %d inst %d", pvm_gsize("g"), pvm_gettid("g", 1), pvm_getinst("g", tids[1]));
	if (me == 1) {
		say(" not in it: barrier %d lvgroup %d", pvm_barrier("g", 4), pvm_lvgroup("g"));
		say(" freeze %d gather %d", pvm_freezegroup("g", 4), pvm_gather(y, x, 1, PVM_INT, 8, "g", 0));
		say(" scatter %d reduce %d", pvm_scatter(y, x, 1, PVM_INT, 8, "g", 0), pvm_reduce(PvmSum, x, 1, PVM_INT, 8, "g", 0));
	} else if (me == 0) {
		say(" gap: gather %d scatter %d", pvm_gather(y, x, 1, PVM_INT, 8, "g", 0), pvm_scatter(y, x, 1, PVM_INT, 8, "g", 0));
	}
	stage("a gap");
	if (me != 1) {
		x[0] = me + 10;
		int info = pvm_reduce(PvmSum, x, 1, PVM_INT, 9, "g", 0);
		if (me == 0)
			say(" reduced %d: %d", info, x[0]);
		else
			say(" reduced %d", info);
	}
	stage("reduce with a gap");
	if (me == 1)
		say(" %d", pvm_joingroup("g"));
	stage("join again");
}

static void twice(int *type, void *x, void *y, int *n, int *info)
{
	int *a = x, *b = y;
	for (int i = 0; i < *n; i++)
		a[i] += 2 * b[i] - b[i];
	/* It may call the library, too. */
	*info = *type == PVM_INT && pvm_mytid() == tids[me] ? PvmOk : PvmBadParam;
}

#define REDUCE(ctype, code, function, root, format, ...) do { \
	ctype values[3] = {__VA_ARGS__}; \
	int info = pvm_reduce(function, values, 3, code, 20, "g", root); \
	if (me == root) \
		say(" %s %s %d:" format format format, #code, #function, info, values[0], values[1], values[2]); \
	else if (info != 0) \
		say(" %s %s %d", #code, #function, info); \
	pvm_barrier("g", N); \
} while (0)

#define ALL(ctype, code, root, format, ...) do { \
	REDUCE(ctype, code, PvmMax, root, format, __VA_ARGS__); \
	REDUCE(ctype, code, PvmMin, root, format, __VA_ARGS__); \
	REDUCE(ctype, code, PvmSum, root, format, __VA_ARGS__); \
	REDUCE(ctype, code, PvmProduct, root, format, __VA_ARGS__); \
} while (0)

static void reductions(void)
{
	for (int root = 0; root < N; root++)
		REDUCE(int, PVM_INT, PvmSum, root, " %d", me, 100, -me * 7);
	stage("sums for each");
	ALL(int, PVM_INT, 0, " %d", me + 1, -me, 3);
	ALL(short, PVM_SHORT, 1, " %hd", (short) (me + 1), (short) -me, 3);
	ALL(long, PVM_LONG, 2, " %ld", me + 1L, me, 3);
	stage("integers");
	ALL(float, PVM_FLOAT, 3, " %g", me + 0.5f, -me, 3);
	ALL(double, PVM_DOUBLE, 0, " %g", me + 0.25, -me, 3);
	stage("floating point");
	REDUCE(int, PVM_INT, twice, 2, " %d", me, 10, -me);
	stage("the program's own function");
	for (int root = 0; root < 4; root += 3) {
		float c[4] = {me, 1, -me, 2};
		double d[4] = {me, 1, 1, me};
		void (*all[])() = {PvmMax, PvmMin, PvmSum, PvmProduct};
		for (int i = 0; i < 4; i++) {
			float cc[4];
			double dd[4];
			memcpy(cc, c, sizeof c);
			memcpy(dd, d, sizeof d);
			int info = pvm_reduce(all[i], cc, 2, PVM_CPLX, 21, "g", root);
			int info2 = pvm_reduce(all[i], dd, 2, PVM_DCPLX, 22, "g", root);
			if (me == root)
				say(" %d %d: %g %g %g %g; %g %g %g %g,", info, info2, cc[0], cc[1], cc[2], cc[3], dd[0], dd[1], dd[2], dd[3]);
			pvm_barrier("g", N);
		}
	}
	stage("complex");
}

static void bytes_and_errors(void)
{
	char b[4] = {me + 'a', 'z' - me, 5, 0};
	int x[2] = {1, 2}, info;
	info = pvm_reduce(PvmMax, b, 3, PVM_BYTE, 23, "g", 1);
	if (me == 1)
		say(" max %d: %d %d %d", info, b[0], b[1], b[2]);
	pvm_barrier("g", N);
	b[0] = me - 2;
	info = pvm_reduce(PvmMin, b, 1, PVM_BYTE, 24, "g", 1);
	if (me == 1)
		say(" min %d: %d", info, b[0]);
	stage("bytes");
	say(" data %d", pvm_reduce(PvmSum, 0, 1, PVM_INT, 25, "g", 0));
	say(" count %d %d", pvm_reduce(PvmSum, x, 0, PVM_INT, 25, "g", 0), pvm_reduce(PvmSum, x, -1, PVM_INT, 25, "g", 0));
	say(" root %d %d", pvm_reduce(PvmSum, x, 1, PVM_INT, 25, "g", N), pvm_reduce(PvmSum, x, 1, PVM_INT, 25, "g", -1));
	say(" group %d %d", pvm_reduce(PvmSum, x, 1, PVM_INT, 25, "none", 0), pvm_reduce(PvmSum, x, 1, PVM_INT, 25, "", 0));
	say(" null %d", pvm_reduce(PvmSum, x, 1, PVM_INT, 25, 0, 0));
	say(" type %d", pvm_reduce(PvmSum, x, 1, 99, 25, "g", me));
	stage("reduce what cannot be");
	int y[2 * N];
	say(" %d %d", pvm_gather(y, 0, 1, PVM_INT, 26, "g", 0), pvm_gather(y, x, 1, 99, 26, "g", 0));
	say(" %d %d", pvm_gather(y, x, 1, PVM_INT, 26, "g", N), pvm_gather(y, x, 1, PVM_INT, 26, "none", 0));
	say(" %d %d", pvm_gather(y, x, -1, PVM_INT, 26, "g", 0), pvm_gather(y, x, 1, PVM_INT, 26, "", 0));
	say(" %d %d", pvm_scatter(0, x, 1, PVM_INT, 26, "g", 0), pvm_scatter(y, x, 1, 99, 26, "g", 0));
	say(" %d %d", pvm_scatter(y, x, 1, PVM_INT, 26, "g", N), pvm_scatter(y, x, 1, PVM_INT, 26, "none", 0));
	say(" %d %d", pvm_scatter(y, x, -1, PVM_INT, 26, "g", 0), pvm_scatter(y, x, 1, PVM_INT, 26, "", 0));
	if (me == 0)
		say(" root %d %d", pvm_gather(0, x, 1, PVM_INT, 26, "g", 0), pvm_scatter(y, 0, 1, PVM_INT, 26, "g", 0));
	stage("gather and scatter what cannot be");
}

#define SPREAD(ctype, code, root, format) do { \
	ctype own[2] = {me * 2 + 1, me * 2 + 2}, all[2 * N], back[2] = {0, 0}; \
	int info = pvm_gather(all, own, 2, code, 30, "g", root); \
	say(" %s %d", #code, info); \
	if (me == root) { \
		for (int i = 0; i < 2 * N; i++) { \
			say(format, all[i]); \
			all[i] *= 3; \
		} \
	} \
	info = pvm_scatter(back, all, 2, code, 31, "g", root); \
	say(" back %d:" format format, info, back[0], back[1]); \
} while (0)

static void spread(void)
{
	SPREAD(int, PVM_INT, 0, " %d");
	SPREAD(char, PVM_BYTE, 3, " %d");
	SPREAD(short, PVM_SHORT, 1, " %d");
	stage("gather and scatter integers");
	SPREAD(long, PVM_LONG, 2, " %ld");
	SPREAD(float, PVM_FLOAT, 0, " %g");
	SPREAD(double, PVM_DOUBLE, 1, " %g");
	stage("gather and scatter floating point");
}

static void death(void)
{
	if (me == 0) {
		pvm_notify(PvmTaskExit, 40, 1, &tids[2]);
		pvm_kill(tids[2]);
		pvm_recv(-1, 40);
		tids[2] = -1;
		/* Who is told first, the groups' keeper or this task, is open. */
		while (pvm_gsize("g") == N)
			usleep(10000);
	} else if (me == 2) {
		for (;;)
			pause();
	}
	stage("one dies");
	say(" size %d tid %d", pvm_gsize("g"), pvm_gettid("g", 2));
	stage("it is in no group");
	if (me == 3)
		say(" leave %d", pvm_lvgroup("g"));
	stage("another leaves");
	if (me == 3)
		say(" join %d", pvm_joingroup("g"));
	stage("and takes the place");
	say(" size %d barrier %d", pvm_gsize("g"), pvm_barrier("g", N - 1));
	stage("a barrier of the rest");
}

static void statics(void)
{
	int x = me + 1;
	say(" %d", pvm_freezegroup("none", 2));
	if (me == 0)
		pvm_joingroup("s");
	stage("one in a group");
	if (me == 1)
		pvm_joingroup("s");
	stage("two in a group");
	if (me == 3)
		say(" not in it %d", pvm_freezegroup("s", 2));
	if (me == 1)
		say(" other count %d", (sleep(1), pvm_freezegroup("s", 3)));
	if (me < 2)
		say(" %d", pvm_freezegroup("s", 2));
	stage("static");
	if (me == 3)
		say(" join %d", pvm_joingroup("s"));
	say(" size %d inst %d tid %s", pvm_gsize("s"), pvm_getinst("s", tids[1]), who(pvm_gettid("s", 1)));
	if (me < 2) {
		say(" again %d barrier %d", pvm_freezegroup("s", 2), pvm_barrier("s", 2));
		int info = pvm_reduce(PvmSum, &x, 1, PVM_INT, 50, "s", 1);
		say(" reduce %d %d", info, me == 1 ? x : 0);
		say(" barrier %d", pvm_barrier("s", -1));
	}
	stage("what a static group does");
	if (me == 0) {
		pvm_initsend(PvmDataDefault);
		say(" bcast %d", pvm_bcast("s", 51));
	} else if (me == 1) {
		pvm_recv(tids[0], 51);
	}
	stage("broadcast to it");
	if (me == 0)
		say(" leave %d", pvm_lvgroup("s"));
	stage("one leaves it");
	if (me == 3)
		say(" join %d", pvm_joingroup("s"));
	if (me == 1)
		say(" barrier %d", pvm_barrier("s", 1));
	stage("it is dead");
}

int main(int argc, char **argv)
{
	int parent = pvm_parent();
	pvm_setopt(PvmAutoErr, 0);
	if (parent <= 0) {
		tids[0] = pvm_mytid();
		char other[500] = "";
		/* Another program, for some of the children, may be named on standard input. */
		if (fgets(other, sizeof other, stdin))
			other[strcspn(other, "\n")] = 0;
		for (int i = 1; i < N; i++) {
			if (pvm_spawn(i % 2 && other[0] ? other : argv[0], 0, PvmTaskDefault, 0, 1, tids + i) != 1) {
				printf("no children\n");
				return 1;
			}
		}
		pvm_initsend(PvmDataDefault);
		pvm_pkint(tids, N, 1);
		pvm_mcast(tids + 1, N - 1, 1);
	} else {
		pvm_recv(parent, 1);
		pvm_upkint(tids, N, 1);
	}
	while (tids[me] != pvm_mytid())
		me++;
	nothing_there();
	membership();
	barriers();
	broadcasts();
	gaps();
	reductions();
	bytes_and_errors();
	spread();
	death();
	statics();
	pvm_exit();
	return 0;
}
