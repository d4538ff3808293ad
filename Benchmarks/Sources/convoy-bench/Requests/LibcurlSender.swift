// The system's libcurl, called from a loop in C.
#if os(Linux)
    import CCurlLoop
    import Foundation

    /// Sends requests with a bare multi loop in C, which reuses its handles.
    final class LibcurlSender: RequestSender {
        private let spec: CaseSpec
        private let loop: OpaquePointer?

        init(_ spec: CaseSpec, _ url: URL) {
            self.spec = spec
            loop = convoy_bench_loop_make(
                url.absoluteString, Int32(clamping: spec.concurrency), spec.cacert, spec.http == .http2 ? 1 : 0)
        }

        deinit {
            if let loop { convoy_bench_loop_free(loop) }
        }

        /// Blocks the thread, because the process has nothing else to do.
        func send(_ count: Int, _ tally: Tally) async {
            guard let loop else { return tally.note("libcurl has no memory for its handles") }
            var text = [CChar](repeating: 0, count: 256)
            let failed = convoy_bench_loop_send(loop, count, Int64(spec.bodyBytes), &text, text.count)
            let error = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            for _ in 0..<failed { tally.note(error) }
        }
    }
#endif
