/*
 * types FILE: sends every type, in every encoding, with and without stride, to a task spawned from FILE (this
 * program, perhaps with another library), which checks what it gets and sends it back, to be checked again.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA = 10, BACK = 11, N = 1000, STRIDE = 3 };

static char bytes[N * STRIDE];
static short shorts[N * STRIDE];
static unsigned short ushorts[N * STRIDE];
static int ints[N * STRIDE];
static unsigned int uints[N * STRIDE];
static long longs[N * STRIDE];
static unsigned long ulongs[N * STRIDE];
static float floats[N * STRIDE];
static double doubles[N * STRIDE];
static float complexes[2 * N * STRIDE];
static double dcomplexes[2 * N * STRIDE];

static const char text[] = "A word for the traveller: na\xc3\xafve, 3 % of it.";

static void check(int good, const char *what)
{
	if (!good) {
		printf("wrong: %s\n", what);
		fflush(stdout);
		exit(3);
	}
}

/*
 * Values that show sign, size and byte order. Longs fit in 32 bits, since the default encoding carries no more, and are
 * positive, since the original loses their sign when it unpacks them.
 */
static void fill(void)
{
	int i;

	for (i = 0; i < N * STRIDE; i++) {
		bytes[i] = (char)(i * 7);
		shorts[i] = (short)(i * 37 - 20000);
		ushorts[i] = (unsigned short)(i * 37);
		ints[i] = i * 700001 - 1000000007;
		uints[i] = 4000000000u - i;
		longs[i] = i * 99991L + 1000000000L;
		ulongs[i] = 4000000000ul - i;
		floats[i] = i * 0.37f - 1e10f;
		doubles[i] = i * 1e-3 - 1e300;
		complexes[2 * i] = (float)i;
		complexes[2 * i + 1] = -0.5f * i;
		dcomplexes[2 * i] = 1e200 * i;
		dcomplexes[2 * i + 1] = -1e-200 * i;
	}
}

static void pack(int stride, int strings)
{
	check(pvm_pkbyte(bytes, N, stride) == 0, "pkbyte");
	check(pvm_pkshort(shorts, N, stride) == 0, "pkshort");
	check(pvm_pkushort(ushorts, N, stride) == 0, "pkushort");
	check(pvm_pkint(ints, N, stride) == 0, "pkint");
	check(pvm_pkuint(uints, N, stride) == 0, "pkuint");
	check(pvm_pklong(longs, N, stride) == 0, "pklong");
	check(pvm_pkulong(ulongs, N, stride) == 0, "pkulong");
	check(pvm_pkfloat(floats, N, stride) == 0, "pkfloat");
	check(pvm_pkdouble(doubles, N, stride) == 0, "pkdouble");
	check(pvm_pkcplx(complexes, N, stride) == 0, "pkcplx");
	check(pvm_pkdcplx(dcomplexes, N, stride) == 0, "pkdcplx");
	if (strings)
		check(pvm_pkstr((char *)text) == 0, "pkstr");
}

#define SAME(width, array)                                                                        \
	for (i = 0; i < N; i++)                                                                   \
		check(memcmp(&array[(width) * i], &expected[(width) * i * stride], (width) * sizeof array[0]) == 0, #array)

#define UNPACK(call, type, array, width)                                                          \
	do {                                                                                      \
		type expected[(width) * N * STRIDE];                                              \
		memcpy(expected, array, sizeof expected);                                         \
		memset(array, 0, sizeof expected);                                                \
		check(call(array, N, 1) == 0, #call);                                             \
		SAME(width, array);                                                               \
		memcpy(array, expected, sizeof expected);                                         \
	} while (0)

static void unpack(int stride, int strings)
{
	char got[sizeof text];
	int i;

	UNPACK(pvm_upkbyte, char, bytes, 1);
	UNPACK(pvm_upkshort, short, shorts, 1);
	UNPACK(pvm_upkushort, unsigned short, ushorts, 1);
	UNPACK(pvm_upkint, int, ints, 1);
	UNPACK(pvm_upkuint, unsigned int, uints, 1);
	UNPACK(pvm_upklong, long, longs, 1);
	UNPACK(pvm_upkulong, unsigned long, ulongs, 1);
	UNPACK(pvm_upkfloat, float, floats, 1);
	UNPACK(pvm_upkdouble, double, doubles, 1);
	UNPACK(pvm_upkcplx, float, complexes, 2);
	UNPACK(pvm_upkdcplx, double, dcomplexes, 2);
	if (strings) {
		check(pvm_upkstr(got) == 0, "upkstr");
		check(strcmp(got, text) == 0, "text");
	}
	check(pvm_upkbyte(got, 1, 1) == PvmNoData, "end of message");
}

struct round {
	int encoding, stride;
};

/* In-place data have no stride and no strings. */
static const struct round rounds[] = {
	{ PvmDataDefault, 1 }, { PvmDataDefault, STRIDE }, { PvmDataRaw, 1 }, { PvmDataRaw, STRIDE }, { PvmDataInPlace, 1 },
};

enum { ROUNDS = sizeof rounds / sizeof rounds[0] };

static void send_round(int tid, int tag, int r)
{
	int strings = rounds[r].encoding != PvmDataInPlace;

	check(pvm_initsend(rounds[r].encoding) > 0, "initsend");
	pack(rounds[r].stride, strings);
	check(pvm_send(tid, tag) == 0, "send");
}

static void receive_round(int tid, int tag, int r)
{
	int strings = rounds[r].encoding != PvmDataInPlace;

	check(pvm_recv(tid, tag) > 0, "recv");
	unpack(rounds[r].stride, strings);
}

int main(int argc, char **argv)
{
	int tid, r;

	fill();
	pvm_setopt(PvmAutoErr, 0);
	tid = pvm_parent();
	if (tid > 0) {
		for (r = 0; r < ROUNDS; r++) {
			receive_round(tid, DATA, r);
			send_round(tid, BACK, r);
		}
		pvm_exit();
		return 0;
	}
	check(pvm_spawn(argc > 1 ? argv[1] : argv[0], NULL, PvmTaskDefault, "", 1, &tid) == 1, "spawn");
	for (r = 0; r < ROUNDS; r++) {
		send_round(tid, DATA, r);
		receive_round(tid, BACK, r);
		printf("round %d ok\n", r);
	}
	printf("all types ok\n");
	pvm_exit();
	return 0;
}
