/* Options before and after the enrolment, and trace masks. */
#include "show.h"
#include <pvmtev.h>

static void all(void)
{
	int i;

	for (i = 0; i <= 26; i++)
		printf("%d%s", pvm_getopt(i), i == 26 ? "\n" : " ");
}

int main(void)
{
	Pvmtmask mask;
	int me;

	begin();
	SHOW(pvm_setopt(PvmAutoErr, 0));
	all();
	SHOW(pvm_setopt(PvmRoute, PvmDontRoute));
	SHOW(pvm_setopt(PvmDebugMask, 0));
	SHOW(pvm_setopt(PvmNoReset, 1));
	SHOW(pvm_setopt(PvmShowTids, 7));
	SHOW(pvm_setopt(PvmShowTids, 1));
	ID(me = pvm_mytid());
	all();
	SHOW(pvm_setopt(PvmRoute, PvmRouteDirect));
	SHOW(pvm_setopt(PvmRoute, 4));
	SHOW(pvm_setopt(PvmFragSize, 1000));
	SHOW(pvm_setopt(PvmFragSize, 51));
	SHOW(pvm_setopt(PvmFragSize, 1048577));
	SHOW(pvm_setopt(PvmResvTids, 7));
	SHOW(pvm_setopt(PvmResvTids, 0));
	SHOW(pvm_setopt(PvmTraceBuffer, 500));
	SHOW(pvm_setopt(PvmTraceOptions, PvmTraceCount));
	SHOW(pvm_setopt(PvmSelfTraceBuffer, 600));
	SHOW(pvm_setopt(PvmSelfTraceOptions, PvmTraceTime));
	all();
	SHOW(pvm_setopt(PvmOutputTid, 12345));
	SHOW(pvm_setopt(PvmOutputTid, me));
	SHOW(pvm_setopt(PvmOutputCode, 77));
	SHOW(pvm_setopt(PvmOutputContext, 78));
	printf("children write to me: %d, %d, %d\n", pvm_getopt(PvmOutputTid) == me, pvm_getopt(PvmOutputCode),
		pvm_getopt(PvmOutputContext));
	SHOW(pvm_setopt(PvmOutputTid, 0) == me);
	SHOW(pvm_setopt(PvmTraceTid, me));
	SHOW(pvm_setopt(PvmTraceCode, 79));
	SHOW(pvm_setopt(PvmTraceContext, 80));
	SHOW(pvm_setopt(PvmTraceTid, 0) == me);
	SHOW(pvm_setopt(PvmSelfOutputTid, me + 5));
	SHOW(pvm_setopt(PvmSelfOutputCode, 81));
	printf("children follow: %d, %d\n", pvm_getopt(PvmOutputTid) == me + 5, pvm_getopt(PvmOutputCode));
	SHOW(pvm_setopt(PvmSelfOutputTid, 0) == me + 5);
	SHOW(pvm_setopt(PvmSelfTraceTid, 0));
	SHOW(pvm_setopt(PvmSelfTraceContext, 1));
	SHOW(pvm_setopt(PvmPollType, 1));
	SHOW(pvm_setopt(PvmNoReset, 1));
	SHOW(pvm_setopt(PvmNoReset, 0));
	SHOW(pvm_setopt(26, 0));
	TEV_MASK_INIT(mask);
	TEV_MASK_SET(mask, TEV_SEND);
	SHOW(pvm_settmask(PvmTaskChild, mask));
	memset(mask, 0, sizeof mask);
	SHOW(pvm_gettmask(PvmTaskChild, mask));
	printf("%s\n", mask);
	SHOW(pvm_gettmask(PvmTaskSelf, mask));
	printf("%s\n", mask);
	SHOW(pvm_settmask(2, mask));
	SHOW(pvm_gettmask(-1, mask));
	SHOW(pvm_exit());
	return 0;
}
