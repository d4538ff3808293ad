// The requests of a segmented download: first one byte, then each segment, from one server after another.
import Foundation

extension SegmentedDownload {
    /// The request's own server (nil), then the mirrors.
    private var servers: [URL?] { [nil] + mirrors }

    /// The request for the server at an index of `servers`.
    private func core(at server: Int) -> RequestCore {
        var core = request.core
        guard let url = servers[server] else { return core }
        (core.url, core.query) = (url, [])
        // Secrets are not sent to other origins.
        if (try? url.origin.get()) != (try? prepared.get().hostKey) {
            core.dropSecrets(defaults)
            core.policies.isMirror = true
        }
        return core
    }

    /// The request for a part of the file.
    private func partCore(at server: Int) -> RequestCore {
        var core = core(at: server)
        // The limit applies to the complete file, not to a segment.
        core.policies.bodyLimit = .max
        core.decodesAtOnce = true
        return core
    }

    /// Downloads the file with one request, for a server without ranges or with ranges of different versions.
    func inOnePiece(at server: Int) async -> Result<Response<URL>, RequestError> {
        await close()
        var whole = request
        whole.core = core(at: server)
        let operation = manager.operation(whole.saved(plan))
        state.withLock { $0.operations.append(operation) }
        operation.onProgress { [download] progress in download.shared.withLock { $0.progress = progress } }
        // The caller may have cancelled before the operation was listed.
        if download.isDiscarded { operation.cancel(keepingPart: false) }
        manager.enqueue(operation)
        do throws(RequestError) { return .success(try await operation.response()) } catch {
            return .failure(error)
        }
    }

    /// Requests the first byte from one server after another until one responds, to get the file's length and version.
    ///
    /// If a server fails or refuses the request, the next server gets it. An empty file has no first byte, so a server
    /// answers 416. The server then counts as one without ranges.
    ///
    /// - Parameter conditions: the fields of ``ExistingFile/updateIfChanged``, which apply to the first server only.
    /// - Returns: the head of the response and the index of its server. The head is nil when the server does not
    ///   support ranges.
    func probe(_ conditions: HeaderFields) async throws(RequestError) -> (head: ResponseHead?, server: Int) {
        var first: RequestError?
        for (index, server) in servers.enumerated() {
            var core = partCore(at: index)
            core.headerFields["Range"] = "bytes=0-0"
            if server == nil { for field in conditions { core.headerFields[field.name] = field.value } }
            if !core.policies.omittedTransportFields.contains("accept-encoding") {
                core.headerFields["Accept-Encoding"] = "identity"
            }
            core.policies.acceptableStatusCodes = .successful
            core.policies.acceptableContentTypes = .any
            // The body limit of one byte avoids reading a response that has the complete file.
            (core.destination, core.policies.bodyLimit) = (.memory, 1)
            do throws(RequestError) {
                return (try await send(Request<Void>(core: core) { _, _ in }).head, index)
            } catch {
                if server == nil, !conditions.isEmpty, let head = error.response, head.statusCode == 304 {
                    return (head, index)
                }
                // A 206 with other bytes than the requested one shows that the server does not support ranges.
                let isUnfit = error.code == .badResponse && error.response?.statusCode == 206
                if isUnfit || error.code == .bodyTooLarge || error.response?.statusCode == 416 { return (nil, index) }
                if error.code == .cancelled { throw error }
                first = first ?? error
            }
        }
        // The first server may refuse only ranges, so the complete file is requested from it next.
        if first?.code == .unacceptableStatus { return (nil, 0) }
        throw first ?? RequestError(.cancelled, "no server is left")
    }

    /// Sends the requests of all segments.
    ///
    /// Returns the first error of a segment that no server could deliver; nil if all segments arrived.
    ///
    /// - Parameter known: the index of the server whose version of the file is known.
    func fetch(_ segments: [FileSegment], of known: Int) async -> RequestError? {
        await withTaskGroup(of: RequestError?.self) { group in
            for segment in segments { group.addTask { await self.fetch(segment, of: known) } }
            var first: RequestError?
            for await error in group {
                guard let error, first == nil else { continue }
                first = error
                group.cancelAll()
            }
            return first
        }
    }

    /// Requests a segment from one server after another.
    private func fetch(_ segment: FileSegment, of known: Int) async -> RequestError? {
        var last: RequestError?
        for turn in servers.indices {
            let index = (segment.index + turn) % servers.count
            var core = partCore(at: index)
            core.destination = .segment(index == known ? segment : segment.withoutVersion)
            state.withLock { $0.servers[segment.index] = core.url }
            do throws(RequestError) {
                repeat { try await send(Request<Void>(core: core) { _, _ in }) } while await segment.isIncomplete
                return nil
            } catch {
                last = error
                if error.code.facts.contains(.local) { return error }
            }
        }
        return last
    }

    @discardableResult
    private func send(_ request: Request<Void>) async throws(RequestError) -> Response<Void> {
        let operation = manager.operation(request)
        state.withLock { $0.operations.append(operation) }
        manager.enqueue(operation)
        return try await operation.response()
    }

    /// Returns a text that lists which server sent which bytes.
    func told(_ segments: [FileSegment]) -> String {
        let servers = state.withLock { $0.servers }
        return segments.map { segment in
            let server = servers[segment.index]?.redactedString ?? "?"
            return "\(segment.range.lowerBound)-\(segment.range.upperBound - 1) came from \(server)"
        }.joined(separator: ", ")
    }
}
