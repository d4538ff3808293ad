// The subjects of transfers, and the measurement of one transfer.
import ArgumentParser
import Foundation

/// A library or a program that is measured.
enum TransferSubject: String, CaseIterable, ExpressibleByArgument {
    case convoy
    case urlSession = "urlsession"
    case asyncHTTPClient = "async-http-client"
    case curl
    case aria2c

    /// The subjects that can save a body to a file.
    static let saving: [Self] = [.convoy, .urlSession, .asyncHTTPClient, .curl, .aria2c]
    /// The subjects that can read a body piece by piece.
    static let reading: [Self] = [.convoy, .urlSession, .asyncHTTPClient]
    /// The subjects that can send a file.
    static let sending: [Self] = [.convoy, .urlSession, .curl]

    /// Whether the subject is a program, which must be installed.
    var isProgram: Bool { self == .curl || self == .aria2c }

    fileprivate func makePeer(_ spec: CaseSpec) throws -> any TransferPeer {
        switch self {
        case .convoy: try ConvoyTransfers(spec)
        case .urlSession: URLSessionTransfers()
        case .asyncHTTPClient: AsyncHTTPClientTransfers()
        case .curl, .aria2c: NoTransfers()
        }
    }
}

/// Transfers bodies within this process; programs run in a separate process.
protocol TransferPeer {
    /// Saves a body to a file.
    func save(_ url: URL, to file: URL) async throws
    /// Passes a body to the reader; returns at the end of the body, or when the reader stops.
    func read(_ url: URL, _ reader: PacedReader) async throws
    /// Sends a file with PUT.
    func send(_ file: URL, to url: URL) async throws
    /// Closes the client.
    func end() async throws
}

extension TransferPeer {
    func save(_: URL, to _: URL) async throws { throw BenchmarkError("it saves nothing") }
    func read(_: URL, _: PacedReader) async throws { throw BenchmarkError("it cannot be read piece by piece") }
    func send(_: URL, to _: URL) async throws { throw BenchmarkError("it sends no file") }
    func end() async throws {}
}

/// A placeholder for subjects that are programs.
private struct NoTransfers: TransferPeer {}

/// Measures one transfer: into a file, to a reader, or from a file.
func measureTransfer(_ spec: CaseSpec) async throws -> Measurement {
    guard let url = spec.url, let subject = TransferSubject(rawValue: spec.subject) else {
        throw BenchmarkError("there is no subject \(spec.subject), or no URL")
    }
    // Objects that all transfers of a process share are made before the memory is measured.
    let peer = try subject.makePeer(spec)
    let tally = Tally()
    let (reading, bytes): (Stopwatch.Reading, Int)
    switch (spec.benchmark, spec.consumer) {
    case (.upload, _): (reading, bytes) = try await measureSending(spec, subject, peer, url, tally)
    case (_, .disk): (reading, bytes) = try await measureSaving(spec, subject, peer, url, tally)
    case (_, .slow), (_, .fast): (reading, bytes) = await measureReading(spec, peer, url, tally)
    }
    try await peer.end()
    var result = Measurement(spec.benchmark.rawValue, spec.subject, count: spec.count)
    result.addTransfer(reading, bytes: bytes)
    result.consumer = spec.benchmark == .download ? spec.consumer.rawValue : nil
    result.add(tally)
    return result
}

private func measureProgram(
    _ subject: TransferSubject, _ arguments: [String], _ tally: Tally
) throws -> Stopwatch.Reading {
    let run = try ProgramRun(subject.rawValue, arguments)
    if let defect = run.defect { tally.note(defect) }
    return run.reading
}

private func measureSaving(
    _ spec: CaseSpec, _ subject: TransferSubject, _ peer: any TransferPeer, _ url: URL, _ tally: Tally
) async throws -> (Stopwatch.Reading, Int) {
    let file = try spec.makeFileName()
    defer { try? FileManager.default.removeItem(at: file) }
    let reading =
        subject.isProgram
        ? try measureProgram(subject, subject.savingArguments(url, file, limitSeconds: spec.limitSeconds), tally)
        : await measure(tally) { try await peer.save(url, to: file) }
    let bytes = try? file.resourceValues(forKeys: [.fileSizeKey]).fileSize
    if bytes != spec.bodyBytes { tally.note("the file has \(bytes ?? 0) bytes instead of \(spec.bodyBytes)") }
    return (reading, tally.errors.count == 0 ? spec.bodyBytes : 0)
}

private func measureReading(
    _ spec: CaseSpec, _ peer: any TransferPeer, _ url: URL, _ tally: Tally
) async -> (Stopwatch.Reading, Int) {
    let reader = PacedReader(
        bytesPerSecond: spec.consumer == .slow ? spec.bytesPerSecond : nil, seconds: spec.seconds)
    let reading = await measure(tally) { try await peer.read(url, reader) }
    if !reader.hasLeft, reader.byteCount != spec.bodyBytes {
        tally.note("the body ended after \(reader.byteCount) bytes instead of \(spec.bodyBytes)")
    }
    return (reading, reader.byteCount)
}

private func measureSending(
    _ spec: CaseSpec, _ subject: TransferSubject, _ peer: any TransferPeer, _ url: URL, _ tally: Tally
) async throws -> (Stopwatch.Reading, Int) {
    guard let path = spec.file else { throw BenchmarkError("there is no file to send") }
    let file = URL(fileURLWithPath: path)
    let reading =
        subject.isProgram
        ? try measureProgram(subject, subject.sendingArguments(file, url, limitSeconds: spec.limitSeconds), tally)
        : await measure(tally) { try await peer.send(file, to: url) }
    return (reading, tally.errors.count == 0 ? spec.bodyBytes : 0)
}

private func measure(_ tally: Tally, _ work: () async throws -> Void) async -> Stopwatch.Reading {
    let watch = Stopwatch()
    do { try await work() } catch { tally.note("\(error)") }
    return watch.read()
}

extension CaseSpec {
    /// The URL of a new file in the directory of the case.
    fileprivate func makeFileName() throws -> URL {
        guard let directory else { throw BenchmarkError("there is no directory to save to") }
        return URL(fileURLWithPath: directory).appendingPathComponent(UUID().uuidString)
    }
}
