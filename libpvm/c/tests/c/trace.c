/* Trace messages: how each type is marked, byte by byte, but for the time. */
#include "show.h"
#include <pvmtev.h>

int main(void)
{
	unsigned char body[400];
	char c = 'c';
	short s[2] = {1, 2};
	unsigned u = 5;
	unsigned short us = 6;
	unsigned long ul = 7;
	long l = 8;
	double d = 2.5;
	float f[4] = {1, 2, 3, 4};
	int i, length, encoding;
	struct pvmminfo info;

	begin();
	ID(pvm_mytid());
	ID(pvm_initsend(PvmDataTrace));
	SHOW(pvm_pkbyte(&c, 1, 1));
	SHOW(pvm_pkshort(s, 2, 1));
	SHOW(pvm_pkuint(&u, 1, 1));
	SHOW(pvm_pkushort(&us, 1, 1));
	SHOW(pvm_pkulong(&ul, 1, 1));
	SHOW(pvm_pklong(&l, 1, 1));
	SHOW(pvm_pkfloat(f, 1, 1));
	SHOW(pvm_pkdcplx(&(double[]){1, 2}[0], 1, 1));
	SHOW(pvm_pkdouble(&d, 1, 1));
	SHOW(pvm_pkcplx(f, 2, 1));
	SHOW(pvm_pkstr("abcd"));
	SHOW(pvm_send(pvm_mytid(), 1));
	pvm_getminfo(pvm_recv(-1, 1), &info);
	encoding = info.enc;
	length = info.len;
	printf("encoding %x, length %d\n", (unsigned)encoding, length);
	SHOW(pvm_upkbyte((char *)body, length, 1));
	/* Padding may be anything. */
	memset(body + 25, 0, 3);
	memset(body + 41, 0, 3);
	for (i = 0; i < length; i++)
		if (i < 28 || i >= 36)
			printf("%02x%s", body[i], i % 4 == 3 ? " " : "");
	printf("\n");

	SHOW(pvm_initsend(PvmDataTrace) > 0);
	SHOW(pvm_pkint(&i, 1, 1));
	SHOW(pvm_send(PVM_TRACE_TID, PVM_TRACE_CODE));
	SHOW(pvm_initsend(PvmDataDefault) > 0);
	SHOW(pvm_send(PVM_TRACE_TID, PVM_TRACE_CODE));
	SHOW(pvm_exit());
	return 0;
}
