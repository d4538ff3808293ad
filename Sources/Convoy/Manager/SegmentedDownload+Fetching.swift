// The requests of a download in segments: the first byte, then each segment of one server after the other.
import Foundation

extension SegmentedDownload {
    /// The request's own server, then the mirrors.
    private var servers: [URL?] { [nil] + mirrors }

    private func core(at server: URL?) -> RequestCore {
        var core = request.core
        if let server {
            (core.url, core.query) = (server, [])
            // Secrets go to no other origin.
            if (try? server.origin.get()) != (try? prepared.get().hostKey) {
                core.dropSecrets(defaults)
                core.policies.isMirror = true
            }
        }
        // It is for the whole.
        core.policies.bodyLimit = .max
        core.decodesAtOnce = true
        return core
    }

    /// Asks for the first byte, and so for length and version, until a server answers.
    ///
    /// - Parameter conditions: those of ``ExistingFile/updateIfChanged``, which are about the first server's versions.
    /// - Returns: the answer, and which server sent it; nil when none can be asked for a range.
    func probe(_ conditions: HeaderFields) async throws(RequestError) -> (ResponseHead, server: Int)? {
        var last: RequestError?
        for (index, server) in servers.enumerated() {
            var core = core(at: server)
            core.headerFields["Range"] = "bytes=0-0"
            if server == nil { for field in conditions { core.headerFields[field.name] = field.value } }
            core.headerFields["Accept-Encoding"] = "identity"
            core.policies.acceptableStatusCodes = .successful
            core.policies.acceptableContentTypes = .any
            // An answer with the whole is not read.
            (core.destination, core.policies.bodyLimit) = (.memory, 1)
            do throws(RequestError) {
                return (try await send(Request<Void>(core: core) { _, _ in }).head, index)
            } catch {
                if server == nil, !conditions.isEmpty, let head = error.response, head.statusCode == 304 {
                    return (head, index)
                }
                if error.code == .bodyTooLarge || error.code == .unacceptableStatus { return nil }
                last = error
                if error.code == .cancelled { break }
            }
        }
        throw last ?? RequestError(.cancelled, "there is no server")
    }

    /// Sends the requests of all segments; what made the first of them fail for good.
    ///
    /// - Parameter known: which server's version is known.
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

    /// Asks one server after the other for a segment.
    private func fetch(_ segment: FileSegment, of known: Int) async -> RequestError? {
        var last: RequestError?
        for turn in servers.indices {
            let index = (segment.index + turn) % servers.count
            var core = core(at: servers[index])
            core.destination = .segment(index == known ? segment : segment.withoutVersion)
            state.withLock { $0.servers[segment.index] = core.url }
            do throws(RequestError) {
                try await send(Request<Void>(core: core) { _, _ in })
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

    /// Which server sent which bytes.
    func told(_ segments: [FileSegment]) -> String {
        let servers = state.withLock { $0.servers }
        return segments.map { segment in
            let server = servers[segment.index]?.redactedString ?? "?"
            return "\(segment.range.lowerBound)-\(segment.range.upperBound - 1) came from \(server)"
        }.joined(separator: ", ")
    }
}
