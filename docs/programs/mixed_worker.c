#include <stdlib.h>
#include <pvm3.h>

int main(void)
{
	int parent = pvm_parent(), count;
	double sum = 0;
	char text[80];

	pvm_recv(parent, 4);
	pvm_upkint(&count, 1, 1);
	double *values = malloc(count * sizeof *values);
	pvm_upkdouble(values, count, 1);
	pvm_upkstr(text);
	for (int i = 0; i < count; i++)
		sum += values[i];
	pvm_initsend(PvmDataDefault);
	pvm_pkstr(text);
	pvm_pkdouble(&sum, 1, 1);
	pvm_send(parent, 5);
	free(values);
	return pvm_exit();
}
