// The cases of `durable`: jobs are added, wait, and are sent.
import CSQLiteLoop
import Convoy
import ConvoyQueue
import Foundation

/// The body of every job, except the jobs of a drain.
private let body = #"{"order":4711,"items":[{"sku":"A-1","count":2},{"sku":"B-7","count":1}],"note":"as before"}"#

private func job(_ number: Int) -> Job? {
    URL(string: "http://orders.example/\(number)").map {
        Job("order", JobRequest(method: .post, url: $0, body: .data(Data(body.utf8))))
    }
}

/// Measures one case.
func measureDurable(_ spec: CaseSpec) async throws -> [Measurement] {
    if spec.subject == DurableSubject.direct.rawValue { return [try await measureDirect(spec)] }
    let place = try await DurablePlace(spec)
    var measurements: [Measurement]
    switch spec.benchmark {
    case .durableList: measurements = try await measureList(spec, place)
    case .durableSingle: measurements = [try await measureSingle(spec, place)]
    case .durableWaiting: measurements = try await measureWaiting(spec, place)
    default: measurements = [try await measureDrain(spec, place)]
    }
    try await place.remove()
    return measurements
}

/// Adds all jobs in one transaction.
private func measureList(_ spec: CaseSpec, _ place: DurablePlace) async throws -> [Measurement] {
    let jobs = (0..<spec.count).compactMap(job)
    let watch = Stopwatch()
    _ = try await place.store.add(jobs)
    return [try await place.measurement(spec, watch.read(), waiting: spec.count)]
}

/// Adds each job in a separate transaction.
private func measureSingle(_ spec: CaseSpec, _ place: DurablePlace) async throws -> Measurement {
    guard spec.subject == DurableSubject.bare.rawValue else {
        let jobs = (0..<spec.count).compactMap(job)
        let queue = DurableQueue(store: place.store, manager: RequestManager())
        let watch = Stopwatch()
        for job in jobs { try await queue.add(job) }
        return try await place.measurement(spec, watch.read(), waiting: spec.count)
    }
    #if os(Linux)
        var error = [CChar](repeating: 0, count: 256)
        let watch = Stopwatch()
        let added = convoy_bench_sqlite_add(
            place.file.path, spec.count, "http://orders.example/4711", body, &error, error.count)
        let reading = watch.read()
        if added < spec.count {
            let text = String(decoding: error.map(UInt8.init(bitPattern:)).prefix { $0 != 0 }, as: UTF8.self)
            throw BenchmarkError("\(added) were added: \(text)")
        }
        return try await place.measurement(spec, reading, waiting: spec.count)
    #else
        throw BenchmarkError("the bare loop is for Linux")
    #endif
}

/// Measures many waiting jobs: their size on the disk, and the time to count them and to claim some.
private func measureWaiting(_ spec: CaseSpec, _ place: DurablePlace) async throws -> [Measurement] {
    let watch = Stopwatch()
    for start in stride(from: 0, to: spec.count, by: 10_000) {
        _ = try await place.store.add((start..<min(start + 10_000, spec.count)).compactMap(job))
    }
    let fill = try await place.measurement(spec, watch.read(), waiting: spec.count)
    var status = Measurement("durable-status", spec.subject, count: 1)
    let statusWatch = Stopwatch()
    _ = try await place.store.status()
    status.add(statusWatch.read())
    var claim = Measurement("durable-claim", spec.subject, count: 256)
    let claimWatch = Stopwatch()
    let claimed = try await place.store.exchange([], claiming: ClaimRequest(limit: 256, lease: .seconds(60)))
    claim.add(claimWatch.read())
    if claimed.jobs.count != 256 { throw BenchmarkError("\(claimed.jobs.count) jobs were claimed instead of 256") }
    return [fill, status, claim]
}

/// Adds jobs, then measures how fast a queue sends them.
private func measureDrain(_ spec: CaseSpec, _ place: DurablePlace) async throws -> Measurement {
    guard let url = spec.url else { throw BenchmarkError("there is no URL") }
    for start in stride(from: 0, to: spec.count, by: 10_000) {
        let count = min(10_000, spec.count - start)
        _ = try await place.store.add((0..<count).map { _ in Job("order", JobRequest(url: url)) })
    }
    let tally = Tally()
    let queue = DurableQueue(store: place.store, manager: spec.manager)
    let watch = Stopwatch()
    queue.start(otherwise: { _, result in
        tally.add(spec.defect(statusCode: result.statusCode ?? 0, bytes: result.body.count))
        return .done
    })
    await queue.drain()
    let reading = watch.read()
    await queue.stop()
    var result = try await place.measurement(spec, reading, waiting: 0)
    result.add(tally)
    return result
}

/// Sends the same requests without a queue.
private func measureDirect(_ spec: CaseSpec) async throws -> Measurement {
    guard let url = spec.url else { throw BenchmarkError("there is no URL") }
    let tally = Tally()
    let manager = spec.manager
    let requests = (0..<spec.count).lazy.map { _ in
        Request<Data>.get(url).header("Idempotency-Key", UUID().uuidString)
    }
    let watch = Stopwatch()
    let batch = manager.batch(requests, keepsResults: false) { _, result in
        switch result {
        case .success(let response):
            tally.add(spec.defect(statusCode: response.statusCode, bytes: response.value.count))
        case .failure(let error): tally.add("\(error)")
        }
    }
    await batch.finished()
    var result = Measurement(spec)
    result.add(watch.read())
    result.add(tally)
    return result
}

extension CaseSpec {
    fileprivate var manager: RequestManager {
        RequestManager(
            configuration: .init(maxConcurrentOperationCount: concurrency, maxConcurrentPerHost: concurrency))
    }
}

extension DurablePlace {
    /// The measurement of a case, with the size of the database.
    ///
    /// - Throws: if the number of waiting jobs is not `waiting`.
    fileprivate func measurement(
        _ spec: CaseSpec, _ reading: Stopwatch.Reading, waiting: Int
    ) async throws -> Measurement {
        var result = Measurement(spec)
        result.add(reading)
        result.bytes = try byteCount()
        let found = try await store.status()[.waiting]
        if found != waiting { throw BenchmarkError("\(found) jobs wait instead of \(waiting)") }
        return result
    }
}
