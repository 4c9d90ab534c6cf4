/* Longs of 64 bits in XDR, on every way that a message can take. The original loses their upper halves. */
#include "show.h"

enum { N = 5 };

static const long values[N] = {1, 0x123456789abcdefL, -2, -0x123456789abcdefL, 0x80000000L};

static void pack(void)
{
	int n = N;
	unsigned long big = ~0UL - 7;

	pvm_pkint(&n, 1, 1);
	pvm_pkstr("abc");
	pvm_pklong((long *)values, N, 1);
	pvm_pkulong(&big, 1, 1);
	pvm_packf("%ld %2.2ld %lud", values[3], values, 0x100000000UL);
}

static void unpack(const char *how)
{
	long found[N] = {0}, one = 0, pair[3] = {0, 0, 0};
	unsigned long big = 0, last = 0;
	char text[10];
	int n = 0, i;

	pvm_upkint(&n, 1, 1);
	pvm_upkstr(text);
	pvm_upklong(found, N, 1);
	pvm_upkulong(&big, 1, 1);
	pvm_unpackf("%ld %2.2ld %lud", &one, pair, &last);
	printf("%s: %d %s", how, n, text);
	for (i = 0; i < N; i++)
		printf(" %ld", found[i]);
	printf(" %lu %ld %ld %ld %lu, then %d\n", big, one, pair[0], pair[2], last, pvm_upkint(&n, 1, 1));
}

int main(void)
{
	int me, mid, length, i, n = 1000;
	long many[1000], back[1000];
	struct pvmminfo info;

	begin();
	me = pvm_mytid();
	pvm_setopt(PvmAutoErr, 0);
	pvm_initsend(PvmDataDefault);
	pack();
	SHOW(pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL));
	printf("%d bytes packed\n", length);
	SHOW(pvm_send(me, 1));
	ID(pvm_recv(me, 1));
	pvm_bufinfo(pvm_getrbuf(), &length, NULL, NULL);
	pvm_getminfo(pvm_getrbuf(), &info);
	printf("%d bytes come, checksum %d\n", length, info.crc);
	unpack("sent");

	mid = pvm_setrbuf(0);
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkmesg(mid));
	pvm_send(me, 2);
	pvm_recv(me, 2);
	ID(mid = pvm_upkmesg());
	pvm_setrbuf(mid);
	unpack("nested");

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_pkmesgbody(mid));
	pvm_send(me, 3);
	pvm_recv(me, 3);
	pvm_upkint(&n, 1, 1);
	unpack("as a part");

	pvm_initsend(PvmDataDefault);
	pack();
	SHOW(pvm_putinfo("longs", pvm_getsbuf(), PvmMboxDefault));
	ID(pvm_recvinfo("longs", 0, PvmMboxDefault));
	unpack("from the mailbox");

	pvm_initsend(PvmDataRaw);
	pack();
	pvm_send(me, 4);
	pvm_recv(me, 4);
	unpack("raw");

	pvm_initsend(PvmDataDefault);
	for (i = 0; i < 1000; i++)
		many[i] = (long)i << 33 ^ -i;
	pvm_pklong(many, 1000, 1);
	pvm_setrbuf(pvm_setsbuf(0));
	SHOW(pvm_upklong(back, 1000, 1));
	printf("unpacked where it was packed: %d\n", memcmp(many, back, sizeof many));
	pvm_setsbuf(pvm_setrbuf(0));
	pvm_send(me, 5);
	pvm_recv(me, 5);
	memset(back, 0, sizeof back);
	SHOW(pvm_upklong(back, 1000, 1));
	printf("many: %d\n", memcmp(many, back, sizeof many));
	SHOW(pvm_exit());
	return 0;
}
