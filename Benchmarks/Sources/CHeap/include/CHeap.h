// The allocator's own statistics; Swift cannot call mallinfo2.
#ifndef CONVOY_BENCH_HEAP_H
#define CONVOY_BENCH_HEAP_H

/// Bytes that are allocated on the heap, mapped blocks included; -1 if the allocator does not report the number.
long long convoy_bench_heap_bytes(void);

#endif
