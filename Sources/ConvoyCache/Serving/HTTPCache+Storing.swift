// Creates stored responses, from the network or from the caller.
import Convoy
import Foundation

extension HTTPCache {
    /// Stores a response from another source, as if it had just been received.
    ///
    /// The usual rules apply. For example, a response with `no-store` is not stored. A response without a lifetime
    /// needs validation.
    ///
    /// ```swift
    /// try cache.store(page, headerFields: ["Cache-Control": "max-age=3600"], for: .get(url))
    /// ```
    ///
    /// - Parameters:
    ///   - body: the complete body, without a content coding.
    ///   - statusCode: the status code; 200 by default.
    ///   - headerFields: the header fields of the response.
    ///   - request: the GET request that the response answers.
    ///   - date: when the response was received; now by default.
    /// - Returns: whether the cache accepted the response. A later disk error is not reported.
    /// - Throws: `.invalidRequest` if the request cannot be sent.
    /// - Thread: any; it may wait for the disk.
    @discardableResult
    public func store(
        _ body: Data, statusCode: Int = 200, headerFields: HeaderFields, for request: Request<Data>,
        at date: Date = Date()
    ) throws(RequestError) -> Bool {
        let prepared = try PreparedRequest(checking: request)
        let query = CacheQuery(
            prepared, request.cacheOptions, keepsCoding: prepared.asksForIdentity, clock: SystemClock.shared)
        let question = CacheQuestion(query, sharing: configuration.sharing, store.digest)
        let refusal = CacheRules.refusal(
            statusCode: statusCode, headerFields: headerFields, requestFields: prepared.headerFields,
            sharing: configuration.sharing)
        guard question.method == .get, !question.hasBody, statusCode != 206, refusal == nil,
            let writer = store.makeWriter(expectedBytes: Int64(body.count))
        else { return false }
        let key = CacheKey.key(query, question.digest)
        let response = ResponseHead(
            statusCode: statusCode, headerFields: headerFields, url: prepared.url, expectedBytes: Int64(body.count))
        let now = date.cacheSeconds
        var head = StoredHead(response, to: prepared, question, key: key, requestTime: now, responseTime: now)
        head.bodyBytes = Int64(body.count)
        guard writer.write(body) else {
            writer.discard()
            return false
        }
        let isStored = writer.commit(key: key, head: head) { [head] in head.replaces($0, question) }
        if isStored { count { $0.stores += 1 } }
        return isStored
    }
}

extension StoredHead {
    /// Makes the metadata of a response before its body is received.
    init(
        _ head: ResponseHead, to request: PreparedRequest, _ question: CacheQuestion, key: String, requestTime: Int64,
        responseTime: Int64
    ) {
        var fields = CacheRules.storedFields(head.headerFields, sharing: question.sharing)
        if !fields.contains("Date") { fields["Date"] = HTTPDateText.text(responseTime) }
        self.init(
            url: key, statusCode: head.statusCode, headerFields: fields, requestTime: requestTime,
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

    /// Whether this response replaces another one under the same key.
    func replaces(_ other: StoredHead, _ question: CacheQuestion) -> Bool {
        guard other.matches(question) || other.vary == vary && other.credentials == credentials else {
            return false
        }
        // A part does not replace the complete representation that it belongs to.
        guard statusCode == 206, other.isComplete, let validator = strongValidator else { return true }
        return other.strongValidator != validator
    }
}
