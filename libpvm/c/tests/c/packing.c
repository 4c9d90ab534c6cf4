/* Packing small messages again and again asks for no memory, in either encoding. */
#include "counted.h"
#include "show.h"

enum { WARM = 8, ROUNDS = 1000 };

static int pack(int style)
{
	int numbers[3] = { 1, 2, 3 }, bad = 0;
	double more[4] = { 1.5, 1.5, 1.5, 1.5 };

	bad += pvm_initsend(style) <= 0;
	bad += pvm_pkint(numbers, 3, 1) != 0;
	bad += pvm_pkdouble(more, 2, 2) != 0;
	bad += pvm_pkstr("text") != 0;
	bad += pvm_freebuf(pvm_mkbuf(style)) != 0;
	return bad;
}

int main(void)
{
	static const int styles[] = { PvmDataDefault, PvmDataRaw };

	/* Or a counter that counts nothing would be as quiet. */
	long before = allocations;
	void *volatile some = malloc(1);
	free(some);
	printf("%s\n", allocations > before ? "counting" : "not counting");
	for (int s = 0; s < 2; s++) {
		int bad = 0;
		for (int i = 0; i < WARM; i++)
			bad += pack(styles[s]);
		before = allocations;
		for (int i = 0; i < ROUNDS; i++)
			bad += pack(styles[s]);
		printf("style %d: wrong %d, asked %ld\n", styles[s], bad, allocations - before);
	}
	return 0;
}
