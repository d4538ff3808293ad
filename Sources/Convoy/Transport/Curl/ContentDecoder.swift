// Decodes the content codings of a body while it arrives (RFC 9110, section 8.4).
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    // Decodes in memory that does not depend on the decoded size: 64 KiB for each coding, and its library's window of
    // 32 KiB (gzip, deflate), at most 8 MiB (zstd) or 16 MiB (br). Call ``decode(_:into:)`` until the body ends and
    // ``hasPendingOutput`` is false, then ``finish()``.
    final class ContentDecoder {
        static let acceptedCodings = ["gzip", "deflate", "br", "zstd"]
            .filter { contentCodings[$0].map { convoy_decoder_is_available($0) != 0 } ?? false }
            .joined(separator: ", ")

        /// In the order of decoding: the coding that was applied last is first.
        private let stages: [DecodingStage]
        /// Thrown once the later stages have decoded what the failed one had produced.
        private var failure: (index: Int, error: RequestError)?
        private var hasReceivedInput = false
        private var idleBytes = 0
        /// Without a limit, a server could send empty gzip members endlessly.
        private static let mostIdleBytes = 1 << 20

        init?(codings: [String]) throws(RequestError) {
            stages = try codings.reversed().map { coding throws(RequestError) in try DecodingStage(coding) }
            if stages.isEmpty { return nil }
        }

        var hasPendingOutput: Bool { failure != nil || stages.contains { $0.hasOutput || !$0.output.isEmpty } }

        // `emit` receives 1 byte to 64 KiB, valid only during the call. If it returns false, decoding stops after that
        // chunk; the result is the number of input bytes that were used. To continue, call the method again with the
        // rest, or with an empty buffer while ``hasPendingOutput`` is true. Output that precedes damaged data is
        // emitted before the error is thrown, once more at each further call.
        func decode(
            _ input: UnsafeRawBufferPointer, into emit: (UnsafeRawBufferPointer) -> Bool
        ) throws(RequestError) -> Int {
            var rest = input
            if !input.isEmpty { hasReceivedInput = true }
            // The last runnable stage goes first, so a stage's output is used up before the stage runs again.
            while let index = stages.indices.last(where: { canRun($0, rest) }) {
                do throws(RequestError) {
                    if index == 0 {
                        let before = rest.count
                        try stages[0].run(&rest)
                        idleBytes += before - rest.count
                        if idleBytes > Self.mostIdleBytes {
                            throw stages[0].failure("is corrupt: 1 MiB of it produced no output")
                        }
                    } else {
                        try stages[index].run(&stages[index - 1].output)
                    }
                } catch {
                    failure = (index, error)
                }
                guard index == stages.count - 1, !stages[index].output.isEmpty else { continue }
                let output = stages[index].output
                (idleBytes, stages[index].output) = (0, UnsafeRawBufferPointer(start: nil, count: 0))
                if !emit(output) { return input.count - rest.count }
            }
            if let failure { throw failure.error }
            return input.count - rest.count
        }

        func finish() throws(RequestError) {
            if let failure { throw failure.error }
            precondition(!hasPendingOutput, "call decode until hasPendingOutput is false, then finish")
            guard hasReceivedInput, let stage = stages.first(where: { !$0.isComplete }) else { return }
            throw stage.failure("was cut short")
        }

        private func canRun(_ index: Int, _ rest: UnsafeRawBufferPointer) -> Bool {
            if let failure, index <= failure.index { return false }
            let input = index == 0 ? rest : stages[index - 1].output
            return stages[index].hasOutput || !input.isEmpty
        }
    }

    private final class DecodingStage {
        private let name: String
        /// The output that the next stage has not used yet, in `buffer`.
        var output = UnsafeRawBufferPointer(start: nil, count: 0)
        private let decoder: OpaquePointer
        private let buffer: UnsafeMutableRawBufferPointer
        private var last = convoy_decoding()

        init(_ name: String) throws(RequestError) {
            guard let coding = contentCodings[name], convoy_decoder_is_available(coding) != 0 else {
                throw RequestError(.badResponse, "the content coding \"\(name.printablePrefix)\" is not supported")
            }
            guard let decoder = convoy_decoder_create(coding) else {
                throw RequestError(.badResponse, "the \(name) data \(Self.needsMemory)")
            }
            (self.name, self.decoder) = (name, decoder)
            // Allocated after the last `throw`, because a throwing initialiser would leak the buffer.
            buffer = .allocate(byteCount: 65_536, alignment: 16)
        }

        deinit {
            convoy_decoder_destroy(decoder)
            buffer.deallocate()
        }

        private static let needsMemory = "needs more memory than is available or allowed"

        func failure(_ what: String) -> RequestError { .undecodable("the \(name) data \(what)") }

        var hasOutput: Bool { last.has_output != 0 }
        var isComplete: Bool { last.is_complete != 0 }

        func run(_ input: inout UnsafeRawBufferPointer) throws(RequestError) {
            last = convoy_decoder_decode(decoder, input.baseAddress, input.count, buffer.baseAddress, buffer.count)
            input = UnsafeRawBufferPointer(rebasing: input.suffix(last.left))
            output = UnsafeRawBufferPointer(rebasing: buffer.prefix(last.written))
            switch last.status {
            case CONVOY_DECODING_OK: return
            case CONVOY_DECODING_TRAILING_BYTES:
                throw .undecodable("bytes follow the end of the \(name) data")
            case CONVOY_DECODING_NO_MEMORY: throw failure(Self.needsMemory)
            default:
                let reason = last.reason.map { String(cString: $0) }
                throw failure("is corrupt: \(reason ?? "no reason given")")
            }
        }
    }

    extension RequestError {
        fileprivate static func undecodable(_ what: String) -> RequestError {
            RequestError(.badResponse, "the body does not match its Content-Encoding: \(what)")
        }
    }

    private let contentCodings: [String: convoy_coding] = [
        "gzip": CONVOY_CODING_GZIP, "x-gzip": CONVOY_CODING_GZIP, "deflate": CONVOY_CODING_DEFLATE,
        "br": CONVOY_CODING_BROTLI, "zstd": CONVOY_CODING_ZSTD,
    ]
#endif
