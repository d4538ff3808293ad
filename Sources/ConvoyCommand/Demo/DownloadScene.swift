import Convoy
import ConvoyTesting
import Foundation

struct DownloadScene: DemoScene {
    private static let byteCount: Int64 = 6_000_000
    private static let cancelFraction = 0.4

    let name = "download"
    let summary = "\(Figures.bytes(byteCount)), cancelled at \(Int(cancelFraction * 100)) %; then continued"

    private struct Cancelled {
        var error: RequestError?
        var receivedBytes: Int64 = 0
        var latency = Duration.zero
        var keptBytes: Int64?
    }

    func play(_ stage: DemoStage, _ server: TestServer, _ manager: RequestManager) async throws -> DemoVerdict {
        let directory = FileManager.default.temporaryDirectory.appending(path: "convoy-demo-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: directory) }
        server.route("/big") { _ in
            .resource(generatedByteCount: Self.byteCount, etag: "\"v1\"")
                .dripping(bytesPerSecond: 4_000_000, pieceBytes: 40_000)
        }
        let file = directory.appending(path: "big.bin")
        let item = FetchItem(index: 0, url: server.url("/big"), fileName: "big.bin")
        let request = Request<Data>.get(item.url).saved(to: file)
        var cancelled = await cancelOnItsWay(manager.operation(request), stage, manager)
        let finder = PartFinder(directory: directory.path, knowsNames: true, usesSegments: false, started: Date())
        cancelled.keptBytes = finder.keptBytes(of: item)
        let start = ContinuousClock.now
        let result = await show(manager.operation(request), stage, manager)
        let time = ContinuousClock.now - start
        let leftovers = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? ["?"]
        let ranges = server.recordedRequests.map { $0.value(of: "Range") }
        return judge(cancelled, result, ranges: ranges, leftovers: leftovers, file, time: time)
    }

    private func cancelOnItsWay(
        _ operation: RequestOperation<URL>, _ stage: DemoStage, _ manager: RequestManager
    ) async -> Cancelled {
        async let end: (ContinuousClock.Instant, RequestOperation<URL>.Result) = withCheckedContinuation {
            continuation in
            operation.onFinish { result in continuation.resume(returning: (.now, result)) }
        }
        var (cancelled, asked) = (Cancelled(), ContinuousClock.now)
        await Ticker.ticking(every: DemoStage.interval) {
            stage.console.draw([Self.line(operation, "to be cancelled").text(columns: stage.console.size.width - 1)])
        } while: {
            manager.enqueue(operation)
            for await event in operation.events {
                guard case .progress(let progress) = event,
                    (progress.download.fractionCompleted ?? 0) >= Self.cancelFraction
                else { continue }
                asked = .now
                operation.cancel()
                cancelled.receivedBytes = progress.download.completedBytes
                break
            }
        }
        let (moment, result) = await end
        cancelled.latency = moment - asked
        if case .failure(let error) = result { cancelled.error = error }
        return cancelled
    }

    private func show(
        _ operation: RequestOperation<URL>, _ stage: DemoStage, _ manager: RequestManager
    ) async -> RequestOperation<URL>.Result {
        await Ticker.ticking(every: DemoStage.interval) {
            stage.console.draw([Self.line(operation, "continued").text(columns: stage.console.size.width - 1)])
        } while: {
            manager.enqueue(operation)
            do throws(RequestError) { return .success(try await operation.response()) } catch { return .failure(error) }
        }
    }

    private static func line(_ operation: AnyRequestOperation, _ label: String) -> ProgressLine {
        let progress = operation.progress
        return ProgressLine(
            label: "big.bin, \(label)", fraction: progress.download.fractionCompleted ?? 0,
            details: ["\(Figures.bytes(progress.download.completedBytes)) of \(Figures.bytes(byteCount))"])
    }

    private func judge(
        _ cancelled: Cancelled, _ result: RequestOperation<URL>.Result, ranges: [String?], leftovers: [String],
        _ file: URL, time: Duration
    ) -> DemoVerdict {
        var problems: [String] = []
        if cancelled.error?.code != .cancelled {
            problems.append("the cancelled download ended with \(cancelled.error?.description ?? "success")")
        }
        let kept = cancelled.keptBytes ?? 0
        if kept < cancelled.receivedBytes {
            problems.append("only \(kept) of \(cancelled.receivedBytes) received bytes were kept")
        }
        if ranges != [nil, "bytes=\(kept)-"] {
            problems.append("the server received requests for the ranges \(ranges)")
        }
        var resumed: Int64 = 0
        switch result {
        case .success(let response): resumed = response.transfer.resumedBytes
        case .failure(let error): problems.append("the second download: \(error)")
        }
        if resumed != kept { problems.append("\(kept) bytes were kept, but the download continued after \(resumed)") }
        if leftovers != [file.lastPathComponent] { problems.append("the directory contains \(leftovers)") }
        if problems.isEmpty, !Self.isWhole(file) { problems.append("the file differs from the server's") }
        let milliseconds = (cancelled.latency.inSeconds * 10_000).rounded() / 10
        return (
            "cancelled with \(Figures.bytes(kept)) on the disk, the callback ran \(milliseconds) ms later; continued, "
                + "\(Figures.bytes(Self.byteCount - resumed)) received in \(Figures.time(time)), \(resumed) bytes were not "
                + "fetched again, every byte verified",
            problems
        )
    }

    private static func isWhole(_ file: URL) -> Bool {
        guard let handle = try? FileHandle(forReadingFrom: file) else { return false }
        defer { try? handle.close() }
        var offset: Int64 = 0
        while let piece = try? handle.read(upToCount: 1 << 20), !piece.isEmpty {
            guard piece == Reply.pattern(range: offset..<offset + Int64(piece.count)) else { return false }
            offset += Int64(piece.count)
        }
        return offset == byteCount
    }
}
