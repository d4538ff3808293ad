// The cases of `cache`: hits, misses, a large hit that is saved as a file, many entries.
import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation

/// Where a case stores responses.
enum CacheSubject: String, CaseIterable {
    /// The same requests without a cache.
    case none
    case memory
    case disk
    /// cp(1), which copies the same bytes.
    case copy = "cp"
}

/// Measures one case.
func measureCache(_ spec: CaseSpec) async throws -> [Measurement] {
    switch spec.benchmark {
    case .cacheHit: return [try await measureHits(spec)]
    case .cacheMiss: return [try await measureMisses(spec)]
    case .cacheFile: return [try await measureFile(spec)]
    case .cacheFill: return [try await fill(spec)]
    default: return try await measureMany(spec)
    }
}

/// Sends 256 requests, whose responses are stored, again and again.
private func measureHits(_ spec: CaseSpec) async throws -> Measurement {
    let place = try CachePlace(spec, capacity: 256 << 20)
    defer { place.remove() }
    let requests = (0..<256).map { Request<Data>.get("http://stub.test/item/\($0)") }
    for request in requests { _ = try await place.stubbed.send(request) }
    // The first pass sends a tenth of the requests. It warms up the cache's database connections, SQL statements and
    // pages.
    let tally = Tally()
    for count in [spec.count / 10, spec.count] {
        let turns = Turns(count)
        let watch = Stopwatch()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<spec.concurrency {
                group.addTask {
                    var index = task
                    while turns.take() {
                        index = (index + 1) % requests.count
                        do {
                            let response = try await place.stubbed.send(requests[index])
                            let isHit = response.metrics?.cache?.isHit == true
                            tally.add(isHit && response.value.count == 1024 ? nil : "no hit")
                        } catch {
                            tally.add("\(error)")
                        }
                    }
                }
            }
        }
        guard count == spec.count else { continue }
        var result = Measurement(spec)
        result.add(watch.read())
        result.add(tally)
        return result
    }
    throw BenchmarkError("nothing was measured")
}

/// Sends requests to a server; their responses are not stored yet.
private func measureMisses(_ spec: CaseSpec) async throws -> Measurement {
    guard let url = spec.url?.absoluteString else { throw BenchmarkError("there is no URL") }
    let place = try CachePlace(spec, capacity: max(256 << 20, Int64(spec.bodyBytes) * 12))
    defer { place.remove() }
    let tally = Tally()
    let isLarge = spec.bodyBytes > 1 << 20
    func send(_ number: Int) async {
        do {
            if isLarge {
                var count = 0
                for try await chunk in place.manager.chunks(of: .get("\(url)?n=\(number)")) { count += chunk.count }
                tally.add(spec.defect(statusCode: 200, bytes: count))
            } else {
                let response = try await place.manager.send(Request<Data>.get("\(url)?n=\(number)"))
                tally.add(spec.defect(statusCode: response.statusCode, bytes: response.value.count))
            }
        } catch {
            tally.add("\(error)")
        }
    }
    if !isLarge { for number in 0..<100 { await send(-1 - number) } }
    let turns = Turns(spec.count)
    let watch = Stopwatch()
    await withTaskGroup(of: Void.self) { group in
        for task in 0..<spec.concurrency {
            group.addTask {
                var number = task
                while turns.take() {
                    await send(number)
                    number += spec.concurrency
                }
            }
        }
    }
    // `statistics` waits until all responses are stored, so the measured time includes storing.
    let stored = place.cache?.statistics.stores ?? 0
    var result = Measurement(spec)
    result.add(watch.read())
    if isLarge { result.bytesPerSecond = result.seconds.map { Double(spec.bodyBytes * spec.count) / $0 } }
    if place.cache != nil, stored < spec.count { tally.note("\(stored) of \(spec.count) were stored") }
    result.add(tally)
    return result
}

/// Saves a stored body as a file, or copies the same bytes with cp(1).
private func measureFile(_ spec: CaseSpec) async throws -> Measurement {
    guard let url = spec.url else { throw BenchmarkError("there is no URL") }
    var filling = spec
    if spec.subject == CacheSubject.copy.rawValue { filling.subject = CacheSubject.disk.rawValue }
    let place = try CachePlace(filling, capacity: Int64(spec.bodyBytes) * 10)
    defer { place.remove() }
    // The server sends no freshness. With `.preferCache` the stored response is used anyway.
    let request = Request<Data>.get(url).cachePolicy(.preferCache)
    _ = try await place.manager.download(request, to: place.directory.appending(path: "first")).response()
    _ = place.cache?.statistics
    let target = place.directory.appending(path: "target")
    let watch = Stopwatch()
    if spec.subject == CacheSubject.copy.rawValue {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["cp", place.directory.appending(path: "first").path, target.path]
        try process.run()
        process.waitUntilExit()
    } else {
        let response = try await place.manager.download(request, to: target).response()
        guard response.metrics?.cache?.isHit == true else { throw BenchmarkError("it was no hit") }
    }
    let size = try FileManager.default.attributesOfItem(atPath: target.path)[.size] as? Int
    var result = Measurement(spec.benchmark.rawValue, spec.subject, count: 1)
    result.addTransfer(watch.read(), bytes: size ?? 0)
    if size != spec.bodyBytes { result.errors = 1 }
    return result
}

