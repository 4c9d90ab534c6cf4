/* Buffers and their roles, message information, messages inside messages, forwarding. */
#include "show.h"

static void roles(void)
{
	int a = pvm_mkbuf(PvmDataDefault), b = pvm_mkbuf(PvmDataRaw), n = 7;

	printf("two ids: %d\n", a > 0 && b > 0 && a != b);
	printf("set send: %d\n", pvm_setsbuf(a));
	printf("pack: %d\n", pvm_pkint(&n, 1, 1));
	printf("other send gives the first: %d\n", pvm_setsbuf(b) == a);
	printf("receive role takes it: %d\n", pvm_setrbuf(b));
	printf("send is none: %d\n", pvm_getsbuf());
	printf("the first becomes receive: %d\n", pvm_setrbuf(a) == b);
	n = 0;
	printf("unpack: %d, %d\n", pvm_upkint(&n, 1, 1), n);
	printf("at its end: %d\n", pvm_upkint(&n, 1, 1));
	pvm_setsbuf(a);
	printf("receive is none: %d\n", pvm_getrbuf());
	pvm_setrbuf(a);
	n = 0;
	printf("from the start again: %d, %d\n", pvm_upkint(&n, 1, 1), n);
	printf("receive is none now: %d\n", pvm_setrbuf(0) == a);
	SHOW(pvm_freebuf(a));
	SHOW(pvm_freebuf(a));
	SHOW(pvm_freebuf(b));
	ID(pvm_initsend(PvmDataDefault));
	a = pvm_getsbuf();
	ID(pvm_initsend(PvmDataDefault));
	printf("one send buffer: %d\n", pvm_freebuf(a) == 0 || pvm_getsbuf() != a);
}

static void show_info(const char *what, int id)
{
	struct pvmminfo info;

	if (pvm_getminfo(id, &info)) {
		printf("%s: no information\n", what);
		return;
	}
	printf("%s: length %d, context %d, tag %d, wait id %d, encoding %x, from me %d, to me %d\n", what, info.len,
		info.ctx, info.tag, info.wid, (unsigned)info.enc, info.src == pvm_mytid(), info.dst == pvm_mytid());
}

static void information(void)
{
	int length, tag, tid, id, n[3] = {1, 2, 3};
	struct pvmminfo info;

	pvm_initsend(PvmDataDefault);
	pvm_pkbyte("abc", 3, 1);
	pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL);
	printf("three bytes in XDR: %d\n", length);
	pvm_initsend(PvmDataRaw);
	pvm_pkbyte("abc", 3, 1);
	pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL);
	printf("three bytes raw: %d\n", length);
	pvm_initsend(PvmDataInPlace);
	pvm_pkint(n, 3, 1);
	pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL);
	printf("three ints in place: %d\n", length);
	memset(&info, 0, sizeof info);
	info.wid = 55;
	info.tag = 9;
	info.ctx = 5;
	SHOW(pvm_setminfo(pvm_getsbuf(), &info));
	n[1] = 20;
	SHOW(pvm_send(pvm_mytid(), 4));
	n[1] = 200;
	id = pvm_recv(-1, 4);
	show_info("received", id);
	pvm_bufinfo(id, &length, &tag, &tid);
	printf("length %d, tag %d, from me %d\n", length, tag, tid == pvm_mytid());
	pvm_upkint(n, 3, 1);
	printf("%d %d %d\n", n[0], n[1], n[2]);
	pvm_setsbuf(id);
	SHOW(pvm_send(pvm_mytid(), 6));
	id = pvm_recv(-1, 6);
	show_info("forwarded", id);
	pvm_upkint(n, 3, 1);
	printf("%d %d %d\n", n[0], n[1], n[2]);
}

static void nested(void)
{
	int inner, id, n = 5, big[3000], i;
	struct pvmminfo info;

	for (i = 0; i < 3000; i++)
		big[i] = i;
	inner = pvm_mkbuf(PvmDataRaw);
	pvm_setsbuf(inner);
	pvm_pkint(&n, 1, 1);
	pvm_pkint(big, 3000, 1);
	memset(&info, 0, sizeof info);
	info.tag = 31;
	info.wid = 32;
	info.ctx = 33;
	pvm_setminfo(inner, &info);
	pvm_setsbuf(0);
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkmesgbody(inner));
	SHOW(pvm_pkmesg(inner));
	pvm_send(pvm_mytid(), 7);
	pvm_recv(-1, 7);
	id = pvm_upkmesg();
	show_info("nested", id);
	pvm_setrbuf(id);
	n = 0;
	memset(big, 0, sizeof big);
	pvm_upkint(&n, 1, 1);
	pvm_upkint(big, 3000, 1);
	printf("%d %d %d\n", n, big[1], big[2999]);
	pvm_initsend(PvmDataRaw);
	n = 6;
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_pkmesgbody(inner));
	pvm_send(pvm_mytid(), 8);
	pvm_recv(-1, 8);
	pvm_upkint(&n, 1, 1);
	printf("%d ", n);
	pvm_upkint(&n, 1, 1);
	printf("%d\n", n);
}

static void past_the_end(void)
{
	int n[4];
	char text[20];
	double d;

	n[0] = 1;
	n[1] = 2;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(n, 2, 1);
	pvm_send(pvm_mytid(), 9);
	pvm_recv(-1, 9);
	memset(n, 0, sizeof n);
	SHOW(pvm_upkint(n, 3, 1));
	printf("%d %d\n", n[0], n[1]);
	SHOW(pvm_upkint(n, 1, 1));
	pvm_initsend(PvmDataDefault);
	n[0] = 100;
	pvm_pkint(n, 1, 1);
	pvm_send(pvm_mytid(), 9);
	pvm_recv(-1, 9);
	SHOW(pvm_upkdouble(&d, 1, 1));
	SHOW(pvm_upkstr(text));
}

int main(void)
{
	begin();
	ID(pvm_mytid());
	roles();
	information();
	nested();
	past_the_end();
	SHOW(pvm_exit());
	return 0;
}
