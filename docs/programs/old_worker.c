#include "pvm3.h"

main()
{
    int data[100], n, i, bytes, type, source, sum = 0;

    pvm_bufinfo(pvm_recv(-1, 0), &bytes, &type, &source);
    n = bytes / 4;
    pvm_upkint(data, n, 1);
    for (i = 0; i < n; i++)
        sum += data[i];
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&sum, 1, 1);
    pvm_send(source, 1);
    pvm_exit();
}
