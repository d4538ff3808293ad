// Builds the response to a request from a stored response.
import Convoy
import Foundation

extension StoredHead {
    /// The value of `Content-Range` for positions of the representation.
    private func contentRange(_ positions: Range<Int64>) -> String {
        "bytes \(positions.lowerBound)-\(positions.upperBound - 1)/\(totalBytes.map(String.init) ?? "*")"
    }

    /// Corrects the `Content-Range` of a part that has fewer bytes than the field declares.
    ///
    /// Without a matching `Content-Length`, the connection may have ended early. The cache then uses the part only for
    /// ranges within its bytes, and no longer for a repetition of the original range.
    mutating func shortenPart() {
        if headerFields["Content-Length"]?.trimmingBlanks != String(bodyBytes) { requestedRange = nil }
        headerFields["Content-Range"] = contentRange(positions)
    }

    /// The head and the cache status for a request that the complete stored response answers.
    func answer(to request: PreparedRequest, at now: Int64, _ sharing: CacheSharing) -> StoredAnswer {
        derived.answer(to: request.url, at: now, sharing) {
            var status = CacheStatus()
            status.timeToLive = freshness(sharing).timeToLive(at: now).map { Int(clamping: $0) }
            let head = response(.whole, to: request, at: now, sharing).head
            return DerivedValues.Answer(
                url: request.url, now: now, sharing: sharing, stored: StoredAnswer(head, status))
        }.stored
    }

    /// The response to a request, and the range of the stored body that it contains.
    func response(
        _ form: CacheDecision.Form, to request: PreparedRequest, at now: Int64, _ sharing: CacheSharing
    ) -> (head: ResponseHead, bodyRange: Range<Int64>) {
        var fields = headerFields
        // `Age` is required (RFC 9111, section 5.1). If the current age is unknown, the field has the age at arrival.
        let freshness = freshness(sharing)
        fields["Age"] = String(freshness.age(at: now) ?? freshness.initialAge)
        var (status, range) = (statusCode, 0..<bodyBytes)
        switch form {
        case .whole:
            if request.method == .head { range = 0..<0 }
            if statusCode == 206 { status = 200 }
        case .storedPart: break
        case .part(let positions):
            (status, range) = (206, positions.lowerBound - offset..<positions.upperBound - offset)
            fields["Content-Range"] = contentRange(positions)
            fields["Content-Length"] = String(positions.upperBound - positions.lowerBound)
        case .notModified:
            (status, range) = (304, 0..<0)
            fields["Content-Length"] = nil
        case .unsatisfiable:
            (status, range) = (416, 0..<0)
            fields["Content-Range"] = "bytes */\(totalBytes ?? 0)"
            fields["Content-Length"] = "0"
        }
        let isCoded = coding == .decoded
        var head = ResponseHead(
            statusCode: status, headerFields: fields, url: request.url,
            expectedBytes: isCoded || request.method == .head ? nil : range.upperBound - range.lowerBound)
        head.hasStoredCookies = true
        return (head, range)
    }
}
