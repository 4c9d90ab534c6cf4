/* Fortran's subroutines with NULL for one argument after the other: those that need it say so, and the library goes on. */
#include "show.h"

#define MOST 13

typedef void subroutine(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
	void *);

/*
 * What a subroutine takes: a digit is a number that it needs, `m` its own task id, `r` a message to unpack, `t` a text
 * and `e` an empty one, `a` an array, `f` a function; `-` is a result that may be not wanted, `b` a text, `o` the error
 * code. Lengths of texts follow.
 */
static void each(const char *name, subroutine *call, const char *takes)
{
	static int numbers[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, me, received, code, array[64];
	static char text[32], empty[32];
	int count = strlen(takes), i, lengths, last;
	void *given[MOST];

	for (last = 0; last < count; last++) {
		memset(text, ' ', sizeof(text));
		memset(empty, ' ', sizeof(empty));
		text[0] = 'g';
		me = pvm_mytid();
		/* There is always a message to unpack, one to receive, and one to send. */
		pvm_psend(me, 3, (char *)&me, 1, PVM_INT);
		received = pvm_recv(me, 3);
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&me, 1, 1);
		pvm_psend(me, 1, (char *)&me, 1, PVM_INT);
		for (lengths = count, i = 0; i < count; i++) {
			switch (takes[i]) {
			case 'm': given[i] = &me; break;
			case 'r': given[i] = &received; break;
			case 't': given[i] = text; break;
			case 'e': given[i] = empty; break;
			case 'f': given[i] = (void *)PvmSum; break;
			case 'o': given[i] = &code; break;
			case 'a': case '-': case 'b': given[i] = array; break;
			default: numbers[takes[i] - '0'] = takes[i] - '0'; given[i] = &numbers[takes[i] - '0'];
			}
			if (strchr("teb", takes[i]))
				given[lengths++] = (void *)sizeof(text);
		}
		while (lengths < MOST)
			given[lengths++] = NULL;
		given[last] = NULL;
		code = 12345;
		call(given[0], given[1], given[2], given[3], given[4], given[5], given[6], given[7], given[8], given[9], given[10],
			given[11], given[12]);
		if (takes[last] == '-' || takes[last] == 'b')
			printf("%s without result %d: %s\n", name, last + 1, code < 0 ? "an error" : "works");
		else if (takes[last] == 'o')
			printf("%s without code\n", name);
		else
			printf("%s without argument %d: %d\n", name, last + 1, code);
		while (pvm_nrecv(-1, -1) > 0)
			;
	}
}

#define EACH(name_, takes_) \
	do { \
		extern subroutine name_; \
		each(#name_, name_, takes_); \
	} while (0)

static void messages(void)
{
	EACH(pvmfinitsend_, "0o");
	EACH(pvmfmkbuf_, "0o");
	EACH(pvmffreebuf_, "0o");
	EACH(pvmfgetsbuf_, "o");
	EACH(pvmfgetrbuf_, "o");
	EACH(pvmfsetsbuf_, "0o");
	EACH(pvmfsetrbuf_, "0o");
	EACH(pvmfbufinfo_, "r---o");
	EACH(pvmfpack_, "3a11o");
	EACH(pvmfsend_, "m1o");
	EACH(pvmfmcast_, "1a1o");
	EACH(pvmfpsend_, "m1a13o");
	EACH(pvmfrecv_, "m1o");
	EACH(pvmfnrecv_, "m1o");
	EACH(pvmfprobe_, "m1o");
	EACH(pvmftrecv_, "m111o");
	EACH(pvmfprecv_, "m1a13---o");
	EACH(pvmfunpack_, "3a11o");
}

static void tasks(void)
{
	EACH(pvmfmytid_, "o");
	EACH(pvmfparent_, "o");
	EACH(pvmfkill_, "0o");
	EACH(pvmfsendsig_, "01o");
	EACH(pvmfpstat_, "mo");
	EACH(pvmftidtohost_, "mo");
	EACH(pvmfsiblings_, "-0o");
	EACH(pvmfspawn_, "e0e1-o");
	EACH(pvmfnotify_, "111ao");
	EACH(pvmfcatchout_, "0o");
	EACH(pvmfperror_, "to");
	EACH(pvmfgetopt_, "3o");
	EACH(pvmfsetopt_, "30o");
	EACH(pvmfaddmhf_, "m70-fo");
	EACH(pvmfdelmhf_, "0o");
	EACH(pvmfmaymove_, "o");
	EACH(pvmfmigratable_, "ffo");
	EACH(pvmfmove_, "mto");
	EACH(pvmfnewcontext_, "o");
	EACH(pvmfgetcontext_, "o");
	EACH(pvmfsetcontext_, "0o");
	EACH(pvmffreecontext_, "0o");
	EACH(pvmfsleep_, "0");
}

static void machine(void)
{
	EACH(pvmfaddhost_, "eo");
	EACH(pvmfdelhost_, "eo");
	EACH(pvmfarchcode_, "to");
	EACH(pvmfmstat_, "to");
	EACH(pvmfhostsync_, "m----o");
	EACH(pvmfstartpvmd_, "e0o");
	EACH(pvmfputinfo_, "t90o");
	EACH(pvmfrecvinfo_, "t00o");
	EACH(pvmfdelinfo_, "t00o");
}

static void groups(void)
{
	EACH(pvmfjoingroup_, "to");
	EACH(pvmfgsize_, "to");
	EACH(pvmfgettid_, "t0o");
	EACH(pvmfgetinst_, "tmo");
	EACH(pvmfbarrier_, "t1o");
	EACH(pvmfbcast_, "t1o");
	EACH(pvmfreduce_, "fa131t0o");
	EACH(pvmfgather_, "aa131t0o");
	EACH(pvmfscatter_, "aa131t0o");
	EACH(pvmmax_, "3aa1o");
	EACH(pvmmin_, "3aa1o");
	EACH(pvmsum_, "3aa1o");
	EACH(pvmproduct_, "3aa1o");
	EACH(pvmffreezegroup_, "t1o");
	EACH(pvmflvgroup_, "to");
}

/* Lists: what is both a number given and a result is needed. */
static void lists(void)
{
	pvm_initsend(PvmDataDefault);
	pvm_putinfo("gg", pvm_getsbuf(), PvmMboxDefault);
	EACH(pvmfconfig_, "9--bb-o");
	EACH(pvmftasks_, "09----bo");
	EACH(pvmfgetmboxinfo_, "tb9----o");
}

extern void pvmfexit_(int *);

int main(void)
{
	begin();
	pvm_mytid();
	pvm_setopt(PvmAutoErr, 0);
	messages();
	tasks();
	machine();
	groups();
	lists();
	pvmfexit_(NULL);
	return 0;
}
