/* Counts what the program and its libraries ask for of memory. */
#include <errno.h>
#include <stddef.h>

static volatile long allocations;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	allocations++;
	return __libc_realloc(old, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
	allocations++;
	*place = __libc_memalign(alignment, size);
	return *place ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	allocations++;
	return __libc_memalign(alignment, size);
}
