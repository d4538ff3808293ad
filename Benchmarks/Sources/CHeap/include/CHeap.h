// What the allocator of the platform says; Swift does not see mallinfo2.
#ifndef CONVOY_BENCH_HEAP_H
#define CONVOY_BENCH_HEAP_H

/// Bytes that are allocated on the heap, mapped blocks included; -1 where the allocator does not tell.
long long convoy_bench_heap_bytes(void);

#endif