/// Stores many entries in the directory of the case.
private func fill(_ spec: CaseSpec) async throws -> Measurement {
    let place = try CachePlace(spec, capacity: 64 << 30, isKept: true)
    let watch = Stopwatch()
    let batch = place.stubbed.batch(
        (0..<spec.count).lazy.map { Request<Data>.get("http://stub.test/item/\($0)") }, keepsResults: false)
    await batch.finished()
    let stored = place.cache?.statistics.entryCount ?? 0
    var result = Measurement(spec.benchmark.rawValue, spec.subject, count: spec.count)
    result.add(watch.read())
    if stored != spec.count { throw BenchmarkError("\(stored) entries are there instead of \(spec.count)") }
    return result
}

/// Opens a cache with many entries, reads some of them, and stores responses that evict others.
private func measureMany(_ spec: CaseSpec) async throws -> [Measurement] {
    var open = Measurement("cache-open", spec.subject, count: 1)
    let openWatch = Stopwatch()
    // The measurement of opening includes the first hit, because the disk is not read before.
    let place = try CachePlace(spec, capacity: 64 << 30, isKept: true)
    _ = try await place.stubbed.send(Request<Data>.get("http://stub.test/item/\(spec.count / 2)"))
    open.add(openWatch.read())
    let rounds = 2_000
    var hit = Measurement("cache-many-hit", spec.subject, count: rounds)
    let hitWatch = Stopwatch()
    for number in 0..<rounds {
        let index = (number &* 7_919) % spec.count
        let response = try await place.stubbed.send(Request<Data>.get("http://stub.test/item/\(index)"))
        if response.metrics?.cache?.isHit != true { hit.errors += 1 }
    }
    hit.add(hitWatch.read())
    guard let bytes = place.cache?.statistics.storedBytes else { throw BenchmarkError("there is no cache") }
    let full = try CachePlace(spec, capacity: bytes, isKept: true)
    _ = full.cache?.statistics
    var eviction = Measurement("cache-eviction", spec.subject, count: rounds)
    let evictionWatch = Stopwatch()
    for number in 0..<rounds { _ = try await full.stubbed.send(Request<Data>.get("http://stub.test/new/\(number)")) }
    let evictions = full.cache?.statistics.evictions ?? 0
    eviction.add(evictionWatch.read())
    // Entries differ in size, so a new entry does not always evict exactly one old entry.
    if evictions < rounds * 9 / 10 { throw BenchmarkError("\(evictions) entries had to go for \(rounds)") }
    return [open, hit, eviction]
}

/// A cache of a case, and managers that use it.
private struct CachePlace {
    let directory: URL
    let cache: HTTPCache?
    /// A manager that sends requests over the network.
    let manager: RequestManager
    /// A manager with a stub transport, which responds at once.
    let stubbed: RequestManager
    private let isKept: Bool

    init(_ spec: CaseSpec, capacity: Int64, isKept: Bool = false) throws {
        let parent = spec.directory.map { URL(fileURLWithPath: $0) } ?? FileManager.default.temporaryDirectory
        directory = isKept ? parent : parent.appending(path: "convoy-bench-\(UUID().uuidString)")
        self.isKept = isKept
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        switch CacheSubject(rawValue: spec.subject) {
        case .memory: cache = .memory(capacity: capacity)
        case .disk: cache = HTTPCache(directory: directory.appending(path: "cache"), capacity: capacity)
        default: cache = nil
        }
        let body = Data(repeating: 7, count: max(1024, spec.bodyBytes))
        let transport = StubTransport { exchange in
            exchange.answer(200, headerFields: ["Cache-Control": "max-age=86400", "ETag": "\"v\""], body: body)
        }
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: max(32, spec.concurrency), maxConcurrentPerHost: max(32, spec.concurrency))
        configuration.cache = cache
        manager = RequestManager(configuration: configuration)
        configuration.transport = .custom(transport)
        stubbed = RequestManager(configuration: configuration)
    }

    func remove() { if !isKept { try? FileManager.default.removeItem(at: directory) } }
}
