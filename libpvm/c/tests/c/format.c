/* pvm_packf and pvm_unpackf, with more arguments than there are registers. */
#include "show.h"
#include <stdarg.h>

static int through_a_list(const char *format, ...)
{
	extern int pvm_vpackf(const char *, va_list);
	va_list list;
	int result;

	va_start(list, format);
	result = pvm_vpackf(format, list);
	va_end(list);
	return result;
}

int main(void)
{
	int array[6] = {1, 2, 3, 4, 5, 6}, got[3], i = 0, j = 0, length;
	short h = 0;
	unsigned short uh = 0;
	long l = 0;
	unsigned u = 0;
	float f = 0, complexes[2] = {1.25f, -2.5f};
	double d = 0, dcomplexes[2] = {3.25, -4.5}, many[9];
	char c = 0, text[20], bytes[4] = "";

	begin();
	ID(pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	SHOW(pvm_packf("%+ %d %hd %uhd %ld %ud %c and %f %lf", PvmDataDefault, 1, 2, 60000, 4L, 5u, 'x', 7.5, 8.5) > 0);
	SHOW(pvm_packf("%3d %3.2d %*d %*.*d", array, array, 1, array + 3, 2, 4, array));
	SHOW(pvm_packf("%x %lx %s %3c", complexes, dcomplexes, "a text", "abc"));
	SHOW(pvm_packf("%lf%lf%lf%lf%lf%lf%lf%lf%lf%d%d%d%d%d%d%d", 1., 2., 3., 4., 5., 6., 7., 8., 9., 1, 2, 3, 4, 5, 6, 7));
	SHOW(through_a_list("%d %lf", 11, 12.5));
	SHOW(pvm_packf("%d %q", 1, 2));
	SHOW(pvm_packf("%"));
	SHOW(pvm_packf("nothing"));
	SHOW(pvm_packf("%-3d", array));
	pvm_bufinfo(pvm_getsbuf(), &length, NULL, NULL);
	printf("length %d\n", length);
	SHOW(pvm_send(pvm_mytid(), 1));
	pvm_recv(-1, 1);
	SHOW(pvm_unpackf("%d %hd %uhd %ld %ud %c %f %lf", &i, &h, &uh, &l, &u, &c, &f, &d));
	printf("%d %d %d %ld %u %c %g %g\n", i, h, uh, l, u, c, f, d);
	SHOW(pvm_unpackf("%3d", got));
	printf("%d %d %d\n", got[0], got[1], got[2]);
	SHOW(pvm_unpackf("%*d", 3, got));
	printf("%d %d %d\n", got[0], got[1], got[2]);
	SHOW(pvm_unpackf("%d %2d", &i, got));
	printf("%d %d %d\n", i, got[0], got[1]);
	complexes[0] = dcomplexes[1] = 0;
	SHOW(pvm_unpackf("%x %lx %s %3c", complexes, dcomplexes, text, bytes));
	printf("%g %g %g %g %s %s\n", complexes[0], complexes[1], dcomplexes[0], dcomplexes[1], text, bytes);
	SHOW(pvm_unpackf("%9lf", many));
	printf("%g %g\n", many[0], many[8]);
	for (j = 0; j < 7; j++) {
		pvm_unpackf("%d", &i);
		printf("%d%s", i, j == 6 ? "\n" : " ");
	}
	SHOW(pvm_unpackf("%d %lf", &i, &d));
	printf("%d %g\n", i, d);
	SHOW(pvm_unpackf("%d", &i));
	SHOW(pvm_unpackf("%d", &i));
	SHOW(pvm_exit());
	return 0;
}
