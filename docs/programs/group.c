#include <stdio.h>
#include <pvm3.h>

enum { SLICES = 1000000, SUM = 1 };

int main(void)
{
	int size = pvm_siblings(NULL);      /* all copies that were started together */
	int rank = pvm_joingroup("pi");     /* 0, 1, … in the order of joining */
	double sum = 0;

	if (rank < 0)
		return 1;
	pvm_barrier("pi", size);            /* all are members */
	for (int i = rank; i < SLICES; i += size) {
		double x = (i + 0.5) / SLICES;

		sum += 4 / (1 + x * x) / SLICES;
	}
	pvm_reduce(PvmSum, &sum, 1, PVM_DOUBLE, SUM, "pi", 0);
	if (rank == 0)
		printf("pi is %.6f, by %d tasks\n", sum, size);
	pvm_barrier("pi", size);            /* nobody leaves before the sum is complete */
	pvm_lvgroup("pi");
	pvm_exit();
	return 0;
}
