/* Members that reduce, gather, scatter and broadcast arrays of all types, from one byte to 8 MiB, with predefined functions and one of the
 * program; and members that pass a barrier of all only with a newcomer that has told them of itself.
 *
 * Input: members. */
#include "show.h"

#define MOST 20
#define GROUP "collectives"
#define LONGEST (8 << 20)
enum { ORDER = 1, DONE = 2, FAILED = 3, SPREAD = 4, JOINED = 5 };
enum { ROUNDS = 20, PAUSE = 100000 };
static int parent, me, n, members[MOST];

static void fail(const char *what, int kind, int count)
{
	char text[200];
	sprintf(text, "%d: %s, type %d, %d elements", me, what, kind, count);
	tell_text(parent, FAILED, text);
}

static const struct { int kind, size; } types[] = {
	{PVM_BYTE, 1}, {PVM_SHORT, 2}, {PVM_INT, 4}, {PVM_FLOAT, 4}, {PVM_CPLX, 8}, {PVM_DOUBLE, 8}, {PVM_DCPLX, 16}, {PVM_LONG, 8},
};

/* Small whole numbers, of which every type has the sum exactly. */
static void put(int kind, char *at, long index, int value)
{
	switch (kind) {
	case PVM_BYTE: at[index] = value; break;
	case PVM_SHORT: ((short *)at)[index] = value; break;
	case PVM_INT: ((int *)at)[index] = value; break;
	case PVM_FLOAT: ((float *)at)[index] = value; break;
	case PVM_CPLX: ((float *)at)[2 * index] = value; ((float *)at)[2 * index + 1] = -value; break;
	case PVM_DOUBLE: ((double *)at)[index] = value; break;
	case PVM_DCPLX: ((double *)at)[2 * index] = value; ((double *)at)[2 * index + 1] = -value; break;
	case PVM_LONG: ((long *)at)[index] = value; break;
	}
}

static void fill(int kind, char *at, long from, int count, int seed)
{
	for (int i = 0; i < count; i++)
		put(kind, at, from + i, (i * 3 + seed) % 5);
}

/* The program's own: the sum, of all types that have one. */
static void add(int *kind, void *x, void *y, int *count, int *info)
{
	if ((size_t)y % 8)
		*info = PvmBadParam;
	else if (*kind == PVM_BYTE)
		for (int i = 0; i < *count; i++)
			((char *)x)[i] += ((char *)y)[i];
	else
		PvmSum(kind, x, y, count, info);
}

static void compute(int kind, int size, int count, int root)
{
	long length = (long)count * size;
	char *values = malloc(length), *all = malloc(length * n), *expected = malloc(length * n), *sum = malloc(length);
	int is_root = pvm_getinst(GROUP, pvm_mytid()) == root;
	fill(kind, values, 0, count, me);
	for (int i = 0; i < n; i++)
		fill(kind, expected, (long)i * count, count, i);
	if (pvm_gather(all, values, count, kind, 10, GROUP, root) || (is_root && memcmp(all, expected, length * n)))
		fail("gather", kind, count);
	memset(values, 1, length);
	if (pvm_scatter(values, expected, count, kind, 11, GROUP, root) || memcmp(values, expected + me * length, length))
		fail("scatter", kind, count);
	for (int i = 0; i < count; i++) {
		int total = 0;
		for (int member = 0; member < n; member++)
			total += (i * 3 + member) % 5;
		put(kind, sum, i, total);
	}
	if (kind != PVM_BYTE) {
		if (pvm_reduce(PvmSum, values, count, kind, 12, GROUP, root) || (is_root && memcmp(values, sum, length)))
			fail("predefined sum", kind, count);
		fill(kind, values, 0, count, me);
	}
	if (pvm_reduce(add, values, count, kind, 13, GROUP, root) || (is_root && memcmp(values, sum, length)))
		fail("own sum", kind, count);
	if (is_root) {
		pvm_initsend(PvmDataDefault);
		pvm_pkbyte(expected, length, 1);
		if (pvm_bcast(GROUP, SPREAD))
			fail("broadcast", kind, count);
	} else {
		memset(all, 0, length);
		if (pvm_recv(-1, SPREAD) < 0 || pvm_upkbyte(all, length, 1) || memcmp(all, expected, length))
			fail("received broadcast", kind, count);
	}
	free(values);
	free(all);
	free(expected);
	free(sum);
}

/* The last member leaves, comes back and lets all others wait. */
static void come_and_go(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		/* Where members met before is no place to meet without the newcomer. */
		for (int i = 0; i < 5; i++)
			if (pvm_barrier(GROUP, n))
				fail("barrier", round, n);
		if (me == n - 1) {
			pvm_lvgroup(GROUP);
			usleep(round * 1000);
			pvm_joingroup(GROUP);
			pvm_initsend(PvmDataDefault);
			pvm_mcast(members, n, JOINED);
			usleep(PAUSE);
			if (pvm_barrier(GROUP, -1))
				fail("barrier of the newcomer", round, n);
		} else {
			pvm_recv(-1, JOINED);
			double start = now();
			if (pvm_barrier(GROUP, -1))
				fail("barrier of all", round, n);
			if (now() - start < PAUSE * 0.5e-6)
				fail("barrier without the newcomer", round, n);
		}
		if (pvm_gsize(GROUP) != n)
			fail("size", round, pvm_gsize(GROUP));
	}
}

static void be_member(void)
{
	static const int bytes[] = {1, 16, 200, 1000, 3000, 70000, LONGEST};
	pvm_recv(parent, ORDER);
	pvm_upkint(members, n, 1);
	me = pvm_joingroup(GROUP);
	pvm_barrier(GROUP, n);
	for (unsigned length = 0; length < sizeof bytes / sizeof *bytes; length++)
		for (unsigned type = 0; type < sizeof types / sizeof *types; type++) {
			int count = bytes[length] / types[type].size;
			/* The longest of three types are enough. */
			if (count > 0 && (bytes[length] < LONGEST || type % 3 == 0))
				compute(types[type].kind, types[type].size, count, (length + type) % n);
		}
	come_and_go();
	pvm_barrier(GROUP, n);
	pvm_initsend(PvmDataDefault);
	pvm_send(parent, DONE);
}

int main(int argc, char **argv)
{
	int failures = 0;
	char *args[2], count[12];

	begin();
	parent = pvm_parent();
	if (parent > 0) {
		n = atoi(argv[1]);
		be_member();
		pvm_exit();
		return 0;
	}
	(void)argc;
	if (scanf("%d", &n) != 1 || n > MOST)
		return 1;
	sprintf(count, "%d", n);
	args[0] = count;
	args[1] = NULL;
	if (pvm_spawn(argv[0], args, PvmTaskDefault, NULL, n, members) != n)
		return 1;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(members, n, 1);
	pvm_mcast(members, n, ORDER);
	for (int done = 0; done < n;) {
		struct timeval patience = {200, 0};
		int from, length, tag, message = pvm_trecv(-1, -1, &patience);
		if (message <= 0) {
			printf("%d members wait for ever\n", n - done);
			break;
		}
		pvm_bufinfo(message, &length, &tag, &from);
		if (tag == FAILED) {
			char text[200];
			pvm_upkstr(text);
			printf("%s\n", text);
			failures++;
		} else {
			done++;
		}
	}
	printf("%d failures\n", failures);
	pvm_exit();
	return 0;
}
