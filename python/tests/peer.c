/* Sends back what a program in Python packs: doubles doubled, an array of ints negated. */
#include <pvm3.h>
#include <stdlib.h>
#include <string.h>

#define MANY 50000
#define FEW 1000

int main(int argc, char **argv)
{
    static double many[MANY], complex_[2];
    static int few[FEW];
    int ints[3], i, parent = pvm_parent();
    int encoding = argc > 1 && strcmp(argv[1], "raw") == 0 ? PvmDataRaw : PvmDataDefault;
    unsigned int uint_;
    short shorts[2];
    unsigned short ushort_;
    long longs[2];
    unsigned long ulong_;
    float float_;
    char bytes[5], text[100];

    if (pvm_recv(parent, 4) < 0) return 1;
    if (pvm_upkint(ints, 3, 1) || pvm_upkdouble(many, MANY, 1) || pvm_upkfloat(&float_, 1, 1)) return 2;
    if (pvm_upkshort(shorts, 2, 1) || pvm_upkushort(&ushort_, 1, 1) || pvm_upkuint(&uint_, 1, 1)) return 3;
    if (pvm_upklong(longs, 2, 1) || pvm_upkulong(&ulong_, 1, 1) || pvm_upkbyte(bytes, 5, 1)) return 4;
    if (pvm_upkstr(text) || pvm_upkdcplx(complex_, 1, 1)) return 5;
    for (i = 0; i < MANY; i++) many[i] *= 2;

    pvm_initsend(encoding);
    pvm_pkint(ints, 3, 1);
    pvm_pkdouble(many, MANY, 1);
    pvm_pkfloat(&float_, 1, 1);
    pvm_pkshort(shorts, 2, 1);
    pvm_pkushort(&ushort_, 1, 1);
    pvm_pkuint(&uint_, 1, 1);
    pvm_pklong(longs, 2, 1);
    pvm_pkulong(&ulong_, 1, 1);
    pvm_pkbyte(bytes, 5, 1);
    pvm_pkstr(text);
    pvm_pkdcplx(complex_, 1, 1);
    if (pvm_send(parent, 5) < 0) return 6;

    if (pvm_recv(parent, 6) < 0 || pvm_upkint(few, FEW, 1)) return 7;
    for (i = 0; i < FEW; i++) few[i] = -few[i];
    pvm_initsend(encoding);
    pvm_pkint(few, FEW, 1);
    pvm_send(parent, 7);
    pvm_exit();
    return 0;
}
