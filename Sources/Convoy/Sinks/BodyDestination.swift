// The destination of a body.
import Foundation

/// The destination that a request sets for its body.
enum BodyDestination: Sendable {
    case memory
    case nowhere
    indirect case file(DownloadPlan)
    case segment(FileSegment)
    case stream(@Sendable () -> OutputStream)
    case chunks(ChunkBuffer)
}

extension BodyDestination {
    var isFile: Bool {
        switch self {
        case .file, .segment: true
        case .memory, .nowhere, .stream, .chunks: false
        }
    }

    /// Makes the target that the attempts of one operation fill, if the destination is a file.
    func makeDownload() -> (any DownloadTarget)? {
        switch self {
        case .file(let plan): Download(plan)
        case .segment(let segment): segment
        case .memory, .nowhere, .stream, .chunks: nil
        }
    }

    /// Makes the sink for the body of an acceptable response, unless the destination is a file.
    ///
    /// - Parameter queue: a serial queue that all streams of one operation share.
    func makeSink(
        for head: ResponseHead, limit: Int64, queue: @autoclosure () -> DispatchQueue,
        calls: @autoclosure () -> SinkCalls
    ) throws(RequestError) -> any BodySink {
        switch self {
        case .memory:
            // The caller's own limit was already checked. If the caller has set none, the memory limit applies here.
            if let expected = head.expectedBytes, expected > limit {
                throw .tooLarge("the server announced \(expected) bytes", limit: limit)
            }
            return MemorySink(limit: limit)
        case .nowhere: return MemorySink(limit: 0, truncates: true)
        case .file, .segment: throw RequestError(.destinationUnwritable, "the download has ended")
        case .stream(let makeStream): return StreamSink(makeStream, limit: limit, queue: queue(), calls: calls())
        case .chunks(let buffer):
            try buffer.begin(limit: limit, calls: calls())
            return buffer
        }
    }
}
