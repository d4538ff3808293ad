import Convoy
import Foundation

extension StoredHead {
    init(
        _ head: ResponseHead, to request: PreparedRequest, _ question: CacheQuestion, requestTime: Int64,
        responseTime: Int64
    ) {
        var fields = CacheRules.storedFields(head.headerFields, sharing: question.sharing)
        if !fields.contains("Date") { fields["Date"] = HTTPDateText.text(responseTime) }
        self.init(
            key: question.key, statusCode: head.statusCode, headerFields: fields, requestTime: requestTime,
            responseTime: responseTime,
            vary: VaryKey(VaryKey.names(head.headerFields) ?? [], request.headerFields, question.digest),
            credentials: question.credentials)
        let isCoded = head.headerFields.listMembers(of: "Content-Encoding").contains {
            !$0.equalsIgnoringCase("identity")
        }
        if isCoded { coding = question.keepsCoding || request.asksForIdentity ? .raw : .decoded }
        let range = head.statusCode == 206 ? head.headerFields["Content-Range"].flatMap(ContentRange.init) : nil
        offset = range?.range?.lowerBound ?? 0
        totalBytes = range == nil ? head.expectedBytes : range?.totalBytes
        requestedRange = head.statusCode == 206 ? request.headerFields["Range"] : nil
    }

    func replaces(_ other: StoredHead, _ question: CacheQuestion) -> Bool {
        guard other.matches(question) || other.vary == vary && other.credentials == credentials else {
            return false
        }
        // A part does not replace the complete representation that it belongs to.
        guard statusCode == 206, other.isComplete, let validator = strongValidator else { return true }
        return other.strongValidator != validator
    }

    private func contentRange(_ positions: Range<Int64>) -> String {
        "bytes \(positions.lowerBound)-\(positions.upperBound - 1)/\(totalBytes.map(String.init) ?? "*")"
    }

    // Without a matching `Content-Length`, the connection may have ended early. The cache then uses the part only for
    // ranges within its bytes, and no longer for a repetition of the original range.
    mutating func shortenPart() {
        if headerFields["Content-Length"]?.trimmingBlanks != String(bodyBytes) { requestedRange = nil }
        headerFields["Content-Range"] = contentRange(positions)
    }

    func answer(to request: PreparedRequest, at now: Int64, _ sharing: CacheSharing) -> DerivedValues.Answer {
        derived.answer(to: request.url, at: now, sharing) {
            var (metrics, status) = (TransferMetrics(), CacheStatus())
            status.timeToLive = timeToLive(at: now, sharing)
            metrics.cache = status
            return DerivedValues.Answer(
                url: request.url, now: now, sharing: sharing,
                head: response(.whole, to: request, at: now, sharing).head, metrics: CopyOnWrite(metrics))
        }
    }

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
