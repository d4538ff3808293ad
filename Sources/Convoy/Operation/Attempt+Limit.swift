// How large a body may be: one check for every destination.
import Foundation

extension Attempt {
    /// The sink for a body, unless the server announces more than the caller allows.
    func makeLimitedSink(for head: ResponseHead, _ answer: DownloadAnswer?) throws(RequestError) -> any BodySink {
        let total = answer.map(\.totalBytes) ?? head.expectedBytes
        if let limit = core.bodyLimit, let total, total > limit {
            throw .tooLarge("the server announced \(total) bytes", limit: limit)
        }
        return try makeSink(for: head, answer)
    }

    /// The error for a body that goes on where it may not; nothing of it goes any further.
    var tooLarge: RequestError {
        let limit = core.bodyLimit ?? core.maximumBodyBytes
        return .tooLarge("the body has more than \(limit) bytes", limit: limit)
    }
}

extension DownloadAnswer {
    /// From where on its body is the file.
    var offset: Int64 { if case .body(let offset, _) = self { offset } else { 0 } }

    /// The length of the file, as far as the answer tells it.
    var totalBytes: Int64? {
        switch self {
        case .body(_, let totalBytes): totalBytes
        case .isWhole(let byteCount): byteCount
        case .isUnchanged, .lie, .refused: nil
        }
    }
}
