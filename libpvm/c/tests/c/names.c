/* Names that the library exports though no manual page has them, as programs use them. */
#include "show.h"
#include <pvmtev.h>

extern int pvmsettaskname(char *), pvmsleep(int), pvmstrtoi(char *), pvmxtoi(char *), pvmputenv(char *);
extern int pvmbeatask(void), pvmendtask(void), lpvmerr(const char *, int), errnamecode(const char *);
extern void pvmgetclock(struct timeval *);
extern char *pvmtmpnam(char *), *pvmnametag(int, int *);
extern int pvmget8(void *), pvmget16(void *), pvmget32(void *), pvmgetdsig(void);
extern void pvmput8(void *, int), pvmput16(void *, int), pvmput32(void *, int);
extern unsigned pvmcrcappend(const char *, int, unsigned);
extern int pvmmytid, pvmtoplvl;
extern struct Pvmtevinfo pvmtevinfo[];
extern struct Pvmtevdid pvmtevdidlist[];

/* Numbers as packet headers have them. */
static void packets(void)
{
	unsigned char bytes[8] = {0x81, 2, 0xf3, 4, 5, 6, 7, 8};
	int n, order = 1;

	printf("%d %d %d\n", pvmget8(bytes), pvmget16(bytes), pvmget32(bytes));
	printf("%d %d %d\n", pvmget8(bytes + 1), pvmget16(bytes + 2), pvmget32(bytes + 3));
	pvmput8(bytes, 0x1ff);
	pvmput16(bytes + 1, 0x12345);
	pvmput32(bytes + 3, (int)0xdeadbeef);
	for (n = 0; n < 8; n++)
		printf("%02x%s", bytes[n], n == 7 ? "\n" : " ");
	printf("%u %u %u\n", pvmcrcappend("abc", 3, 0), pvmcrcappend("abc", 3, 77), pvmcrcappend("", 0, 5));
	printf("%d\n", *(char *)&order ? pvmgetdsig() == 0x408c41 : pvmgetdsig() > 0);
}

int main(void)
{
	struct pvmtaskinfo *task;
	struct timeval clock;
	char name[128];
	int n;

	begin();
	for (n = TEV_FIRST; n <= TEV_MAX; n++)
		printf("%s%s", pvmtevinfo[n].name, n == TEV_MAX ? "\n" : " ");
	for (n = TEV_DID_FIRST; n <= TEV_DID_MAX; n++)
		printf("%s%s", pvmtevdidlist[n].did, n == TEV_DID_MAX ? "\n" : " ");
	packets();
	printf("%d %d\n", pvmmytid, pvmtoplvl);
	pvm_setopt(PvmAutoErr, 0);
	SHOW(pvmsettaskname(NULL));
	SHOW(pvmsettaskname("a name"));
	printf("%d\n", pvmbeatask());
	printf("%d\n", pvmmytid == pvm_mytid());
	SHOW(pvmsettaskname("another"));
	pvm_tasks(pvm_mytid(), &n, &task);
	printf("%d %s\n", n, task[0].ti_a_out);
	pvmgetclock(&clock);
	printf("%d\n", clock.tv_sec > now() - 2 && clock.tv_sec < now() + 2);
	SHOW(pvmstrtoi("0x1f"));
	SHOW(pvmstrtoi("017"));
	SHOW(pvmstrtoi("99"));
	SHOW(pvmxtoi("1f"));
	SHOW(pvmxtoi("0x1f"));
	SHOW(lpvmerr("my_call", PvmNoData));
	SHOW(errnamecode("PvmNoHost"));
	SHOW(errnamecode("nothing"));
	SHOW(pvmputenv("PVM_A_NAME=a value"));
	printf("%s\n", getenv("PVM_A_NAME"));
	printf("%d\n", pvmtmpnam(name) == name && name[0] == '/');
	setenv("PVM_RSH", "a-shell", 1);
	printf("%s %d\n", pvmgetrsh(), !strcmp(pvmgettmp(), getenv("PVM_TMP")));
	for (n = 0; n < 6; n++) {
		static const unsigned tags[] = {0x8001000a, 0x80020001, 0x8003000c, 0x80040011, 0x80040012, 42};
		int found = 7;
		char *tag = pvmnametag((int)tags[n], &found);

		printf("%s %d\n", tag, found);
	}
	printf("%s\n", pvmnametag(7, NULL));
	SHOW(pvmendtask());
	printf("%d\n", pvmmytid);
	ID(pvm_mytid());
	SHOW(pvm_exit());
	printf("%d\n", pvmmytid);
	return 0;
}
