// Bodies of jobs, from one byte to 64 MiB, that are added, read, claimed and compared.
import Convoy
import ConvoyQueue
import Foundation

private struct BodyDiffers: Error {
    let id: String
    let reading: String
}

/// The body of a job.
///
/// Nearly all are small: 100,000 bodies have 2 GB.
private func body(_ number: Int) -> Data {
    let byteCount =
        switch number {
        case let number where number % 20_000 == 7: 64 << 20
        case let number where number % 2_000 == 8: 8 << 20
        case let number where number % 200 == 9: 1 << 20
        case let number where number % 20 == 10: 65_530 + number % 13
        default: 1 + number * 37 % 5_000
        }
    let block = Data("\(number) ".utf8) + Data((0...255).map { UInt8(truncatingIfNeeded: $0 &* number) })
    var body = block
    // Doubling is fast in a debug build too.
    while body.count < byteCount { body += body }
    return body.prefix(byteCount)
}

private func check(_ job: Job, _ number: Int, _ reading: String) throws {
    let expected = body(number)
    let isSame =
        switch job.request.body {
        case nil: false
        case .data(let data): data == expected
        case .file(let file): try Data(contentsOf: file) == expected
        }
    guard isSame else { throw BodyDiffers(id: job.id, reading: reading) }
}

func checkBodies(_ count: Int, on store: any Store) async throws {
    guard let url = URL(string: "http://127.0.0.1:9/") else { return }
    try await withThrowingTaskGroup { group in
        for task in 0..<8 {
            group.addTask {
                for number in stride(from: task, to: count, by: 8) {
                    let request = JobRequest(method: .post, url: url, body: .data(body(number)))
                    _ = try await store.add([Job("body", request, id: "\(number)")])
                    guard let record = try await store.job("\(number)") else {
                        throw BodyDiffers(id: "\(number)", reading: "job")
                    }
                    try check(record.job, number, "job")
                }
            }
        }
        try await group.waitForAll()
    }
    var claimed = 0
    while true {
        let request = ClaimRequest(limit: 100, lease: .seconds(600))
        let jobs = try await store.exchange([], claiming: request).jobs
        guard !jobs.isEmpty else { break }
        for job in jobs { try check(job.job, Int(job.job.id) ?? -1, "claim") }
        _ = try await store.exchange(jobs.map { Settlement($0.claim, .done) }, claiming: nil)
        claimed += jobs.count
    }
    guard claimed == count else { throw BodyDiffers(id: "\(count - claimed) of all", reading: "claim") }
    await store.close()
}
