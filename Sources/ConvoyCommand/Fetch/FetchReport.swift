import Convoy
import Foundation

struct FetchOutcome: Sendable {
    struct Success: Sendable {
        let head: ResponseHead
        let bytes: Int64
        var resumedBytes: Int64 = 0
        var sentBytes: Int64 = 0
        let time: Duration
        var file: URL?
        var isSkipped = false
        var unchangedSince: String?
        var replacesLink = false
        var hasFile = true

        var statusCode: Int { head.statusCode }
    }

    let item: FetchItem
    let result: Result<Success, RequestError>
    let attempts: [AttemptRecord]
    var span = EventSpan()
    var keptBytes: Int64?
    var output = ""

    var error: RequestError? { if case .failure(let error) = result { error } else { nil } }

    var attemptCount: Int { attempts.triedCount }

    var fileName: String {
        guard case .success(let success) = result, let file = success.file else { return item.fileName }
        return item.name(of: file)
    }

    var message: String? {
        guard let error else { return nil }
        if lacksStored { return "the cache has no usable response, and only-cache sends no request" }
        // The message of the library names no option of the command, so `--existing` is added.
        return error.code == .destinationExists ? "\(error.message) with --existing" : error.message
    }

    var skipReason: String? {
        guard case .success(let success) = result, success.isSkipped else { return nil }
        let digest = item.digest == nil || !success.hasFile ? "" : " and has the expected digest"
        if let date = success.unchangedSince { return "not newer than \(date)\(digest)" }
        return (attempts.isEmpty ? "the file exists" : "the file has not changed") + digest
    }

    var cause: String? {
        guard let error else { return nil }
        return error.code == .unacceptableStatus && !lacksStored ? Words.cause(error) : message
    }

    private var lacksStored: Bool { attempts.last?.metrics?.cache?.detail == "only-if-cached" }

    var isCancelled: Bool { error?.code == .cancelled }
}

extension FetchOutcome.Success {
    init(_ response: Response<some Sendable>, _ attempts: [AttemptRecord], of item: FetchItem) {
        head = response.head
        bytes = response.transfer.download.completedBytes
        resumedBytes =
            attempts.isEmpty ? response.transfer.resumedBytes : ResumedBytes(of: attempts).count
        sentBytes = response.transfer.upload.completedBytes
        time = response.timings.executed ?? .zero
        file = response.value as? URL
        isSkipped = response.statusCode == 304
        replacesLink = item.isLink && file.map(item.name(of:)) == item.fileName
        let sent = response.request.headerFields
        guard isSkipped, !sent.contains("If-None-Match") else { return }
        unchangedSince = sent["If-Modified-Since"]
        hasFile = (response.value as? UnchangedResource) == nil
    }
}

extension [AttemptRecord] {
    /// A redirect, or an attempt that waited for a file descriptor, says nothing about the server.
    var triedCount: Int {
        count { record in
            switch record.next {
            case .redirect, .awaitedDescriptor: false
            default: true
            }
        }
    }
}

struct UnchangedResource: Sendable {}

extension Result {
    func unchanged<Value>() -> Response<UnchangedResource>?
    where Success == Response<Value>, Failure == RequestError {
        guard case .failure(let error) = self, error.code == .badResponse, let head = error.response,
            head.statusCode == 304, let sent = error.attempts.last?.request
        else { return nil }
        return Response(value: UnchangedResource(), request: sent, head: head)
    }
}

enum FetchStep: Sendable, Equatable {
    case started
    case redirected(statusCode: Int?, to: String)
    // `failure` is nil after a complete response with an unacceptable status. `cause` is a text for people.
    case retrying(attempt: Int, failure: RequestError.Code?, statusCode: Int?, cause: String, delay: Duration)
}

// The first attempt that receives bytes determines the number. An attempt that starts over sets it to zero.
struct ResumedBytes: Sendable, Equatable {
    private var known: Int64?

    var count: Int64 { known ?? 0 }

    init() {}
    init(of attempts: [AttemptRecord]) {
        for record in attempts { note(record.transfer, statusCode: record.statusCode) }
    }

    // Attempts without a successful response are ignored, because their bodies are not part of the file.
    mutating func note(_ transfer: TransferProgress, statusCode: Int? = 200) {
        guard let statusCode, (200..<300).contains(statusCode), transfer.download.completedBytes > 0 else { return }
        if transfer.resumedBytes == 0 { known = 0 } else if known == nil { known = transfer.resumedBytes }
    }
}

struct RunningTransfer: Sendable, Equatable {
    enum Wait: Sendable, Equatable {
        case host
        case answer
        // `attempt` is the number of the failed attempt.
        case retry(attempt: Int, cause: String, due: ContinuousClock.Instant)
    }

    let item: FetchItem
    let receivedBytes: Int64
    var resumedBytes: Int64 = 0
    let expectedBytes: Int64?
    var wait: Wait?

    var fraction: Double? { expectedBytes.flatMap { $0 > 0 ? Double(receivedBytes) / Double($0) : nil } }
}

struct RunProgress: Sendable, Equatable {
    var finishedCount = 0
    var failedCount = 0
    var skippedCount = 0
    var totalCount: Int?
    /// The bodies of failures do not count.
    var receivedBytes: Int64 = 0
    var resumedBytes: Int64 = 0
    var savedCount = 0
    var savedBytes: Int64 = 0
}

extension RunProgress {
    init(_ progress: BatchProgress) {
        finishedCount = progress.finishedCount
        failedCount = progress.failedCount
        totalCount = progress.totalCount
    }
}

// The events of a request arrive in order: its steps, starting with its start, then ``finished(_:)``. For a request
// that was never sent, only ``finished(_:)`` is called. No call follows ``ended(_:)``. Any thread, one call at a time.
protocol FetchReport: Sendable {
    var tickInterval: DispatchTimeInterval? { get }
    var wantsSteps: Bool { get }
    var wantsCancelled: Bool { get }

    func happened(_ step: FetchStep, to item: FetchItem)
    func tick(_ progress: RunProgress, _ running: [RunningTransfer])
    func finished(_ outcome: FetchOutcome)
    func isDefective(_ defect: FetchItems.Defect)
    func ended(_ summary: FetchSummary)
}
