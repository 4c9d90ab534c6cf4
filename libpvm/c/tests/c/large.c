/* Messages without content and of 64 MiB, many buffers at once, and messages that come before anyone asks. */
#include "show.h"

enum { BIG = 64 << 20, MANY = 1000, FIRST = 1, LAST = 2 };

static char *data, *back;

static int same(void)
{
	return memcmp(data, back, BIG);
}

static void big(int me)
{
	int encoding, length, tag, from;

	for (encoding = PvmDataDefault; encoding <= PvmDataInPlace; encoding++) {
		memset(back, 0, BIG);
		pvm_initsend(encoding);
		SHOW(pvm_pkbyte(data, BIG, 1));
		SHOW(pvm_send(me, FIRST));
		ID(pvm_recv(me, FIRST));
		pvm_bufinfo(pvm_getrbuf(), &length, &tag, &from);
		printf("%d bytes, tag %d, mine %d\n", length, tag, from == me);
		SHOW(pvm_upkbyte(back, BIG, 1));
		printf("same: %d\n", same());
		memset(back, 0, BIG);
		pvm_initsend(encoding);
		SHOW(pvm_pkdouble((double *)data, BIG / 8, 1));
		SHOW(pvm_send(me, FIRST));
		ID(pvm_recv(me, FIRST));
		SHOW(pvm_upkdouble((double *)back, BIG / 8, 1));
		printf("same: %d\n", same());
	}
	memset(back, 0, BIG);
	SHOW(pvm_psend(me, FIRST, data, BIG / 4, PVM_INT));
	SHOW(pvm_precv(me, FIRST, back, BIG / 4, PVM_INT, &from, &tag, &length));
	printf("%d bytes, same: %d\n", length, same());
}

static void empty(int me)
{
	int encoding, length, n;
	char text[10] = "x";

	for (encoding = PvmDataDefault; encoding <= PvmDataInPlace; encoding++) {
		pvm_initsend(encoding);
		SHOW(pvm_send(me, FIRST));
		ID(pvm_recv(me, FIRST));
		pvm_bufinfo(pvm_getrbuf(), &length, NULL, NULL);
		printf("%d bytes\n", length);
		SHOW(pvm_upkint(&n, 0, 1));
		SHOW(pvm_upkint(&n, 1, 1));
	}
	for (encoding = PvmDataDefault; encoding <= PvmDataRaw; encoding++) {
		pvm_initsend(encoding);
		SHOW(pvm_pkstr(""));
		pvm_send(me, FIRST);
		pvm_recv(me, FIRST);
		pvm_bufinfo(pvm_getrbuf(), &length, NULL, NULL);
		SHOW(pvm_upkstr(text));
		printf("%d bytes, length %d\n", length, (int)strlen(text));
	}
	SHOW(pvm_psend(me, FIRST, data, 0, PVM_INT));
	SHOW(pvm_precv(me, FIRST, data, 0, PVM_INT, NULL, NULL, &length));
	printf("%d bytes\n", length);
}

/* The last first: all others wait meanwhile. */
static void early(int me)
{
	static int mids[MANY];
	int i, n, right = 0, different = 1;

	pvm_setsbuf(0);
	for (i = 0; i < MANY; i++) {
		mids[i] = pvm_mkbuf(PvmDataDefault);
		pvm_setsbuf(mids[i]);
		pvm_pkint(&i, 1, 1);
	}
	for (i = 0; i < MANY; i++) {
		different &= i == 0 || mids[i] != mids[i - 1];
		pvm_setsbuf(mids[i]);
		pvm_send(me, FIRST);
	}
	printf("different buffers: %d\n", different);
	pvm_initsend(PvmDataDefault);
	pvm_send(me, LAST);
	ID(pvm_recv(me, LAST));
	ID(pvm_probe(me, FIRST));
	pvm_setrbuf(0);
	for (i = 0; i < MANY; i++) {
		mids[i] = pvm_recv(me, FIRST);
		pvm_setrbuf(0);
	}
	SHOW(pvm_nrecv(-1, -1));
	for (i = 0; i < MANY; i++) {
		pvm_setrbuf(mids[i]);
		pvm_upkint(&n, 1, 1);
		right += n == i;
		pvm_freebuf(pvm_setrbuf(0));
	}
	printf("%d of %d in order\n", right, MANY);
}

int main(void)
{
	int i, me;

	begin();
	me = pvm_mytid();
	pvm_setopt(PvmAutoErr, 0);
	data = malloc(BIG);
	back = malloc(BIG);
	/* Every bit pattern of a double but those that are no numbers. */
	for (i = 0; i < BIG / 8; i++)
		((double *)data)[i] = i * 1.25;
	big(me);
	empty(me);
	early(me);
	SHOW(pvm_exit());
	return 0;
}
