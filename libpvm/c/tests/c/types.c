/* Every type, in every encoding, with strides, to oneself and back; and the bytes that the default encoding gives. */
#include "show.h"

enum { N = 700, STRIDE = 3 };

#define TYPE(name_, type_, per_, pack_, unpack_, value_) \
	static void name_(int encoding, int stride) \
	{ \
		static type_ out[N * STRIDE * per_], in[N * STRIDE * per_]; \
		int i, j, wrong = 0, length; \
		for (i = 0; i < N * STRIDE * per_; i++) \
			out[i] = (type_)(value_); \
		memset(in, 0, sizeof in); \
		pvm_initsend(encoding); \
		printf(#pack_ ": %d", pack_(out, N, stride)); \
		pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL); \
		pvm_send(pvm_mytid(), 1); \
		pvm_recv(-1, 1); \
		printf(", length %d, " #unpack_ ": %d", length, unpack_(in, N, stride)); \
		for (i = 0; i < N * stride * per_; i++) { \
			j = i / per_ % stride == 0; \
			wrong += memcmp(&in[i], j ? (const void *)&out[i] : zero, sizeof in[i]) != 0; \
		} \
		printf(", wrong %d, one more: %d\n", wrong, unpack_(in, 1, 1)); \
	}

/* Longs are positive and fit in 32 bits: of the others the original's XDR makes something else. */
static const char zero[16];

TYPE(bytes, char, 1, pvm_pkbyte, pvm_upkbyte, i * 7)
TYPE(shorts, short, 1, pvm_pkshort, pvm_upkshort, i * 37 - 20000)
TYPE(ushorts, unsigned short, 1, pvm_pkushort, pvm_upkushort, i * 37)
TYPE(ints, int, 1, pvm_pkint, pvm_upkint, i * 700001 - 1000000007)
TYPE(uints, unsigned, 1, pvm_pkuint, pvm_upkuint, 4000000000u - i)
TYPE(longs, long, 1, pvm_pklong, pvm_upklong, i * 99991L)
TYPE(ulongs, unsigned long, 1, pvm_pkulong, pvm_upkulong, 4000000000ul - i)
TYPE(floats, float, 1, pvm_pkfloat, pvm_upkfloat, i * 0.37f - 1e10f)
TYPE(doubles, double, 1, pvm_pkdouble, pvm_upkdouble, i * 1e-3 - 1e300)
TYPE(complexes, float, 2, pvm_pkcplx, pvm_upkcplx, i * 0.5f)
TYPE(dcomplexes, double, 2, pvm_pkdcplx, pvm_upkdcplx, i * 0.25)

static void text(int encoding)
{
	char in[40];

	pvm_initsend(encoding);
	SHOW(pvm_pkstr("na\xc3\xafve, 3 %"));
	SHOW(pvm_pkstr(""));
	pvm_send(pvm_mytid(), 1);
	pvm_recv(-1, 1);
	SHOW(pvm_upkstr(in));
	printf("%s\n", in);
	SHOW(pvm_upkstr(in));
	printf("<%s>\n", in);
}

static void strides(void)
{
	int up[5] = {1, 2, 3, 4, 5}, got[5] = {0};

	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkint(up + 4, 3, -2));
	SHOW(pvm_pkint(up, 2, 0));
	pvm_send(pvm_mytid(), 1);
	pvm_recv(-1, 1);
	SHOW(pvm_upkint(got, 5, 1));
	printf("%d %d %d %d %d\n", got[0], got[1], got[2], got[3], got[4]);
}

/* The default encoding byte by byte: packed so, the body is read as plain bytes. */
static void encoded(void)
{
	unsigned char body[200];
	short s = -2;
	unsigned short us = 0x8000;
	long l = 0x123456789abcdefL;
	float f = -1.5f;
	double d = 1e100;
	int i, length;

	pvm_initsend(PvmDataDefault);
	pvm_pkbyte("ABCDE", 5, 1);
	pvm_pkshort(&s, 1, 1);
	pvm_pkushort(&us, 1, 1);
	pvm_pklong(&l, 1, 1);
	pvm_pkfloat(&f, 1, 1);
	pvm_pkdouble(&d, 1, 1);
	pvm_pkstr("abcd");
	pvm_send(pvm_mytid(), 1);
	pvm_bufinfo(pvm_recv(-1, 1), &length, NULL, NULL);
	pvm_upkbyte((char *)body, length, 1);
	/* Padding may be anything. */
	body[5] = body[6] = body[7] = body[41] = body[42] = body[43] = 0;
	for (i = 0; i < length; i++)
		printf("%02x", body[i]);
	printf(" of %d\n", length);
}

int main(void)
{
	static const int encodings[] = {PvmDataDefault, PvmDataRaw, PvmDataInPlace};
	int e, s;

	begin();
	ID(pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	for (e = 0; e < 3; e++) {
		for (s = 1; s <= (e == 2 ? 1 : STRIDE); s += STRIDE - 1) {
			printf("encoding %d, stride %d\n", encodings[e], s);
			bytes(encodings[e], s);
			shorts(encodings[e], s);
			ushorts(encodings[e], s);
			ints(encodings[e], s);
			uints(encodings[e], s);
			longs(encodings[e], s);
			ulongs(encodings[e], s);
			floats(encodings[e], s);
			doubles(encodings[e], s);
			complexes(encodings[e], s);
			dcomplexes(encodings[e], s);
		}
	}
	text(PvmDataDefault);
	text(PvmDataRaw);
	strides();
	encoded();
	SHOW(pvm_exit());
	return 0;
}
