"""Hits a second of Python's HTTP caches, for 256 bodies in turn, one task.

    pip install hishel==2.0.0 httpx requests-cache==1.3.3
    python Benchmarks/cache-peers.py URL [COUNT]

The URL answers with `Cache-Control: max-age=86400`. Compare with `convoy-bench cache --cases hit`.
"""
import os
import sys
import tempfile
import time

import hishel
import hishel.httpx
import requests_cache


def measure(name, url, count, get):
    for number in range(512):
        get(f"{url}?hit={number % 256}")
    start, cpu = time.perf_counter(), time.process_time()
    hits = sum(get(f"{url}?hit={number % 256}") for number in range(count))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{name}: {count / seconds:.0f} a second, {cpu / count * 1e6:.0f} us of CPU each, {hits} of {count} hits")


def main():
    url, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    with tempfile.TemporaryDirectory() as folder:
        for backend in ["memory", "sqlite"]:
            session = requests_cache.CachedSession(
                os.path.join(folder, "requests"), backend=backend, cache_control=True)
            measure(f"requests-cache, {backend}", url, count, lambda url: session.get(url).from_cache)
        storage = hishel.SqliteStorage(database_path=os.path.join(folder, "hishel.db"))
        client = hishel.httpx.CacheClient(storage=storage, rfc=True)
        measure("hishel, sqlite", url, count, lambda url: is_hit(client.get(url)))


def is_hit(response):
    status = response.extensions["caching"]
    return status["from_cache"] if isinstance(status, dict) else status.from_cache


main()
