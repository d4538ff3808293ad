// Stores network responses: RFC 9111, section 3.
import Convoy
import Foundation

/// A response that the cache stores while the client receives it.
struct Recording {
    let writer: any StoreWriter
    var head: StoredHead
    /// The number of body bytes received.
    var bytes: Int64 = 0
}

extension CacheTransfer {
    /// Starts to store a response; nil if it may not be stored.
    func makeRecording(_ head: ResponseHead, _ requestTime: Int64, _ now: Int64) -> Recording? {
        guard mayBeStored(head) else { return nil }
        let sharing = cache.configuration.sharing
        let refusal = CacheRules.refusal(
            statusCode: head.statusCode, headerFields: head.headerFields, requestFields: request.headerFields,
            sharing: sharing)
        guard refusal == nil else {
            supersede(head)
            return nil
        }
        guard let writer = store.makeWriter(expectedBytes: head.expectedBytes) else {
            supersede(head)
            return nil
        }
        let stored = StoredHead(
            head, to: request, question, key: exchange.key, requestTime: requestTime, responseTime: now)
        return Recording(writer: writer, head: stored)
    }

    /// Whether the response to this request may be stored.
    ///
    /// The request must be a GET without a body, or a POST. The response to a POST needs status 200, the request's URL
    /// in `Content-Location` and an explicit lifetime (RFC 9110, section 9.3.3).
    private func mayBeStored(_ head: ResponseHead) -> Bool {
        if question.method == .get { return !question.hasBody }
        guard question.method == .post, head.statusCode == 200,
            let location = head.headerFields["Content-Location"]?.trimmingBlanks,
            let url = URL(string: location, relativeTo: request.url)?.absoluteURL,
            CacheKey.key(url, question.digest) == CacheKey.key(request.url, question.digest)
        else { return false }
        let control = Freshness.control(head.headerFields, question.sharing)
        return Freshness.isExplicit(head.headerFields, control, question.sharing)
    }

    /// Removes the stored responses that a newer response supersedes, although the newer one is not stored.
    private func supersede(_ head: ResponseHead) {
        guard head.statusCode < 500, head.statusCode != 206, !CacheRules.isOfOneRequest(head.statusCode) else { return }
        store.remove(exchange.entries.filter { $0.head.matches(question) }.map(\.id), of: exchange.key)
    }

    /// Stores a complete response, if its length matches the declared length.
    func keep(_ recording: Recording) {
        var head = recording.head
        head.bodyBytes = recording.bytes
        if head.statusCode == 206 {
            // The server chooses the range. A longer body is discarded; a shorter one is stored as the beginning of the
            // range.
            let range = head.headerFields["Content-Range"].flatMap(ContentRange.init)?.range
            guard let range, recording.bytes > 0, recording.bytes <= range.count else {
                return recording.writer.discard()
            }
            if recording.bytes < range.count, head.coding != .decoded { head.shortenPart() }
        } else {
            // If the length differs, the connection may have ended early without an error. The cache must not store the
            // body as complete (RFC 9111, section 3.3).
            if let expected = head.totalBytes, head.coding != .decoded, expected != recording.bytes {
                return recording.writer.discard()
            }
            head.totalBytes = recording.bytes
        }
        if commit(recording, head) { state.withLock { $0.status.isStored = true } }
    }

    /// Stores an incomplete response, which a later request may complete (RFC 9111, section 3.3).
    func keepPart(_ recording: Recording) {
        var head = recording.head
        head.bodyBytes = recording.bytes
        let hasOther = exchange.entries.contains { $0.head.isComplete && $0.head.matches(question) }
        guard head.statusCode == 200, head.coding == .none, recording.bytes > 0, let total = head.totalBytes,
            total > recording.bytes, recording.bytes <= StoredHead.mostBeginningBytes, head.strongValidator != nil,
            !hasOther
        else { return recording.writer.discard() }
        commit(recording, head)
    }

    @discardableResult
    private func commit(_ recording: Recording, _ head: StoredHead) -> Bool {
        let question = question
        let isStored = recording.writer.commit(key: exchange.key, head: head) { head.replaces($0, question) }
        if isStored { cache.count { $0.stores += 1 } }
        return isStored
    }

    /// Stores an updated head, or removes the entry if the new fields forbid storing it.
    func replaceHead(of entry: StoredEntry, with head: StoredHead) {
        if head.refusal(question) == nil {
            store.update(entry.id, of: exchange.key, to: head)
        } else {
            store.remove([entry.id], of: exchange.key)
        }
    }

    /// Updates stored responses from a 304 that answers the client's own condition.
    func updateConfirmed(_ head: ResponseHead, _ now: Int64) {
        let requestTime = state.withLock { $0.requestTime }
        for entry in exchange.entries where entry.head.matches(question) {
            // Without a validator, the 304 does not identify a stored response.
            guard EntityTag(head.headerFields) != nil || head.headerFields.contains("Last-Modified"),
                entry.head.isUpdated(by: head.headerFields)
            else { continue }
            var updated = entry.head
            updated.update(by: head, to: question, requestTime: requestTime, responseTime: now)
            replaceHead(of: entry, with: updated)
        }
    }

    /// Updates stored responses from a response to HEAD, or marks them invalid (RFC 9111, section 4.3.5).
    func updateByHead(_ head: ResponseHead, _ now: Int64) {
        guard head.statusCode == 200 else { return }
        let requestTime = state.withLock { $0.requestTime }
        for entry in exchange.entries where entry.head.matches(question) {
            var updated = entry.head
            updated.update(byHead: head, to: question, requestTime: requestTime, responseTime: now)
            replaceHead(of: entry, with: updated)
        }
    }
}
